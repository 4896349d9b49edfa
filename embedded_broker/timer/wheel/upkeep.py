"""The upkeep of the wheel: how many timers wait, found out from the files.

Answers: the counts by topic after a stop that did not save them exactly, or for a second look
while the broker runs; then the loaded slots are what the due heap holds. A recalled timer whose
mark also waits counts no more, as while the broker ran. And how far ahead timers are, where the
wheel stands, and which log files may go. Must not know: who asks, when.

Costs about a microsecond for each waiting timer: the topic is taken from the hash in the timer
log; messages are read only for hashes not seen yet, for marks, and for what a mark may hit.

Read on: `timer/upkeep.py` for when a revision comes, `timer/metrics.py` for where the counts are
kept, `engine.py` (`load`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Final

from embedded_broker.timer.metrics import DISTRIBUTION_BOUNDS_S
from embedded_broker.timer.recall import Mark
from embedded_broker.timer.request import (
    delete_key,
    is_rootless,
    parse_request,
    root_offset,
)
from embedded_broker.timer.upkeep import Upkeep
from embedded_broker.timer.wheel.due_heap import Kind
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE, MAGIC_ROLL, OFFSET_PY_AT, LogEntry
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.tag_hash import java_hash

__all__ = ["TimerUpkeep", "distances", "recount"]

_TURN: Final = 64
"""Records between two chances to stop."""


def recount(state: TimerState) -> dict[str, int]:
    """Count the timers that are in the wheel or still to enter it, by real topic."""
    counting = _recount_in_turns(state)
    while True:
        try:
            next(counting)
        except StopIteration as end:
            counts: dict[str, int] = end.value
            return counts


def _recount_in_turns(state: TimerState) -> Generator[None, None, dict[str, int]]:
    """Count as `recount`, with chances to stop; right only if nothing changes meanwhile."""
    marks = state.due_heap.copy_of_marks()
    found: Counter[int] = Counter()
    for number, record in enumerate(_waiting_records(state)):
        if not number % _TURN:
            yield
        _, _, magic, _, _, offset_py, size_py, topic_hash, _ = record
        if magic & MAGIC_DELETE:
            _note_mark(marks, state.timer_record(offset_py, size_py))
        else:
            found[topic_hash] += 1
    unread: list[MessageRecord | None] = list(_unread_messages(state))
    for message in unread:
        _note_mark(marks, message)

    counts: Counter[str] = Counter()
    topics = _topics_by_hash(state.metrics.topics)
    known = {topic_hash: topics.get(topic_hash) for topic_hash in found}
    is_simple = not marks and None not in known.values()
    if is_simple:
        counts.update({topic: found[topic_hash] for topic_hash, topic in known.items() if topic})
    for number, record in enumerate(() if is_simple else _waiting_records(state)):
        if not number % _TURN:
            yield
        _, _, magic, write_ms, delay_ms, offset_py, size_py, topic_hash, _ = record
        if magic & MAGIC_DELETE:
            continue
        topic = topics.get(topic_hash)
        # The slot is the one that marks name, but for hops and where the clock was set back.
        elsewhere = magic & MAGIC_ROLL or delay_ms == 0
        may_be_hit = bool(marks) and (elsewhere or write_ms + delay_ms in marks)
        if topic is None or may_be_hit:
            counted = _counted_topic(marks, state.timer_record(offset_py, size_py))
            if counted is None:
                continue
            topic = counted
            topics.setdefault(topic_hash, topic)
        counts[topic] += 1
    for number, entry in enumerate(list(state.due_heap)):
        if not number % _TURN:
            yield
        if entry.kind != Kind.ROLL_MARK:
            unread.append(state.timer_record(entry.offset_py, entry.size_py))
    for message in unread:
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


def _waiting_records(state: TimerState) -> Iterator[LogEntry]:
    done = state.due_heap.done
    for slot in state.wheel.used_slots():
        if slot.time_ms < state.curr_read_ms or slot.time_ms in state.due_heap.loaded:
            continue
        seen: set[int] = set()
        position = slot.last_pos
        while position >= 0:
            found: list[LogEntry] = []
            position = state.log.walk(position, slot.time_ms, _TURN, found)
            for record in found:
                offset_py = record[OFFSET_PY_AT]
                if offset_py not in done and offset_py not in seen:
                    seen.add(offset_py)
                    yield record


def _unread_messages(state: TimerState) -> Iterator[MessageRecord]:
    """Give the messages that will be enqueued first of all."""
    queue = state.store.consume_queue(TIMER_TOPIC, 0)
    if queue is None:
        return
    for _, (offset, size, _) in queue.iterate(state.curr_queue_offset):
        if offset not in state.already_logged and offset not in state.due_heap.done:
            message = state.timer_record(offset, size)
            if message is not None:
                yield message


def _note_mark(marks: dict[int, dict[str, list[Mark]]], message: MessageRecord | None) -> None:
    request = None if message is None else parse_request(message.properties)
    if message is None or request is None or request.deletes is None:
        return
    mark = Mark.of(message.properties, message.commit_log_offset)
    marks.setdefault(request.out_ms, {}).setdefault(request.deletes, []).append(mark)


def _counted_topic(
    marks: dict[int, dict[str, list[Mark]]], message: MessageRecord | None
) -> str | None:
    """Give the topic of a timer that counts: readable, no mark, and hit by no later mark."""
    request = None if message is None else parse_request(message.properties)
    if message is None or request is None or request.deletes is not None:
        return None
    root = root_offset(message.properties, message.commit_log_offset)
    key = delete_key(request.real_topic, message.properties.get(Prop.UNIQ_KEY, ""))
    rootless = is_rootless(message.properties)
    for mark in marks.get(request.out_ms, {}).get(key, ()):
        if mark.root > root and (rootless or mark.victim_root in {None, root}):
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
        queue = state.store.queues.get((TIMER_TOPIC, 0))
        end = 0 if queue is None else queue.max_offset
        return state.metrics.counter, end, state.curr_read_ms

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
