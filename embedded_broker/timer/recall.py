"""How a pending timer is taken back.

Answers: which timers a recall hits, and what the delete mark looks like that removes them: a
message of the timer topic that goes to the slot of its victim and names it. Must not know:
requests and connections. Two callers: request RECALL_MESSAGE (370), whose checks and message are
those of `org.apache.rocketmq.broker.processor.RecallMessageProcessor`, and
`broker.timers.recall`, which finds the copies by their unique id and works until the release
itself.

Read on: `rocketmq_py/protocol/handles.py` for the handle, `timer/wheel/due_heap.py` for how marks
work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from embedded_broker.store.inner import InnerMessage
from embedded_broker.timer.request import (
    TimerRequest,
    delete_key,
    is_rootless,
    parse_request,
    root_offset,
    source_offset,
    victim_root,
)
from embedded_broker.timer.wheel.due_heap import Mark
from embedded_broker.timer.wheel.state import TimerState
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop

__all__ = [
    "RECALL_TAG",
    "PendingCopy",
    "RecallOutcome",
    "RecallRefusal",
    "check_handle",
    "delete_message",
    "find_copies",
    "keep_passed_marks",
    "mark_message",
    "marks_of",
    "slots_with_marks",
]

RECALL_TAG: Final = "_RECALL_TAG_"
"""TAGS of every delete mark (`MessageConst.RECALL_MESSAGE_TAG` of the original)."""
_BODY: Final = b"0"
_ALL_TIME_MS: Final = 2**63 - 1
_MOST_COPIES: Final = 100_000
_ROLL_DIGITS: Final = 9


class RecallOutcome(Enum):
    """What `broker.timers.recall` did."""

    RECALLED = "recalled"
    ALREADY_DUE = "already due"
    UNKNOWN = "unknown"


class RecallRefusal(NamedTuple):
    """The answer to a request 370 that may not be carried out."""

    code: ResponseCode
    remark: str


# --- request 370 -----------------------------------------------------------------------------


def check_handle(
    handle: RecallHandle,
    *,
    topic: str,
    broker_name: str,
    now_ms: int,
    max_delay_sec: int,
) -> RecallRefusal | None:
    """Check a decoded handle against the request: the last four checks of the original.

    Those before (recall enabled, role, permission, topic known) need the broker and belong to
    the handler; an undecodable handle is ILLEGAL_OPERATION too.
    """
    if topic != handle.topic:
        return _illegal(f"topic not match, the handle is of {handle.topic}")
    if broker_name != handle.broker_name:
        return _illegal(
            f"broker service not available, the handle is of {handle.broker_name}, "
            f"this is {broker_name}"
        )
    left_ms = handle.timestamp_ms - now_ms
    if not 0 < left_ms < max_delay_sec * 1000:
        return _illegal(
            f"timestamp invalid, {left_ms} ms are left and must be more than 0 and less than "
            f"{max_delay_sec * 1000} (timerMaxDelaySec)"
        )
    return None


def delete_message(
    handle: RecallHandle,
    *,
    producer_group: str | None,
    now_ms: int,
    born_host: bytes,
) -> InnerMessage:
    """Build the message that request 370 puts; admission sends it into the victim's slot.

    It removes every copy of the id in that slot, whether it came before or after, and is never
    delivered.
    """
    properties = {
        Prop.TAGS: RECALL_TAG,
        Prop.TIMER_DEL_UNIQKEY: delete_key(handle.topic, handle.uniq_key),
        Prop.UNIQ_KEY: handle.uniq_key,
        Prop.TIMER_DELIVER_MS: str(handle.timestamp_ms),
        Prop.BORN_TIMESTAMP: str(now_ms),
        Prop.TRACE_CONTEXT: "",
    }
    if producer_group:
        properties[Prop.PGROUP] = producer_group
    return InnerMessage(
        handle.topic, 0, _BODY, properties, born_timestamp=now_ms, born_host=born_host
    )


def _illegal(what: str) -> RecallRefusal:
    return RecallRefusal(ResponseCode.ILLEGAL_OPERATION, f"recall failed, {what}")


# --- exact recall ----------------------------------------------------------------------------


class PendingCopy(NamedTuple):
    """The newest copy of a timer in the timer topic, and whether it still waits.

    After rolls of a real broker, which say nothing of earlier copies, `root` is the first one
    from where on the copies name it.
    """

    root: int
    offset_py: int
    request: TimerRequest
    unique_key: str
    waits: bool
    marked_by: int | None
    """Offset of the first mark that hits it."""
    is_rootless: bool
    """Whether marks hit it by its key alone."""

    def is_meant(self, victim: int | None) -> bool:
        """Say whether a mark of its key and slot removes it; None: one that names no victim."""
        return self.is_rootless or victim in {None, self.root}


def find_copies(state: TimerState, unique_key: str, topic: str | None = None) -> list[PendingCopy]:
    """Find every timer that was sent with this id, oldest first; `topic` None means any."""
    newest: dict[int, tuple[MessageRecord, TimerRequest]] = {}
    marks: list[tuple[int, MessageRecord, TimerRequest]] = []
    for record in _messages_of(state, unique_key, TIMER_TOPIC):
        request = parse_request(record.properties)
        if request is None:
            continue
        root = root_offset(record.properties, record.commit_log_offset)
        if request.deletes is not None:
            marks.append((root, record, request))
        elif topic is None or request.real_topic == topic:
            before = _rolled_by_other(newest, record, request)
            if before is not None:
                del newest[before]
            newest[root] = (record, request)
    in_memory: set[int] | None = None
    copies = []
    for root, (record, request) in sorted(newest.items()):
        if request.out_ms < state.curr_read_ms + 2 * state.precision_ms and in_memory is None:
            in_memory = {entry.offset_py for entry in state.due_heap}
        key = delete_key(request.real_topic, unique_key)
        waits = _waits(state, record, request, in_memory)
        offset_py, rootless = record.commit_log_offset, is_rootless(record.properties)
        copy = PendingCopy(root, offset_py, request, unique_key, waits, None, rootless)
        hits = [
            mark_root
            for mark_root, mark, mark_request in marks
            if mark_request.deletes == key
            and mark_request.out_ms == request.out_ms
            and copy.is_meant(victim_root(mark.properties))
        ]
        copies.append(copy._replace(marked_by=min(hits, default=None)))
    return copies


def _rolled_by_other(
    newest: Mapping[int, tuple[MessageRecord, TimerRequest]],
    record: MessageRecord,
    request: TimerRequest,
) -> int | None:
    """Find the copy that a real broker rolled into this one: the oldest with one roll less."""
    if not is_rootless(record.properties):
        return None
    replaced, rolls = victim_root(record.properties), _rolls(record)
    for root, (before, asked) in newest.items():
        if (
            asked[:2] == request[:2]
            and victim_root(before.properties) == replaced
            and _rolls(before) == rolls - 1
        ):
            return root
    return None


def _rolls(record: MessageRecord) -> int:
    text = record.properties.get(Prop.TIMER_ROLL_TIMES, "0")
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _ROLL_DIGITS else 0


def slots_with_marks(state: TimerState, unique_key: str) -> tuple[set[int], set[int]]:
    """Give the slots with a mark of this id: all of them, and those whose mark spares no copy."""
    marked: set[int] = set()
    removes_all: set[int] = set()
    for record in _messages_of(state, unique_key, TIMER_TOPIC):
        request = parse_request(record.properties)
        if request is not None and request.deletes is not None:
            marked.add(request.out_ms)
            if victim_root(record.properties) is None:
                removes_all.add(request.out_ms)
    return marked, removes_all


def marks_of(state: TimerState, unique_key: str) -> Iterator[tuple[TimerRequest, Mark]]:
    """Go through the marks that were stored for an id, also those that have done their work."""
    for record in _messages_of(state, unique_key, TIMER_TOPIC):
        request = parse_request(record.properties)
        if request is not None and request.deletes is not None:
            root = root_offset(record.properties, record.commit_log_offset)
            yield request, Mark(root, victim_root(record.properties))


def keep_passed_marks(
    state: TimerState, properties: Mapping[str, str], request: TimerRequest, *, end_slot_ms: int
) -> None:
    """Let the marks for the slot of this timer work until the read pointer passes another one.

    For a timer that is put later than its slot: its marks may be behind already.
    """
    for found, mark in marks_of(state, properties.get(Prop.UNIQ_KEY, "")):
        if found.out_ms == request.out_ms and found.deletes is not None:
            state.due_heap.add_mark(found.out_ms, found.deletes, mark, end_slot_ms=end_slot_ms)


def _messages_of(state: TimerState, unique_key: str, topic: str) -> Iterator[MessageRecord]:
    """Go through the messages of a topic with this id, oldest first.

    All of them, not only as many as a client may ask for: a timer has a copy for every roll.
    """
    index = state.store.index
    if index is None:
        offsets = _offsets_without_index(state, topic)
    else:
        index.catch_up(state.store.log.max_offset)
        offsets = index.query(topic, unique_key, _MOST_COPIES, 0, _ALL_TIME_MS)
    for offset in offsets:
        record = state.store.record(offset)
        if (
            record is not None
            and record.topic == topic
            and record.properties.get(Prop.UNIQ_KEY) == unique_key
        ):
            yield record


def _offsets_without_index(state: TimerState, topic: str) -> list[int]:
    """Give the offsets of all messages of a topic: slow, for stores with messageIndexEnable off."""
    offsets = []
    for (name, _), queue in state.store.queues.items():
        if name == topic:
            offsets += [offset for _, (offset, _, _) in queue.iterate(queue.min_offset)]
    return sorted(offsets)


def _waits(
    state: TimerState, record: MessageRecord, request: TimerRequest, in_memory: set[int] | None
) -> bool:
    """Say whether the newest copy of a timer is still to be released.

    Beyond the loaded slots everything waits; within them, what the due heap holds or what has not
    come that far. After a crash the read pointer is behind what was released before.
    """
    offset = record.commit_log_offset
    if offset in state.due_heap.done:
        return False
    if in_memory is None or request.out_ms >= state.curr_read_ms + 2 * state.precision_ms:
        return True
    if offset in in_memory:
        return True
    if record.queue_offset >= state.curr_queue_offset and offset not in state.already_logged:
        return True
    if request.out_ms >= state.displaced_until_ms:
        return False
    # The clock was set back: it may lie in a later slot than its own. Is there a copy?
    unique_key = record.properties.get(Prop.UNIQ_KEY, "")
    copies = _messages_of(state, unique_key, request.real_topic)
    return all(source_offset(copy.properties) != offset for copy in copies)


def mark_message(copy: PendingCopy, *, now_ms: int, born_host: bytes) -> InnerMessage:
    """Build the mark that removes exactly this copy.

    It goes past admission, so also in the last moments before the release, where a recall by
    handle is refused.
    """
    out_ms, topic = copy.request.out_ms, copy.request.real_topic
    properties = {
        Prop.TAGS: RECALL_TAG,
        Prop.TIMER_DEL_UNIQKEY: delete_key(topic, copy.unique_key),
        Prop.TIMER_DEL_OFFSET: str(copy.root),
        Prop.UNIQ_KEY: copy.unique_key,
        Prop.TIMER_DELIVER_MS: str(out_ms + 1),
        Prop.TIMER_OUT_MS: str(out_ms),
        Prop.REAL_TOPIC: topic,
        Prop.REAL_QID: "0",
        Prop.BORN_TIMESTAMP: str(now_ms),
    }
    return InnerMessage(
        TIMER_TOPIC, 0, _BODY, properties, born_timestamp=now_ms, born_host=born_host
    )
