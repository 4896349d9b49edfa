"""Admission of delayed messages: what happens to one before it is stored.

Answers: is the request allowed, and where does the message go instead of its topic: into the
timer topic with its wheel slot noted, or into the topic of the delay levels. Must not know: files,
or what happens after the put. The rules are those of
`org.apache.rocketmq.broker.util.HookUtils.handleScheduleMessage`, with these differences: a half
message is never transformed, `__STARTDELIVERTIME` counts (`startDeliverTimeEnable`), a delay that
overflows 64 bits is too long instead of past, and room is kept for the properties that the timer
adds later.

Read on: `rocketmq_py/protocol/delay.py` for the order of the requests and their parsing,
`timer/wheel/engine.py` for what the wheel does with an admitted message.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from random import Random
from typing import Final

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import LIMITS, Limits
from embedded_broker.store.put_values import InnerMessage, PutRefusal, PutStatus
from embedded_broker.timer.request import delete_key
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
    requested_time,
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

ROOM_FOR_TIMER_PROPERTIES: Final = 256
"""Bytes of the 32,767 that an admitted message leaves free; rolls and release use up to 200."""

TIMES_OF_A_RELEASE: Final = frozenset(
    {Prop.TIMER_OUT_MS, Prop.TIMER_ENQUEUE_MS, Prop.TIMER_DEQUEUE_MS, Prop.TIMER_ROLL_TIMES}
)
_NEVER_TRANSFORMED: Final = frozenset({HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC})
_LONGER_THAN_EVER: Final = "the largest 64-bit number of milliseconds"


def strip_client_properties(
    properties: dict[str, str],
    topic: str = "",
    *,
    keep_delete_key: bool = False,
    keep_times: bool = False,
) -> None:
    """Remove what only the timer may write from the properties that a client sent.

    Call it where client sends enter, before the put: a client's own TIMER_OUT_MS would silence
    its delay. A send to a retry topic keeps that one property, because there it is the timer's
    own: the guard that keeps a failed message from being timed again. ``keep_delete_key`` lets
    clients take timers back by sending delete marks, as they do before 5.3.2. ``keep_times`` is for
    what another broker's timer has released (``EscapeBridge``).
    """
    if TIMER_BOOKKEEPING_PROPERTIES.isdisjoint(properties):
        return
    keep_guard = is_retry_topic(topic)
    for name in TIMER_BOOKKEEPING_PROPERTIES.intersection(properties):
        if name == Prop.TIMER_OUT_MS and keep_guard:
            continue
        if keep_times and name in TIMES_OF_A_RELEASE:
            continue
        if name == Prop.TIMER_DEL_UNIQKEY and keep_delete_key:
            continue
        del properties[name]


class Admission:
    """The third put hook; see `embedded_broker.store.put_values.PutHook`.

    `slot_num` gives the live estimate of a wheel slot, for flow control; `random` decides in its
    grey band. A broker that does not know timer messages (a 4.9 profile) clears
    `honours_timers`: they are then stored at once, and only levels wait.

    Accepted timers go to `topic` and `queue_id`, in slots of `precision_ms` (None: the setting
    timerPrecisionMs). `levels_as_timers` sends levels there as well. `record_size_max` is the
    largest record that the engine can keep, 0 without limit; `record_size_setting` names what
    says so.
    """

    name = "handleScheduleMessage"
    ignores_plain = True
    ignores_copies = True

    def __init__(
        self,
        config: BrokerConfig,
        *,
        slot_num: Callable[[int], int],
        random: Random,
        topic: str = TIMER_TOPIC,
        queue_id: int = 0,
        precision_ms: int | None = None,
        levels_as_timers: bool = False,
        record_size_max: int = 0,
        record_size_setting: str = "",
    ) -> None:
        self.honours_timers = True
        self._limits = LIMITS["broker"]
        self._place = (topic, queue_id)
        self._fixed_precision_ms = precision_ms
        self._levels_as_timers = levels_as_timers
        self._record_size_max = record_size_max
        self._record_size_setting = record_size_setting
        self._config = config
        self._slot_num = slot_num
        self._random = random
        self._levels = parse_levels(config.text("messageDelayLevel"))
        self._read_settings()
        config.on_change(lambda _: self._read_settings())

    def set_limits(self, limits: Limits) -> None:
        """Refuse what these limits refuse as well: the proxy's, or those of a service."""
        self._limits = limits
        self._read_settings()

    def serve_levels(self) -> None:
        """Send delay levels to the timers as well, from now on: they have no queues."""
        self._levels_as_timers = True
        self._read_settings()

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutRefusal | None:
        """Send the message another way if it asks for a delay, or refuse it."""
        properties = msg.properties
        if DELAY_PROPERTIES.isdisjoint(properties) or msg.topic == self._place[0]:
            return None
        if msg.topic in _NEVER_TRANSFORMED:
            return None
        if msg.sys_flag & TRANSACTION_MASK not in {0, TRANSACTION_COMMIT}:
            return None
        if Prop.DELAY in properties:
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
        if self._levels_as_timers and not self._wheel_enabled:
            return self._not_enabled()
        if self._levels_use_wheel and self._wheel_enabled:
            # A level longer than timerMaxDelaySec stays allowed, it is the broker's own number.
            del properties[Prop.DELAY]
            properties.pop(Prop.TIMER_OUT_MS, None)
            delay_ms = self._levels[level - 1]
            properties[Prop.TIMER_DELAY_MS] = str(delay_ms)
            msg.properties_bytes = None
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
        if not self._wheel_enabled:
            asks_alias = alias and Prop.START_DELIVER_TIME in properties
            asks = asks_alias or not TIMER_REQUEST_PROPERTIES.isdisjoint(properties)
            return self._not_enabled() if asks else None
        try:
            delay = requested_time(properties, start_deliver=alias)
        except DelayValueError as error:
            return self._illegal(str(error))
        if delay is None:
            return None
        due_ms = delay.due_ms(now_ms)
        if due_ms <= now_ms:
            if Prop.TIMER_DEL_UNIQKEY in properties:
                return self._illegal(f"the delete message asks for {due_ms}, now is {now_ms}")
            return None
        if due_ms - now_ms >= self._refused_from_ms:
            return self._too_far(properties, delay, due_ms - now_ms)
        if delay.kind is DelayKind.START_DELIVER:
            # A broker without the alias that opens this store must still know the time.
            properties[Prop.TIMER_DELIVER_MS] = delay.text
            msg.properties_bytes = None
        return self._into_wheel(msg, due_ms)

    def _into_wheel(self, msg: InnerMessage, due_ms: int) -> PutRefusal | None:
        out_ms = timer_out_ms(due_ms, self._precision_ms)
        if self._congest_num < _NO_LIMIT and self._congested(out_ms):
            limit = self._congest_num
            return PutRefusal(
                PutStatus.WHEEL_TIMER_FLOW_CONTROL,
                f"timer message is under flow control, slot {out_ms} holds "
                f"{self._slot_num(out_ms)} timers: never more than {2 * limit}, refused at random "
                f"in the band [{limit}, {2 * limit}], see timerCongestNumEachSlot",
            )
        properties = msg.properties
        if self._bare_keys and Prop.TIMER_DEL_UNIQKEY in properties:
            _qualify_delete_key(properties, msg.topic)
            msg.properties_bytes = None
        encoded = _routed(msg, out_ms)
        room = PROPERTIES_SIZE_MAX - len(encoded)
        if room < ROOM_FOR_TIMER_PROPERTIES:
            return self._illegal(
                f"the properties take {len(encoded)} bytes, a timer message may have "
                f"{PROPERTIES_SIZE_MAX - ROOM_FOR_TIMER_PROPERTIES}: the timer adds its own"
            )
        msg.properties_bytes = encoded
        msg.topic, msg.queue_id = self._place
        size = len(msg.body) + len(encoded) + _RECORD_OVERHEAD
        if self._record_size_max and size > self._record_size_max:
            return PutRefusal(
                PutStatus.MESSAGE_ILLEGAL,
                f"the message takes up to {size} bytes, a timer may take "
                f"{self._record_size_max} ({self._record_size_setting})",
            )
        return None

    @staticmethod
    def _not_enabled() -> PutRefusal:
        return PutRefusal(
            PutStatus.WHEEL_TIMER_NOT_ENABLE,
            "accurate timer message is not enabled, timerWheelEnable is false",
        )

    def _too_far(
        self, properties: Mapping[str, str], delay: Delay, delay_ms: int
    ) -> PutRefusal | None:
        if self._deliver_too_far_at_once and Prop.TIMER_DEL_UNIQKEY not in properties:
            return None
        shown = str(delay_ms) if delay_ms < 2**63 else _LONGER_THAN_EVER
        return self._illegal(f"{delay.kind.value}={delay.value} asks for {shown} ms")

    def _illegal(self, what: str) -> PutRefusal:
        """Refuse for good; clients match on the numbers in the remark."""
        return PutRefusal(
            PutStatus.WHEEL_TIMER_MSG_ILLEGAL,
            f"timer message illegal: {what}; the delay time {self._limit_text}, or for a delete "
            "message it should be in the future",
        )

    # --- without a look at each ----------------------------------------------------------------

    @staticmethod
    def ignores_timers(_now_ms: int, *, instants: bool) -> bool:  # noqa: ARG004 - any of them
        """Let timers pass for which `kind_of` and `slot_of` were asked instead."""
        return True

    def kind_of(self, properties: Mapping[str, str]) -> Delay | None:
        """Give the request of a message whose own number alone decides about it; usually None.

        None too while flow control counts the timers of slots, and when timers are switched off.
        """
        if not (self.honours_timers and self._wheel_enabled and self._congest_num >= _NO_LIMIT):
            return None
        try:
            delay = effective_delay(properties, start_deliver=self._alias_enabled)
        except DelayValueError:
            return None
        return None if delay is None or delay.kind is DelayKind.LEVEL else delay

    def slot_of(self, delay: Delay, now_ms: int) -> int | None:
        """Give the slot of a request that is accepted now; None if it is past or too far away."""
        due_ms = delay.due_ms(now_ms)
        if 0 < due_ms - now_ms < self._refused_from_ms:
            return timer_out_ms(due_ms, self._precision_ms)
        return None

    def refusal_of(self, delay_ms: int) -> str | None:
        """Say which limit a delay is beyond, with the setting; None if it may be asked for."""
        return self._limit_text if delay_ms >= self._refused_from_ms else None

    # --- flow control ------------------------------------------------------------------------

    def _congested(self, out_ms: int) -> bool:
        """Decide as `TimerMessageStore.isReject`, or by the rising curve of our policy.

        The original's chance of refusal *falls* from one to zero between the limits.
        """
        limit = self._congest_num
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
        self._bare_keys = config.flag("timerBareDeleteKey")
        self._levels_use_wheel = self._levels_as_timers or config.flag("routeDelayLevelToWheel")
        self._deliver_too_far_at_once = config.text("outOfRangePolicy") == "immediate"
        self._precision_ms = self._fixed_precision_ms or config.int("timerPrecisionMs")
        self._read_longest_delay()
        self._congest_num = config.int("timerCongestNumEachSlot")
        self._rising = config.text("timerCongestPolicy") == "monotone"

    def _read_longest_delay(self) -> None:
        """Work out from which delay on a request is refused, and the words for it."""
        longest_ms, setting = self._config.int("timerMaxDelaySec") * 1000, "timerMaxDelaySec"
        proxy_ms = self._config.int("maxDelayTimeMills")
        if self._limits.proxy_delay and 0 < proxy_ms < longest_ms:
            longest_ms, setting = proxy_ms, "maxDelayTimeMills, limits=proxy"
        words = "should not be longer than"
        self._refused_from_ms = longest_ms + 1
        if self._limits.longest_delay_excluded:
            words = "should be shorter than"
            self._refused_from_ms = longest_ms
        self._limit_text = f"{words} {longest_ms} ms ({setting})"


def _qualify_delete_key(properties: dict[str, str], topic: str) -> None:
    """Give a delete mark of a client the form that those of request 370 have.

    A bare key means a message of the topic that the mark was sent to. The mark takes over the id
    of its victim; nobody ever sees it under its own.
    """
    victim_topic, separator, unique_key = properties[Prop.TIMER_DEL_UNIQKEY].partition("+")
    if not separator:
        victim_topic, unique_key = topic, victim_topic
    properties[Prop.TIMER_DEL_UNIQKEY] = delete_key(victim_topic, unique_key)
    properties[Prop.UNIQ_KEY] = unique_key


_RECORD_OVERHEAD: Final = 91 + 2 * 12 + 64  # two IPv6 hosts, and the timer topic's name


def _routed(msg: InnerMessage, out_ms: int) -> bytes:
    """Note in the properties where the message waits and where it goes; gives their stored form.

    The form that is known already is continued where it says exactly what the properties say.
    """
    properties, before, known = msg.properties, msg.properties_bytes, -1
    if before is not None and before[-1:] == b"\x02":
        known = before.count(b"\x02")
        if not known == len(properties) == before.count(b"\x01"):
            known = -1
    properties[Prop.TIMER_OUT_MS] = str(out_ms)
    properties[Prop.REAL_TOPIC] = msg.topic
    properties[Prop.REAL_QID] = str(msg.queue_id)
    if before is None or len(properties) != known + _ADDED_PROPERTIES:
        return encode_properties(properties)
    return before + timer_tail(out_ms, msg.topic, msg.queue_id)


def timer_tail(out_ms: int, topic: str, queue_id: int) -> bytes:
    """Give the stored form of the three properties that admission adds."""
    return b"TIMER_OUT_MS\x01%d\x02%b" % (out_ms, _origin(topic, queue_id))


@lru_cache(maxsize=1024)
def _origin(topic: str, queue_id: int) -> bytes:
    """Give the stored form of the two properties that say where a message came from."""
    return encode_properties({Prop.REAL_TOPIC: topic, Prop.REAL_QID: str(queue_id)})


_ADDED_PROPERTIES: Final = 3
_NO_LIMIT: Final = 2**31 - 1
"""The default of timerCongestNumEachSlot: flow control is off."""
