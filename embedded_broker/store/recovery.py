"""Recovery of the message store: where the log ends, and whether damage is refused or left out.

The commit log is read; it ends where the first bad record begins. Consume queues are made to agree
with it: missing entries are added, entries behind the end are dropped. A clean stop makes it
quick, a dirty one makes it thorough; the answer is the same, and comes from the bytes of the store
alone. Must not know: the broker, timers. After ``CommitLog.recoverNormally`` /
``recoverAbnormally``. Read on: ``message_store.py``.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from attrs import frozen

from embedded_broker.errors import StoreDamagedError
from embedded_broker.store.checkpoint import StoreCheckpoint
from embedded_broker.store.commit_log import CommitLog
from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.store.damage import (
    Damage,
    DamagedPlace,
    find_damage,
    is_unsynced_hole,
    leave_out,
    name_of,
)
from embedded_broker.store.damaged_folder import ways_out
from embedded_broker.store.disk_health import Undone
from embedded_broker.store.queue_recovery import NOT_QUEUED, EntriesMissing, QueueRecovery
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.sysflag import TRANSACTION_MASK

_LOG = get_logger(__name__)

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
    ``damaged_places`` of the log were left out, and ``entries_left_out`` messages with them.
    """

    clean: bool
    commit_log_end: int
    truncated_bytes: int
    last_store_timestamp: int
    read_from: int
    records_read: int
    entries_added: int
    entries_dropped: int
    damaged_places: int
    entries_left_out: int


@frozen(kw_only=True)
class Opening:
    """How a store is opened.

    ``clean``: the last owner closed it. ``whole``: the log is read from its begin. ``skip_damage``:
    damage is left out, copied and told in ``problems``; else it is a ``StoreDamagedError``.
    ``undone`` keeps what a full disk does not take.
    """

    clean: bool
    whole: bool
    skip_damage: bool
    problems: list[str]
    undone: Undone


def recover(
    log: CommitLog,
    queues: dict[tuple[str, int], ConsumeQueue],
    checkpoint: StoreCheckpoint,
    opening: Opening,
    *,
    queue_for: Callable[[str, int], ConsumeQueue],
    batch_queue_for: Callable[[str, int], ConsumeQueue],
    tags_code: Callable[[str, bytes, int], int],
) -> StoreRecovery:
    """Find the log's end and repair the queues; everything is synced when it returns.

    ``queues`` are loaded already; ``queue_for`` and
    ``batch_queue_for`` create a missing one. Raises ``StoreError``, and
    ``StoreDamagedError`` before anything of the log is changed.
    """
    log.files.load(mended=opening.problems if opening.skip_damage else None)
    _look_for_lost_begin(log, queues, checkpoint, opening)
    for start in _starts(log, queues, checkpoint, opening):
        queue_recovery = QueueRecovery(
            queues,
            queue_for,
            batch_queue_for,
            tags_code,
            start,
            whole=start <= log.min_offset,
            clean=opening.clean,
            log=log,
        )
        reader = _Reader(log, queue_recovery, start)
        try:
            places = _read_all(reader, log, checkpoint, opening)
        except EntriesMissing:
            _LOG.info("consume queues lack entries before %d: reading from further back", start)
            continue
        break
    numbers = _leave_out_entries(queues, places)
    misnamed = _misnamed(log, reader, opening)
    for key, more in _leave_out_entries(queues, misnamed).items():
        numbers[key] = numbers.get(key, []) + more
    _look_for_lost_end(reader, queues, checkpoint, opening)
    lost = _cut(log, reader.end, opening)
    dropped = 0
    for key, queue in queues.items():
        keep_to = max(numbers.get(key, ()), default=-1) + 1
        dropped += _drop_ghosts(queue, reader, queue_recovery.next_offsets.get(key), keep_to)
        remove = queue.follow(log.min_offset)
        if remove is not None:
            remove()
        plan = queue.files.plan_sync()
        if plan is not None:
            plan.run()
    log.checked_from, log.skip_damage = reader.start, opening.skip_damage
    if opening.clean and queue_recovery.added:
        text = f"consumequeue: {queue_recovery.added} entries were missing or wrong"
        opening.problems.append(f"{text} and were made again from the commit log")
    return StoreRecovery(
        clean=opening.clean,
        commit_log_end=log.max_offset,
        truncated_bytes=lost,
        last_store_timestamp=reader.last_store_timestamp,
        read_from=reader.start,
        records_read=reader.count,
        entries_added=queue_recovery.added,
        entries_dropped=dropped,
        damaged_places=len(places) + len(misnamed),
        entries_left_out=sum(map(len, numbers.values())),
    )


def _leave_out_entries(
    queues: dict[tuple[str, int], ConsumeQueue], places: Sequence[DamagedPlace]
) -> dict[tuple[str, int], list[int]]:
    """Let pulls step over the entries of what is left out; gives their numbers."""
    return {
        key: [number for one in places for number in queue.blank_out(one.begin, one.end)]
        for key, queue in queues.items()
    }


def _read_all(
    reader: "_Reader", log: CommitLog, checkpoint: StoreCheckpoint, opening: Opening
) -> list[DamagedPlace]:
    """Read up to the end of the log; gives the damaged places that were left out on the way."""
    places: list[DamagedPlace] = []
    reader.read()
    while (damage := find_damage(log, reader.end)) is not None:
        if not opening.clean and log.mend_blank(reader.end):
            text = f"{name_of(log, reader.end)}: the mark of its end at {reader.end} was torn"
            opening.problems.append(f"{text} and is written again; no message is concerned")
            reader.read()
            continue
        if not opening.clean and is_unsynced_hole(log, damage, checkpoint):
            break
        _refuse_or_leave_out(log, damage, opening)
        places += damage.places
        reader.read()
    return places


def _cut(log: CommitLog, end: int, opening: Opening) -> int:
    """Cut what lies behind the last good record and keep a copy; gives how many bytes it was."""
    kept: list[str] = []
    lost = log.files.used_behind(end)
    text = f"commitlog: {lost} bytes behind {end} are no whole records and were"
    if not opening.undone.attempt(
        lambda: log.files.truncate_to(end, kept), lambda: log.files.end_at(end)
    ):
        opening.problems.append(f"{text} not cut: there is no room for their copy")
    elif lost:
        opening.problems.append(f"{text} cut, kept in {', '.join(kept)}")
        _LOG.warning("%s", opening.problems[-1])
    return lost


def _files_begin_well(log: CommitLog) -> bool:
    """Whether every file but the last begins with a good record or is blank: a cheap look."""
    return all(
        log.behind_blank(start) != start or log.problem_at(start) is None
        for start, _ in log.files.files[:-1]
    )


def _misnamed(log: CommitLog, reader: "_Reader", opening: Opening) -> Sequence[DamagedPlace]:
    """Find records that name a queue to which they do not belong, and leave them out or refuse."""
    places = tuple(
        DamagedPlace(one.offset, one.offset + one.size, one.what)
        for one in reader.queue_recovery.settle(log, reader.end)
    )
    if places:
        behind = sum(1 for _ in log.scan_parts(places[0].end))
        _refuse_or_leave_out(log, Damage(places, behind, 0), opening)
    return places


def _refuse_or_leave_out(log: CommitLog, damage: Damage, opening: Opening) -> None:
    if opening.skip_damage:
        lines = leave_out(log, damage.places)
        opening.problems.extend(lines)
        for line in lines:
            _LOG.warning("%s", line)
        return
    place = damage.places[0]
    more = f" and {len(damage.places) - 1} more places are" if len(damage.places) > 1 else " is"
    raise StoreDamagedError(
        f"{name_of(log, place.begin)}: the record at {place.begin} of the commit log{more} damaged "
        f"({place.what}), with {damage.records_behind} good records behind. Nothing was changed. "
        f"{ways_out(log.files.fs)}"
    )


def _look_for_lost_begin(
    log: CommitLog,
    queues: dict[tuple[str, int], ConsumeQueue],
    checkpoint: StoreCheckpoint,
    opening: Opening,
) -> None:
    """Refuse a log whose first files are gone though nobody let them go, or tell of it.

    A broker that did not leave its mark may have removed them, but never all of them.
    """
    begin, marked = log.min_offset, checkpoint.begin_offset
    if not log.files.files:
        entries = sum(one.max_offset - one.first_offset for one in queues.values())
        is_durable = opening.clean or checkpoint.knows_durable(0, 0)
        if not is_durable or (not entries and checkpoint.flushed_offset <= 0):
            return  # entries may have come to the disk before their first records did
        lost = f"commitlog has no files, but consume queues name {entries} messages in it"
    elif marked < 0:
        if begin:
            opening.problems.append(
                f"commitlog begins at {begin}: another broker removed what was before, or it is "
                "lost; no mark in checkpoint tells which"
            )
        return
    elif begin > marked:
        lost = f"commitlog begins at {begin}, but was left beginning at {marked}: files are lost"
    else:
        return
    if opening.skip_damage:
        opening.problems.append(f"{lost}. The messages in them are lost")
        return
    raise StoreDamagedError(
        f"{lost}. Nothing was changed. Put the files back, or go on without them: "
        f"{ways_out(log.files.fs)}"
    )


def _look_for_lost_end(
    reader: "_Reader",
    queues: dict[tuple[str, int], ConsumeQueue],
    checkpoint: StoreCheckpoint,
    opening: Opening,
) -> None:
    """Refuse a log that ends before messages that were durable once, or tell of it.

    After a clean stop every entry of a queue has its record. After another one, entries may have
    come to the disk before their records, but not records that the check point tells of.
    """
    end, newest_ms = reader.end, reader.last_store_timestamp
    if not opening.clean and not checkpoint.knows_durable(end, newest_ms):
        return
    ghosts = [(key, lost) for key, one in queues.items() if (lost := one.behind(end))]
    if not ghosts:
        return
    (topic, queue_id), _ = ghosts[0]
    text = (
        f"the commit log ends at {end}, but {sum(lost for _, lost in ghosts)} entries of "
        f"consume queues, of {topic} queue {queue_id} for example, name messages behind it: the "
        "end of its last file is lost or damaged"
    )
    if opening.skip_damage:
        opening.problems.append(f"{text}. These entries were dropped")
        return
    raise StoreDamagedError(f"{text}. {ways_out(queues[topic, queue_id].files.fs)}")


class _Reader:
    """One pass over the log from ``start``; ``end`` is where it stopped."""

    def __init__(self, log: CommitLog, queue_recovery: QueueRecovery, start: int) -> None:
        self.start = self.end = start
        self.count = 0
        self.last_store_timestamp = 0
        self.queue_recovery = queue_recovery
        self._log = log

    def read(self) -> None:
        """Check every record from ``end`` on and its queue entry, up to the first bad place.

        Raises ``EntriesMissing`` if entries of earlier records are missing.
        """
        see = self.queue_recovery.see
        for parts in self._log.scan_parts(self.end):
            offset, size, _, _, _, flag, stored, _ = parts
            self.end = offset + size
            self.count += 1
            self.last_store_timestamp = max(self.last_store_timestamp, stored)
            if flag & TRANSACTION_MASK not in NOT_QUEUED:
                see(parts)
        self.end = self._log.behind_blank(self.end)


def _starts(
    log: CommitLog,
    queues: dict[tuple[str, int], ConsumeQueue],
    checkpoint: StoreCheckpoint,
    opening: Opening,
) -> Iterator[int]:
    """Give where to begin reading, the quickest first; the last one is the log's begin."""
    whole = opening.whole or not _files_begin_well(log)
    used = 0 if whole else log.files.data_end() - log.min_offset
    if opening.clean and used > _READ_WHOLE_CLEAN:
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


def _drop_ghosts(
    queue: ConsumeQueue, reader: _Reader, next_offset: int | None, keep_to: int
) -> int:
    """Drop entries of messages that the log does not hold (any more), but none before `keep_to`."""
    if next_offset is not None:
        return queue.drop_from(max(next_offset, keep_to))
    return queue.trim(lambda entry: entry[0] < reader.start, keep_to)
