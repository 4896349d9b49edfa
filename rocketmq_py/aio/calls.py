"""How one call of an asyncio client is made: begun, waited for, put off while there is no room.

A call is begun by a function that gives a future of the client's threads at once. While it says
that too much is in flight, the call waits for room and is begun again, within its time-out. A
cancellation ends the wait and says what may become of the message. Must not know how anything is
sent. Read on: ``outcomes.py``, ``room.py``, ``cancellation.py``.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeAlias, TypeVar

from rocketmq_py.aio.cancellation import SendCancelledError, described, log_outcome
from rocketmq_py.aio.outcomes import Outcomes
from rocketmq_py.aio.room import Room
from rocketmq_py.client.activity import Book
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import (
    MQClientException,
    RemotingTimeoutException,
    RemotingTooMuchRequestException,
    RocketMQError,
    SendAttempt,
    SendFailedError,
    SendTimeoutError,
)
from rocketmq_py.message import Message
from rocketmq_py.producer.sending import PromptCallback, closed_error, is_stored
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.send_result import SendResult

Result = TypeVar("Result")


class Waiting(PromptCallback):
    """What a call waits for: it is told of the outcome as a callback, or watches a future."""

    def __init__(self, outcomes: Outcomes) -> None:
        self.waiter = outcomes.loop.create_future()
        self._put = outcomes.put

    def told(self, result: SendResult | None, error: Exception | None) -> None:  # noqa: ARG002
        """Let the task go on: the future has the outcome."""
        self._put(self.waiter)

    def watch(self, future: Future[Result]) -> Future[Result]:
        """Let the task go on when a future is done; return the future."""
        future.add_done_callback(lambda _: self._put(self.waiter))
        return future


Begin: TypeAlias = Callable[[Waiting, int], Future[Result]]
"""Begins a call that has so many milliseconds left, and lets ``Waiting`` know its end."""


class LoopCalls:
    """The calls of one client that are made from one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, book: Book) -> None:
        self.loop = loop
        self.outcomes = Outcomes(loop, book)
        self.room = Room(loop)
        self.outcomes.on_handed_out = self.room.let_in

    async def made(
        self, begin: Begin[Result], timeout_ms: int, message: Message | None = None
    ) -> Result:
        """Make a call; ``message`` is what it sends, if it does."""
        outcomes = self.outcomes
        future: Future[Result] | None = None
        refusals: list[RemotingTooMuchRequestException] = []
        began, left_ms = monotonic(), timeout_ms
        outcomes.begin(refusals)
        try:
            while True:
                try:
                    waiting = Waiting(outcomes)
                    future = begin(waiting, left_ms)
                    if self.room.is_wanted and not future.done():
                        self.room.let_in(1)  # where this call has got in, another one may
                    await waiting.waiter  # also for what is done: other tasks have their turn
                    return future.result()
                except RocketMQError as error:
                    refusal = _refusal(error)
                    if refusal is None:
                        raise
                    refusals.append(refusal)
                future = None
                left_ms = timeout_ms - int((monotonic() - began) * 1000)
                await self._has_room(refusals, timeout_ms, left_ms, message)
                left_ms = max(1, timeout_ms - int((monotonic() - began) * 1000))
        except asyncio.CancelledError as error:
            if not isinstance(message, Message):  # nothing is sent, or what cannot be
                raise
            raise error from _cancelled(message, future, refusals)
        finally:
            outcomes.end(refusals)

    async def _has_room(
        self,
        refusals: list[RemotingTooMuchRequestException],
        timeout_ms: int,
        left_ms: int,
        message: Message | None,
    ) -> None:
        """Wait until it is worth trying again; raise when the time or the client ends first."""
        if not await self.room.wait(left_ms / 1000):
            raise _no_room(refusals, timeout_ms, message)
        if self.room.is_closed:
            raise closed_error(stored=any(map(is_stored, refusals)))


def _refusal(error: RocketMQError) -> RemotingTooMuchRequestException | None:
    """Give why a call was refused only because too much is in flight; None: that is not why.

    A request for a reply has it as its cause. A time-out may come of that, too, and stays one.
    """
    reason = error.__cause__ if type(error) is MQClientException else error
    if isinstance(reason, RemotingTimeoutException):
        return None
    return reason if isinstance(reason, RemotingTooMuchRequestException) else None


def _no_room(
    refusals: list[RemotingTooMuchRequestException], timeout_ms: int, message: Message | None
) -> RocketMQError:
    """Build the error of a call whose time is over; of the last refusal when it sends nothing."""
    last = refusals[-1]
    if not isinstance(message, Message):
        return last
    attempts: list[SendAttempt] = []
    for one in refusals:
        attempts += one.attempts if isinstance(one, SendFailedError) else ()
    stored = any(map(is_stored, refusals))
    may = "A broker may have stored" if stored else "No broker has stored"
    error = SendTimeoutError(
        f"sending to topic {message.topic} used up its {timeout_ms} ms (send_msg_timeout) waiting "
        f"for room, after {len(refusals)} tries; the last one: {last.__cause__ or last}. {may} the "
        "message",
        response_code=ResponseCode.ACCESS_BROKER_TIMEOUT,
        address=last.address,
        topic=message.topic,
        attempt=len(attempts),
        elapsed_ms=timeout_ms,
    )
    error.attempts, error.possibly_stored = tuple(attempts), stored
    error.__cause__ = last
    return error


def _cancelled(
    message: Message, future: Future[Result] | None, refusals: list[RemotingTooMuchRequestException]
) -> SendCancelledError:
    """Say what becomes of a message whose task was cancelled."""
    if future is None or future.cancel():  # it waits for room, or for a thread
        return described(message, possibly_stored=any(map(is_stored, refusals)))
    if not future.done():
        log_outcome(message, future)
        return described(message, possibly_stored=True, sending=True)
    error = future.exception()
    stored = any(map(is_stored, refusals))
    if isinstance(error, Exception):
        stored = stored or is_stored(error)
    return described(message, possibly_stored=error is None or stored)
