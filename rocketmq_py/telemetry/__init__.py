"""What a client shows to OpenTelemetry (extra ``otel``) and Prometheus (extra ``metrics``).

`instrument` makes spans of what a producer sends and a consumer receives; `ClientMetrics` measures
them under the names of RocketMQ's own clients. Both stand on the public hooks alone. Each is
imported when it is first used, and says then which package is missing.
"""

from rocketmq_py.lazy_names import on_first_use

TYPE_CHECKING = False  # type checkers know the name; typing itself takes 8 ms to import

if TYPE_CHECKING:
    from rocketmq_py.telemetry.metrics import ClientMetrics
    from rocketmq_py.telemetry.spans import context_of, instrument

_MODULE_OF = {
    "ClientMetrics": "rocketmq_py.telemetry.metrics",
    "context_of": "rocketmq_py.telemetry.spans",
    "instrument": "rocketmq_py.telemetry.spans",
}

__all__ = ["ClientMetrics", "context_of", "instrument"]

if not TYPE_CHECKING:
    __getattr__ = on_first_use(globals(), _MODULE_OF)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
