"""Ordered pops: when a queue that one has blocked is free again.

RocketMQ's ConsumerOrderInfoLockManager: the block of a queue (`tables/offsets/orders.py`) ends by
acks or by time, on the message clock; whoever waits for the queue is then asked again. Must not
know: what a pop gets. Runs under the door. Read on: `service.py`, `acks.py`.
"""

from heapq import heappop, heappush
from itertools import count
from typing import Final

from attrs import define, field

from embedded_broker.clocks.timeline import Alarm, Budget, Deadline
from embedded_broker.core.waiters import Waiters
from embedded_broker.tables.offsets.orders import OrderBlock, OrderTable
from rocketmq_py.clock import Clock

WHAT: Final = "end of an ordered pop"


@define(eq=False, kw_only=True, slots=False)
class OrderedPops:
    """The blocked queues of one broker; a `DeadlineSource`. `load` it when the table is loaded."""

    _clock: Clock
    _waiters: Waiters
    table: OrderTable
    alarm: Alarm = field(factory=Alarm, init=False)
    _heap: list[tuple[int, int, tuple[str, str, int]]] = field(factory=list, init=False)
    _order: "count[int]" = field(factory=count, init=False)

    def load(self) -> None:
        """Wait for the ends of the blocks that are there."""
        for group, topic, queue_id, block in self.table.each():
            self._await_end(group, topic, queue_id, block)

    def is_blocked(self, group: str, topic: str, queue_id: int, attempt_id: str | None) -> bool:
        """Say whether a queue gives nothing to this attempt now."""
        return self.table.is_blocked(group, topic, queue_id, attempt_id, self._clock.now_ms)

    def hand_out(self, group: str, topic: str, queue_id: int, block: OrderBlock) -> OrderBlock:
        """Block a queue by what is handed out now; gives the block with its counts."""
        block = self.table.hand_out(group, topic, queue_id, block)
        self._await_end(group, topic, queue_id, block)
        return block

    def changed(self, group: str, topic: str, queue_id: int) -> None:
        """Look at a queue whose block has changed: free now, or at another time."""
        block = self.table.find(group, topic, queue_id)
        if block is None or block.free_ms(self._clock.now_ms) is None:
            self._waiters.wake(group, topic, queue_id, is_over=False)
        else:
            self._await_end(group, topic, queue_id, block)

    def _await_end(self, group: str, topic: str, queue_id: int, block: OrderBlock) -> None:
        at_ms = block.free_ms(self._clock.now_ms)
        if at_ms is not None:
            heappush(self._heap, (at_ms, next(self._order), (group, topic, queue_id)))
            self.alarm.ring(at_ms)

    def next_deadline(self) -> Deadline | None:
        """When the next queue may be free, as far as somebody waits for it."""
        heap = self._heap
        while heap and self._is_stale(*heap[0][2], heap[0][0]):
            heappop(heap)
        return Deadline(heap[0][0], WHAT) if heap else None

    def _is_stale(self, group: str, topic: str, queue_id: int, at_ms: int) -> bool:
        """Whether the queue's block ends at another time by now."""
        block = self.table.find(group, topic, queue_id)
        return block is None or block.free_ms(at_ms - 1) != at_ms

    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:  # noqa: ARG002
        """Ask those again whose queue is free now; nobody sees anything else of it."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            group, topic, queue_id = heappop(heap)[2]
            self.changed(group, topic, queue_id)
            if budget.exhausted():
                break
        return 0
