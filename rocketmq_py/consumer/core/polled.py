"""Progress of a consumer that is asked for messages: what it handed over, and what is committed.

The offset of a queue moves when the program commits, or with the next poll. Messages are never
sent back: what was not committed comes again after a restart, or to the member that has the queue
then. Facts: ``DefaultLitePullConsumerImpl.commitAll``, ``maybeAutoCommit``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from rocketmq_py.consumer.core.offset_table import OffsetTable
    from rocketmq_py.consumer.core.outcome import Outcome
    from rocketmq_py.message import MessageExt
    from rocketmq_py.send_result import MessageQueue

ONCE: Final = "a pull consumer commits offsets, and messages do not come again before a restart"


class PolledProgress:
    """Progress as an offset of each queue that the program commits. Safe from any thread."""

    def __init__(self, offsets: OffsetTable, first_offset: Callable[[MessageQueue], int]) -> None:
        self._offsets = offsets
        self._first_offset = first_offset
        self._lock = threading.Lock()
        self._reached: dict[Lane, int] = {}

    def begin(self, queue: MessageQueue) -> Lane:
        """Begin at the first offset, whatever is remembered of an earlier assignment."""
        self._offsets.remove(queue)
        return Lane(queue, self._first_offset(queue), fetched_at=monotonic())

    def passed(self, lane: Lane, offset: int) -> None:
        """Note that nothing before an offset is wanted; it is committed with what comes before."""
        self._reach(lane, offset)

    def handed_over(self, lane: Lane, messages: Sequence[MessageExt]) -> None:
        """Let messages leave their lane: the program has them."""
        offset = lane.remove(messages)
        if offset >= 0:
            self._reach(lane, offset)

    def commit(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Move the offsets to what was handed over, of some queues or of all."""
        wanted = None if queues is None else set(queues)
        with self._lock:
            reached = {
                lane: offset
                for lane, offset in self._reached.items()
                if wanted is None or lane.queue in wanted
            }
            for lane in reached:
                del self._reached[lane]
        for lane, offset in reached.items():
            if not lane.dropped:  # else another member has the queue, or its offset was set anew
                self._offsets.update(lane.queue, offset)
                self._offsets.persist_soon(lane.queue)

    def plan(self, lane: Lane, message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        """Refuse: raises UnsupportedOperationError."""
        del lane, delay_ms
        raise UnsupportedOperationError(f"message {message.msg_id} cannot come again: {ONCE}")

    def claim(self, lane: Lane, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        """Return all: while the queue is this member's, nobody else gets them."""
        del lane
        return messages

    def end(self) -> None:
        """Nothing: what was not committed comes again."""

    def settle(
        self, lane: Lane, messages: Sequence[MessageExt], outcome: Outcome
    ) -> list[MessageExt]:
        """Refuse: raises UnsupportedOperationError."""
        del lane, outcome
        raise UnsupportedOperationError(f"message {messages[0].msg_id} cannot be settled: {ONCE}")

    def _reach(self, lane: Lane, offset: int) -> None:
        with self._lock:
            self._reached[lane] = max(offset, self._reached.get(lane, 0))
