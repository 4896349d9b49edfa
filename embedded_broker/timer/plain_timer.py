"""What nearly every timer's properties say, read without taking them apart.

Answers: when a stored timer is due and where it goes, if its properties end as admission, or a roll
of ours, wrote them and ask for nothing else that concerns timers. Must not know: slots, marks, who
asks. For whatever is not that plain it gives None, and the caller reads all the properties
(`request.py`, `TimerState.due_ms`), which say the same about a plain timer, only later.

Read on: `dequeue.py`, `release.py` and `sweep.py` for who asks.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeAlias

from embedded_broker.store.copies import topic_field
from embedded_broker.timer.request import parse_request, topic_hash
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop, decode_properties

__all__ = ["NOTED_BY_ROLL", "ROLL_NOTE", "Place", "Places", "Plain", "plain_due_ms"]

_PLACES_MOST: Final = 1024
_DELAY_TOPICS: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})
_PLACE: Final = b"\x02REAL_TOPIC\x01"
_OUT: Final = b"\x02TIMER_OUT_MS\x01"
_REQUEST: Final = re.compile(
    rb"(?:\A|\x02)TIMER_(?:(DELIVER_MS)|(DELAY_MS)|DELAY_SEC)\x01(\d{1,13})\x02"
)
_OWN_NAMES: Final = 2
"""Names that begin with TIMER_ in a plain timer, but for a roll's: the request and the slot."""
_DIGITS_MAX: Final = 13
_END: Final = 2  # the byte behind every property

ROLL_NOTE: Final = b"\x02TIMER_DUE_MS\x01"
NOTED_BY_ROLL: Final = re.compile(
    rb"\x02TIMER_DUE_MS\x01(\d{1,18})\x02TIMER_ROLL_TIMES\x01(\d{1,9})\x02TIMER_ENQUEUE_MS\x01\d+\x02"
    rb"TIMER_DEQUEUE_MS\x01\d+\x02TIMER_SRC_OFFSET\x01\d+\x02TIMER_ROOT_OFFSET\x01(\d{1,18})\x02"
)
"""The end of the properties of a copy that a roll of ours made: due time, times, first offset."""

Plain: TypeAlias = tuple["Place", int, int, int, bool]
"""Place, slot, the time asked for, offset of the first copy, and whether a roll noted the time."""


class Place(NamedTuple):
    """Where a timer goes; `field` is the topic as a stored record has it."""

    topic: str
    queue_id: int
    field: bytes
    hash: int


class Places:
    """Places by the end of the properties that names them; few ends recur often."""

    def __init__(self) -> None:
        self._known: dict[bytes, Place] = {}

    def at(self, end: bytes) -> Place | None:
        """Give the place that this end of stored properties names; None to look elsewhere."""
        return self._known.get(end) or self._find(end)

    def _find(self, end: bytes) -> Place | None:
        properties = decode_properties(end)
        request = parse_request({Prop.TIMER_OUT_MS: "0", **properties})
        if request is None or request.real_topic in _DELAY_TOPICS:
            return None
        field = topic_field(request.real_topic)
        if field is None:
            return None
        if len(self._known) >= _PLACES_MOST:
            self._known.clear()
        place = Place(
            request.real_topic, request.real_queue_id, field, topic_hash(request.real_topic)
        )
        self._known[end] = place
        return place

    def read(self, properties: bytes, stored_ms: int, offset: int) -> Plain | None:
        """Read the properties of a timer that lies at `offset` since `stored_ms`.

        None if it is not plain: it carries a level, a mark, another request, or bookkeeping of
        another kind.
        """
        note_at = properties.find(ROLL_NOTE)
        noted = None
        if note_at >= 0:
            noted = NOTED_BY_ROLL.fullmatch(properties, note_at)
            if noted is None:
                return None
            properties = properties[: note_at + 1]
        place_at = properties.rfind(_PLACE)
        out_at = properties.rfind(_OUT, 0, place_at) if place_at >= 0 else -1
        out = properties[out_at + len(_OUT) : place_at]
        if (
            out_at < 0
            or len(out) > _DIGITS_MAX
            or not out.isdigit()
            or properties[-1] != _END
            or properties.count(b"TIMER_") != _OWN_NAMES
            or b"DELAY\x01" in properties
        ):
            return None
        place = self.at(properties[place_at:])
        found = _REQUEST.search(properties)
        if place is None or found is None:
            return None
        if noted is not None:
            return place, int(out), int(noted[1]), int(noted[3]), True
        deliver, delay, value = found.groups()
        asked_ms = int(value)
        if deliver is None:
            asked_ms = stored_ms + (asked_ms if delay is not None else asked_ms * 1000)
        return place, int(out), asked_ms, offset, False


def plain_due_ms(plain: Plain, precision_ms: int, step_ms: int) -> int:
    """Give when a plain timer may leave, as `release_due_ms` does."""
    _, out_ms, asked_ms, _, noted = plain
    end_ms = out_ms + precision_ms
    if asked_ms <= (out_ms - precision_ms if noted else out_ms):
        return end_ms
    due_ms = -(-asked_ms // step_ms) * step_ms
    return due_ms if due_ms < end_ms else end_ms  # noqa: FURB136 - asked for every timer
