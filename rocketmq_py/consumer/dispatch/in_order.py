"""Listener calls one at a time for each queue, in the order of its offsets.

A queue is worked on by one thread of a pool at a time, and while its broker says that this member
holds its lock (`QueueLocks`). What is not handled comes again in its place, and nothing behind it
before. A queue whose lock was not held for a moment is given back: another member may have gone on
in it, so what is cached of it is old. A popped queue has no lock: what was popped is kept hidden
while it waits here, and forgotten with all behind it when it is not hidden any more. Facts:
`org.apache.rocketmq.client.impl.consumer.ConsumeMessageOrderlyService`.
"""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol

from attrs import define, field

from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.delivery import Settlement
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.locks import QueueLocks
from rocketmq_py.consumer.core.outcome import DEAD, DONE, Dead, Done, Hold, Outcome
from rocketmq_py.consumer.dispatch.listener_calls import (
    MINUTE_MS,
    NO_ROOM_WAIT_MS,
    DispatchSettings,
    ListenerDispatch,
    Verdict,
)
from rocketmq_py.consumer.dispatch.pool import NOT_READY
from rocketmq_py.logs import get_logger
from rocketmq_py.message import MessageExt
from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

TURN_S = 60.0
"""After so long another queue has its turn on the thread."""
LOOK_AGAIN_MS = 100
"""A queue whose lock was lost, or whose turn has failed, is looked at again after so long."""
TOLD_EVERY_S = 60.0
TOLD_FROM = 16
"""A message that failed so often is worth a line: a concurrent listener would have given it up."""
_LOOK_AGAIN = Hold(LOOK_AGAIN_MS)


class OrderlySettings(DispatchSettings, Protocol):
    """Threads, batches and retries of orderly calls; see `PushConsumerConfig`."""

    max_reconsume_times: int
    suspend_current_queue_time_millis: int


@define(eq=False)
class _Order:
    """The messages of one lane: those that wait, and those that wait for a COMMIT.

    `has_turn`: a thread works on it, or it is planned to do so. `in_call`: the program has messages
    of it, `settlement` for as long as it likes. `is_over`: it was given back; `is_wanted` again.
    """

    waiting: deque[MessageExt] = field(factory=deque)
    handled: list[MessageExt] = field(factory=list)
    has_turn: bool = False
    in_call: bool = False
    settlement: Settlement | None = None
    is_over: bool = False
    is_wanted: bool = False
    told_at: float = float("-inf")


@define(eq=False, repr=False, kw_only=True)
class OrderlyDispatch(ListenerDispatch[OrderlySettings]):
    """Orderly listener calls of one consumer; without `locks` the queues are nobody else's."""

    _locks: QueueLocks | None
    _mutex: threading.Lock = field(factory=threading.Lock, init=False)
    _orders: dict[Lane, _Order] = field(factory=dict, init=False)
    _leaving: dict[MessageQueue, _Order] = field(factory=dict, init=False)
    _closes: bool = field(default=False, init=False)

    # --- messages ---------------------------------------------------------------------------

    def deliver(self, lane: Lane, messages: Sequence[MessageExt]) -> None:
        """Let messages that are in their lane already wait for their turn."""
        messages = self._progress.claim(lane, messages)
        with self._mutex:
            if lane.dropped:
                return
            order = self._orders.setdefault(lane, _Order())
            order.waiting.extend(messages)
        self._give_turn(lane, order)

    def close(self, timeout: float) -> bool:
        """Drop what waits and wait for running listeners; False when one still runs."""
        self._closes = True
        return super().close(timeout)

    def sweep(self, lanes: Iterable[Lane]) -> int:
        """Take back what the program has not settled `consume_timeout` minutes after it got it.

        Only deliveries: a listener that returns a status may take any time. Returns how many.
        """
        with self._mutex:
            orders = [self._orders[lane] for lane in lanes if lane in self._orders]
            orders += self._leaving.values()
            left = [(one, one.settlement) for one in orders if one.settlement is not None]
        limit_ms = self._settings.consume_timeout * MINUTE_MS
        swept = 0
        for order, settlement in left:
            first = settlement.messages[0]
            if self.calls.age_ms(first) <= limit_ms or not settlement.take_back():
                continue
            logger.warning(
                "group %s: message %s of %s was not settled within %d min, it comes again",
                self._group,
                first.msg_id,
                settlement.queue,
                self._settings.consume_timeout,
            )
            self._go_on(settlement.lane, order, settlement.messages, Verdict(0))
            swept += 1
        return swept

    # --- ownership of queues ----------------------------------------------------------------

    def may_take(self, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
        """Return those of one broker's queues whose lock it gives to this member.

        Not those that were given back while the program has messages of them still.
        """
        with self._mutex:
            for queue in queues:
                if queue in self._leaving:
                    self._leaving[queue].is_wanted = True
            free = [queue for queue in queues if queue not in self._leaving]
        if self._locks is None or not free:
            return free
        locked = self._locks.lock(free)
        return [queue for queue in free if queue in locked]

    def not_taken(self, queue: MessageQueue) -> None:
        """Give the lock of a queue back that was not taken after all."""
        self._unlock(queue)

    def keeps(self, lane: Lane) -> bool:
        """Whether the lock of a lane is held; it was held all the time then."""
        return self._locks is None or self._locks.is_held(lane.queue, monotonic())

    def connection_lost(self, address: str) -> None:
        """Take the broker's queues afresh: one that has started anew knows nothing of locks."""
        if self._locks is not None and self._locks.doubt(address):
            self._engine.rebalance_soon(self._group)

    def given_back(self, lane: Lane) -> None:
        """Give the lock of a dropped lane back, as soon as no listener has a message of it."""
        with self._mutex:
            order = self._orders.pop(lane, None)
            if order is not None:
                order.is_over = True
                order.waiting.clear()
                if order.in_call:
                    self._leaving[lane.queue] = order
                    return  # the end of the call gives it back
        self._let_go(lane)

    def leave(self, timeout: float) -> None:
        """Give all locks back, those included that brokers are just asked for.

        But for queues whose messages the program has still: their locks end by themselves, a minute
        after they were asked for.
        """
        if self._locks is not None:
            self._locks.close(timeout)

    def closed_gate(self, lane: Lane) -> str | None:
        """Say that a lane is not fetched while its lock is not held."""
        return None if self.keeps(lane) else "the broker has not given its lock to this member"

    def renew_locks(self, lanes: Iterable[Lane]) -> None:
        """Ask for the locks of the own queues again; blocks for the brokers.

        A lock that is not held any more is not asked for: the queue is taken afresh.
        """
        if self._locks is None:
            return
        mine = [lane for lane in lanes if not lane.dropped]
        self._locks.renew([lane.queue for lane in mine if self.keeps(lane)])
        if not all(map(self.keeps, mine)):
            self._engine.rebalance_soon(self._group)

    def _let_go(self, lane: Lane) -> None:
        if self._engine.is_running:
            lane.release()
        self._unlock(lane.queue)

    def _unlock(self, queue: MessageQueue) -> None:
        if self._locks is not None and self._engine.is_running:
            self._locks.unlock(queue)

    # --- one lane's turn --------------------------------------------------------------------

    def _give_turn(self, lane: Lane, order: _Order, after_ms: float = 0) -> None:
        """Let a thread work on the lane, unless it has its turn already."""
        with self._mutex:
            if order.has_turn or order.is_over or not order.waiting:
                return
            order.has_turn = True
        self._begin(lane, order, after_ms)

    def _begin(self, lane: Lane, order: _Order, after_ms: float = 0) -> None:
        turn = partial(self._take_turn, lane, order)
        if after_ms:
            self._engine.schedule_after(after_ms, partial(self.pool.submit, turn))
        else:
            self.pool.submit(turn)

    def _take_turn(self, lane: Lane, order: _Order) -> None:
        try:
            pause_ms = self._work(lane, order)
        except Exception:
            logger.exception("group %s: a turn of %s failed", self._group, lane.queue)
            pause_ms = self._ended(lane, order, (), Verdict(0, _LOOK_AGAIN, is_no_attempt=True))
        if pause_ms is not None:
            self._begin(lane, order, pause_ms)

    def _work(self, lane: Lane, order: _Order) -> float | None:
        """Work on a lane; return after how many ms it has its next turn.

        None: when something new comes, or when the program has settled what it has.
        """
        until = monotonic() + TURN_S
        while True:
            with self._mutex:
                batch = self._next_batch(order)
                if lane.dropped or self._closes or not batch:
                    order.has_turn = False
                    return None
            if monotonic() >= until:
                return 0
            pause_ms = self._handle(lane, order, batch)
            if pause_ms != 0:
                return pause_ms

    def _next_batch(self, order: _Order) -> list[MessageExt]:
        """Return the next messages, still waiting; compressed ones come alone.

        One that cannot be decompressed must not be overtaken by those behind it.
        """
        size = self._settings.consume_message_batch_max_size
        batch: list[MessageExt] = []
        for message in order.waiting:
            alone = message.sys_flag & NOT_READY
            if batch and (alone or len(batch) >= size):
                break
            batch.append(message)
            if alone:
                break
        return batch

    def _handle(self, lane: Lane, order: _Order, batch: list[MessageExt]) -> float | None:
        """Let the listener have a batch; return after how many ms the lane has its next turn.

        None: when the program has settled the batch.
        """
        if not self.keeps(lane):  # the rebalance takes it afresh
            self._engine.rebalance_soon(self._group)
            return LOOK_AGAIN_MS
        has_all = len(self._progress.claim(lane, batch)) == len(batch)
        with self._mutex:
            if order.is_over:
                return 0
            if not has_all:
                self._keep_held(lane, order)
                return 0
            order.in_call = True
        unpacked, said = self.calls.call(lane, batch, partial(self._settle_for_program, order))
        if isinstance(said, Settlement):
            with self._mutex:
                if not said.is_over:  # else the next call may be under way already
                    order.settlement = said
            return None
        if unpacked.waiting:
            said = Verdict(0, Hold(NO_ROOM_WAIT_MS), is_no_attempt=True)
        return self._ended(lane, order, batch, said or Verdict(0))  # None: cannot be decompressed

    def _ended(
        self, lane: Lane, order: _Order, batch: Sequence[MessageExt], verdict: Verdict
    ) -> float:
        """Do what follows from a call; return after how many ms the lane has its next turn."""
        with self._mutex:
            order.in_call, order.settlement = False, None
            is_leaving = self._leaving.get(lane.queue) is order
            if is_leaving:
                del self._leaving[lane.queue]
        if is_leaving:
            self._let_go(lane)
            if order.is_wanted:
                self._engine.rebalance_soon(self._group)
        if order.is_over or lane.dropped:
            logger.info("result of %d messages of %s discarded", len(batch), lane.queue)
            return 0
        if verdict.done:
            self._note_handled(lane, order, batch, waits=verdict.waits)
            return 0
        if verdict.again:
            with self._mutex:
                order.waiting.extendleft(reversed(order.handled))
                order.handled.clear()
        elif not verdict.is_no_attempt and not self._count_attempt(
            lane, order, batch, is_last=isinstance(verdict.rest, Dead)
        ):
            return 0
        if isinstance(verdict.rest, Hold):
            return verdict.rest.delay_ms
        return self._settings.suspend_current_queue_time_millis

    def _note_handled(
        self, lane: Lane, order: _Order, batch: Sequence[MessageExt], *, waits: bool
    ) -> None:
        settled: list[MessageExt] = []
        with self._mutex:
            if order.is_over:
                return
            for _ in batch:
                order.waiting.popleft()
            order.handled += batch
            if not waits:
                settled, order.handled = order.handled, []
        if settled:
            self._progress.settle(lane, settled, DONE)

    def _count_attempt(
        self, lane: Lane, order: _Order, batch: Sequence[MessageExt], *, is_last: bool
    ) -> bool:
        """Count an attempt; give up what had its last one. Returns whether messages are left.

        One that no broker takes as a dead letter is left, and comes again.
        """
        most = self._settings.max_reconsume_times
        left: list[MessageExt] = []
        for message in batch:
            if is_last or 0 <= most <= message.reconsume_times:
                left += self._progress.settle(lane, [message], DEAD)
            else:
                left.append(message)
        for message in left:
            message.reconsume_times += 1
        with self._mutex:
            self._keep_held(lane, order)
        now = monotonic()
        if left and left[0].reconsume_times >= TOLD_FROM and now - order.told_at >= TOLD_EVERY_S:
            order.told_at = now
            logger.warning(
                "group %s: queue %s waits, because its listener did not handle message %s in %d "
                "attempts; max_reconsume_times is %d (-1: no limit)",
                self._group,
                lane.queue,
                left[0].msg_id,
                left[0].reconsume_times,
                most,
            )
        return bool(left)

    def _keep_held(self, lane: Lane, order: _Order) -> None:
        """Let nothing wait that the lane has forgotten."""
        order.waiting = deque(one for one in order.waiting if lane.holds(one))

    # --- what a program settles -------------------------------------------------------------

    def plan(self, lane: Lane, message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        """Let the queue wait for any number of milliseconds."""
        del lane, message
        if delay_ms is None:
            delay_ms = self._settings.suspend_current_queue_time_millis
        return Hold(delay_ms), delay_ms

    def _settle_for_program(
        self, order: _Order, lane: Lane, messages: Sequence[MessageExt], outcome: Outcome
    ) -> Future[None]:
        """Do what the program says and give the lane its next turn, in background.

        Not on the pool: its calls may all wait for what they settle.
        """

        def settle() -> Sequence[MessageExt]:
            done = len(messages) if isinstance(outcome, Done) else 0
            self._go_on(lane, order, messages, Verdict(done, outcome))
            is_lost = isinstance(outcome, Dead) and not lane.dropped
            return [one for one in messages if is_lost and lane.holds(one)]

        return self.calls.settle(settle)

    def _go_on(
        self, lane: Lane, order: _Order, messages: Sequence[MessageExt], verdict: Verdict
    ) -> None:
        """Do what follows from a call that is over, and give the lane its next turn."""
        try:
            pause_ms = self._ended(lane, order, messages, verdict)
        except BaseException:
            self._begin(lane, order, LOOK_AGAIN_MS)
            raise
        self._begin(lane, order, pause_ms)
