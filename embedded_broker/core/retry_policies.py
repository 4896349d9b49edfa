"""Retry policies: when a group of gRPC consumers wants a failed message again.

Answers: what the settings of a group (request 200) say of its retries, as values. RocketMQ's
GroupRetryPolicy, CustomizedRetryPolicy and ExponentialRetryPolicy. Must not know: who retries.
"""

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
STEPS_MS: Final = (
    *(one * _SECOND for one in (1, 5, 10, 30)),
    *(one * _MINUTE for one in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(one * _HOUR for one in (1, 2)),
)
"""The waits of a group that has no policy of its own."""
_SKIPPED: Final = 2
"""The first wait that a broker itself chooses (``CustomizedRetryPolicy.nextDelayDuration``)."""
_EXPONENT_MAX: Final = 32


@frozen
class Steps:
    """Waits in milliseconds, one after the other; the last one again and again."""

    waits_ms: tuple[int, ...] = STEPS_MS

    def after(self, tried: int) -> int:
        """Give the wait of a message that was consumed again so many times."""
        return self.waits_ms[min(max(tried, 0) + _SKIPPED, len(self.waits_ms) - 1)]


@frozen
class Growing:
    """A wait that is multiplied each time, up to the longest one."""

    initial_ms: int = 5 * _SECOND
    max_ms: int = 2 * _HOUR
    multiplier: float = 2

    def after(self, tried: int) -> int:
        """Give the wait of a message that was consumed again so many times."""
        exponent = min(max(tried, 0), _EXPONENT_MAX)
        return int(min(self.max_ms, self.initial_ms * self.multiplier**exponent))


RetryPolicy = Steps | Growing


def retry_policy(group: SubscriptionGroupConfig) -> RetryPolicy:
    """Read the policy of a group; what makes no sense counts as not said."""
    said = group.group_retry_policy or {}
    if said.get("type") == "EXPONENTIAL":
        given = _mapping(said.get("exponentialRetryPolicy"))
        usual = Growing()
        return Growing(
            _positive(given.get("initial"), usual.initial_ms),
            _positive(given.get("max"), usual.max_ms),
            _positive(given.get("multiplier"), int(usual.multiplier)),
        )
    waits = _mapping(said.get("customizedRetryPolicy")).get("next")
    if isinstance(waits, list) and waits and all(type(one) is int and one >= 0 for one in waits):
        return Steps(tuple(waits))
    return Steps()


# Any: the settings are JSON of whoever made the group.
def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _positive(value: Any, otherwise: int) -> int:
    return value if type(value) is int and value > 0 else otherwise
