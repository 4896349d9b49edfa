"""Lost topics: those that a store has and no file names, because the broker died before a save.

Answers: to which topics the messages belong that lie in queues, wait as timers, wait for a delay
level or for the end of their transaction. Only what waits is looked at, the newest first, and of
each queue so many: older topics were saved long before. Must not know: how a topic is made. Read
on: ``TopicTable.restore``.
"""

from collections.abc import Iterator
from typing import Final

from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.store.queue_names import destination, queue_problem
from rocketmq_py.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, TRANS_GROUP

LOOKED_AT_MAX: Final = 10_000
"""Messages that are looked at of each queue of those that wait."""


def used_places(parts: BrokerParts, *, what_waits: bool) -> Iterator[tuple[str, int]]:
    """Give topic and queue of what is in the store, maybe often; system topics too.

    Without ``what_waits`` delay levels and transactions are left out. Under the door.
    """
    for place, queue in parts.store.queues.items():
        if queue.max_offset > queue.floor:
            yield place
    for topic in parts.timers.metrics.topics:
        if topic not in parts.tables.deleted_topics and queue_problem(topic, 0) is None:
            yield topic, 0
    if what_waits:
        for level, offset in _levels(parts):
            yield from _real_places(parts, SCHEDULE_TOPIC, level - 1, offset)
        begin = max(0, parts.tables.offsets.query(TRANS_GROUP, HALF_TOPIC, 0))
        yield from _real_places(parts, HALF_TOPIC, 0, begin)


def _levels(parts: BrokerParts) -> Iterator[tuple[int, int]]:
    """Give every level that was used, and the queue offset up to which it has delivered."""
    done = parts.levels.offsets()
    for topic, queue_id in list(parts.store.queues):
        if topic == SCHEDULE_TOPIC:
            yield queue_id + 1, done.get(queue_id + 1, 0)


def _real_places(
    parts: BrokerParts, topic: str, queue_id: int, begin: int
) -> Iterator[tuple[str, int]]:
    """Give where the messages of a queue will go, from its end back to an offset."""
    store = parts.store
    end = store.max_offset(topic, queue_id)
    first = max(begin, store.min_offset(topic, queue_id), end - LOOKED_AT_MAX)
    for offset in range(end - 1, first - 1, -1):
        record = store.message(topic, queue_id, offset)
        place = None if record is None else destination(record.properties)
        if place is not None:
            yield place
