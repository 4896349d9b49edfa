"""Change of role: which timers another broker has released, and how far this one has come.

Answers: what a store that takes over must not release again. What a master of ours released while
this store followed is proven by its copies, which are in our log, too. What a slave released while
it acted for us lies in the logs of others: it tells up to when it has come, and to which entry of
the timer topic's queue. Must not know: who asks, the door.

Read on: `engine.py` for the calls, `recovery.py` for the same proof after a stop.
"""

from heapq import heapify

from embedded_broker.timer.delivery import released_since
from embedded_broker.timer.outcomes import TimerProgress
from embedded_broker.timer.request import parse_request
from embedded_broker.timer.wheel.due_heap import OFFSET_AT, EntryKind
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE, MAGIC_ROLL
from embedded_broker.timer.wheel.upkeep import NO_END_MS, recount, slot_records, slots_ahead


def take_over(state: TimerState, now_ms: int) -> None:
    """Let everything count as released whose copy came into our log while we followed."""
    begin = state.due_heap.release_scan_pos(state.store.log.max_offset)
    if state.old_scan_pos is not None:
        begin = min(begin, state.old_scan_pos)
    # Slots that are loaded later have their copies there, too: a crash must find them again.
    state.old_scan_pos = begin
    _keep_until(state, now_ms)
    released: set[int] = set()
    last_ms = state.displaced_until_ms
    for source, _, properties in released_since(state.store.log, begin):
        released.add(source)
        request = parse_request(properties)
        last_ms = max(last_ms, NO_END_MS if request is None else request.out_ms)
    _forget(state, released, last_ms, now_ms)


def progress(state: TimerState, now_ms: int) -> TimerProgress:
    """Say up to when everything that entered has been released; not while an answer is missing.

    What of the loaded slots has not been released is in memory.
    """
    until_ms = min(now_ms, state.curr_read_ms + state.precision_ms)
    heap = state.due_heap.heap
    if not heap or heap[0][0] > until_ms:
        return TimerProgress(until_ms, state.curr_queue_offset)
    due_ms, root, *_ = heap[0]
    return TimerProgress(due_ms - 1, state.curr_queue_offset, root)


def pass_released(state: TimerState, other: TimerProgress, now_ms: int) -> int:
    """Let count as released what another broker has released; gives how many these are.

    It is noted until their slots are passed: a crash must not bring them back.
    """
    end_py = _begin_of(state, other.queue_offset)
    found: set[int] = set()
    note = state.due_heap.note_left
    last_ms = max(other.until_ms, state.displaced_until_ms) + state.precision_ms
    for slot_ms in (*state.due_heap.loaded, *slots_ahead(state, last_ms)):
        is_over = slot_ms + state.precision_ms <= other.until_ms
        for _, _, magic, _, _, offset_py, size_py, _, _ in slot_records(state, slot_ms):
            if magic & MAGIC_DELETE or offset_py >= end_py:
                continue
            # Only what hops on from a slot is due behind its end: the others are not read.
            if magic & MAGIC_ROLL or not is_over:
                message = state.message(offset_py, size_py)
                if message is None or not other.includes(state.release_ms(message), message.root):
                    continue
            found.add(offset_py)
            note(slot_ms, offset_py)
    for message in state.unread():
        is_known = message.offset_py < end_py and message.request.deletes is None
        if is_known and other.includes(state.release_ms(message), message.root):
            found.add(message.offset_py)
            note(state.floor(now_ms), message.offset_py)
    for entry in state.due_heap:
        is_timer = entry.kind <= EntryKind.CARRIED and entry.offset_py < end_py
        if is_timer and other.includes(entry.due_ms, entry.root):
            found.add(entry.offset_py)
            note(max(entry.slot_ms, state.floor(now_ms)), entry.offset_py)
    found -= state.due_heap.done
    _forget(state, found, last_ms, now_ms)
    if state.old_scan_pos is None:
        state.old_scan_pos = state.store.log.max_offset
    _keep_until(state, max(now_ms, other.until_ms))
    return len(found)


def _begin_of(state: TimerState, queue_offset: int) -> int:
    """Give where the message of an entry begins; the log's end for one that is not there yet."""
    queue = state.queue
    if queue_offset >= queue.max_offset:
        return state.store.log.max_offset
    entry = queue.entry(queue_offset)
    return state.store.log.min_offset if entry is None else entry[0]


def _keep_until(state: TimerState, until_ms: int) -> None:
    """Know what was released until the slots up to this time are passed."""
    end_ms = state.floor(until_ms) + state.precision_ms
    state.old_scan_until_ms = max(state.old_scan_until_ms, end_ms)


def _forget(state: TimerState, offsets: set[int], last_ms: int, now_ms: int) -> None:
    """Release none of these any more, and count them no more. What is loaded has been read.

    None of them, and nothing that may have removed one, lies in a slot behind `last_ms`.
    """
    due_heap = state.due_heap
    new = offsets - due_heap.done
    if not new:
        return
    # What a mark has taken out of the counts already is not among these.
    fewer = recount(state, new, last_ms)
    due_heap.done |= new
    due_heap.left = None  # some of them are in slots that are not loaded
    heap = due_heap.heap
    for entry in heap:
        if entry[OFFSET_AT] in new:
            due_heap.finish(entry)
    heap[:] = [entry for entry in heap if entry[OFFSET_AT] not in new]
    heapify(heap)
    for topic, count in fewer.items():
        state.metrics.add(topic, -count, now_ms, changes=count)
