"""Messages in the hands of the program, which settles them itself: once, from any thread.

A `Delivery` is given to listeners that settle explicitly and by consumers that are asked for
messages. It must not know brokers; `progress` does what it says.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from rocketmq_py.clock import wall_ms
from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, DEAD, DONE
from rocketmq_py.errors import DeliveryEndedError, UnsupportedOperationError

if TYPE_CHECKING:
    from rocketmq_py.consumer.core.lane import Lane
    from rocketmq_py.consumer.core.outcome import Outcome
    from rocketmq_py.message import MessageExt
    from rocketmq_py.send_result import MessageQueue

Settle: TypeAlias = "Callable[[Lane, Sequence[MessageExt], Outcome], Future[None]]"
"""Does what was decided about messages of a lane, as they are cached; waits for no broker."""
Plan: TypeAlias = "Callable[[Lane, MessageExt, int | None], tuple[Outcome, int]]"
"""Says how a message of a lane comes again after a delay in ms (None: of its attempt), and in how
many; see `Progress.plan`.

Raises UnsupportedOperationError where messages do not come again.
"""
SETTLED: Final[Future[None]] = Future()
"""The end of whatever is settled at once."""
SETTLED.set_result(None)

DELAY_MAX = timedelta(days=366)
_MILLISECOND = timedelta(milliseconds=1)
_ending = threading.Lock()
"""Held for a moment by whoever settles any delivery: a lock of each would cost more."""


class Settlement:
    """The end of messages that were handed over: once, from any thread.

    ``settle`` does what was decided about ``messages``. Of a decision that comes too late, because
    the lane was dropped, it learns as well: the work on the messages is over.
    """

    __slots__ = ("__weakref__", "_is_taken_back", "_settle", "lane", "messages", "outcome")

    def __init__(self, messages: Sequence[MessageExt], lane: Lane, settle: Settle) -> None:
        self.messages = messages
        self.outcome: Outcome | None = None
        self.lane = lane
        self._settle = settle
        self._is_taken_back = False

    @property
    def queue(self) -> MessageQueue:
        """The queue that the messages lie in."""
        return self.lane.queue

    @property
    def is_over(self) -> bool:
        """Whether the messages were settled or taken back."""
        return self._is_taken_back or self.outcome is not None

    def end(self, outcome: Outcome) -> Future[None]:
        """Settle the messages; DeliveryEndedError when that is over, or comes too late."""
        with _ending:
            if self._is_taken_back:
                raise self._error(_TAKEN_BACK)
            if self.outcome is not None:
                raise self._error(f"was settled before, as {self.outcome}")
            self.outcome = outcome
        problem = self._problem()
        ended = self._settle(self.lane, self.messages, outcome)
        if problem is not None:
            raise self._error(problem)
        return ended

    def take_back(self) -> bool:
        """Take the messages back, without an outcome; False when they were settled before."""
        with _ending:
            if self.is_over:
                return False
            self._is_taken_back = True
            return True

    def _problem(self) -> str | None:
        if self.lane.dropped:
            return (
                "cannot be settled: this consumer does not have the queue any more, so the "
                "message comes again, perhaps elsewhere"
            )
        if not any(map(self.lane.holds, self.messages)):
            return _TAKEN_BACK
        return None

    def _error(self, problem: str) -> DeliveryEndedError:
        return DeliveryEndedError(f"message {self.messages[0].msg_id} of {self.queue} {problem}")


_TAKEN_BACK = "was taken back, because it was not settled within consume_timeout: it comes again"


class Delivery:
    """Messages that a consumer has handed over, and that wait to be settled.

    Settle it once, from any thread: `ack` when the messages are handled, `nack` to get them again,
    `dead` to put them among the dead letters. What is not settled within `consume_timeout` comes
    again by itself.

    `messages` are of one queue; there is one unless the consumer asks for batches.
    """

    __slots__ = ("__weakref__", "_bury", "_plan", "_settlement", "attempt", "messages", "next_due")

    def __init__(
        self, messages: Sequence[MessageExt], settlement: Settlement, plan: Plan, bury: Plan
    ) -> None:
        self.messages = messages
        self.attempt = messages[0].reconsume_times + 1
        """Number of this delivery of the (first) message, from 1."""
        self.next_due: datetime | None = None
        """After `nack`: when the messages come again, by this machine's clock and about."""
        self._settlement = settlement
        self._plan = plan
        self._bury = bury

    @property
    def message(self) -> MessageExt:
        """The only message, or the first one of a batch."""
        return self.messages[0]

    @property
    def queue(self) -> MessageQueue:
        """The queue that the messages lie in, that of a retry included."""
        return self._settlement.queue

    @property
    def is_settled(self) -> bool:
        """Whether it has been settled."""
        return self._settlement.outcome is not None

    def ack(self) -> Future[None]:
        """Say that the messages are handled; they do not come again.

        The future ends when that is noted. Raises `DeliveryEndedError` when it was settled before,
        or can no longer be: the queue has gone to another member, or `consume_timeout` is over.
        """
        return self._settlement.end(DONE)

    def nack(self, delay: timedelta | None = None) -> Future[None]:
        """Let the messages come again after ``delay`` (default: that of the attempt).

        Brokers know 18 delay levels for this: the exact one is taken, or the next longer one (two
        hours at most), and `next_due` says which moment that is. Consumers in order, whose queue
        waits so long, and those in POP mode take any millisecond. The future ends when a broker
        has taken it. Raises `DeliveryEndedError` as `ack`, `UnsupportedOperationError` where
        messages cannot come again (broadcasting to listeners that run side by side, lite pull),
        ValueError for a delay that is negative or longer than 366 days.
        """
        delay_ms = None if delay is None else _milliseconds(delay)
        outcome, wait_ms = self._plan(self._settlement.lane, self.message, delay_ms)
        ending = self._settlement.end(outcome)
        self.next_due = datetime.fromtimestamp((wall_ms() + wait_ms) / 1000, UTC)
        return ending

    def dead(self) -> Future[None]:
        """Put the messages among the dead letters at once.

        The future ends when a broker has taken them. Raises `DeliveryEndedError` as `ack`,
        `UnsupportedOperationError` where there are no dead letters (broadcasting, lite pull).
        """
        self._bury(
            self._settlement.lane, self.message, None
        )  # where nothing comes again there are no dead letters
        return self._settlement.end(DEAD)

    def __repr__(self) -> str:
        outcome = self._settlement.outcome
        state = "open" if outcome is None else f"settled as {outcome}"
        return f"Delivery({self.message.msg_id} of {self.queue}, attempt {self.attempt}, {state})"


def fail(delivery: Delivery) -> None:
    """Do what follows when a listener has failed: the messages come again, or are passed over."""
    with suppress(DeliveryEndedError):
        try:
            delivery.nack()
        except UnsupportedOperationError:  # they are passed over, and that is logged
            delivery._settlement.end(AS_ATTEMPT)  # noqa: SLF001 - of this module


def _milliseconds(delay: object) -> int:
    if not isinstance(delay, timedelta):
        kind = type(delay).__name__
        raise TypeError(f"a delay is a timedelta, not {kind}: timedelta(seconds=10)")
    if delay < timedelta():
        raise ValueError(f"a delay of {delay} is not possible: it must not be negative")
    if delay > DELAY_MAX:
        raise ValueError(f"a delay of {delay} is not possible: it is at most {DELAY_MAX.days} days")
    return -(-delay // _MILLISECOND)
