"""How messages are found again: the reading half of the message store.

Must not know: how they came in. Read on: ``pull.py`` for the rules of a pull, ``key_index.py``
for keys, ``message_store.py`` for the other half.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.commit_log import CommitLog
from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.key_index import KeyIndex
from embedded_broker.store.pull import (
    Boundary,
    Filter,
    GetResult,
    PullLimits,
    read_queue,
    search_by_time,
)
from rocketmq_py.protocol.message_codec import MessageRecord

__all__ = ["StoreReader"]

_PULL_BYTES_MAX: Final = 128 * 1024 * 1024  # MAX_PULL_MSG_SIZE
_ALL_TIME_MS: Final = 2**63 - 1


class StoreReader:
    """Gets, searches and queries over a log, its queues and its index."""

    fs: FileSystem
    config: BrokerConfig
    log: CommitLog
    index: KeyIndex | None
    queues: dict[tuple[str, int], ConsumeQueue]
    _limits: PullLimits
    _queue_file_size: int

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        wanted: Filter | None = None,
        max_bytes: int = _PULL_BYTES_MAX,
    ) -> GetResult:
        """Read messages of a queue from an offset on: those that are wanted.

        At most ``max_count``, the broker's 32 messages or 256 KiB (settings
        ``maxTransfer...OnMessageInMemory``), but one message always. The buffers are live views.
        """
        queue = self.queues.get((topic, queue_id))
        return read_queue(
            self.log, queue, offset, max_count, wanted, self._limits, max_bytes=max_bytes
        )

    def read(self, commit_log_offset: int, size: int | None = None) -> memoryview | None:
        """Show the record at an offset; None if no record begins there, or one of another size."""
        return self.log.read(commit_log_offset, size)

    def record(self, commit_log_offset: int) -> MessageRecord | None:
        """Decode the record at an offset; None if no whole record begins there."""
        return self.log.record(commit_log_offset)

    def message(self, topic: str, queue_id: int, offset: int) -> MessageRecord | None:
        """Decode the message at a queue offset; None if there is none, or it is gone."""
        queue = self.queues.get((topic, queue_id))
        entry = None if queue is None else queue.entry(offset)
        return None if entry is None else self.log.record(entry[0])

    def scan(self, commit_log_offset: int) -> Iterator[MessageRecord]:
        """Give all records from an offset on; it must be the begin of a record or of a file."""
        return self.log.scan(commit_log_offset, check_crc=False)

    def consume_queue(
        self, topic: str, queue_id: int, *, create: bool = False
    ) -> ConsumeQueue | None:
        """Give a queue's entries; None if nothing was ever stored in it, unless ``create``."""
        queue = self.queues.get((topic, queue_id))
        if queue is None and create:
            queue = ConsumeQueue(self.fs, topic, queue_id, self._queue_file_size)
            self.queues[topic, queue_id] = queue
        return queue

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
        wanted = self.config.int("defaultQueryMaxNum") if unique else max_num
        most = min(wanted, self.config.int("maxMsgsNumBatch"))
        offsets = self.offsets_of(topic, key, most, begin_ms, end_ms)
        return [view for offset in offsets if (view := self.log.read(offset)) is not None]

    def offsets_of(
        self, topic: str, key: str, most: int, begin_ms: int = 0, end_ms: int = _ALL_TIME_MS
    ) -> list[int]:
        """Ask the index for the places of messages by key; those that are gone too."""
        if self.index is None:
            return []
        self.index.catch_up(self.log.max_offset)
        return self.index.query(topic, key, most, begin_ms, end_ms) if most > 0 else []
