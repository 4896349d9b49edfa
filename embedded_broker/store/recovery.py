"""How the store is found again, from its bytes alone.

The commit log is read; it ends where the first bad record begins. Consume queues are made to agree
with it: missing entries are added, entries behind the end are dropped. A clean stop makes it
quick, a dirty one makes it thorough; the answer is the same. Must not know: the broker, timers.
After ``CommitLog.recoverNormally`` / ``recoverAbnormally``. Read on: ``message_store.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from attrs import frozen

from embedded_broker.store.checkpoint import StoreCheckpoint
from embedded_broker.store.commit_log import CommitLog
from embedded_broker.store.consume_queue import ConsumeQueue
from rocketmq_py.protocol.sysflag import (
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)

__all__ = ["NOT_QUEUED", "StoreRecovery", "recover"]

_LOG = logging.getLogger(__name__)

NOT_QUEUED: Final = frozenset({TRANSACTION_PREPARED, TRANSACTION_ROLLBACK})
"""Transaction kinds whose records no queue shows."""

_READ_WHOLE_CLEAN: Final = 16 * 1024 * 1024
_READ_WHOLE_DIRTY: Final = 256 * 1024 * 1024
"""Logs up to this many bytes are always read from their begin: it takes a second or so."""


@frozen
class StoreRecovery:
    """What ``MessageStore.load`` found.

    ``clean``: the last owner closed the store (no ``abort`` file). ``commit_log_end`` is where
    the next record goes, ``truncated_bytes`` what lay behind it and was zeroed.
    ``last_store_timestamp`` is that of the newest record (0 for an empty store).
    ``records_read`` of the log were checked, from ``read_from`` on. ``entries_added`` consume
    queue entries were missing or wrong, ``entries_dropped`` pointed behind the end.
    """

    clean: bool
    commit_log_end: int
    truncated_bytes: int
    last_store_timestamp: int
    read_from: int
    records_read: int
    entries_added: int
    entries_dropped: int


class _Gap(Exception):  # noqa: N818 - caught in this module: read from further back
    pass


def recover(
    log: CommitLog,
    queues: dict[tuple[str, int], ConsumeQueue],
    checkpoint: StoreCheckpoint,
    *,
    clean: bool,
    whole: bool,
    queue_for: Callable[[str, int], ConsumeQueue],
    tags_code: Callable[[str, bytes, int], int],
) -> StoreRecovery:
    """Find the log's end and repair the queues; everything is synced when it returns.

    ``queues`` are loaded already; ``queue_for`` creates a missing one. ``whole`` asks to read
    the log from its begin, because a queue is known to be damaged. Raises ``StoreError``.
    """
    log.files.load()
    for start in _starts(log, queues, checkpoint, clean=clean, whole=whole):
        reader = _Reader(
            log, queue_for, tags_code, start, whole=start <= log.min_offset, clean=clean
        )
        try:
            reader.read()
        except _Gap:
            _LOG.info("consume queues lack entries before %d: reading from further back", start)
            continue
        break
    lost = log.files.truncate_to(reader.end)
    dropped = 0
    for key, queue in queues.items():
        dropped += _drop_ghosts(queue, reader, reader.next_offsets.get(key))
        remove = queue.follow(log.min_offset)
        if remove is not None:
            remove()
        plan = queue.files.plan_sync()
        if plan is not None:
            plan.run()
    if lost:
        _LOG.warning("commit log truncated at %d: %d bytes given up", reader.end, lost)
    return StoreRecovery(
        clean=clean,
        commit_log_end=log.max_offset,
        truncated_bytes=lost,
        last_store_timestamp=max(reader.last_store_timestamp, checkpoint.physic_msg_timestamp),
        read_from=reader.start,
        records_read=reader.count,
        entries_added=reader.added,
        entries_dropped=dropped,
    )


class _Reader:
    """One pass over the log from ``start``."""

    def __init__(
        self,
        log: CommitLog,
        queue_for: Callable[[str, int], ConsumeQueue],
        tags_code: Callable[[str, bytes, int], int],
        start: int,
        *,
        whole: bool,
        clean: bool,
    ) -> None:
        self.start = self.end = start
        self.count = self.added = 0
        self.last_store_timestamp = 0
        self.next_offsets: dict[tuple[str, int], int] = {}
        self._log = log
        self._queue_for = queue_for
        self._tags_code = tags_code
        self._whole = whole
        self._clean = clean

    def read(self) -> None:
        """Check every record and its queue entry. Raises ``_Gap`` if earlier ones are missing."""
        for (
            offset,
            size,
            topic,
            queue_id,
            queue_offset,
            flag,
            stored,
            properties,
        ) in self._log.scan_parts(self.start):
            self.end = offset + size
            self.count += 1
            self.last_store_timestamp = max(self.last_store_timestamp, stored)
            if flag & TRANSACTION_MASK in NOT_QUEUED:
                continue
            queue = self._queue_for(topic, queue_id)
            if not queue.first_offset <= queue_offset <= queue.max_offset:
                if not self._whole:
                    raise _Gap
                if queue_offset < queue.first_offset:
                    # Its oldest files are gone though the log still has their messages.
                    queue.clear()
            self.added += queue.place(
                queue_offset,
                offset,
                size,
                self._tags_code(topic, properties, stored),
                trusted=self._clean,
            )
            self.next_offsets[topic, queue_id] = queue_offset + 1


def _starts(
    log: CommitLog,
    queues: dict[tuple[str, int], ConsumeQueue],
    checkpoint: StoreCheckpoint,
    *,
    clean: bool,
    whole: bool,
) -> Iterator[int]:
    """Give where to begin reading, the quickest first; the last one is the log's begin."""
    used = 0 if whole else log.files.data_end() - log.min_offset
    if clean and used > _READ_WHOLE_CLEAN:
        # A clean stop dispatched everything, so the newest entry is the last record but for
        # records that no queue shows.
        newest = max((_newest(queue) for queue in queues.values()), default=-1)
        if log.record(newest) is not None:
            yield newest
    if used > _READ_WHOLE_DIRTY:
        # As isMappedFileMatchedRecover: the newest file whose first message is surely durable,
        # and one more, since a clock that was set back makes an unsynced file look old.
        files = log.files.files
        for number in range(len(files) - 1, 0, -1):
            first = log.store_timestamp(files[number][0])
            if 0 < first <= checkpoint.min_timestamp:
                yield files[number - 1][0]
                break
    yield log.min_offset


def _newest(queue: ConsumeQueue) -> int:
    entry = queue.entry(queue.max_offset - 1)
    return -1 if entry is None else entry[0]


def _drop_ghosts(queue: ConsumeQueue, reader: _Reader, next_offset: int | None) -> int:
    """Drop entries of messages that the log does not hold (any more)."""
    if next_offset is not None:
        return queue.drop_from(next_offset)
    return queue.trim(lambda entry: entry[0] < reader.start)
