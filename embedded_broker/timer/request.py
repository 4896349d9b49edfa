"""Timer request: what a message of the timer topic says, where to, when, what it removes.

Answers: how the properties that admission wrote, and those of rolled copies and delete marks, are
read back. Pure; must not know: files or clocks. A message that cannot be read is no timer: it is
counted and passed over, where the original would stop for ever
(`TimerMessageStore.enqueue` throws on a missing TIMER_OUT_MS).

Read on: `admission.py` for who wrote them, `rocketmq_py/protocol/delay.py` for the due time.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from embedded_broker.store.queue_names import destination
from rocketmq_py.errors import DelayValueError
from rocketmq_py.protocol.delay import parse_number
from rocketmq_py.protocol.handles import encode_recall_handle
from rocketmq_py.protocol.names import RETRY_PREFIX
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.tag_hash import java_hash

topic_hash = lru_cache(maxsize=4096)(java_hash)
"""The number by which the timer log knows a topic; remembered, since few topics recur."""

_DIGITS_MAX: Final = 18


class TimerRequest(NamedTuple):
    """A readable message of the timer topic; `deletes` is the key of the victims of a mark."""

    out_ms: int
    real_topic: str
    real_queue_id: int
    deletes: str | None


class TimerMessage(NamedTuple):
    """A readable message of the timer topic: where it lies, when it was stored, what it says.

    `queue_offset` is -1 where it was found by a record of a slot.
    """

    offset_py: int
    size_py: int
    store_timestamp: int
    properties: dict[str, str]
    request: TimerRequest
    queue_offset: int = -1

    @property
    def root(self) -> int:
        """Commit-log offset of its first copy."""
        return root_offset(self.properties, self.offset_py)


def recall_time_ms(properties: Mapping[str, str]) -> int | None:
    """Give the time in the recall handle of a stored timer; None when RocketMQ gives it no handle.

    One more than the slot, so that rounding at the recall finds the slot again
    (`SendMessageProcessor.attachRecallHandle`). A message to a retry topic gets none: its timer has
    run already. Nor does one without UNIQ_KEY, or at a delay level.
    """
    out = properties.get(Prop.TIMER_OUT_MS, "")
    real_topic = properties.get(Prop.REAL_TOPIC, RETRY_PREFIX)
    if real_topic.startswith(RETRY_PREFIX) or Prop.UNIQ_KEY not in properties:
        return None
    return int(out) + 1 if out.isdecimal() and len(out) <= _DIGITS_MAX else None


def recall_handle_of(topic: str, broker_name: str, time_ms: int, unique_key: str) -> bytes:
    """Write the handle by which a timer is recalled."""
    return encode_recall_handle(topic.encode(), broker_name.encode(), time_ms, unique_key.encode())


def parse_request(properties: Mapping[str, str]) -> TimerRequest | None:
    """Read the slot, the real topic and queue; None when one is missing or cannot be."""
    out = properties.get(Prop.TIMER_OUT_MS)
    place = destination(properties)
    if out is None or place is None:
        return None
    # Admission wrote plain digits, so nothing else has to be understood here.
    if not (out.isdecimal() and out.isascii()) or len(out) > _DIGITS_MAX:
        return None
    return TimerRequest(int(out), *place, properties.get(Prop.TIMER_DEL_UNIQKEY))


def delete_key(real_topic: str, unique_key: str) -> str:
    """Give the text by which marks and victims match (`TimerMessageStore.buildDeleteKey`)."""
    return f"{real_topic}+{unique_key}"


def root_offset(properties: Mapping[str, str], offset_py: int) -> int:
    """Give the commit-log offset of a message's first copy: its own unless it was rolled."""
    return _number(properties, Prop.TIMER_ROOT_OFFSET, offset_py)


def is_rootless(properties: Mapping[str, str]) -> bool:
    """Say whether a real broker rolled this copy: it names no first copy, nor its predecessor.

    A mark that names a victim hits such a copy by its key alone.
    """
    return Prop.TIMER_ROLL_TIMES in properties and Prop.TIMER_ROOT_OFFSET not in properties


def victim_root(properties: Mapping[str, str]) -> int | None:
    """Give the first offset of the one copy that a mark of ours removes; None: all of its key."""
    victim = _number(properties, Prop.TIMER_DEL_OFFSET, -1)
    return victim if victim >= 0 else None


def source_offset(properties: Mapping[str, str]) -> int | None:
    """Give the offset that a released or rolled copy was made from; None when we did not."""
    source = _number(properties, Prop.TIMER_SRC_OFFSET, -1)
    return source if source >= 0 else None


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    try:
        return parse_number(text, name)
    except DelayValueError:
        return default
