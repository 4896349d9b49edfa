"""How a sink knows that a micro-batch was written whole before Spark forgot it.

The mark of the last whole batch is the consumer offset of a group of its own on queue 0 of every
broker of the topic: 31 bits of the query's id, then the batch's number plus one. (A batch write
outside of any query has its group's name for an id.) The highest mark counts, so one broker that
keeps it is enough. A task that finds less than the mark of the batch before cannot tell whether its
own batch is written, and fails. It removes repeats of whole batches when Spark dies between our
commit and its own log, not partial ones. Must not know Spark or rows.
"""

import logging
from zlib import crc32

from attrs import frozen

from rocketmq_py import MessageQueue, MQClientException, QueueAccess, RocketMQError
from spark_connector.errors import OptionError
from spark_connector.planning.group_offsets import store_group_offset

NUMBER_BITS = 32
NUMBER_MASK = (1 << NUMBER_BITS) - 1
QUERY_MASK = 0x7FFF_FFFF

_log = logging.getLogger("spark_connector")


def mark_of(query_id: str, batch_id: int) -> int:
    """Return the offset that says: this batch of this query is written whole.

    >>> mark_of("a", 4) & 0xFFFFFFFF
    5
    """
    return (crc32(query_id.encode()) & QUERY_MASK) << NUMBER_BITS | batch_id + 1


@frozen
class ReplayGuard:
    """Reads and writes the mark of one topic and group. Safe from any thread.

    Both calls ask the name server once for the topic's brokers, and then each broker in turn.
    """

    access: QueueAccess
    group: str
    topic: str
    take_over: bool = False

    def is_written(self, query_id: str, batch_id: int) -> bool:
        """Whether the batch was written whole before.

        Not written is what this says of the first batch of a query, and of one whose forerunner
        is marked, as long as every broker of the topic tells its mark. Raises `OptionError` when
        a mark belongs to another query, `MQClientException` when the forerunner has no mark (a
        broker that is away may hold it, and one of this batch): both do not count under
        ``take_over``. Raises whatever keeps a mark from being read: writing without knowing
        would repeat rows.
        """
        mine = mark_of(query_id, batch_id)
        highest = 0
        unread: RocketMQError | None = None
        for queue in self._queues():
            try:
                mark = self._mark_at(queue)
            except RocketMQError as error:
                unread = unread or error
                continue
            if mark and mark >> NUMBER_BITS != mine >> NUMBER_BITS:
                self._refuse(mark, queue, query_id, mine)
            else:
                highest = max(highest, mark & NUMBER_MASK)
        if highest > batch_id:
            return True
        if unread is not None:
            raise unread
        if highest < batch_id:
            self._doubt(batch_id, highest)
        return False

    def note(self, query_id: str, batch_id: int) -> None:
        """Mark the batch as written whole on every broker of the topic, and read the marks back.

        One broker that keeps it is enough; a warning names the others. Raises what the first
        broker said when none keeps it.
        """
        mark = mark_of(query_id, batch_id)
        failures: dict[str, RocketMQError] = {}
        queues = self._queues()
        for queue in queues:
            try:
                self._note_at(queue, mark, batch_id)
            except RocketMQError as error:
                failures[queue.broker_name] = error
        if len(failures) == len(queues):
            raise next(iter(failures.values()))
        if failures:
            _log.warning(
                "replayGuard group %s: the mark of batch %d is not kept by %s, only by others",
                self.group,
                batch_id,
                "; ".join(f"{name} ({error})" for name, error in failures.items()),
            )

    def _mark_at(self, queue: MessageQueue) -> int:
        """Return the mark that a broker keeps, 0 for none; only its master knows the newest."""
        if self.access.address_of(queue.broker_name, only_this=True) is None:
            raise MQClientException(
                f"replayGuard group {self.group}: broker {queue.broker_name} has no master now, "
                "and a slave may have an old mark: repeat when the master is back",
                topic=self.topic,
            )
        return self.access.group_offset(self.group, queue) or 0

    def _note_at(self, queue: MessageQueue, mark: int, batch_id: int) -> None:
        store_group_offset(self.access, self.group, queue, mark)
        kept = self._mark_at(queue)
        if kept != mark:
            raise MQClientException(
                f"replayGuard group {self.group}: the mark {mark} of batch {batch_id} was not "
                f"kept, broker {queue.broker_name} says {kept}",
                topic=self.topic,
            )

    def _queues(self) -> list[MessageQueue]:
        """Return the places of the mark.

        Brokers keep offsets of queue 0 whether or not it can be read, so no list of queues counts.
        """
        self.access.read_queues(self.topic)  # asks for the route
        names = self.access.broker_names(self.topic)
        if not names:
            raise MQClientException(
                f"replayGuard group {self.group}: topic {self.topic} has no broker now, so "
                "it is unknown which batch was written: start a broker, then repeat",
                topic=self.topic,
            )
        return [MessageQueue(self.topic, name, 0) for name in names]

    def _refuse(self, mark: int, queue: MessageQueue, query_id: str, mine: int) -> None:
        if not self.take_over:
            raise OptionError(
                f"replayGuard group {self.group} of topic {self.topic} is used by another query "
                f"(its id has the checksum {mark >> NUMBER_BITS:08x}, at broker "
                f"{queue.broker_name}), this one is {query_id} ({mine >> NUMBER_BITS:08x}): use "
                "another group, or replayGuardTakeOver=true"
            )

    def _doubt(self, batch_id: int, highest: int) -> None:
        """Raise, or warn under ``take_over``, that nobody tells whether the batch is written."""
        last = f"the last one is of batch {highest - 1}" if highest else "there is none at all"
        text = (
            f"replayGuard group {self.group} of topic {self.topic}: the brokers that answer hold "
            f"no mark of batch {batch_id - 1} ({last}), so one that is away may know that batch "
            f"{batch_id} is written"
        )
        if not self.take_over:
            raise MQClientException(
                f"{text}: repeat when all brokers are back, or use replayGuardTakeOver=true to "
                "write it in any case, such as for a query that is given its guard only now",
                topic=self.topic,
            )
        _log.warning("%s: written in any case (replayGuardTakeOver)", text)
