"""A warning for senders that compute delivery times by the wrong clock.

Answers: did a client that reads wall time ask a broker on other time for an absolute instant. A
test with a virtual clock often does that by accident: "now plus ten seconds" of the machine is not
"now plus ten seconds" of the broker. An instant that is a sensible delay by the broker's own clock
is taken for one that was computed from it. Must not know: what becomes of the message. Read on:
``embedded_broker/clocks/clock.py``; ``rocketmq_py/protocol/delay.py`` for relative and absolute
delays.
"""

from embedded_broker.store.inner import InnerMessage
from rocketmq_py.clock import Clock
from rocketmq_py.errors import DelayValueError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.delay import effective_delay

logger = get_logger(__name__)

CLOCKS_DIFFER_MS = 2_000
SENSIBLE_DELAY_MS = 40 * 86_400_000


class WallTimeHint:
    """A put hook that refuses nothing: it logs one warning per broker."""

    name = "wallTimeHint"
    ignores_plain = True
    ignores_copies = True

    def __init__(self, wall: Clock) -> None:
        self._wall = wall
        self._said = False

    def ignores_timers(self, now_ms: int, *, instants: bool) -> bool:
        """Whether no message could lead to a warning now."""
        return not instants or self._said or abs(now_ms - self._wall.now_ms) <= CLOCKS_DIFFER_MS

    def before_put(self, msg: InnerMessage, now_ms: int) -> None:
        """Compare the clocks when the message asks for an instant that its sender computed."""
        if self.ignores_timers(now_ms, instants=True):
            return
        try:
            delay = effective_delay(msg.properties)
        except DelayValueError:
            return  # refused by the admission hook, with its reason
        if delay is None or delay.kind.is_relative:
            return
        if not _is_sensible(delay.value - now_ms) and _is_sensible(
            delay.value - msg.born_timestamp
        ):
            self._said = True
            logger.warning(
                "%s=%d is %d ms after its sender's clock, but the broker's clock differs from wall "
                "time by %+d ms: compute delivery times from broker.clock.now_ms, or ask for a "
                "relative delay",
                delay.kind.value,
                delay.value,
                delay.value - msg.born_timestamp,
                now_ms - self._wall.now_ms,
            )


def _is_sensible(delay_ms: int) -> bool:
    return 0 < delay_ms <= SENSIBLE_DELAY_MS
