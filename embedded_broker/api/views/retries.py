"""Retries of a group: messages that it failed to handle and will get again.

Answers: which retries of a group wait for their time, and which are in its retry topic. They are
found where they lie: in the queues of the delay levels, in the timer engine when levels are routed
there, and in the retry topic. Must not know: how a consumer fails. Read on: ``groups.py``,
``embedded_broker/core/retries.py``.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from attrs import field, frozen

from embedded_broker.api.views.bodies import Bodies
from embedded_broker.api.views.lookup import shown
from embedded_broker.clocks.instants import instant
from embedded_broker.clocks.timeline import step_in_turns
from embedded_broker.core.queries import in_turns
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.tables.offsets.table import NOT_STORED
from embedded_broker.timer.listing import Pending, Wanted
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, retry_topic
from rocketmq_py.protocol.properties import Prop

_PAGE: Final = 1000


@frozen(kw_only=True)
class Retry:
    """One message that a group will get again.

    ``topic`` is the topic that it was sent to. ``attempts`` counts how often the group has failed
    so far. ``due_at`` is the time at which it goes to the retry topic. ``waiting`` is False once it
    is there.
    """

    msg_id: str
    topic: str
    attempts: int
    due_at: datetime
    waiting: bool
    body: bytes = field(repr=shown)
    tags: str | None
    keys: tuple[str, ...]
    properties: dict[str, str] = field(repr=False)


class _Found(NamedTuple):
    """The record of a retry, and when it goes to the retry topic."""

    due_ms: int
    waiting: bool
    record: MessageRecord


def waiting_retries(parts: BrokerParts, group: str, bodies: Bodies) -> list[Retry]:
    """Find the retries of a group, by their time. Outside the door."""
    topic = retry_topic(group)

    def at_level(place: tuple[int, int]) -> _Found | None:
        level, offset = place
        queue = parts.store.consume_queue(SCHEDULE_TOPIC, level - 1)
        entry = None if queue is None else queue.entry(offset)
        record = None if entry is None else parts.store.record(entry[0])
        if entry is None or record is None or record.properties.get(Prop.REAL_TOPIC) != topic:
            return None
        return _Found(entry[2], True, record)

    def arrived(place: tuple[int, int]) -> _Found | None:
        record = parts.store.message(topic, *place)
        return None if record is None else _Found(record.store_timestamp, False, record)

    with parts.door.quiet:
        levels = _at_levels(parts)
        here = _arrived(parts, group, topic)
    found = in_turns(parts.door, _places(levels), at_level)
    found += in_turns(parts.door, _places(here), arrived)
    found += in_turns(parts.door, _in_engine(parts, topic), _of_timer)
    found.sort(key=lambda one: one.due_ms)
    return [_retry(one, bodies) for one in found]


def _in_engine(parts: BrokerParts, topic: str) -> Iterator[Pending]:
    """Give the timers that go to a topic; when levels are routed to the engine. Outside the door.

    They are read page by page, before the first of them is looked at.
    """
    with parts.door.quiet:
        count = parts.timers.count(topic)
    pages: list[Pending] = []
    after = Wanted().after
    while len(pages) < count:
        with parts.door.quiet:
            walk = parts.timers.pending(Wanted(topic=topic, limit=_PAGE, after=after))
        step_in_turns(parts.door, walk)
        if not walk.found:
            break
        pages += walk.found
        after = walk.found[-1].place
    return iter(pages)


def _of_timer(one: Pending) -> _Found | None:
    """Find the record of a retry that waits in the timer engine. Under the door."""
    record = one.read()
    return None if record is None else _Found(one.due_ms, True, record)


def _places(ranges: dict[int, range]) -> Iterator[tuple[int, int]]:
    """Name every offset of every queue, or level."""
    for number, offsets in ranges.items():
        for offset in offsets:
            yield number, offset


def _at_levels(parts: BrokerParts) -> dict[int, range]:
    """Give the offsets of the messages that wait, by level. Under the door."""
    return {
        level: range(offset, parts.store.max_offset(SCHEDULE_TOPIC, level - 1))
        for level, offset in parts.levels.offsets().items()
    }


def _arrived(parts: BrokerParts, group: str, topic: str) -> dict[int, range]:
    """Give the offsets in the retry topic that the group has not committed. Under the door."""
    config = parts.tables.topics.get(topic)
    ranges = {}
    for queue_id in range(0 if config is None else config.read_queue_nums):
        committed = parts.tables.offsets.query(group, topic, queue_id)
        low = parts.store.min_offset(topic, queue_id)
        begin = low if committed == NOT_STORED else max(low, committed)
        ranges[queue_id] = range(begin, parts.store.max_offset(topic, queue_id))
    return ranges


def _retry(found: _Found, bodies: Bodies) -> Retry:
    record = found.record
    properties = dict(record.properties)
    return Retry(
        msg_id=record.msg_id,
        topic=properties.get(Prop.RETRY_TOPIC, record.topic),
        attempts=record.reconsume_times,
        due_at=instant(found.due_ms),
        waiting=found.waiting,
        body=bodies.unpack(record),
        tags=properties.get(Prop.TAGS),
        keys=tuple(properties.get(Prop.KEYS, "").split()),
        properties=properties,
    )
