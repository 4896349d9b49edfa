"""Cache of property templates: similar sends are stored together, without reading rules again.

Most messages ask for nothing but to be stored, or for one time, and differ from each other in
nothing but UNIQ_KEY, number, body and queue. The stored properties of the first one become the
template of the others; those that come together are put as runs. Answers: which messages have a
template, and how a run of them is stored. Must not know: rules. All others are left to
``produce.py``, which comes to the same bytes. Read on: ``embedded_broker/timer/timer_run.py``.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from attrs import define, field

from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Refused
from embedded_broker.core.send_gate import SendGate, stored_sys_flag
from embedded_broker.core.send_values import Incoming, Outcome
from embedded_broker.core.stored_properties import StoredProperties
from embedded_broker.store.message_run import MessageRun
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.tables.peer import Peer
from embedded_broker.tables.topics.table import TopicTable
from embedded_broker.timer.admission import timer_tail
from embedded_broker.timer.timer_run import SAMPLE_NUMBERS, TimedShape, TimerRun, TimerRuns
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.delay import (
    DELAY_PROPERTIES,
    LEGACY_DELAY_PROPERTIES,
    TIMER_BOOKKEEPING_PROPERTIES,
    Delay,
)
from rocketmq_py.protocol.handles import encode_recall_handle
from rocketmq_py.protocol.message_columns import Item
from rocketmq_py.protocol.names import RETRY_PREFIX
from rocketmq_py.protocol.properties import Prop, decode_properties
from rocketmq_py.protocol.tag_hash import tags_code

SHAPES_MAX: Final = 1024
SHAPE_SIZE_MAX: Final = 512
"""So many texts around a UNIQ_KEY are remembered, and none that is longer."""

_UNIQ_KEY: Final = f"{Prop.UNIQ_KEY}\1"
_SAMPLE_KEY: Final = "0123456789ABCDEFFEDCBA9876543210"
_SYS_FLAGS: Final = frozenset({0, 1, 257, 513, 769})
"""Bodies as they are, or compressed in one of the known ways; no transaction, no multi-tags."""
_DELAY_SIGN: Final = "DEL"
"""Every property that asks for a delay has this in its name."""
_NEVER: Final = TIMER_BOOKKEEPING_PROPERTIES | {Prop.TRAN_MSG, Prop.POP_CK, Prop.INNER_NUM}
_NOT_PLAIN: Final = _NEVER | DELAY_PROPERTIES
_NOT_TIMED: Final = _NEVER | {Prop.DELAY}
# A number of up to 15 digits fits 64 bits as milliseconds, in seconds too.
_request: Final = re.compile(
    f"(?:{'|'.join(sorted(LEGACY_DELAY_PROPERTIES))})\1([1-9][0-9]{{0,14}})(?=\2|$)"
).search
_GAP: Final = "\0"
"""What stands for the number in a text; a property that is stored never holds it."""


class PlainShape(NamedTuple):
    """What the stored properties say around the UNIQ_KEY, and the tags code."""

    head: bytes
    tail: bytes
    tags_code: int


_Shape = TypeVar("_Shape", PlainShape, TimedShape)


class SendTarget(NamedTuple):
    """A queue that such messages go to, as long as its topic is this one."""

    topic: TopicConfig
    queue_id: int
    sys_flag: int


class TimerTemplate(NamedTuple):
    """What is the same for all timers that ask for one time in one place.

    `stored` gives the properties of one, of its UNIQ_KEY and `digits`, up to the `tail`.
    """

    stored: Callable[[bytes, bytes], bytes]
    digits: bytes
    tail: bytes
    slot_ms: int
    topic: str
    is_instant: bool
    sys_flag: int


Shaped = tuple[int, Incoming, tuple[str, int, int], bytes, Item, str, TimedShape | None]
"""A message of a known shape: which of those that came together, the message, its topic, queue and
sysFlag, its UNIQ_KEY, and what is stored of it. Then, of one that asks for a time, the number and
the shape of its request: its properties are not in the item yet."""

_UNSEEN: Final = PlainShape(b"", b"", -1)


@define(eq=False, kw_only=True, slots=False)
class SendShapes:
    """Recognises and stores messages of known shapes. Used under the door.

    What it remembers is bounded: places that exist, and some shapes of properties. ``runs`` is how
    the engine takes timers that come together, None if it wants to see each.
    """

    _env: Environment
    _topics: TopicTable
    _gate: SendGate
    _stored_properties: StoredProperties
    _runs: TimerRuns | None
    _timer_topic: str
    _plain: dict[tuple[str, str], PlainShape | None] = field(factory=dict, init=False)
    _timed: dict[tuple[str, str], TimedShape | None] = field(factory=dict, init=False)
    _places: dict[tuple[str, int, int], SendTarget] = field(factory=dict, init=False)
    _last: tuple[str, str, str, TimedShape] | None = field(default=None, init=False)
    """Of the last timed message: what was around its UNIQ_KEY, its number and its shape."""

    def __attrs_post_init__(self) -> None:
        self._env.config.on_change(self._forget)

    def find(self, at: int, message: Incoming) -> Shaped | None:
        """Give the shape of a message; None if it must be looked at by itself."""
        body, text, terms = message.body, message.properties, message.terms
        if not (terms.are_usual and 0 < len(body) <= self._env.store.body_size_max):
            return None
        if self._last is not None:
            head, tail, number, timed = self._last
            # Most texts differ from the one before in nothing but the UNIQ_KEY.
            if text.startswith(head) and text.endswith(tail):
                unique_key = text[len(head) : -len(tail)]
                if unique_key.isalnum() and unique_key.isascii():
                    place = (message.topic, terms.queue_id, terms.sys_flag)
                    item = (0, message.born_timestamp, body, b"", timed.tags_code)
                    return at, message, place, unique_key.encode(), item, number, timed
        return self._find(at, message)

    def _find(self, at: int, message: Incoming) -> Shaped | None:
        """Find the shape in the text itself."""
        body, text, terms = message.body, message.properties, message.terms
        number = ""
        if _DELAY_SIGN in text and (found := _request(text)) is not None:
            number = found[1]
            start, end = found.span(1)
            text = f"{text[:start]}{_GAP}{text[end:]}"
        before, _, rest = text.partition(_UNIQ_KEY)
        unique_key, _, after = rest.partition("\2")
        if not (unique_key.isalnum() and unique_key.isascii()):
            return None
        key = unique_key.encode()
        place = (message.topic, terms.queue_id, terms.sys_flag)
        if number:
            timed = self._timed_shape(before, after)
            if timed is None:
                return None
            head, _, tail = message.properties.partition(unique_key)
            if head.endswith(_UNIQ_KEY) and tail.startswith("\2"):
                self._last = head, tail, number, timed
            item = (0, message.born_timestamp, body, b"", timed.tags_code)
            return at, message, place, key, item, number, timed
        shape = self._plain.get((before, after), _UNSEEN)
        if shape is _UNSEEN:
            shape = self._learn_plain(before, after)
        if shape is None:
            return None
        properties = shape.head + key + shape.tail
        item = (0, message.born_timestamp, body, properties, shape.tags_code)
        return at, message, place, key, item, "", None

    # -- learning -------------------------------------------------------------------------------

    def _learn_plain(self, before: str, after: str) -> PlainShape | None:
        """Find out what is stored for a message with these properties around its UNIQ_KEY."""
        text = f"{before}{_UNIQ_KEY}{_SAMPLE_KEY}\2{after}"
        properties = decode_properties(text)
        shape = None
        if (
            "\0" not in text
            and _NOT_PLAIN.isdisjoint(properties)
            and properties.get(Prop.UNIQ_KEY) == _SAMPLE_KEY
        ):
            stored, key = self._stored_properties.stored(properties, text), _SAMPLE_KEY.encode()
            if stored.count(key) == 1:
                head, _, tail = stored.partition(key)
                shape = PlainShape(head, tail, tags_code(properties.get(Prop.TAGS)))
        _keep(self._plain, (before, after), shape)
        return shape

    def _timed_shape(self, before: str, after: str) -> TimedShape | None:
        """Give what is stored for properties with this around their UNIQ_KEY and number.

        None when they ask for something else as well, or must be looked at one by one.
        """
        key = (before, after)
        if key in self._timed:
            return self._timed[key]
        shape = self._learn_timed(f"{before}{_UNIQ_KEY}{_SAMPLE_KEY}\2{after}")
        _keep(self._timed, key, shape)
        return shape

    def _learn_timed(self, pattern: str) -> TimedShape | None:
        if self._runs is None or pattern.count(_GAP) != 1:
            return None
        for number in SAMPLE_NUMBERS:
            if number in pattern or pattern.count(_SAMPLE_KEY) != 1:
                continue
            text = pattern.replace(_GAP, number)
            properties = decode_properties(text)
            if (
                not _NOT_TIMED.isdisjoint(properties)
                or properties.get(Prop.UNIQ_KEY) != _SAMPLE_KEY
            ):
                return None
            stored = self._stored_properties.stored(properties, text)
            sample = InnerMessage("T", 0, b"", properties, properties_bytes=stored)
            shape = self._runs.learn(sample, _SAMPLE_KEY, number)
            if shape is not None:
                return shape
        return None

    def _place(self, key: tuple[str, int, int], message: Incoming) -> SendTarget | None:
        """Give where messages with this topic, queue and sysFlag go; None if that is not plain."""
        name, queue_id, sys_flag = key
        known, topic = self._places.get(key), self._topics.get(name)
        if known is not None and known.topic is topic:
            return known
        if topic is None or sys_flag not in _SYS_FLAGS or name.startswith(RETRY_PREFIX):
            return None
        try:
            self._gate.topic_for(message)
        except Refused:
            return None
        place = self._places[key] = SendTarget(topic, queue_id, stored_sys_flag(sys_flag, topic))
        return place

    def _forget(self, _changed: frozenset[str]) -> None:
        """Begin anew: a setting that places or properties depend on may have changed."""
        self._plain.clear()
        self._timed.clear()
        self._last = None
        self._places.clear()

    # -- storing --------------------------------------------------------------------------------

    def put(
        self, run: Sequence[Shaped], peer: Peer, outcomes: list[Outcome | None]
    ) -> list[Shaped]:
        """Store messages, a run per queue, and note the outcome of each.

        Gives those that must be looked at by themselves: all of them if a timer is one, so that
        they keep their order.
        """
        timed = [one for one in run if one[-1] is not None]
        if timed:
            if not self._put_timed(timed, peer, outcomes):
                return list(run)
            if len(timed) == len(run):
                return []
        queues: dict[tuple[str, int, int], list[Shaped]] = {}
        for one in run:
            if one[-1] is None:
                queues.setdefault(one[2], []).append(one)
        left: list[Shaped] = []
        for key, group in queues.items():
            place = self._place(key, group[0][1])
            if place is None or not self._put_plain(group, place, peer, outcomes):
                left += group
        return left

    def _put_plain(
        self, group: list[Shaped], place: SendTarget, peer: Peer, outcomes: list[Outcome | None]
    ) -> bool:
        items, queue_id = [one[4] for one in group], place.queue_id
        run = MessageRun(
            place.topic.topic_name, queue_id, items, place.sys_flag, peer.packed_remote
        )
        result = self._env.store.put(run)
        if not result.ok:
            return False
        queue_offset = result.queue_offset
        for one, offset in zip(group, result.offsets, strict=True):
            outcomes[one[0]] = Outcome(None, None, offset, queue_id, queue_offset, one[3])
            queue_offset += 1
        return True

    def _put_timed(self, timed: list[Shaped], peer: Peer, outcomes: list[Outcome | None]) -> bool:
        """Store messages that ask for a time as one run; False if one needs a look by itself."""
        now_ms = self._env.store.clock.now_ms
        items: list[Item] = []
        slots: list[int] = []
        topics: list[str] = []
        instants, sys_flag = False, -1
        before: tuple[str, tuple[str, int, int], TimedShape | None] | None = None
        template: TimerTemplate | None = None
        for _, message, where, key, item, number, shape in timed:
            if before != (number, where, shape):  # most are as the one before them
                before = number, where, shape
                template = self._template(message, where, number, shape, now_ms)
            if template is None:
                return False
            stored, digits, tail, slot_ms, topic, is_instant, flags = template
            if not items:
                sys_flag = flags
            if flags != sys_flag:
                return False
            instants = instants or is_instant
            flag, born, body, _, code = item
            items.append((flag, born, body, stored(key, digits) + tail, code))
            slots.append(slot_ms)
            topics.append(topic)
        if not self._env.store.hooks.ignore_timers(now_ms, instants=instants):
            return False
        run = TimerRun(
            self._timer_topic,
            0,
            items,
            sys_flag,
            peer.packed_remote,
            out_ms=slots,
            real_topics=topics,
        )
        result = self._env.store.put(run, now_ms=now_ms)
        if not result.ok:
            return False
        broker_name, queue_offset = self._env.broker_name.encode(), result.queue_offset
        for one, slot_ms, offset in zip(timed, slots, result.offsets, strict=True):
            topic, queue_id, _ = one[2]
            key = one[3]
            # The time of a recall handle is one more than the slot.
            handle = encode_recall_handle(topic.encode(), broker_name, slot_ms + 1, key)
            outcomes[one[0]] = Outcome(None, None, offset, queue_id, queue_offset, key, handle)
            queue_offset += 1
        return True

    def _template(
        self,
        message: Incoming,
        where: tuple[str, int, int],
        number: str,
        shape: TimedShape | None,
        now_ms: int,
    ) -> TimerTemplate | None:
        """Give what a message asks for; None if it needs a look by itself."""
        place = self._place(where, message)
        if self._runs is None or shape is None or place is None:
            return None
        kind, topic = shape.kind, where[0]
        slot_ms = self._runs.slot_of(Delay(kind, int(number)), now_ms)
        if slot_ms is None:
            return None
        tail = timer_tail(slot_ms, topic, place.queue_id)
        is_instant = not kind.is_relative
        return TimerTemplate(
            shape.stored, number.encode(), tail, slot_ms, topic, is_instant, place.sys_flag
        )


def _keep(
    shapes: dict[tuple[str, str], _Shape | None], key: tuple[str, str], shape: _Shape | None
) -> None:
    if len(shapes) >= SHAPES_MAX:
        shapes.clear()
    if len(key[0]) + len(key[1]) <= SHAPE_SIZE_MAX:
        shapes[key] = shape
