"""What happens to a message that asks to arrive later, before it is stored.

Answers: is the request allowed, and where does the message go instead of its topic: into the
timer topic with its wheel slot noted, or into the topic of the delay levels. Must not know: files,
or what happens after the put. The rules are those of
`org.apache.rocketmq.broker.util.HookUtils.handleScheduleMessage`, with these differences: a half
message is never transformed, `__STARTDELIVERTIME` counts (`startDeliverTimeEnable`), a delay that
overflows 64 bits is too long instead of past, and room is kept for the properties that the timer
adds later.

Read on: `rocketmq_py/protocol/delay.py` for the order of the requests and their parsing,
`engine.py` for what the wheel does with an admitted message.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from embedded_broker.config import BrokerConfig
from embedded_broker.store.inner import InnerMessage, PutRefusal, PutStatus
from rocketmq_py.errors import DelayValueError
from rocketmq_py.protocol.delay import (
    DELAY_PROPERTIES,
    TIMER_BOOKKEEPING_PROPERTIES,
    TIMER_REQUEST_PROPERTIES,
    Delay,
    DelayKind,
    clamp_level,
    delay_level,
    effective_delay,
    parse_levels,
    timer_out_ms,
)
from rocketmq_py.protocol.names import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    is_retry_topic,
)
from rocketmq_py.protocol.properties import PROPERTIES_SIZE_MAX, Prop, encode_properties
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK

__all__ = ["ROOM_FOR_TIMER_PROPERTIES", "Admission", "strip_client_properties"]

ROOM_FOR_TIMER_PROPERTIES: Final = 256
"""Bytes of the 32,767 that an admitted message leaves free; rolls and release use up to 200."""

_NEVER_TRANSFORMED: Final = frozenset({HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC})
_LONGER_THAN_EVER: Final = "the largest 64-bit number of milliseconds"


def strip_client_properties(properties: dict[str, str], topic: str = "") -> None:
    """Remove what only the timer may write from the properties that a client sent.

    Call it where client sends enter, before the put: a client's own TIMER_OUT_MS would silence
    its delay. A send to a retry topic keeps that one property, because there it is the timer's
    own: the guard that keeps a failed message from being timed again.
    """
    if TIMER_BOOKKEEPING_PROPERTIES.isdisjoint(properties):
        return
    keep_guard = is_retry_topic(topic)
    for name in TIMER_BOOKKEEPING_PROPERTIES.intersection(properties):
        if not (keep_guard and name == Prop.TIMER_OUT_MS):
            del properties[name]


class Admission:
    """The third put hook; see `embedded_broker.store.inner.PutHook`.

    `slot_num` gives the live estimate of a wheel slot, for flow control; `random` decides in its
    grey band. A broker that does not know timer messages (a 4.9 profile) clears
    `honours_timers`: they are then stored at once, and only levels wait.
    """

    name = "handleScheduleMessage"
    ignores_plain = True

    def __init__(
        self, config: BrokerConfig, *, slot_num: Callable[[int], int], random: Random
    ) -> None:
        self.honours_timers = True
        self._config = config
        self._slot_num = slot_num
        self._random = random
        self._levels = parse_levels(config.text("messageDelayLevel"))
        self._read_settings()
        config.on_change(lambda _: self._read_settings())

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutRefusal | None:
        """Send the message another way if it asks for a delay, or refuse it."""
        properties = msg.properties
        if DELAY_PROPERTIES.isdisjoint(properties) or msg.topic == TIMER_TOPIC:
            return None
        if msg.topic in _NEVER_TRANSFORMED:
            return None
        if msg.sys_flag & TRANSACTION_MASK not in {0, TRANSACTION_COMMIT}:
            return None
        try:
            level = delay_level(properties)
        except DelayValueError as error:
            return PutRefusal(PutStatus.UNKNOWN_ERROR, str(error))
        if level > 0:
            return self._admit_level(msg, level, now_ms)
        if Prop.TIMER_OUT_MS in properties or not self.honours_timers:
            return None
        return self._admit_timed(msg, now_ms)

    # --- levels ----------------------------------------------------------------------------

    def _admit_level(self, msg: InnerMessage, level: int, now_ms: int) -> PutRefusal | None:
        properties = msg.properties
        for name in TIMER_REQUEST_PROPERTIES:
            properties.pop(name, None)
        level = clamp_level(level, self._levels)
        if self._levels_use_wheel and self._wheel_enabled:
            # A level longer than timerMaxDelaySec stays allowed, it is the broker's own number.
            del properties[Prop.DELAY]
            properties.pop(Prop.TIMER_OUT_MS, None)
            delay_ms = self._levels[level - 1]
            properties[Prop.TIMER_DELAY_MS] = str(delay_ms)
            return self._into_wheel(msg, now_ms + delay_ms)
        properties[Prop.DELAY] = str(level)
        properties[Prop.REAL_TOPIC] = msg.topic
        properties[Prop.REAL_QID] = str(msg.queue_id)
        msg.properties_bytes = None
        msg.topic = SCHEDULE_TOPIC
        msg.queue_id = level - 1
        return None

    # --- arbitrary times ---------------------------------------------------------------------

    def _admit_timed(self, msg: InnerMessage, now_ms: int) -> PutRefusal | None:
        properties = msg.properties
        alias = self._alias_enabled
        if TIMER_REQUEST_PROPERTIES.isdisjoint(properties) and not (
            alias and Prop.START_DELIVER_TIME in properties
        ):
            return None
        if not self._wheel_enabled:
            return PutRefusal(
                PutStatus.WHEEL_TIMER_NOT_ENABLE,
                "accurate timer message is not enabled, timerWheelEnable is false",
            )
        try:
            delay = effective_delay(properties, start_deliver=alias)
        except DelayValueError as error:
            return self._illegal(str(error))
        if delay is None:
            return None
        due_ms = delay.due_ms(now_ms)
        if due_ms <= now_ms:
            if Prop.TIMER_DEL_UNIQKEY in properties:
                return self._illegal(f"the delete message asks for {due_ms}, now is {now_ms}")
            return None
        if due_ms - now_ms > self._max_delay_ms:
            return self._too_far(delay, due_ms - now_ms)
        if delay.kind is DelayKind.START_DELIVER:
            # A broker without the alias that opens this store must still know the time.
            properties[Prop.TIMER_DELIVER_MS] = delay.text
        return self._into_wheel(msg, due_ms)

    def _into_wheel(self, msg: InnerMessage, due_ms: int) -> PutRefusal | None:
        out_ms = timer_out_ms(due_ms, self._precision_ms)
        if self._congested(out_ms):
            limit = self._congest_num
            return PutRefusal(
                PutStatus.WHEEL_TIMER_FLOW_CONTROL,
                f"timer message is under flow control, slot {out_ms} holds "
                f"{self._slot_num(out_ms)} timers: never more than {2 * limit}, refused at random "
                f"in the band [{limit}, {2 * limit}], see timerCongestNumEachSlot",
            )
        properties = msg.properties
        properties[Prop.TIMER_OUT_MS] = str(out_ms)
        properties[Prop.REAL_TOPIC] = msg.topic
        properties[Prop.REAL_QID] = str(msg.queue_id)
        encoded = encode_properties(properties)
        room = PROPERTIES_SIZE_MAX - len(encoded)
        if room < ROOM_FOR_TIMER_PROPERTIES:
            return self._illegal(
                f"the properties take {len(encoded)} bytes, a timer message may have "
                f"{PROPERTIES_SIZE_MAX - ROOM_FOR_TIMER_PROPERTIES}: the timer adds its own"
            )
        msg.properties_bytes = encoded
        msg.topic = TIMER_TOPIC
        msg.queue_id = 0
        return None

    def _too_far(self, delay: Delay, delay_ms: int) -> PutRefusal | None:
        if self._deliver_too_far_at_once:
            return None
        shown = str(delay_ms) if delay_ms < 2**63 else _LONGER_THAN_EVER
        return self._illegal(f"{delay.kind.value}={delay.value} asks for {shown} ms")

    def _illegal(self, what: str) -> PutRefusal:
        """Refuse for good; clients match on the numbers in the remark."""
        return PutRefusal(
            PutStatus.WHEEL_TIMER_MSG_ILLEGAL,
            f"timer message illegal: {what}; the delay time should not be longer than "
            f"{self._max_delay_ms} ms (timerMaxDelaySec), or for a delete message "
            "it should be in the future",
        )

    # --- flow control ------------------------------------------------------------------------

    def _congested(self, out_ms: int) -> bool:
        """Decide as `TimerMessageStore.isReject`, or by the rising curve of our policy.

        The original's chance of refusal *falls* from one to zero between the limits.
        """
        limit = self._congest_num
        if limit >= _NO_LIMIT:
            return False
        num = self._slot_num(out_ms)
        if num <= limit:
            return False
        if num >= 2 * limit:
            return True
        if self._rising:
            return self._random.random() < (num - limit) / limit
        return self._random.randrange(1000) > 1000 * (num - limit) / (limit + 0.1)

    def _read_settings(self) -> None:
        """Keep the settings as attributes: they are asked for with every timer message."""
        config = self._config
        self._wheel_enabled = config.flag("timerWheelEnable")
        self._alias_enabled = config.flag("startDeliverTimeEnable")
        self._levels_use_wheel = config.flag("routeDelayLevelToWheel")
        self._deliver_too_far_at_once = config.text("outOfRangePolicy") == "immediate"
        self._precision_ms = config.int("timerPrecisionMs")
        self._max_delay_ms = config.int("timerMaxDelaySec") * 1000
        self._congest_num = config.int("timerCongestNumEachSlot")
        self._rising = config.text("timerCongestPolicy") == "monotone"


_NO_LIMIT: Final = 2**31 - 1
"""The default of timerCongestNumEachSlot: flow control is off."""
