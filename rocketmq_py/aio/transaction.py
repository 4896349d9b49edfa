"""A transaction as a block of code: stored unseen before it, committed or rolled back after it.

``async with producer.transaction(message)`` over the half messages of every producer. Must not know
how a half message is stored and ended; that is ``producer/halves.py``.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType

from rocketmq_py.aio.calls import LoopCalls, Waiting
from rocketmq_py.aio.engine import ThreadedProducer
from rocketmq_py.errors import IllegalStateError, RocketMQError, SendFailedError
from rocketmq_py.message import Message
from rocketmq_py.producer.halves import BegunHalf
from rocketmq_py.send_result import LocalTransactionState


class Transaction:
    """One transaction of `Producer.transaction`, for one ``async with``."""

    def __init__(
        self,
        here: Callable[[], LoopCalls],
        threaded: ThreadedProducer,
        message: Message,
        timeout_ms: int,
    ) -> None:
        self._here = here
        self._threaded = threaded
        self._message = message
        self._timeout_ms = timeout_ms
        self._is_entered = False
        self._half: BegunHalf | None = None

    async def __aenter__(self) -> BegunHalf:
        """Store the message unseen; the block runs only when it is stored safely."""
        if self._is_entered:
            raise IllegalStateError("a transaction is entered once: call transaction() again")
        self._is_entered = True
        calls, begun = self._here(), list[Future[BegunHalf]]()

        def begin(waiting: Waiting, left_ms: int) -> Future[BegunHalf]:
            begun[:] = [self._threaded.begin_half(self._message, left_ms)]
            return waiting.watch(begun[0])

        try:
            half = await calls.made(begin, self._timeout_ms)
        except asyncio.CancelledError:
            with suppress(IllegalStateError):  # the producer has ended, and the send by that
                for one in begun:
                    self._threaded.roll_back(one)
            raise
        if half.state is not None:
            raise _not_safe(half)
        self._threaded.halves.undecided.enter(self)
        self._half = half
        return half

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back after an exception; what the block has ended itself stays so."""
        half = self._half
        if half is None:
            return
        try:
            if half.state is not None:
                return
            if error is None:
                await self._end(half, LocalTransactionState.COMMIT_MESSAGE)
            else:
                # Not awaited: the task may be cancelled, and the exception goes on in any case.
                self._begin_end(half, LocalTransactionState.ROLLBACK_MESSAGE)
        finally:
            self._threaded.halves.undecided.leave(self)

    async def _end(self, half: BegunHalf, state: LocalTransactionState) -> None:
        await self._here().made(
            lambda waiting, _: waiting.watch(self._begin_end(half, state)), self._timeout_ms
        )

    def _begin_end(self, half: BegunHalf, state: LocalTransactionState) -> Future[None]:
        """Tell the broker on another thread: its connection may take a while."""
        try:
            return self._threaded.in_background(partial(_end, half, state))
        except RocketMQError:  # no thread is free, or the producer has ended
            return half.end(state)


def _end(half: BegunHalf, state: LocalTransactionState) -> None:
    half.end(state).result()


def _not_safe(half: BegunHalf) -> SendFailedError:
    status = half.result.send_status.value
    return SendFailedError(
        f"the half message {half.message_id} is not stored safely ({status}), so it was rolled "
        "back and the block was not run: begin another transaction",
        topic=half.message.topic,
    )
