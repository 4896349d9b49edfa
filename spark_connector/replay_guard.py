"""How a streaming sink knows that a micro-batch was written whole before Spark forgot it.

The mark of the last whole batch is the consumer offset of a group of its own on queue 0 of the
topic's first broker by name: 31 bits of the query's id, then the batch's number plus one. It
removes repeats of whole batches when Spark dies between our commit and its own log, not partial
ones. Must not know Spark or rows.
"""

from __future__ import annotations

from zlib import crc32

from attrs import frozen

from rocketmq_py import MessageQueue, MQClientException, QueueAccess
from spark_connector.errors import OptionError
from spark_connector.group_offsets import store_group_offset

__all__ = ["ReplayGuard", "mark_of"]

NUMBER_BITS = 32
NUMBER_MASK = (1 << NUMBER_BITS) - 1
QUERY_MASK = 0x7FFF_FFFF


def mark_of(query_id: str, batch_id: int) -> int:
    """Return the offset that says: this batch of this query is written whole.

    >>> mark_of("a", 4) & 0xFFFFFFFF
    5
    """
    return (crc32(query_id.encode()) & QUERY_MASK) << NUMBER_BITS | batch_id + 1


@frozen
class ReplayGuard:
    """Reads and writes the mark of one topic and group. Safe from any thread."""

    access: QueueAccess
    group: str
    topic: str
    take_over: bool = False

    def is_written(self, query_id: str, batch_id: int) -> bool:
        """Whether the batch was written whole before.

        Raises `OptionError` when the mark belongs to another query (unless it may be taken over),
        and whatever keeps the mark from being read: writing without knowing would repeat rows.
        """
        mark = self.access.group_offset(self.group, self._queue())
        if not mark:
            return False
        mine = mark_of(query_id, batch_id)
        if mark >> NUMBER_BITS != mine >> NUMBER_BITS:
            if self.take_over:
                return False
            raise OptionError(
                f"replayGuard group {self.group} of topic {self.topic} is used by another query "
                f"(its id has the checksum {mark >> NUMBER_BITS:08x}), this one is {query_id} "
                f"({mine >> NUMBER_BITS:08x}): use another group, or replayGuardTakeOver=true"
            )
        return mark & NUMBER_MASK >= mine & NUMBER_MASK

    def note(self, query_id: str, batch_id: int) -> None:
        """Mark the batch as written whole, and read the mark back.

        Raises `MQClientException` when the broker does not keep it.
        """
        queue, mark = self._queue(), mark_of(query_id, batch_id)
        store_group_offset(self.access, self.group, queue, mark)
        kept = self.access.group_offset(self.group, queue)
        if kept != mark:
            raise MQClientException(
                f"replayGuard group {self.group}: the mark {mark} of batch {batch_id} was not "
                f"kept, the broker says {kept}",
                topic=self.topic,
            )

    def _queue(self) -> MessageQueue:
        queues = self.access.read_queues(self.topic)
        return next(queue for queue in queues if queue.queue_id == 0)
