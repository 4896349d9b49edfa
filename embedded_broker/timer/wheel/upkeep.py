"""Counts of the wheel's timers by topic, found out from the files; and which files may go.

Answers: the counts by topic after a stop that did not save them exactly, or for a second look
while the broker runs; then the loaded slots are what the due heap holds. A recalled timer whose
mark also waits counts no more, as while the broker ran. And how far ahead timers are, where the
wheel stands, and which files of the timer log and of the commit log may go. Must not know: who
asks, when.

Costs about a microsecond for each waiting timer: the topic is taken from the hash in the timer
log; messages are read only for hashes not seen yet, for marks, and for what a mark may hit.

Read on: `timer/upkeep.py` for when a revision comes, `timer/metrics.py` for where the counts are
kept, `engine.py` (`load`), `embedded_broker/lifecycle/aging.py` for who removes old files.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from embedded_broker.timer.metrics import DISTRIBUTION_BOUNDS_S
from embedded_broker.timer.recall import Mark
from embedded_broker.timer.request import TimerMessage, delete_key, is_rootless
from embedded_broker.timer.upkeep import Upkeep
from embedded_broker.timer.wheel.due_heap import EntryKind
from embedded_broker.timer.wheel.slots import NO_SLOT
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE, MAGIC_ROLL, OFFSET_PY_AT, LogEntry
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.tag_hash import java_hash

NO_END_MS: Final = 1 << 62
_TURN: Final = 64
"""Records between two chances to stop."""


def recount(
    state: TimerState, among: AbstractSet[int] | None = None, until_ms: int = NO_END_MS
) -> dict[str, int]:
    """Count the timers that are in the wheel or still to enter it, by real topic.

    With `among` only messages at these offsets. None of them lies in a slot behind `until_ms`, and
    none of their marks: what waits for later costs nothing.
    """
    counting = _recount_in_turns(state, among, until_ms)
    while True:
        try:
            next(counting)
        except StopIteration as end:
            counts: dict[str, int] = end.value
            return counts


def _recount_in_turns(
    state: TimerState, among: AbstractSet[int] | None = None, until_ms: int = NO_END_MS
) -> Generator[None, None, dict[str, int]]:
    """Count as `recount`, with chances to stop; right only if nothing changes meanwhile."""
    marks = state.due_heap.copy_of_marks()
    found: Counter[int] = Counter()
    for number, record in enumerate(_waiting_records(state, until_ms)):
        if not number % _TURN:
            yield
        _, _, magic, _, _, offset_py, size_py, topic_hash, _ = record
        if magic & MAGIC_DELETE:
            _note_mark(marks, state.message(offset_py, size_py))
        elif among is None or offset_py in among:
            found[topic_hash] += 1
    others: list[TimerMessage | None] = []
    for unread in state.unread():
        _note_mark(marks, unread)
        if among is None or unread.offset_py in among:
            others.append(unread)

    counts: Counter[str] = Counter()
    topics = _topics_by_hash(state.metrics.topics)
    known = {topic_hash: topics.get(topic_hash) for topic_hash in found}
    is_simple = not marks and None not in known.values()
    if is_simple:
        counts.update({topic: found[topic_hash] for topic_hash, topic in known.items() if topic})
    for number, record in enumerate(() if is_simple else _waiting_records(state, until_ms)):
        if not number % _TURN:
            yield
        _, _, magic, write_ms, delay_ms, offset_py, size_py, topic_hash, _ = record
        if magic & MAGIC_DELETE or (among is not None and offset_py not in among):
            continue
        topic = topics.get(topic_hash)
        # The slot is the one that marks name, but for hops and where the clock was set back.
        elsewhere = magic & MAGIC_ROLL or delay_ms == 0
        may_be_hit = bool(marks) and (elsewhere or write_ms + delay_ms in marks)
        if topic is None or may_be_hit:
            counted = _counted_topic(marks, state.message(offset_py, size_py))
            if counted is None:
                continue
            topic = counted
            topics.setdefault(topic_hash, topic)
        counts[topic] += 1
    for number, entry in enumerate(list(state.due_heap)):
        if not number % _TURN:
            yield
        if entry.kind != EntryKind.ROLL_MARK and (among is None or entry.offset_py in among):
            others.append(state.message(entry.offset_py, entry.size_py))
    for message in others:
        topic = _counted_topic(marks, message)
        if topic is not None:
            counts[topic] += 1
    return counts


def _topics_by_hash(known: list[str]) -> dict[int, str | None]:
    """Tell topics by their hash; None where two share one, so that the message is read."""
    topics: dict[int, str | None] = {}
    for topic in known:
        topic_hash = java_hash(topic)
        topics[topic_hash] = None if topic_hash in topics else topic
    return topics


def slots_ahead(state: TimerState, until_ms: int = NO_END_MS) -> Iterator[int]:
    """Give the times of the slots up to this one that wait to be loaded, the first one first.

    May be gone through in turns.
    """
    at_ms = state.curr_read_ms
    while (slot_ms := state.wheel.waiting_after(at_ms, state.curr_read_ms)) is not None:
        if slot_ms > until_ms:
            return
        yield slot_ms
        at_ms = slot_ms + state.precision_ms


def slot_records(state: TimerState, slot_ms: int) -> Iterator[LogEntry]:
    """Give the records of a slot whose messages are not done, newest first, each message once."""
    done = state.due_heap.done
    seen: set[int] = set()
    position = state.wheel.last_pos(slot_ms)
    while position >= 0:
        found: list[LogEntry] = []
        position = state.log.walk(position, slot_ms, _TURN, found)
        for record in found:
            offset_py = record[OFFSET_PY_AT]
            if offset_py not in done and offset_py not in seen:
                seen.add(offset_py)
                yield record


def _waiting_records(state: TimerState, until_ms: int) -> Iterator[LogEntry]:
    for slot_ms in slots_ahead(state, until_ms):
        yield from slot_records(state, slot_ms)


def _note_mark(marks: dict[int, dict[str, list[Mark]]], message: TimerMessage | None) -> None:
    if message is not None and message.request.deletes is not None:
        mark = Mark.of(message.properties, message.offset_py)
        by_key = marks.setdefault(message.request.out_ms, {})
        by_key.setdefault(message.request.deletes, []).append(mark)


def _counted_topic(
    marks: dict[int, dict[str, list[Mark]]], message: TimerMessage | None
) -> str | None:
    """Give the topic of a timer that counts: readable, no mark, and hit by no later mark."""
    if message is None or message.request.deletes is not None:
        return None
    request, root = message.request, message.root
    key = delete_key(request.real_topic, message.properties.get(Prop.UNIQ_KEY, ""))
    rootless = is_rootless(message.properties)
    for mark in marks.get(request.out_ms, {}).get(key, ()):
        if mark.root > root and (rootless or mark.names(root)):
            return None
    return request.real_topic


def distances(state: TimerState, now_ms: int) -> Iterator[tuple[int, int] | None]:
    """Give how far ahead timers are, and how many; None where it may be interrupted.

    From the numbers of the slots: a timer on its way to a later slot counts where it lies.
    """
    now_ms = state.floor(now_ms)
    end_ms = now_ms + DISTRIBUTION_BOUNDS_S[-1] * 1000
    for loaded_ms, number in Counter(entry.slot_ms for entry in state.due_heap).items():
        yield loaded_ms - now_ms, number
    yield None
    count = 0
    slot_ms = state.wheel.waiting_after(now_ms, state.curr_read_ms)
    while slot_ms is not None and slot_ms < end_ms:
        yield slot_ms - now_ms, state.wheel.get_num(slot_ms)
        count += 1
        if not count % _TURN:
            yield None
        slot_ms = state.wheel.waiting_after(slot_ms + state.precision_ms, state.curr_read_ms)


class TimerUpkeep(Upkeep[TimerState]):
    """The upkeep of one wheel."""

    def _version(self) -> tuple[int, ...]:
        state = self._state
        return state.metrics.counter, state.queue.max_offset, state.curr_read_ms

    def _count(self) -> Generator[None, None, dict[str, int]]:
        return _recount_in_turns(self._state)

    def begin_cleaning(self) -> Callable[[], None] | None:
        """Let go of log files whose messages have left the commit log; run the result outside."""
        return self._state.log.begin_clean(self._state.store.log.min_offset)

    def _position(self, now_ms: int) -> str:
        state = self._state
        return (
            f"timer progress: read {now_ms - state.curr_read_ms} ms behind, queue offset "
            f"{state.curr_queue_offset}, {state.metrics.total} pending, "
            f"{state.lost.total()} dropped"
        )


class WheelNeededOffsets:
    """Which commit-log offsets waiting timers still need; every step is made under the door.

    No message of a waiting timer lies below all of them, so older files of the log may go. A
    slot's records lie in the timer log in the order in which their messages lie in the commit log,
    so the first of each slot is enough.
    """

    def __init__(self, state: TimerState) -> None:
        self._state = state

    def ahead(self) -> Iterator[int]:
        """Give an offset for each slot that is not loaded; may be gone through in turns.

        What enters the wheel meanwhile lies behind the log's end at the begin. What is loaded
        meanwhile is among `now`, which is to be asked last.
        """
        for slot_ms in slots_ahead(self._state):
            offset = self._oldest(slot_ms)
            if offset is not None:
                yield offset

    def now(self) -> list[int]:
        """Give the offsets of what is loaded, on its way, or not enqueued yet.

        Where copies of what was released lie does not count: if such a copy is old enough to go,
        so is its source, which lies before it.
        """
        state, due_heap = self._state, self._state.due_heap
        found = [entry.offset_py for entry in due_heap]
        for slot_ms in (*due_heap.loaded, *due_heap.held):
            offset = self._oldest(slot_ms)
            if offset is not None:
                found.append(offset)
        entry = state.queue.entry(state.curr_queue_offset)
        if entry is not None:
            found.append(entry[0])
        for at in [one for one in due_heap.kept_for if one < state.curr_queue_offset]:
            del due_heap.kept_for[at]
        return [*found, *due_heap.kept_for.values()]

    def _oldest(self, slot_ms: int) -> int | None:
        """Give the offset of a slot's first record that the timer log still has."""
        slot = self._state.wheel.get_slot(slot_ms)
        if slot is NO_SLOT:
            return None
        first = self._state.log.read(slot.first_pos) if slot.first_pos >= 0 else None
        if first is not None and first.slot_ms == slot_ms:
            return first.offset_py
        oldest = None
        for _, record in self._state.log.chain(slot.last_pos, slot_ms):
            oldest = record.offset_py
        return oldest
