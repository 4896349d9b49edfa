"""Reading half of the message store: finds messages again, and checks offsets from outside.

Answers: how a message is found by queue, offset, key or time, and that an offset from outside which
points into a body, at bytes that look like a record, finds nothing. Must not know: how messages
came in. Read on: ``pull.py`` for the rules of a pull, ``key_index.py`` for keys,
``message_store.py`` for the other half.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.batch_queue import BatchConsumeQueue, batch_queue_of
from embedded_broker.store.commit_log import CommitLog
from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.store.filter_budget import Filter, FilterBudget
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.key_index import KeyIndex
from embedded_broker.store.pull import (
    ANSWER_BYTES_MAX,
    Boundary,
    GetResult,
    PullLimits,
    read_queue,
    search_by_time,
)
from embedded_broker.store.queue_names import check_queue
from rocketmq_py.errors import BodyError, RecordError
from rocketmq_py.protocol.inner_batch import unwrap
from rocketmq_py.protocol.message_codec import MessageRecord

_ALL_TIME_MS: Final = 2**63 - 1
_BEHIND_MAX: Final = 128 * 1024
"""Bytes of the log that are indexed in a few milliseconds."""
_ENTRIES_MAX: Final = 10_000
"""Entries of the index that may all have one hash, and are walked in a few milliseconds."""


class StoreReader:
    """Gets, searches and queries over a log, its queues and its index."""

    fs: FileSystem
    config: BrokerConfig
    log: CommitLog
    index: KeyIndex | None
    queues: dict[tuple[str, int], ConsumeQueue]
    filter_budget: FilterBudget
    _limits: PullLimits
    takes_batches: Callable[[str], bool]
    """Whether a topic is a BatchCQ topic: asked when one of its queues is made."""
    _queue_file_size: int
    _batch_queue_file_size: int

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        wanted: Filter | None = None,
        max_bytes: int | None = None,
    ) -> GetResult:
        """Read messages of a queue from an offset on: those that are wanted.

        At most ``max_count``, the broker's 32 messages or 256 KiB (settings
        ``maxTransfer...OnMessageInMemory``), but one message always. The buffers are live views.
        Raises ``Unjudged`` when ``wanted`` has no room to judge the first message.
        """
        queue = self.queues.get((topic, queue_id))
        return read_queue(
            self.log,
            queue,
            offset,
            max_count,
            wanted,
            self._limits,
            self.filter_budget,
            max_bytes=max_bytes,
        )

    def read(self, commit_log_offset: int, size: int | None = None) -> memoryview | None:
        """Show the record at an offset; None if no record begins there, or one of another size."""
        return self.log.read(commit_log_offset, size)

    def record(self, commit_log_offset: int) -> MessageRecord | None:
        """Decode the record at an offset; None if no whole record begins there."""
        return self.log.record(commit_log_offset)

    def queued(self, commit_log_offset: int) -> MessageRecord | None:
        """Decode the record at an offset that came from outside; None unless its queue shows it.

        What looks like a record may be the body of one that a client has written that way.
        """
        record = self.log.record(commit_log_offset)
        queue = None if record is None else self.queues.get((record.topic, record.queue_id))
        entry = None if record is None or queue is None else queue.entry(record.queue_offset)
        if record is None or entry is None or entry[:2] != (commit_log_offset, record.size):
            return None
        return record

    def message(self, topic: str, queue_id: int, offset: int) -> MessageRecord | None:
        """Decode the message at a queue offset; None if there is none, or it is gone."""
        found = self.messages(topic, queue_id, offset)
        return next((one for one in found if one.queue_offset == offset), None)

    def messages(self, topic: str, queue_id: int, offset: int) -> list[MessageRecord]:
        """Decode all messages of the record that holds the one at a queue offset.

        In most queues a record is one message. A batch whose body is none is given as it is.
        """
        queue = self.queues.get((topic, queue_id))
        entry = None if queue is None else queue.entry(offset)
        record = None if entry is None else self.log.record(entry[0])
        if record is None:
            return []
        try:
            return unwrap(record)
        except (RecordError, BodyError):
            return [record]

    def scan(self, commit_log_offset: int) -> Iterator[MessageRecord]:
        """Give all records from an offset on; it must be the begin of a record or of a file."""
        return self.log.scan(commit_log_offset, check_crc=False)

    def consume_queue(
        self, topic: str, queue_id: int, *, create: bool = False
    ) -> ConsumeQueue | None:
        """Give a queue's entries; None if nothing was ever stored in it, unless ``create``.

        Raises ``QueueNameError`` for a queue that cannot be.
        """
        queue = self.queues.get((topic, queue_id))
        return self._queue(topic, queue_id) if queue is None and create else queue

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Give a queue, made if need be, of the kind that its topic has."""
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            if self.takes_batches(topic):
                return self._batch_queue(topic, queue_id)
            check_queue(topic, queue_id)
            queue = ConsumeQueue(self.fs, topic, queue_id, self._queue_file_size)
            self.queues[topic, queue_id] = queue
        return queue

    def _batch_queue(self, topic: str, queue_id: int) -> BatchConsumeQueue:
        """Give a queue of what must be a BatchCQ topic; one that was taken for another changes."""
        queue, size = self.queues.get((topic, queue_id)), self._batch_queue_file_size
        if not isinstance(queue, BatchConsumeQueue):
            if queue is None:
                check_queue(topic, queue_id)
                queue = BatchConsumeQueue(self.fs, topic, queue_id, size)
            else:
                queue = batch_queue_of(queue, size, self.log.store_timestamp)
            self.queues[topic, queue_id] = queue
        return queue

    def of_topic(self, topic: str) -> dict[int, ConsumeQueue]:
        """Give the queues of a topic in which something was stored, by number."""
        return {number: queue for (name, number), queue in self.queues.items() if name == topic}

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First queue offset that can be read; 0 for an unknown queue."""
        queue = self.queues.get((topic, queue_id))
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset of the next message; 0 for an unknown queue."""
        queue = self.queues.get((topic, queue_id))
        return queue.max_offset if queue is not None else 0

    def search_offset(
        self, topic: str, queue_id: int, timestamp: int, boundary: str = "LOWER"
    ) -> int:
        """Find the queue offset for a store time: LOWER, UPPER (5.x) or NEAREST (4.9)."""
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            return 0
        return search_by_time(queue, timestamp, Boundary(boundary), self.log.store_timestamp)

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """Store time of the first message that can be read; -1 without one."""
        queue = self.queues.get((topic, queue_id))
        entry = queue.entry(queue.min_offset) if queue is not None else None
        return -1 if entry is None else self.log.store_timestamp(entry[0])

    def query(
        self,
        topic: str,
        key: str,
        max_num: int,
        begin_ms: int,
        end_ms: int,
        *,
        unique: bool = False,
    ) -> list[memoryview]:
        """Find messages by key: the newest ``max_num``, oldest first, one record per buffer.

        ``unique`` says that the key is a UNIQ_KEY: then ``defaultQueryMaxNum`` counts instead of
        ``max_num``. Messages whose keys only share a hash are among them; clients compare.
        """
        return self.records_at(
            self.offsets_of(topic, key, self.hits_max(max_num, unique=unique), begin_ms, end_ms)
        )

    def hits_max(self, max_num: int, *, unique: bool) -> int:
        """Give how many messages a query may find that asks for ``max_num``."""
        wanted = self.config.int("defaultQueryMaxNum") if unique else max_num
        return min(wanted, self.config.int("maxMsgsNumBatch"))

    def records_at(self, offsets: Sequence[int]) -> list[memoryview]:
        """Show the records at these offsets; the oldest are left out if a frame has no room."""
        found = [view for offset in offsets if (view := self.log.read(offset)) is not None]
        size = sum(map(len, found))
        while size > ANSWER_BYTES_MAX and len(found) > 1:
            size -= len(found.pop(0))
        return found

    def offsets_of(
        self, topic: str, key: str, most: int, begin_ms: int = 0, end_ms: int = _ALL_TIME_MS
    ) -> list[int]:
        """Ask the index for the places of messages by key; those that are gone too.

        May take long if the index is behind or large: see ``index_takes_long``. The index has a
        lock of its own, so this may be called outside the door.
        """
        if self.index is None:
            return []
        self.index.catch_up(self.log.max_offset)
        return self.index.query(topic, key, most, begin_ms, end_ms) if most > 0 else []

    @property
    def index_takes_long(self) -> bool:
        """Whether to ask the index may take long: much is to be read or looked through."""
        index = self.index
        return index is not None and (
            self.log.max_offset - index.indexed_to > _BEHIND_MAX or index.entries > _ENTRIES_MAX
        )
