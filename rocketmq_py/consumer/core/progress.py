"""What settling a message does: how a consumer remembers what it has handled.

`Progress` is where a lane begins and what becomes of its messages. `OffsetProgress` moves the
offset of a queue to its smallest unfinished message. It must not know listeners; a `Dispatch` says
what became of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from attrs import define

from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.outcome import Done

if TYPE_CHECKING:
    from rocketmq_py.consumer.core.offset_table import OffsetTable
    from rocketmq_py.consumer.core.outcome import Outcome
    from rocketmq_py.message import MessageExt
    from rocketmq_py.send_result import MessageQueue


class Progress(Protocol):
    """How far a consumer is. Called by any thread but those that must not block."""

    def begin(self, queue: MessageQueue) -> Lane:
        """Make the lane of a queue that was just assigned. May block. Raises RocketMQError."""

    def passed(self, lane: Lane, offset: int) -> None:
        """Note that nothing before ``offset`` is wanted, in a lane with nothing unfinished."""

    def plan(self, lane: Lane, message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        """Say how a message comes again after a delay in ms (None: of its attempt).

        Raises UnsupportedOperationError where messages do not come again.
        """

    def claim(self, lane: Lane, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        """Return those of waiting messages that a listener may have now. Must not block."""

    def settle(
        self, lane: Lane, messages: Sequence[MessageExt], outcome: Outcome
    ) -> list[MessageExt]:
        """Settle messages of a lane; return those that stay, because no broker took them back.

        Of a dropped lane nothing is settled: whoever has the queue now gets the messages again.
        May block for calls to brokers, unless the outcome is `Done`.
        """

    def end(self) -> None:
        """Wait a moment for what was settled to reach its broker: the consumer ends."""


class Retries(Protocol):
    """How messages that were not handled come again."""

    def arrange(self, message: MessageExt, outcome: Outcome) -> bool:
        """Arrange another delivery, or the end as a dead letter; False: try again later."""

    def plan(self, message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        """Say what outcome means a delay, and how many ms that is; see `Progress.plan`."""


@define(eq=False, repr=False)
class OffsetProgress:
    """Progress as an offset of each queue.

    ``first_offset`` says where a queue begins; it may block and raise RocketMQError.
    """

    _offsets: OffsetTable
    _retries: Retries
    _first_offset: Callable[[MessageQueue], int]

    def begin(self, queue: MessageQueue) -> Lane:
        """Begin at the first offset, whatever is remembered of an earlier assignment."""
        self._offsets.remove(queue)
        return Lane(queue, self._first_offset(queue), fetched_at=monotonic())

    def passed(self, lane: Lane, offset: int) -> None:
        """Move the offset, as far as it has not moved already."""
        self._offsets.update(lane.queue, offset)

    def plan(
        self,
        lane: Lane,  # noqa: ARG002
        message: MessageExt,
        delay_ms: int | None,
    ) -> tuple[Outcome, int]:
        """Leave it to those who arrange retries."""
        return self._retries.plan(message, delay_ms)

    def claim(self, lane: Lane, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:  # noqa: ARG002
        """Return all: while the queue is this member's, nobody else gets them."""
        return messages

    def settle(
        self, lane: Lane, messages: Sequence[MessageExt], outcome: Outcome
    ) -> list[MessageExt]:
        """Forget what is handled or comes again, and move the offset."""
        if lane.dropped:
            return []
        kept: list[MessageExt] = []
        settled: Sequence[MessageExt] = messages
        if not isinstance(outcome, Done):
            arranged: list[MessageExt] = []
            for message in messages:
                if not lane.holds(message):
                    continue  # another thread has settled it meanwhile
                if self._retries.arrange(message, outcome):
                    arranged.append(message)
                else:
                    kept.append(message)
            settled = arranged
        offset = lane.remove(settled)
        if offset >= 0 and not lane.dropped:
            self._offsets.update(lane.queue, offset)
            if lane.count == 0:
                self._offsets.persist_soon(lane.queue)
        return kept

    def end(self) -> None:
        """Nothing: offsets are written by whoever has the table of them."""
