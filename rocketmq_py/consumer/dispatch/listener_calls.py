"""One call of a listener: from cached messages to what it says about them.

`ListenerCalls` decompresses bodies within the consumer's room, stamps the start of the call, lets a
handler (``../listening.py``) see the messages, and gives back what became of them. Which messages
form a call, and on which thread it runs, is decided by the modules beside this one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from attrs import define, field

from rocketmq_py.consumer.core.delivery import Delivery
from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, Outcome
from rocketmq_py.consumer.dispatch.bodies import Bodies
from rocketmq_py.errors import BodyError, DeliveryEndedError
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


class Verdict(NamedTuple):
    """What a listener says: the first ``done`` messages are handled, ``rest`` holds for the others.

    ``waits``: what is handled is settled by a later call that does not wait (orderly consumption
    without auto-commit). ``again``: all that waits so is to be handled once more.
    ``is_no_attempt``: no listener had the messages.
    """

    done: int
    rest: Outcome = AS_ATTEMPT
    waits: bool = False
    again: bool = False
    is_no_attempt: bool = False


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
    decompressed. For `waiting` there is no room yet.
    """

    messages: Sequence[MessageExt]
    verdict: Verdict | None
    refused: Sequence[MessageExt] = ()
    waiting: Sequence[MessageExt] = ()


class HandlingSettings(Protocol):
    """What bounds the bodies that listeners hold, and how often a message is tried."""

    decompressed_body_max_bytes: int
    decompressed_total_max_bytes: int

    @property
    def reconsume_times_max(self) -> int:
        """Attempts after the first one."""


PlanOfLane: TypeAlias = "Callable[[Lane, MessageExt, int | None], tuple[Outcome, int]]"
"""Says how a message of a lane comes again; see `Progress.plan`."""
SettleForProgram: TypeAlias = "Callable[[Lane, Sequence[MessageExt], Outcome], Future[None]]"
"""Does what a program has decided about the messages of its call, without waiting for a broker."""


@define(eq=False, repr=False, kw_only=True)
class ListenerCalls:
    """The calls of one consumer's listener.

    `plan` says how messages come again, `settle` does what a program decides about a delivery.
    """

    _group: str
    _settings: HandlingSettings
    _handler: Handler
    _clock: Clock
    _plan: PlanOfLane
    _settle: SettleForProgram
    bodies: Bodies = field(init=False)

    @bodies.default
    def _own_bodies(self) -> Bodies:
        return Bodies(self._settings)

    def call(self, lane: Lane, messages: Sequence[MessageExt]) -> Called:
        """Let the listener handle messages of a lane."""
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
        delivery = Delivery(
            list(batch.shown),  # a listener may change its list
            lane,
            partial(self._settle, lane, batch.messages),
            partial(self._plan, lane),
        )
        if self._handler.settles:
            self._leave_to_program(lane, batch, delivery)
            return called
        try:
            return called._replace(verdict=self._handler(delivery))
        finally:
            self._close(lane, batch)

    def _leave_to_program(self, lane: Lane, batch: Unpacked, delivery: Delivery) -> None:
        """Let the listener have messages for longer than its call; their room is kept as long."""
        if batch.size:
            weakref.finalize(delivery, self._close, lane, batch).atexit = False
        if not self._handler(delivery).done and not delivery.is_settled:  # it raised before
            with suppress(DeliveryEndedError):
                delivery.nack()

    def _close(self, lane: Lane, batch: Unpacked) -> None:
        if batch.size:
            lane.grow(-batch.size)
            self.bodies.release(batch.size)

    def _tell_refused(self, lane: Lane, message: MessageExt, error: BodyError) -> None:
        logger.warning(
            "group %s: message %s of topic %s, queue %s, offset %d, attempt %d cannot be "
            "decompressed, so no listener gets it; it comes again later, and after %d attempts it "
            "goes to the dead letters: %s",
            self._group,
            message.msg_id,
            message.topic,
            lane.queue,
            message.queue_offset,
            message.reconsume_times + 1,
            self._settings.reconsume_times_max + 1,
            error,
        )
