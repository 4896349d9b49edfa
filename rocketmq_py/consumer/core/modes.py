"""Consumers of which some topics are popped and others pulled: each lane goes to its own part.

An administrator sets the mode of each topic, and retry topics are always pulled. A source and a
progress for either mode stand behind one of both; the kind of the lane chooses. This module must
not know what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attrs import define

from rocketmq_py.consumer.core.pop_lane import PopLane

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rocketmq_py.consumer.core.lane import Lane
    from rocketmq_py.consumer.core.limits import Gate
    from rocketmq_py.consumer.core.outcome import Outcome
    from rocketmq_py.consumer.core.pop_progress import Receipts
    from rocketmq_py.consumer.core.progress import Progress
    from rocketmq_py.consumer.core.sources import Fetched, Pops, Source
    from rocketmq_py.message import MessageExt
    from rocketmq_py.protocol.command import RemotingCommand
    from rocketmq_py.send_result import MessageQueue


@define(eq=False, repr=False)
class SourceByMode:
    """Messages of pulled and of popped lanes."""

    _pulled: Source
    _popped: Pops

    def ask(self, lane: Lane) -> Future[RemotingCommand] | None:
        """Pull or pop."""
        return self._popped.ask(lane) if isinstance(lane, PopLane) else self._pulled.ask(lane)

    def read(self, lane: Lane, answer: RemotingCommand) -> Fetched:
        """Read what was pulled or popped."""
        if isinstance(lane, PopLane):
            return self._popped.read(lane, answer)
        return self._pulled.read(lane, answer)

    def decline(self, lane: Lane, answer: RemotingCommand) -> None:
        """Let others have what was popped too late."""
        if isinstance(lane, PopLane):
            self._popped.decline(lane, answer)


@define(eq=False, repr=False)
class ProgressByMode:
    """Offsets of pulled lanes and receipts of popped ones; ``pops`` says which a queue becomes."""

    _offsets: Progress
    _receipts: Receipts
    _pops: Callable[[MessageQueue], bool]

    def begin(self, queue: MessageQueue) -> Lane:
        """Make the lane of the mode that the queue is assigned in."""
        return self._receipts.begin(queue) if self._pops(queue) else self._offsets.begin(queue)

    def passed(self, lane: Lane, offset: int) -> None:
        """Move the offset of a pulled lane; the broker has that of a popped one."""
        if not lane.is_popped:
            self._offsets.passed(lane, offset)

    def plan(self, lane: Lane, message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        """Say how the message comes again."""
        if lane.is_popped:
            return self._receipts.plan(message, delay_ms)
        return self._offsets.plan(lane, message, delay_ms)

    def claim(self, lane: Lane, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        """Keep popped messages hidden while a listener has them."""
        if isinstance(lane, PopLane):
            return self._receipts.claim(lane, messages)
        return self._offsets.claim(lane, messages)

    def settle(
        self, lane: Lane, messages: Sequence[MessageExt], outcome: Outcome
    ) -> list[MessageExt]:
        """Settle messages of either mode."""
        if isinstance(lane, PopLane):
            return self._receipts.settle(lane, messages, outcome)
        return self._offsets.settle(lane, messages, outcome)

    def end(self) -> None:
        """End both."""
        self._offsets.end()
        self._receipts.end()


def gate_by_mode(pulled: Gate, popped: Gate) -> Gate:
    """Make one gate of those for pulled and for popped lanes."""
    return lambda lane: (popped if lane.is_popped else pulled)(lane)
