"""How many timers wait, found out from the files.

Answers: the counts by topic after a stop that did not save them exactly. A recalled timer whose
mark also waits counts no more, as while the broker ran. Must not know: pointers that move.

Costs about a microsecond for each waiting timer: the topic is taken from the hash in the timer
log; messages are read only for hashes not seen yet, for marks, and for what a mark may hit.

Read on: `metrics.py` for where the counts are kept, `engine.py` (`load`) for when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from embedded_broker.timer.front import Mark
from embedded_broker.timer.request import delete_key, parse_request, root_offset, victim_root
from embedded_broker.timer.state import TimerState
from embedded_broker.timer.timer_log import MAGIC_DELETE, MAGIC_ROLL, TimerLogRecord
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.tag_hash import java_hash

__all__ = ["recount"]


def recount(state: TimerState) -> dict[str, int]:
    """Count the timers that are in the wheel or still to enter it, by real topic."""
    marks = state.front.copy_of_marks()
    for record in _waiting_records(state):
        if record.magic & MAGIC_DELETE:
            _note_mark(marks, state.timer_record(record.offset_py, record.size_py))
    unread = list(_unread_messages(state))
    for message in unread:
        _note_mark(marks, message)

    counts: Counter[str] = Counter()
    topics = _topics_by_hash(state.metrics.topics)
    for record in _waiting_records(state):
        if record.magic & MAGIC_DELETE:
            continue
        topic = topics.get(record.topic_hash)
        # The slot is the one that marks name, but for hops and where the clock was set back.
        elsewhere = record.magic & MAGIC_ROLL or record.delay_ms == 0
        may_be_hit = bool(marks) and (elsewhere or record.slot_ms in marks)
        if topic is None or may_be_hit:
            counted = _counted_topic(marks, state.timer_record(record.offset_py, record.size_py))
            if counted is None:
                continue
            topic = counted
            topics.setdefault(record.topic_hash, topic)
        counts[topic] += 1
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


def _waiting_records(state: TimerState) -> Iterator[TimerLogRecord]:
    done = state.front.done
    for slot in state.wheel.used_slots():
        if slot.time_ms < state.curr_read_ms:
            continue
        seen: set[int] = set()
        for _, record in state.log.chain(slot.last_pos, slot.time_ms):
            if record.offset_py not in done and record.offset_py not in seen:
                seen.add(record.offset_py)
                yield record


def _unread_messages(state: TimerState) -> Iterator[MessageRecord]:
    """Give the messages that will be enqueued first of all."""
    queue = state.store.consume_queue(TIMER_TOPIC, 0)
    if queue is None:
        return
    for _, (offset, size, _) in queue.iterate(state.curr_queue_offset):
        if offset not in state.already_logged and offset not in state.front.done:
            message = state.timer_record(offset, size)
            if message is not None:
                yield message


def _note_mark(marks: dict[int, dict[str, list[Mark]]], message: MessageRecord | None) -> None:
    request = None if message is None else parse_request(message.properties)
    if message is None or request is None or request.deletes is None:
        return
    mark = Mark(
        root_offset(message.properties, message.commit_log_offset),
        victim_root(message.properties),
    )
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
    for mark in marks.get(request.out_ms, {}).get(key, ()):
        if mark.root > root and mark.victim_root in {None, root}:
            return None
    return request.real_topic
