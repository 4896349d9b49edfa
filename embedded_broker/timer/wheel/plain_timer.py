"""What nearly every timer's properties say, read without taking them apart.

Answers: when a stored timer is due and where it goes, if its properties end as admission, or a roll
of ours, wrote them and ask for nothing else that concerns timers. Must not know: slots, marks, who
asks. For whatever is not that plain it gives None, and the caller reads all the properties
(`timer/request.py`, `TimerState.due_ms`), which say the same about a plain timer, only later.

Read on: `dequeue.py`, `release.py` and `sweep.py` for who asks.
"""

import re
from typing import Final, NamedTuple, TypeAlias

from embedded_broker.store.copies import topic_field
from embedded_broker.timer.request import parse_request, topic_hash
from rocketmq_py.protocol.names import REVIVE_TOPIC_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop, decode_properties

_PLACES_MOST: Final = 1024
_DELAY_TOPICS: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})
_OUT: Final = b"\x02TIMER_OUT_MS\x01"
_REQUEST: Final = re.compile(
    rb"(?:\A|\x02)TIMER_(?:(DELIVER_MS)|(DELAY_MS)|DELAY_SEC)\x01(\d{1,13})\x02"
)
ROLL_NOTE: Final = b"\x02TIMER_DUE_MS\x01"
_TAIL: Final = re.compile(
    rb"\x02TIMER_OUT_MS\x01(\d{1,13})(\x02REAL_TOPIC\x01[^\x01\x02]+\x02REAL_QID\x01\d{1,10}\x02)"
    rb"(?:TIMER_DUE_MS\x01(\d{1,18})\x02TIMER_ROLL_TIMES\x01(\d{1,9})\x02TIMER_ENQUEUE_MS\x01\d+\x02"
    rb"TIMER_DEQUEUE_MS\x01\d+\x02TIMER_SRC_OFFSET\x01\d+\x02TIMER_ROOT_OFFSET\x01(\d{1,18})\x02)?"
)
"""How the properties end that admission wrote, and behind that a roll of ours."""

NEVER_ROLLED: Final = -1
Plain: TypeAlias = tuple["Destination", int, int, int, int]
"""Destination, slot, the time asked for, offset of the first copy, and how often it was rolled."""


class Destination(NamedTuple):
    """Where a timer goes; `field` is the topic as a stored record has it."""

    topic: str
    queue_id: int
    field: bytes
    hash: int


def _falls_due(topic: str) -> bool:
    """Whether a message that gets there makes something fall due that may be next."""
    return topic in _DELAY_TOPICS or topic.startswith(REVIVE_TOPIC_PREFIX)


class Destinations:
    """Destinations by the end of the properties that names them; few ends recur often."""

    def __init__(self) -> None:
        self._known: dict[bytes, Destination] = {}

    def at(self, end: bytes) -> Destination | None:
        """Give the place that this end of stored properties names; None to look elsewhere."""
        return self._known.get(end) or self._find(end)

    def _find(self, end: bytes) -> Destination | None:
        properties = decode_properties(end)
        request = parse_request({Prop.TIMER_OUT_MS: "0", **properties})
        if request is None or _falls_due(request.real_topic):
            return None
        field = topic_field(request.real_topic)
        if field is None:
            return None
        if len(self._known) >= _PLACES_MOST:
            self._known.clear()
        place = Destination(
            request.real_topic, request.real_queue_id, field, topic_hash(request.real_topic)
        )
        self._known[end] = place
        return place

    def read(self, properties: bytes, stored_ms: int, offset: int) -> Plain | None:
        """Read the properties of a timer that lies at `offset` since `stored_ms`.

        None if it is not plain: it carries a level, a mark, another request, or bookkeeping of
        another kind.
        """
        at = properties.find(_OUT)
        tail = _TAIL.fullmatch(properties, at) if at >= 0 else None
        # One other name of the timer's stands before it: the request.
        if (
            tail is None
            or properties.count(b"TIMER_", 0, at) != 1
            or properties.find(b"TIMER_DEL_", 0, at) >= 0
            or b"DELAY\x01" in properties
        ):
            return None
        out_ms, end, due_ms, times, root = tail.groups()
        place = self._known.get(end) or self._find(end)
        if place is None:
            return None
        if due_ms is not None:
            return place, int(out_ms), int(due_ms), int(root), int(times)
        found = _REQUEST.search(properties, 0, at + 1)
        if found is None:
            return None
        deliver, delay, value = found.groups()
        asked_ms = int(value)
        if deliver is None:
            asked_ms = stored_ms + (asked_ms if delay is not None else asked_ms * 1000)
        return place, int(out_ms), asked_ms, offset, NEVER_ROLLED


def plain_due_ms(plain: Plain, precision_ms: int, step_ms: int) -> int:
    """Give when a plain timer may leave, as `release_due_ms` does."""
    _, out_ms, asked_ms, _, rolls = plain
    end_ms = out_ms + precision_ms
    if asked_ms <= (out_ms if rolls == NEVER_ROLLED else out_ms - precision_ms):
        return end_ms
    due_ms = -(-asked_ms // step_ms) * step_ms
    return due_ms if due_ms < end_ms else end_ms  # noqa: FURB136 - asked for every timer
