"""What a listener of any shape says about its messages, as an outcome that the core understands.

A handler calls one kind of listener and turns status, exception or nonsense into a `Verdict`. It
must not know queues or brokers; ``dispatch/listener_calls.py`` calls it. What a program can write
as a listener is in ``listener.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from attrs import define, field

from rocketmq_py.client.application_faults import ApplicationFaults
from rocketmq_py.consumer.core.delivery import SETTLED, Delivery, Settlement
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, DEAD, DONE, Hold, Later, Outcome
from rocketmq_py.consumer.dispatch.listener_calls import Handler, Verdict
from rocketmq_py.consumer.listener import (
    ACK_ALL,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    Listening,
)
from rocketmq_py.errors import UnsupportedOperationError
from rocketmq_py.logs import get_logger

if TYPE_CHECKING:
    from rocketmq_py.message import MessageExt
    from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

DEAD_LEVEL: Final = -1
"""The delay level of a listener's context that means the dead letters."""

RAISED: Final = "EXCEPTION"
RETURNED_NONSENSE: Final = "RETURNNULL"


@define(eq=False, repr=False)
class ConcurrentHandler:
    """Calls a listener whose messages may be handled in any order."""

    settles: ClassVar[Literal[False]] = False
    _group: str
    _consume: Callable[..., object]
    _told: set[str] = field(factory=set, init=False)
    _faults: ApplicationFaults = field(factory=partial(ApplicationFaults, logger), init=False)

    def __call__(self, messages: Sequence[MessageExt], queue: MessageQueue) -> Verdict:
        """Take CONSUME_SUCCESS for done, and everything else for later."""
        context = ConsumeConcurrentlyContext(queue)
        # A listener of a foreign program may return anything, whatever its annotation says.
        status = _called(self._faults, self._group, self._consume, messages, queue, context)
        verdict = _HANDLED if status is _HANDLED.status else _FAILED
        if not isinstance(status, ConsumeConcurrentlyStatus):
            verdict = _FAILED._replace(problem=_problem(status))
            if verdict.problem == RETURNED_NONSENSE:
                name = named(messages, queue)
                _tell_nonsense(self._group, status, name, self._told, _CONCURRENTLY)
        level, last = context.delay_level_when_next_consume, context.ack_index
        if level or last != ACK_ALL:  # the listener says more than its status does
            done = max(0, min(verdict.done, last + 1))
            verdict = verdict._replace(done=done, rest=_outcome_of(level))
        return verdict


_HANDLED: Final = Verdict(ACK_ALL, status=ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
_FAILED: Final = Verdict(0, status=ConsumeConcurrentlyStatus.RECONSUME_LATER)


@define(eq=False, repr=False)
class OrderlyHandler:
    """Calls a listener whose messages of a queue are handled one after the other.

    ``suspend_ms`` gives how long a queue waits whose listener does not say so itself. ``commits``:
    whether a listener may turn auto-commit off.
    """

    settles: ClassVar[Literal[False]] = False
    _group: str
    _consume: Callable[..., object]
    _suspend_ms: Callable[[], int]
    _commits: bool = True
    _told: set[str] = field(factory=set, init=False)
    _faults: ApplicationFaults = field(factory=partial(ApplicationFaults, logger), init=False)

    def __call__(self, messages: Sequence[MessageExt], queue: MessageQueue) -> Verdict:
        """Take SUCCESS for done, and everything else for a pause of the queue."""
        context = (ConsumeOrderlyContext if self._commits else _WithoutCommits)(queue)
        count = len(messages)
        status = _called(self._faults, self._group, self._consume, messages, queue, context)
        problem = ""
        if not isinstance(status, ConsumeOrderlyStatus):
            problem = _problem(status)
            if problem == RETURNED_NONSENSE:
                name = named(messages, queue)
                _tell_nonsense(self._group, status, name, self._told, _ORDERLY)
            status = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        verdict = self._verdict(status, context, count)
        return verdict._replace(status=status, problem=problem)

    def _verdict(
        self, status: ConsumeOrderlyStatus, context: ConsumeOrderlyContext, count: int
    ) -> Verdict:
        hold = Hold(self._pause_ms(context))
        match status:
            case ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT:
                return Verdict(0, hold)
            case ConsumeOrderlyStatus.ROLLBACK if not context.auto_commit:
                return Verdict(0, hold, again=True)
            case ConsumeOrderlyStatus.COMMIT | ConsumeOrderlyStatus.ROLLBACK:
                if context.auto_commit:
                    self._tell_needless(status)
                return Verdict(count)
            case _:
                return Verdict(count, waits=not context.auto_commit)

    def _pause_ms(self, context: ConsumeOrderlyContext) -> int:
        pause_ms = context.suspend_current_queue_time_millis
        if pause_ms < 0:
            pause_ms = self._suspend_ms()
        return min(max(pause_ms, SUSPEND_MIN_MS), SUSPEND_MAX_MS)

    def _tell_needless(self, status: ConsumeOrderlyStatus) -> None:
        level = logging.DEBUG if status.name in self._told else logging.WARNING
        self._told.add(status.name)
        logger.log(
            level,
            "group %s: the listener returned %s, which counts as SUCCESS: it is for contexts whose "
            "auto_commit was set to False",
            self._group,
            status.name,
        )


class _WithoutCommits(ConsumeOrderlyContext):
    """A context where each message is acked by itself."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        if name == "auto_commit" and not value:
            raise UnsupportedOperationError(
                f"auto_commit = {value!r} is not possible with client_rebalance=False: of a queue "
                "that is popped a broker gives nothing more until what it gave is acked, so a "
                "COMMIT of several messages might be waited for in vain"
            )
        super().__setattr__(name, value)


SUSPEND_MIN_MS = 10
SUSPEND_MAX_MS = 30_000
"""Bounds of the pause of a queue whose listener suspends it, as Java has them."""


@define(eq=False, repr=False)
class DeliveryHandler:
    """Calls a listener that settles its messages itself, when it likes and from any thread."""

    settles: ClassVar[Literal[True]] = True
    _group: str
    _consume: Callable[..., object]
    _faults: ApplicationFaults = field(factory=partial(ApplicationFaults, logger), init=False)

    def __call__(self, delivery: Delivery) -> Verdict:
        """Take the return for nothing, and an exception for a `Delivery.nack`."""
        try:
            self._consume(delivery)
        except BaseException as error:  # noqa: BLE001 - as any other listener's
            tell_raised(self._faults, self._group, delivery, error)
            return Verdict(0)
        return Verdict(len(delivery.messages))


def tell_raised(
    faults: ApplicationFaults, group: str, delivery: Delivery, error: BaseException
) -> None:
    """Log that a listener that settles its messages itself has raised."""
    name = named(delivery.messages, delivery.queue, delivery.attempt)
    end = "it was settled before" if delivery.is_settled else _COMES_AGAIN
    faults.tell(_listener_of(group), f"{name}; {end}", error, logging.WARNING)


def handler_of(
    listening: Listening, group: str, suspend_ms: Callable[[], int], *, commits: bool = True
) -> Handler:
    """Return what calls a listener; ``commits``: whether an orderly one may commit by itself."""
    if listening.settles:
        return DeliveryHandler(group, listening.function)
    if listening.is_orderly:
        return OrderlyHandler(group, listening.function, suspend_ms, commits)
    return ConcurrentHandler(group, listening.function)


_RESULTS: Final[dict[Enum, str]] = {
    ConsumeConcurrentlyStatus.CONSUME_SUCCESS: "CR_SUCCESS",
    ConsumeConcurrentlyStatus.RECONSUME_LATER: "CR_LATER",
    ConsumeOrderlyStatus.SUCCESS: "CR_SUCCESS",
    ConsumeOrderlyStatus.COMMIT: "CR_COMMIT",
    ConsumeOrderlyStatus.ROLLBACK: "CR_ROLLBACK",
    ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT: "CR_LATER",
}


def consume_directly(
    group: str, listening: Listening, message: MessageExt, queue: MessageQueue
) -> tuple[str, str | None]:
    """Let a listener handle one message aside; return Java's ``CMResult`` and a remark."""
    try:
        if listening.settles:
            return _settled_directly(listening, message, queue)
        context = ConsumeOrderlyContext if listening.is_orderly else ConsumeConcurrentlyContext
        status = listening.function([message], context(queue))
        wanted = ConsumeOrderlyStatus if listening.is_orderly else ConsumeConcurrentlyStatus
        if isinstance(status, wanted):
            return _RESULTS[status], None
        if status is None:
            return "CR_RETURN_NULL", None
        return "CR_RETURN_NULL", f"the listener returned {_kind(status)}, not a {wanted.__name__}"
    except BaseException as error:
        logger.exception("group %s: the listener failed for %s", group, message.msg_id)
        return "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"


def _settled_directly(
    listening: Listening, message: MessageExt, queue: MessageQueue
) -> tuple[str, str | None]:
    def settle(*_: object) -> Future[None]:
        return SETTLED

    def plan(_lane: Lane, _message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        return AS_ATTEMPT, delay_ms or 0

    aside = Lane(queue, message.queue_offset, fetched_at=0.0)
    aside.put([message])
    settlement = Settlement([message], aside, settle)
    listening.function(Delivery([message], settlement, plan, plan))
    if settlement.outcome is None:
        return "CR_SUCCESS", "the listener has returned and not settled the message yet"
    return ("CR_SUCCESS" if settlement.outcome == DONE else "CR_LATER"), None


def named(messages: Sequence[MessageExt], queue: MessageQueue, attempt: int | None = None) -> str:
    """Name the messages of a listener call in a log line: the first, and how many more."""
    first, more = messages[0], len(messages) - 1
    others = f", and {more} more" if more > 0 else ""
    return (
        f"message {first.msg_id} of topic {first.topic}, queue {queue}, "
        f"attempt {attempt or first.reconsume_times + 1}{others}"
    )


_RAISED = object()
_CONCURRENTLY = "ConsumeConcurrentlyStatus", "CONSUME_SUCCESS"
_ORDERLY = "ConsumeOrderlyStatus", "SUCCESS"


_COMES_AGAIN: Final = "it comes again later"


def _listener_of(group: str) -> str:
    return f"group {group}: the listener"


def _called(
    faults: ApplicationFaults,
    group: str,
    consume: Callable[..., object],
    messages: Sequence[MessageExt],
    queue: MessageQueue,
    context: object,
) -> object:
    """Call the listener; `_RAISED` after an exception, which is logged."""
    try:
        return consume(list(messages), context)  # a listener may change its list
    except BaseException as error:  # noqa: BLE001
        # SystemExit too: a listener must not be able to take a thread away.
        case = f"{named(messages, queue)}; {_COMES_AGAIN}"
        faults.tell(_listener_of(group), case, error, logging.WARNING)
        return _RAISED


def _tell_nonsense(
    group: str, status: object, name: str, told: set[str], wanted: tuple[str, str]
) -> None:
    """Say once for each type that a listener returned what is no status."""
    kind = type(status).__name__
    level = logging.DEBUG if kind in told else logging.WARNING
    told.add(kind)
    status_type, success = wanted
    logger.log(
        level,
        "group %s: the listener returned %s instead of a %s for %s; it comes again later: return "
        "%s.%s",
        group,
        _kind(status),
        status_type,
        name,
        status_type,
        success,
    )


def _problem(status: object) -> str:
    """Say why a call gave no status, in the words of hooks."""
    return RAISED if status is _RAISED else RETURNED_NONSENSE


def _kind(status: object) -> str:
    return "None" if status is None else f"a {type(status).__name__}"


def _outcome_of(level: int) -> Outcome:
    """Turn the delay level of a context into an outcome."""
    if level == 0:
        return AS_ATTEMPT
    return DEAD if level <= DEAD_LEVEL else Later(level)
