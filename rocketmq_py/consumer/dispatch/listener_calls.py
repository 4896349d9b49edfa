"""One call of a listener: from cached messages to what it says about them.

`ListenerCalls` decompresses bodies within the consumer's room, stamps the start of the call, lets a
handler (``../listening.py``) see the messages, and gives back what became of them; hooks see both
ends of it. Which messages form a call, and on which thread it runs, is decided by the modules
beside this one, whose dispatches are each a `ListenerDispatch`.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from enum import Enum
from functools import partial
from typing import (
    TYPE_CHECKING,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
)

from attrs import define, field

from rocketmq_py.client.activity import Book
from rocketmq_py.client.background import WorkerPool
from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.delivery import Delivery, Plan, Settle, Settlement
from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, Dead, Done, Hold, Outcome
from rocketmq_py.consumer.dispatch.bodies import Bodies
from rocketmq_py.consumer.hooks import (
    AGAIN,
    CONTEXT_TYPE,
    DEAD,
    DROPPED,
    HANDLED,
    ConsumeMessageContext,
    Hooks,
)
from rocketmq_py.consumer.settings import RECONSUME_TIMES_DEFAULT
from rocketmq_py.errors import (
    BodyError,
    DeliveryEndedError,
    MQClientException,
    UnsupportedOperationError,
)
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.properties import Prop

if TYPE_CHECKING:
    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.clock import Clock
    from rocketmq_py.consumer.core.lane import Lane
    from rocketmq_py.consumer.core.progress import Progress
    from rocketmq_py.consumer.dispatch.bodies import Unpacked
    from rocketmq_py.message import MessageExt
    from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

NO_ROOM_WAIT_MS = 50
"""After so long it is looked again whether listeners have given decompressed bodies back."""
MINUTE_MS = 60_000
SUCCESSES = frozenset({"CONSUME_SUCCESS", "SUCCESS", "COMMIT"})
"""The statuses of listeners that mean success to a hook."""
TOLD_TIMES_MAX = 16
"""A message that cannot be decompressed is told so often; an orderly one may fail for ever."""


class Verdict(NamedTuple):
    """What a listener says: the first ``done`` messages are handled, ``rest`` holds for the others.

    There may be fewer messages than are ``done``.
    ``waits``: what is handled is settled by a later call that does not wait (orderly consumption
    without auto-commit). ``again``: all that waits so is to be handled once more.
    ``is_no_attempt``: no listener had the messages. ``status`` is the listener's, or what
    counts instead where it gave none; ``problem`` is EXCEPTION or RETURNNULL then.
    """

    done: int
    rest: Outcome = AS_ATTEMPT
    waits: bool = False
    again: bool = False
    is_no_attempt: bool = False
    status: Enum | None = None
    problem: str = ""


class StatusHandler(Protocol):
    """Lets a listener handle messages whose return, or exception, says what became of them."""

    settles: ClassVar[Literal[False]]

    def __call__(self, messages: Sequence[MessageExt], queue: MessageQueue) -> Verdict:
        """Call the listener; never raises."""


class SettlingHandler(Protocol):
    """Lets a listener have messages that the program settles, so that its return says nothing."""

    settles: ClassVar[Literal[True]]

    def __call__(self, delivery: Delivery) -> Verdict:
        """Call the listener; never raises."""


Handler: TypeAlias = StatusHandler | SettlingHandler


class Workers(Protocol):
    """Who runs the calls of a dispatch: a `WorkerPool`, or what stands for one."""

    @property
    def unfinished(self) -> int:
        """Calls that wait or run."""

    def submit(self, task: Callable[..., object], *args: object) -> bool:
        """Run ``task(*args)``; False when it is closed."""

    def submit_all(self, tasks: Iterable[Callable[[], object]]) -> bool:
        """Begin tasks in their order; False when it is closed."""

    def resize(self, threads: int) -> None:
        """Change how many run at a time."""

    def close(self, timeout: float, *, drop: bool = False) -> bool:
        """Refuse new tasks and wait for those that run; False when one still does."""


class HandlingSettings(Protocol):
    """What bounds the bodies that listeners hold, and the minutes that one call may take."""

    decompressed_body_max_bytes: int
    decompressed_total_max_bytes: int
    consume_timeout: int
    max_reconsume_times: int


@define(eq=False, repr=False, kw_only=True)
class ListenerCalls:
    """The calls of one consumer's listener.

    `plan` says how messages come again, `bury` whether they can become dead letters.
    """

    _group: str
    _engine: ClientInstance
    _settings: HandlingSettings
    _handler: Handler
    _clock: Clock
    _plan: Plan
    _bury: Plan
    _hooks: Hooks = field(factory=Hooks)
    bodies: Bodies = field(init=False)
    settling: Book = field(init=False)

    @bodies.default
    def _own_bodies(self) -> Bodies:
        return Bodies(self._settings)

    @settling.default
    def _own_book(self) -> Book:
        return Book(f"group {self._group}", "deliveries being settled")

    def call(
        self, lane: Lane, messages: Sequence[MessageExt], settle: Settle
    ) -> tuple[Unpacked, Verdict | Settlement | None]:
        """Let the listener handle messages of a lane; ``settle`` does what a program decides.

        Gives those that the listener had, and the others, with what the listener says: a verdict,
        or what ends when the program settles them; None where it had none.
        """
        if self._hooks.see_calls:
            return copy_context().run(self._call, lane, messages, settle)
        return self._call(lane, messages, settle)

    def _call(
        self, lane: Lane, messages: Sequence[MessageExt], settle: Settle
    ) -> tuple[Unpacked, Verdict | Settlement | None]:
        batch = self.bodies.unpacked(messages)
        if batch.size:
            lane.grow(batch.size)
        for message, error in batch.refused:
            self._tell_refused(lane, message, error)
        if not batch.messages:
            return batch, None
        started = str(self._clock.now_ms)
        for message in batch.messages:
            message.properties[Prop.CONSUME_START_TIME] = started
        context = self._before(lane, batch.shown) if self._hooks.see_calls else None
        handler = self._handler
        if handler.settles:
            if context is not None:
                settle = self._telling(context, settle)
            settlement = Settlement(batch.messages, lane, settle)
            self._leave_to_program(handler, lane, batch, settlement)
            return batch, settlement
        try:
            verdict = handler(batch.shown, lane.queue)
        finally:
            if batch.size:
                self._close(lane, batch)
        if context is not None:
            status = "" if verdict.status is None else verdict.status.name
            context.outcomes = self._outcomes(lane, batch.messages, verdict)
            self._after(context, batch.messages, status, verdict.problem)
        return batch, verdict

    def settle(self, settle: Callable[[], Sequence[MessageExt]]) -> Future[None]:
        """Do what a program has decided, in background.

        ``settle`` returns the messages that no broker took. The future ends when it is done, with
        an error when there are any.
        """
        settling: Future[None] = Future()
        self.settling.enter(settling)
        end = partial(self._settle, settling, settle)
        if not self._engine.submit_background(end):
            end()
        return settling

    def close(self, workers: Workers, timeout: float) -> bool:
        """Drop calls that wait; wait for those that run, and for what programs have decided.

        False when a call still runs after ``timeout`` seconds.
        """
        deadline = monotonic() + timeout
        ended = workers.close(timeout, drop=True)
        self.settling.wait_until_empty(deadline - monotonic())
        return ended

    def age_ms(self, message: MessageExt) -> int:
        """Return how long ago a listener got a message; -1 when none had it."""
        started = message.properties.get(Prop.CONSUME_START_TIME)
        return -1 if started is None else self._clock.now_ms - int(started)

    def _leave_to_program(
        self, handler: SettlingHandler, lane: Lane, batch: Unpacked, settlement: Settlement
    ) -> None:
        """Let the listener have messages for longer than its call.

        The room of their bodies is kept as long as the program may look at them.
        """
        delivery = Delivery(list(batch.shown), settlement, self._plan, self._bury)
        if batch.size:
            weakref.finalize(delivery, self._close, lane, batch).atexit = False
        verdict = handler(delivery)
        if not verdict.done and not settlement.is_over:  # it raised before
            with suppress(DeliveryEndedError):
                settlement.end(verdict.rest)

    def _before(self, lane: Lane, shown: Sequence[MessageExt]) -> ConsumeMessageContext:
        context = ConsumeMessageContext(
            consumer_group=self._group, messages=tuple(shown), queue=lane.queue
        )
        self._hooks.before(context)
        return context

    def _after(
        self,
        context: ConsumeMessageContext,
        messages: Sequence[MessageExt],
        status: str,
        problem: str = "",
    ) -> None:
        is_late = self.age_ms(messages[0]) >= self._settings.consume_timeout * MINUTE_MS
        context.status = status
        context.success = status in SUCCESSES
        context.props[CONTEXT_TYPE] = problem or (
            "TIME_OUT" if is_late else "SUCCESS" if context.success else "FAILED"
        )
        self._hooks.after(context)

    def _outcomes(
        self, lane: Lane, messages: Sequence[MessageExt], verdict: Verdict
    ) -> tuple[str, ...]:
        """Say of each message what becomes of it, for the hooks."""
        if verdict.again or verdict.is_no_attempt:
            return (AGAIN,) * len(messages)
        most = self._settings.max_reconsume_times
        if most == -1 and not isinstance(verdict.rest, Hold):
            most = RECONSUME_TIMES_DEFAULT
        found = [HANDLED] * min(verdict.done, len(messages))
        for message in messages[len(found) :]:
            is_last = isinstance(verdict.rest, Dead) or 0 <= most <= message.reconsume_times
            if isinstance(verdict.rest, Hold) and not is_last:
                found.append(AGAIN)
            elif not self._comes_again(lane, message):
                found.append(DROPPED)
            else:
                found.append(DEAD if is_last else AGAIN)
        return tuple(found)

    def _comes_again(self, lane: Lane, message: MessageExt) -> bool:
        """Whether a message that was not handled comes again, or is kept as a dead letter."""
        try:
            self._bury(lane, message, None)
        except UnsupportedOperationError:
            return False
        return True

    def _telling(self, context: ConsumeMessageContext, settle: Settle) -> Settle:
        """Show the hooks what a program decides about its delivery."""

        def tell(lane: Lane, messages: Sequence[MessageExt], outcome: Outcome) -> Future[None]:
            is_done = isinstance(outcome, Done)
            status = "CONSUME_SUCCESS" if is_done else "RECONSUME_LATER"
            verdict = Verdict(len(messages) if is_done else 0, outcome)
            context.outcomes = self._outcomes(lane, messages, verdict)
            self._after(context, messages, status)
            return settle(lane, messages, outcome)

        return tell

    def _settle(self, settling: Future[None], settle: Callable[[], Sequence[MessageExt]]) -> None:
        problem: BaseException | None = None
        try:
            kept = settle()
        except BaseException as error:  # noqa: BLE001 - whoever settles is told
            problem, kept = error, ()
        if kept:
            problem = MQClientException(
                f"group {self._group}: no broker took {len(kept)} messages back, the log says why: "
                "they are handed over again by this consumer"
            )
        self.settling.leave(settling)
        if problem is None:
            settling.set_result(None)
        else:
            settling.set_exception(problem)

    def _close(self, lane: Lane, batch: Unpacked) -> None:
        """Give the room of decompressed bodies back."""
        lane.grow(-batch.size)
        self.bodies.release(batch.size)

    def _tell_refused(self, lane: Lane, message: MessageExt, error: BodyError) -> None:
        logger.log(
            logging.WARNING if message.reconsume_times < TOLD_TIMES_MAX else logging.DEBUG,
            "group %s: message %s of topic %s, queue %s, offset %d, attempt %d cannot be "
            "decompressed, so no listener gets it: it comes again, and after the attempts that "
            "max_reconsume_times allows it goes to the dead letters: %s",
            self._group,
            message.msg_id,
            message.topic,
            lane.queue,
            message.queue_offset,
            message.reconsume_times + 1,
            error,
        )


class DispatchSettings(HandlingSettings, Protocol):
    """Threads and batches of listener calls; see `PushConsumerConfig`."""

    consume_thread_min: int
    consume_message_batch_max_size: int
    consume_message_batch_max_wait: int


_Settings_co = TypeVar("_Settings_co", bound=DispatchSettings, covariant=True)


@define(eq=False, repr=False, kw_only=True)
class ListenerDispatch(Generic[_Settings_co]):
    """What every dispatch to a listener has: the calls of one consumer, and who runs them.

    `clock` stamps the start of each call, and tells a sweep how old it is. `pool` runs the calls:
    threads of its own, unless something else is given.
    """

    _group: str
    _engine: ClientInstance
    _settings: _Settings_co
    _progress: Progress
    _handler: Handler
    _clock: Clock
    _hooks: Hooks = field(factory=Hooks)
    _given_pool: Workers | None = field(default=None, alias="pool")
    calls: ListenerCalls = field(init=False)
    pool: Workers = field(init=False)

    calls_program: ClassVar = True

    @calls.default
    def _own_calls(self) -> ListenerCalls:
        return ListenerCalls(
            group=self._group,
            engine=self._engine,
            settings=self._settings,
            handler=self._handler,
            clock=self._clock,
            plan=self.plan,
            bury=self._progress.plan,
            hooks=self._hooks,
        )

    @pool.default
    def _pool_or_own(self) -> Workers:
        return self._given_pool or WorkerPool(
            f"rocketmq-consume-{self._group}",
            self._settings.consume_thread_min,
            schedule_after=self._engine.schedule_after,
        )

    def plan(self, lane: Lane, message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        """Say how and when a message comes again that a program puts off; see `Progress.plan`."""
        return self._progress.plan(lane, message, delay_ms)

    @property
    def unfinished(self) -> int:
        """Listener calls that wait or run."""
        return self.pool.unfinished

    def resize(self, threads: int) -> None:
        """Change the number of threads."""
        self.pool.resize(threads)

    def close(self, timeout: float) -> bool:
        """Drop what waits and wait for running listeners; False when one still runs."""
        return self.calls.close(self.pool, timeout)
