"""Lookup of a sliced store's timers by id, and how one gets another time.

Answers: which copies of an id were stored, which copy still waits, and what a moved copy looks
like. Found through the key index of the commit log, not kept in memory. Messages that the commit
log has let go still lie in their slice's log; those are searched for there, which reads the log. A
time that is past is the last second that is over: such a copy is late when it arrives and leaves
with the next step. Must not know: requests, connections.

Read on: `../change.py` for the order of writing, `../recall.py` for marks and copies.
"""

from collections.abc import Iterator

from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.change import Changes, moved_copy
from embedded_broker.timer.recall import PendingCopy, copies_among, messages_with_key
from embedded_broker.timer.request import TimerRequest
from embedded_broker.timer.slices.marks import is_hit
from embedded_broker.timer.slices.record import SECOND_MS, second_of
from embedded_broker.timer.slices.state import SliceState
from rocketmq_py.clock import Clock
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.delay import timer_out_ms
from rocketmq_py.protocol.message_codec import MessageRecord, decode_record
from rocketmq_py.protocol.properties import Prop


def find_copies(state: SliceState, unique_key: str, topic: str | None = None) -> list[PendingCopy]:
    """Find every timer that was sent with this id, oldest first; `topic` None means any."""
    late = state.late.sources()

    def waits(record: MessageRecord, request: TimerRequest) -> bool:
        source = record.commit_log_offset
        if source in state.done or source in state.fired:
            return False
        if second_of(request.out_ms) >= state.current_second or source in late:
            return True
        return record.queue_offset >= state.queue_offset and source not in state.already_logged

    return copies_among(
        _messages_of(state, unique_key),
        topic,
        waits=waits,
        hits=lambda mark, copy: is_hit(mark, copy.root, copy.record.properties),
    )


def _messages_of(state: SliceState, unique_key: str) -> Iterator[MessageRecord]:
    """Go through the messages of the inbound queue with this id, oldest first."""
    if state.store.log.min_offset > 0 and state.log.slices:
        yield from _logged_messages(state, unique_key)
    yield from messages_with_key(state.store, unique_key, *state.inbound)


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


class SliceChanges(Changes):
    """Recalls and moves of the timers of one sliced store."""

    def __init__(self, state: SliceState, clock: Clock) -> None:
        super().__init__(state.store, clock)
        self._state = state

    def look_for_unfinished(self) -> None:
        """Find out whether an earlier life ended between a moved copy and its mark."""
        state = self._state

        def read(number: int) -> MessageRecord | None:
            entry = state.entry(number)
            record = None if entry is None else state.store.record(entry[0])
            return record if record is not None and record.topic == state.topic else None

        self.unfinished = self._unfinished_among(read, 0, state.queue_end)

    def _copies(self, unique_key: str, topic: str | None = None) -> list[PendingCopy]:
        return find_copies(self._state, unique_key, topic)

    def _replacement(self, copy: PendingCopy, due_ms: int) -> InnerMessage:
        # Marks name their victim here: a copy need not keep out of their way.
        now_ms = self._clock.now_ms
        if due_ms <= now_ms:
            due_ms = now_ms // SECOND_MS * SECOND_MS
        return moved_copy(copy, due_ms=due_ms, out_ms=timer_out_ms(due_ms, SECOND_MS))
