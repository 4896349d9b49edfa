"""Listener calls one at a time for each queue, in the order of its offsets.

A queue is worked on by one thread of a pool at a time, and while its broker says that this member
holds its lock (`QueueLocks`). What is not handled comes again in its place, and nothing behind it
before. Facts: `org.apache.rocketmq.client.impl.consumer.ConsumeMessageOrderlyService`.
"""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import ClassVar, Protocol

from attrs import define, field

from rocketmq_py.client.background import WorkerPool
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.clock import Clock, monotonic
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.locks import QueueLocks
from rocketmq_py.consumer.core.outcome import DEAD, DONE, Dead, Done, Hold, Outcome
from rocketmq_py.consumer.core.progress import Progress
from rocketmq_py.consumer.dispatch.listener_calls import (
    NO_ROOM_WAIT_MS,
    Handler,
    HandlingSettings,
    ListenerCalls,
    Verdict,
)
from rocketmq_py.consumer.dispatch.pool import NOT_READY, Workers
from rocketmq_py.logs import get_logger
from rocketmq_py.message import MessageExt
from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

TURN_S = 60.0
"""After so long another queue has its turn on the thread."""
LOCK_AGAIN_MS = 100
"""A queue whose lock was lost is asked for again after so long."""
TOLD_EVERY_S = 60.0
TOLD_FROM = 16
"""A message that failed so often is worth a line: a concurrent listener would have given it up."""


class OrderlySettings(HandlingSettings, Protocol):
    """Threads, batches and retries of orderly calls; see `PushConsumerConfig`."""

    consume_thread_min: int
    consume_message_batch_max_size: int
    max_reconsume_times: int
    suspend_current_queue_time_millis: int


@define(eq=False)
class _Order:
    """The messages of one lane: those that wait, and those that wait for a COMMIT."""

    waiting: deque[MessageExt] = field(factory=deque)
    handled: list[MessageExt] = field(factory=list)
    has_turn: bool = False
    """Whether a thread works on it, or it is planned to do so."""
    in_call: bool = False
    is_over: bool = False
    told_at: float = 0.0


@define(eq=False, repr=False, kw_only=True)
class OrderlyDispatch:
    """Orderly listener calls of one consumer; without `locks` the queues are nobody else's."""

    _group: str
    _engine: ClientInstance
    _settings: OrderlySettings
    _progress: Progress
    _handler: Handler
    _clock: Clock
    _locks: QueueLocks | None
    _mutex: threading.Lock = field(factory=threading.Lock, init=False)
    _orders: dict[Lane, _Order] = field(factory=dict, init=False)
    calls: ListenerCalls = field(init=False)
    pool: Workers = field()

    @calls.default
    def _own_calls(self) -> ListenerCalls:
        return ListenerCalls(
            group=self._group,
            settings=self._settings,
            handler=self._handler,
            clock=self._clock,
            plan=self._plan,
            settle=self._settle_for_program,
        )

    @pool.default
    def _own_pool(self) -> Workers:
        return WorkerPool(
            f"rocketmq-consume-{self._group}",
            self._settings.consume_thread_min,
            schedule_after=self._engine.schedule_after,
        )

    # --- messages ---------------------------------------------------------------------------

    def deliver(self, lane: Lane, messages: Sequence[MessageExt]) -> None:
        """Let messages that are in their lane already wait for their turn."""
        with self._mutex:
            if lane.dropped:
                return
            order = self._orders.setdefault(lane, _Order())
            order.waiting.extend(messages)
        self._give_turn(lane, order)

    calls_program: ClassVar = True

    @property
    def unfinished(self) -> int:
        """Listener calls that wait or run."""
        return self.pool.unfinished

    def resize(self, threads: int) -> None:
        """Change the number of threads."""
        self.pool.resize(threads)

    def close(self, timeout: float) -> bool:
        """Drop what waits and wait for running listeners; False when one still runs."""
        return self.pool.close(timeout, drop=True)

    # --- ownership of queues ----------------------------------------------------------------

    def may_take(self, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
        """Return those of one broker's queues whose lock it gives to this member."""
        if self._locks is None:
            return queues
        locked = self._locks.lock(queues)
        return [queue for queue in queues if queue in locked]

    def given_back(self, lane: Lane) -> None:
        """Give the lock of a dropped lane back, as soon as no listener has a message of it."""
        with self._mutex:
            order = self._orders.pop(lane, None)
            if order is not None:
                order.is_over = True
                order.waiting.clear()
                if order.in_call:
                    return  # whoever is in the call gives it back
        self._unlock(lane)

    def closed_gate(self, lane: Lane) -> str | None:
        """Say that a lane is not fetched while its lock is not held."""
        if self._locks is None or self._locks.is_held(lane.queue, monotonic()):
            return None
        return "the broker has not given its lock to this member"

    def renew_locks(self, lanes: Iterable[Lane]) -> None:
        """Ask for the locks of the own queues again; blocks for the brokers."""
        if self._locks is not None:
            self._locks.lock([lane.queue for lane in lanes if not lane.dropped])

    def _unlock(self, lane: Lane) -> None:
        if self._locks is not None:
            self._locks.unlock(lane.queue, oneway=True)

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
        until = monotonic() + TURN_S
        while True:
            with self._mutex:
                batch = self._next_batch(order)
                if lane.dropped or not batch:
                    order.has_turn = False
                    return
            if monotonic() >= until:
                self._begin(lane, order)
                return
            pause_ms = self._handle(lane, order, batch)
            if pause_ms is None:
                return
            if pause_ms:
                self._begin(lane, order, pause_ms)
                return

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
        if self.closed_gate(lane) is not None:
            self._engine.submit_background(self.renew_locks, [lane])
            return LOCK_AGAIN_MS
        with self._mutex:
            if order.is_over:
                return 0
            order.in_call = True
        called = self.calls.call(lane, batch)
        if called.waiting:
            verdict = Verdict(0, Hold(NO_ROOM_WAIT_MS), is_no_attempt=True)
        elif called.verdict is not None:
            verdict = called.verdict
        elif called.refused:  # it cannot be decompressed
            verdict = Verdict(0, Hold(self._settings.suspend_current_queue_time_millis))
        else:
            return None  # the program settles it, and then the lane has its turn again
        return self._ended(lane, order, batch, verdict)

    def _ended(
        self, lane: Lane, order: _Order, batch: Sequence[MessageExt], verdict: Verdict
    ) -> float:
        """Do what follows from a call; return after how many ms the lane has its next turn."""
        with self._mutex:
            order.in_call = False
            is_over = order.is_over
        if is_over:
            self._unlock(lane)
        if is_over or lane.dropped:
            logger.info("result of %d messages of %s discarded", len(batch), lane.queue)
            return 0
        if verdict.done:
            self._note_handled(lane, order, batch, waits=verdict.waits)
            return 0
        if verdict.again:
            with self._mutex:
                order.waiting.extendleft(reversed(order.handled))
                order.handled.clear()
        elif isinstance(verdict.rest, Dead):
            self._progress.settle(lane, batch, DEAD)
            self._drop_settled(lane, order)
        elif not verdict.is_no_attempt and not self._count_attempt(lane, order, batch):
            return 0
        return verdict.rest.delay_ms if isinstance(verdict.rest, Hold) else LOCK_AGAIN_MS

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

    def _count_attempt(self, lane: Lane, order: _Order, batch: Sequence[MessageExt]) -> bool:
        """Count an attempt; give up what had its last one. Returns whether messages are left."""
        most = self._settings.max_reconsume_times
        for message in batch:
            if 0 <= most <= message.reconsume_times:
                self._progress.settle(lane, [message], DEAD)
            else:
                message.reconsume_times += 1
        self._drop_settled(lane, order)
        left = [message for message in batch if lane.holds(message)]
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

    def _drop_settled(self, lane: Lane, order: _Order) -> None:
        """Let go of what is among the dead letters now."""
        with self._mutex:
            order.waiting = deque(one for one in order.waiting if lane.holds(one))

    # --- what a program settles -------------------------------------------------------------

    def _plan(self, _message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        """Let the queue wait for any number of milliseconds."""
        if delay_ms is None:
            delay_ms = self._settings.suspend_current_queue_time_millis
        return Hold(delay_ms), delay_ms

    def _settle_for_program(
        self, lane: Lane, messages: Sequence[MessageExt], outcome: Outcome
    ) -> Future[None]:
        """Do what the program says and give the lane its next turn, in background.

        Not on the pool: its calls may all wait for what they settle.
        """
        ended: Future[None] = Future()
        order = self._orders.get(lane)

        def settle() -> None:
            try:
                if order is not None:
                    done = len(messages) if isinstance(outcome, Done) else 0
                    pause_ms = self._ended(lane, order, messages, Verdict(done, outcome))
                    self._begin(lane, order, pause_ms)
            except BaseException as error:  # noqa: BLE001 - whoever settles is told
                ended.set_exception(error)
            else:
                ended.set_result(None)

        if not self._engine.submit_background(settle):
            settle()
        return ended
