"""Recovery of the sliced engine: what waits, and what was released before the broker stopped.

Answers: where each slice's log ends, which messages are in it although the saved offset does not
say so, and what was released already. Three facts make it exact:

* What the saved progress accounts for is durable, so each log is trusted up to its saved end. A
  record behind that counts only if the commit log holds the very same bytes at the offset that the
  record names; at the first that fails, the log is cut. What was cut is sent on its way again, for
  its entry of the inbound queue is not accounted for either.
* A released copy names its source. Those in the commit log behind the saved position are `done`,
  and stay so until the last of their seconds is over, also through another crash.
* Late timers, which lie in no slice, are named by their queue offsets.

A log that does not hold what was flushed is mended (`integrity.py`), and what is missing in it is
filled again from the inbound queue, as far as the commit log still holds it.

Must not know: how the state came about. Read on: `flush.py` for the order that this relies on.
"""

from embedded_broker.store.commit_log import CommitLog
from embedded_broker.timer.delivery import released_since
from embedded_broker.timer.outcomes import TimerRecovery
from embedded_broker.timer.request import parse_request
from embedded_broker.timer.slices.dcommit_log import SliceLog, SliceSum, remove_slice
from embedded_broker.timer.slices.dispatch import hold_late
from embedded_broker.timer.slices.integrity import find_damage, mend, weigh
from embedded_broker.timer.slices.progress import SliceProgress
from embedded_broker.timer.slices.record import SECOND_MS, Glance, glance, second_of, source_of
from embedded_broker.timer.slices.state import SliceState
from rocketmq_py.errors import RecordError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.message_codec import decode_record

_LOG = get_logger(__name__)


def recover(
    state: SliceState,
    progress: SliceProgress | None,
    *,
    first_offset: int,
    now_ms: int,
    skip_damage: bool = False,
) -> TimerRecovery:
    """Set every pointer of the state. `first_offset` is where a queue without progress begins.

    Raises StoreError, and with `skip_damage` not for timers that are lost. Whatever it changes on
    the disk is durable when it returns.
    """
    numbers = state.log.found_slices()
    whole_log = progress is None and bool(numbers)
    if progress is None:
        # Nothing is known of what was fired: begin with the first slice that is left.
        begin = numbers[0] * state.length if numbers else now_ms // SECOND_MS
        progress = SliceProgress(
            delay_offset=first_offset,
            current_second=begin,
            length=state.length,
            inbound=state.inbound,
        )
    state.current_second = progress.current_second
    queue = state.queue
    low, high = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
    state.queue_offset = max(low, min(progress.delay_offset, high))
    scanned, lost = _open_slices(state, numbers, progress, skip_damage=skip_damage)
    note_released(state, max(state.store.log.min_offset, progress.scan_pos))
    state.cell_scan_pos = state.store.log.max_offset
    if not state.damaged_slices:
        _read_late(state, progress)
    if lost:
        _LOG.warning("slice logs cut at their last good record: %d bytes given up", lost)
    return TimerRecovery(records_scanned=scanned, truncated_bytes=lost, whole_log=whole_log)


# --- the logs ----------------------------------------------------------------------------------


def _open_slices(
    state: SliceState, numbers: list[int], progress: SliceProgress, *, skip_damage: bool
) -> tuple[int, int]:
    """Find the end of every log; slices that are over go. Gives records read and bytes cut."""
    ends, sums = progress.ends, progress.sums
    current = state.slice_of(state.current_second)
    is_settled = state.store.was_clean and progress.clean is not None
    known = {one for one in (*numbers, *ends, *sums) if one >= current}
    damages = find_damage(state, known, ends, sums, whole=not is_settled)
    mended = {one.number: one.sources for one in damages}
    if damages:
        problems = weigh(state, damages, skip=skip_damage)
        for text in problems:
            _LOG.error("%s", text)
        for damage in damages:
            mend(state, damage)
        state.store.problems += problems
        state.damaged_slices = len(damages)
        # Everything that is still in the queue is sent on its way once more, but for what has left:
        # the progress tells that, as when a follower takes over from a master.
        state.queue_offset = 0 if state.queue is None else state.queue.min_offset
        state.master = progress
        ends, is_settled = {}, False
    scanned = lost = 0
    for number in numbers:
        if number < current:
            remove_slice(state.store.fs, number)
            continue
        known_sum = sums.get(number, SliceSum())
        if is_settled and ends.get(number) and known_sum.end == ends[number]:
            state.log.slices[number] = SliceLog(known_sum.end, known_sum.records, known_sum)
            continue
        sources, cut = mended.get(number), 0
        if sources is None:
            sources, cut = _open_slice(state, number, ends.get(number, 0), known_sum)
        if sources:
            state.already_logged |= sources
            state.logged_from[number] = ends.get(number, 0)
            state.logged_until = state.queue_end
        scanned += len(sources)
        lost += cut
    return scanned, lost


def _open_slice(
    state: SliceState, number: int, start: int, known: SliceSum
) -> tuple[set[int], int]:
    """Find the end of a log; gives the sources from `start` on and how many bytes were cut.

    Its bytes up to `start` are accounted for, those up to the end of the sum are known to be good.
    Nothing is kept of what is cut: it is still in the inbound queue.
    """
    log = state.log
    whole = len(log.files_of(number)) * log.file_size
    log.slices[number] = found = SliceLog(end=whole)
    sources: set[int] = set()
    durable_to = max(start, known.end)
    end, records = durable_to, known.records
    for position, record in log.scan(number, min(start, known.end)):
        if position >= durable_to:
            seen = good_record(state.store.log, record)
            if seen is None or state.slice_of(seen.second) != number:
                break
        records += position >= known.end
        if position >= start:
            sources.add(source_of(record))
        end = max(end, position + len(record))
    found.end = end = log.skip_blank(number, end) if end < whole else end
    lost = log.truncate(number, end, durable_to=durable_to)
    if end == 0:
        log.drop(number)
        remove_slice(state.store.fs, number)
    else:
        found.records = records
        found.summed = log.sum_to(number, end, records, known)
    return sources, lost


def good_record(log: CommitLog, record: memoryview) -> Glance | None:
    """Look at a record that nothing accounts for.

    None unless it is whole, and a copy of what the commit log holds.
    """
    try:
        whole = decode_record(record)
    except RecordError:
        return None
    seen = glance(record)
    if seen is None or b"\0" in whole.properties_bytes:
        return None
    if seen.source < log.min_offset:
        return seen
    there = log.read(seen.source, seen.size)
    return seen if there is not None and there == record else None


# --- what was released -------------------------------------------------------------------------


def note_released(state: SliceState, start: int) -> None:
    """Take over as `done` the sources of all copies that were released since a log offset."""
    released = 0
    for source, _, properties in released_since(state.store.log, start):
        state.done.add(source)
        released += 1
        request = parse_request(properties)
        if request is not None:
            second = second_of(request.out_ms)
            state.old_until_second = max(state.old_until_second, second)
    if released:
        state.old_scan_pos = start
        state.old_queue_end = state.queue_end
        _LOG.info("timers released before the last stop and not accounted for: %d", released)


def _read_late(state: SliceState, progress: SliceProgress) -> None:
    """Read the entries again that were held although their second was over."""
    for queue_offset in sorted(progress.late):
        seen = state.glance_at(queue_offset)
        if seen is None:
            state.lost["unreadable"] += 1
        elif seen.source not in state.done:
            hold_late(state, seen, queue_offset)
