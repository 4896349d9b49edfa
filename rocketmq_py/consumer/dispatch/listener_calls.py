"""One call of a listener: from cached messages to what it says about them.

`ListenerCalls` decompresses bodies within the consumer's room, stamps the start of the call, lets a
handler (``../listening.py``) see the messages, and gives back what became of them; hooks see both
ends of it. Which messages
form a call, and on which thread it runs, is decided by the modules beside this one.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from attrs import define, field

from rocketmq_py.consumer.core.delivery import Delivery, Settle, Settlement
from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, Done, Outcome
from rocketmq_py.consumer.dispatch.bodies import Bodies
from rocketmq_py.consumer.hooks import CONTEXT_TYPE, ConsumeMessageContext, Hooks
from rocketmq_py.errors import BodyError, DeliveryEndedError, MQClientException
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.properties import Prop

if TYPE_CHECKING:
    from rocketmq_py.clock import Clock
    from rocketmq_py.consumer.core.lane import Lane
    from rocketmq_py.consumer.dispatch.bodies import Unpacked
    from rocketmq_py.message import MessageExt

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

    ``waits``: what is handled is settled by a later call that does not wait (orderly consumption
    without auto-commit). ``again``: all that waits so is to be handled once more.
    ``is_no_attempt``: no listener had the messages. ``status`` is the name of the listener's
    status, ``problem`` EXCEPTION or RETURNNULL where it gave none.
    """

    done: int
    rest: Outcome = AS_ATTEMPT
    waits: bool = False
    again: bool = False
    is_no_attempt: bool = False
    status: str = ""
    problem: str = ""


class Handler(Protocol):
    """Lets a listener of some shape handle messages."""

    @property
    def settles(self) -> bool:
        """Whether the program settles by a `Delivery`, so that the end of the call says nothing."""

    def __call__(self, delivery: Delivery) -> Verdict:
        """Call the listener; never raises."""


class Called(NamedTuple):
    """What came of one call; `verdict` is None where nothing was handled, or not settled yet.

    `messages` are those that the listener had, as they are cached. `refused` cannot be
    decompressed. For `waiting` there is no room yet. `settlement` ends what the program settles.
    """

    messages: Sequence[MessageExt]
    verdict: Verdict | None
    refused: Sequence[MessageExt] = ()
    waiting: Sequence[MessageExt] = ()
    settlement: Settlement | None = None


class HandlingSettings(Protocol):
    """What bounds the bodies that listeners hold, and the minutes that one call may take."""

    decompressed_body_max_bytes: int
    decompressed_total_max_bytes: int
    consume_timeout: int


PlanOfLane: TypeAlias = "Callable[[Lane, MessageExt, int | None], tuple[Outcome, int]]"
"""Says how a message of a lane comes again; see `Progress.plan`."""


@define(eq=False, repr=False, kw_only=True)
class ListenerCalls:
    """The calls of one consumer's listener.

    `plan` says how messages come again, `bury` whether they can become dead letters.
    """

    _group: str
    _settings: HandlingSettings
    _handler: Handler
    _clock: Clock
    _plan: PlanOfLane
    _bury: PlanOfLane
    _hooks: Hooks = field(factory=Hooks)
    bodies: Bodies = field(init=False)

    @bodies.default
    def _own_bodies(self) -> Bodies:
        return Bodies(self._settings)

    def call(self, lane: Lane, messages: Sequence[MessageExt], settle: Settle) -> Called:
        """Let the listener handle messages of a lane; ``settle`` does what a program decides."""
        batch = self.bodies.unpacked(messages)
        if batch.size:
            lane.grow(batch.size)
        called = Called(batch.messages, None, [one for one, _ in batch.refused], batch.waiting)
        for message, error in batch.refused:
            self._tell_refused(lane, message, error)
        if not batch.messages:
            return called
        started = str(self._clock.now_ms)
        for message in batch.messages:
            message.properties[Prop.CONSUME_START_TIME] = started
        shown = list(batch.shown)  # a listener may change its list
        context = self._before(lane, shown) if self._hooks.consume else None
        if context is not None and self._handler.settles:
            settle = self._telling(context, settle)
        settlement = Settlement(batch.messages, lane, settle)
        delivery = Delivery(shown, settlement, partial(self._plan, lane), partial(self._bury, lane))
        if self._handler.settles:
            self._leave_to_program(lane, batch, delivery, settlement)
            return called._replace(settlement=settlement)
        try:
            verdict = self._handler(delivery)
        finally:
            self._close(lane, batch)
        if context is not None:
            self._after(context, batch.messages, verdict)
        return called._replace(verdict=verdict)

    def age_ms(self, message: MessageExt) -> int:
        """Return how long ago a listener got a message; -1 when none had it."""
        started = message.properties.get(Prop.CONSUME_START_TIME)
        return -1 if started is None else self._clock.now_ms - int(started)

    def _leave_to_program(
        self, lane: Lane, batch: Unpacked, delivery: Delivery, settlement: Settlement
    ) -> None:
        """Let the listener have messages for longer than its call.

        The room of their bodies is kept as long as the program may look at them.
        """
        if batch.size:
            weakref.finalize(delivery, self._close, lane, batch).atexit = False
        verdict = self._handler(delivery)
        if not verdict.done and not settlement.is_over:  # it raised before
            with suppress(DeliveryEndedError):
                settlement.end(verdict.rest)

    def _before(self, lane: Lane, shown: list[MessageExt]) -> ConsumeMessageContext:
        context = ConsumeMessageContext(
            consumer_group=self._group, messages=tuple(shown), queue=lane.queue
        )
        self._hooks.before(context)
        return context

    def _after(
        self, context: ConsumeMessageContext, messages: Sequence[MessageExt], verdict: Verdict
    ) -> None:
        is_late = self.age_ms(messages[0]) >= self._settings.consume_timeout * MINUTE_MS
        context.status = verdict.status
        context.success = verdict.status in SUCCESSES
        context.props[CONTEXT_TYPE] = verdict.problem or (
            "TIME_OUT" if is_late else "SUCCESS" if context.success else "FAILED"
        )
        self._hooks.after(context)

    def _telling(self, context: ConsumeMessageContext, settle: Settle) -> Settle:
        """Show the hooks what a program decides about its delivery."""

        def tell(messages: Sequence[MessageExt], outcome: Outcome) -> Future[None]:
            status = "CONSUME_SUCCESS" if isinstance(outcome, Done) else "RECONSUME_LATER"
            self._after(context, messages, Verdict(0, status=status))
            return settle(messages, outcome)

        return tell

    def _close(self, lane: Lane, batch: Unpacked) -> None:
        if batch.size:
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


def ended(settling: Future[None], settle: Callable[[], Sequence[MessageExt]], group: str) -> None:
    """Settle, and end the future of whoever did so: with an error when a broker is missing."""
    try:
        kept = settle()
    except BaseException as error:  # noqa: BLE001 - whoever settles is told
        settling.set_exception(error)
        return
    if kept:
        settling.set_exception(
            MQClientException(
                f"group {group}: no broker took {len(kept)} messages back, the log says why: they "
                "are handed over again by this consumer"
            )
        )
    else:
        settling.set_result(None)
