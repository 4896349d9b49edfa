"""What a client shows to OpenTelemetry (extra ``otel``) and Prometheus (extra ``metrics``).

`instrument` makes spans of what a producer sends and a consumer receives; `ClientMetrics` measures
them under the names of RocketMQ's own clients. Both stand on the public hooks alone. Each is
imported when it is first used, and says then which package is missing.
"""

TYPE_CHECKING = False  # type checkers know the name; typing itself takes 8 ms to import

if TYPE_CHECKING:
    from rocketmq_py.telemetry.metrics import ClientMetrics
    from rocketmq_py.telemetry.spans import context_of, instrument

_MODULE_OF = {"ClientMetrics": "metrics", "context_of": "spans", "instrument": "spans"}

__all__ = ["ClientMetrics", "context_of", "instrument"]


if not TYPE_CHECKING:  # a checker that saw this function would accept every name

    def __getattr__(name: str) -> object:
        """Import a public name on first use (PEP 562) and keep it."""
        from importlib import import_module

        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        thing: object = getattr(import_module(f"{__name__}.{module}"), name)
        globals()[name] = thing
        return thing


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
