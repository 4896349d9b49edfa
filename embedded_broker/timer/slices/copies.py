"""The timers of one id: which of them wait, and the marks that take them back.

Answers: which copies a recall hits, and what the mark looks like that removes one of them. Found
through the key index of the commit log, not kept in memory. Messages that the commit log has let
go still lie in their slice's log; those are searched for there, which reads the log.
Must not know: requests, connections.

Read on: `../recall.py` for recalls by handle, `recount.py` for the counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from embedded_broker.store.inner import InnerMessage
from embedded_broker.timer.recall import RECALL_TAG
from embedded_broker.timer.request import (
    TimerRequest,
    delete_key,
    parse_request,
    victim_root,
)
from embedded_broker.timer.slices.cells import Mark
from embedded_broker.timer.slices.record import second_of
from embedded_broker.timer.slices.state import SliceState
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.message_codec import MessageRecord, decode_record
from rocketmq_py.protocol.properties import Prop

__all__ = ["SliceCopy", "find_copies", "is_moved", "mark_message", "waits"]

_BODY: Final = b"0"
_MOST_COPIES: Final = 100_000
_ALL_TIME_MS: Final = 2**63 - 1
_LOOPBACK: Final = b"\x7f\x00\x00\x01\x00\x00\x00\x00"


class SliceCopy(NamedTuple):
    """One timer that was sent with an id; `record` is its message in the inbound topic."""

    root: int
    second: int
    request: TimerRequest
    record: MessageRecord
    waits: bool
    marked_by: int | None
    """Offset of the first mark that hits it."""


def find_copies(state: SliceState, unique_key: str, topic: str | None = None) -> list[SliceCopy]:
    """Find every timer that was sent with this id, oldest first; `topic` None means any."""
    timers: dict[int, tuple[MessageRecord, TimerRequest]] = {}
    marks: list[tuple[Mark, TimerRequest]] = []
    for record in _messages_of(state, unique_key):
        request = parse_request(record.properties)
        if request is None:
            continue
        source = record.commit_log_offset
        if request.deletes is not None:
            marks.append((Mark(source, victim_root(record.properties)), request))
        elif topic is None or request.real_topic == topic:
            timers[source] = (record, request)
    late = state.late.sources()
    found = []
    for source, (record, request) in sorted(timers.items()):
        second = second_of(request.out_ms)
        key = delete_key(request.real_topic, unique_key)
        moved = is_moved(record.properties)
        hits = [
            mark.source
            for mark, asked in marks
            if asked.deletes == key
            and asked.out_ms == request.out_ms
            and mark.hits(source, is_moved=moved)
        ]
        is_waiting = waits(state, source, second, record.queue_offset, late)
        found.append(
            SliceCopy(source, second, request, record, is_waiting, min(hits, default=None))
        )
    return found


def is_moved(properties: Mapping[str, str]) -> bool:
    """Say whether a timer came here from another time; a mark says whom it removes instead."""
    return Prop.TIMER_DEL_OFFSET in properties and Prop.TIMER_DEL_UNIQKEY not in properties


def waits(state: SliceState, source: int, second: int, queue_offset: int, late: set[int]) -> bool:
    """Say whether a timer is still to be released; marks apart. `late` are the late sources."""
    if source in state.done or source in state.fired:
        return False
    if second >= state.current_second or source in late:
        return True
    return queue_offset >= state.queue_offset and source not in state.already_logged


def _messages_of(state: SliceState, unique_key: str) -> Iterator[MessageRecord]:
    """Go through the messages of the inbound topic with this id, oldest first."""
    store = state.store
    if _has_outlived(state):
        yield from _logged_messages(state, unique_key)
    if store.index is None:
        queue = state.queue
        offsets = (
            [] if queue is None else [entry[0] for _, entry in queue.iterate(queue.min_offset)]
        )
    else:
        store.index.catch_up(store.log.max_offset)
        offsets = store.index.query(state.topic, unique_key, _MOST_COPIES, 0, _ALL_TIME_MS)
    for offset in offsets:
        record = store.record(offset)
        if (
            record is not None
            and record.topic == state.topic
            and record.queue_id == state.inbound[1]
            and record.properties.get(Prop.UNIQ_KEY) == unique_key
        ):
            yield record


def _has_outlived(state: SliceState) -> bool:
    """Say whether the commit log has let messages go whose timers may wait."""
    return state.store.log.min_offset > 0 and bool(state.log.slices)


def _logged_messages(state: SliceState, unique_key: str) -> Iterator[MessageRecord]:
    """Search the logs of the slices for what the commit log does not hold any more."""
    wanted = f"{Prop.UNIQ_KEY}\x01{unique_key}\x02".encode()
    first_kept = state.store.log.min_offset
    for number in sorted(state.log.slices):
        for _, view in state.log.scan(number):
            if wanted not in bytes(view):
                continue
            try:
                record = decode_record(view)
            except RecordError:
                continue
            if record.commit_log_offset >= first_kept:
                break  # from here on they are in the commit log
            if record.properties.get(Prop.UNIQ_KEY) == unique_key:
                yield record


def mark_message(state: SliceState, copy: SliceCopy, *, now_ms: int) -> InnerMessage:
    """Build the mark that removes exactly this copy.

    It goes past admission, so also in the last moments before the release, where a recall by
    handle is refused.
    """
    out_ms, topic = copy.request.out_ms, copy.request.real_topic
    unique_key = copy.record.properties.get(Prop.UNIQ_KEY, "")
    properties = {
        Prop.TAGS: RECALL_TAG,
        Prop.TIMER_DEL_UNIQKEY: delete_key(topic, unique_key),
        Prop.TIMER_DEL_OFFSET: str(copy.root),
        Prop.UNIQ_KEY: unique_key,
        Prop.TIMER_DELIVER_MS: str(out_ms + 1),
        Prop.TIMER_OUT_MS: str(out_ms),
        Prop.REAL_TOPIC: topic,
        Prop.REAL_QID: "0",
        Prop.BORN_TIMESTAMP: str(now_ms),
    }
    return InnerMessage(
        *state.inbound, _BODY, properties, born_timestamp=now_ms, born_host=_LOOPBACK
    )
