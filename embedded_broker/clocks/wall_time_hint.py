"""A warning for senders that compute delivery times by the wrong clock.

Answers: did a client that reads wall time ask a broker on other time for an absolute instant. A
test with a virtual clock often does that by accident: "now plus ten seconds" of the machine is not
"now plus ten seconds" of the broker. An instant that is a sensible delay by the broker's own clock
is taken for one that was computed from it. Must not know: what becomes of the message. Read on:
``embedded_broker/clocks/clock.py``; ``rocketmq_py/protocol/delay.py`` for relative and absolute
delays.
"""

from datetime import datetime

from attrs import frozen

from embedded_broker.clocks.instants import instant
from embedded_broker.store.put_values import InnerMessage
from rocketmq_py.clock import Clock
from rocketmq_py.errors import DelayValueError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.delay import effective_delay

logger = get_logger(__name__)

CLOCKS_DIFFER_MS = 2_000
SENSIBLE_DELAY_MS = 40 * 86_400_000


@frozen(kw_only=True)
class MisreadClock:
    """A deliver time that makes sense by the clock of its sender, and none by the broker's.

    ``property_name`` is the property that holds it, ``sent_at`` the time of the sender's clock.
    """

    property_name: str
    deliver_at: datetime
    sent_at: datetime
    broker_at: datetime


class WallTimeHint:
    """A put hook that refuses nothing: it logs one warning per broker, and keeps its reason."""

    name = "wallTimeHint"
    ignores_plain = True
    ignores_copies = True

    def __init__(self, wall: Clock) -> None:
        self._wall = wall
        self.found: MisreadClock | None = None
        """What was warned of."""

    def ignores_timers(self, now_ms: int, *, instants: bool) -> bool:
        """Whether no message could lead to a warning now."""
        return (
            not instants
            or self.found is not None
            or abs(now_ms - self._wall.now_ms) <= CLOCKS_DIFFER_MS
        )

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
            self.found = MisreadClock(
                property_name=delay.kind.value,
                deliver_at=instant(delay.value),
                sent_at=instant(msg.born_timestamp),
                broker_at=instant(now_ms),
            )
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
