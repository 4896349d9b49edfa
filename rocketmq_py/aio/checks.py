"""A broker's questions about transactions, answered by a coroutine function in the event loop.

A broker that hears nothing of a half message asks a producer of its group. `Checks` has the
application decide in the loop, and tells the broker. Must not know requests; those are in
``producer/halves.py``. With threads: ``producer/checking.py``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from rocketmq_py.aio.engine import ThreadedProducer
from rocketmq_py.aio.outcomes import Outcomes
from rocketmq_py.errors import RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.message import MessageExt
from rocketmq_py.producer.checking import CHECK_TROUBLE, decision_of
from rocketmq_py.producer.halves import AskedHalf
from rocketmq_py.send_result import LocalTransactionState

_log = get_logger(__name__)

TransactionCheck: TypeAlias = Callable[[MessageExt], Awaitable[LocalTransactionState]]
"""Says what became of the transaction of a message."""

CHECKS_MAX: Final = 2_000
"""Questions that are worked on at a time; what comes beyond is dropped, and asked again."""


class Checks:
    """The questions of brokers to one asyncio producer."""

    def __init__(
        self, check: TransactionCheck, threaded: ThreadedProducer, outcomes: Outcomes
    ) -> None:
        self._check = check
        self._threaded = threaded
        self._halves = threaded.halves
        self._outcomes = outcomes
        self._open: dict[AskedHalf, asyncio.Task[None] | None] = {}

    def ask(self, half: AskedHalf) -> None:
        """Take a half on the thread that reads requests."""
        if len(self._open) >= CHECKS_MAX:
            _log.warning(
                "transaction check dropped id=%s: %d are worked on already; the broker asks again",
                half.message_id,
                CHECKS_MAX,
            )
            return
        self._halves.undecided.enter(half)
        self._open[half] = None
        if not self._outcomes.call(partial(self._begin, half)):
            self._leave(half)

    def cancel(self) -> None:
        """Answer no more, on the loop's thread: what is open is asked again."""
        for task in list(self._open.values()):
            if task is not None:
                task.cancel()

    def _begin(self, half: AskedHalf) -> None:
        task = self._open[half] = self._outcomes.loop.create_task(self._answer(half))
        task.add_done_callback(lambda _: self._leave(half))

    def _leave(self, half: AskedHalf) -> None:
        self._open.pop(half, None)
        self._halves.undecided.leave(half)

    async def _answer(self, half: AskedHalf) -> None:
        """Ask the application and tell the broker, also that nothing is known yet."""
        deciding = asyncio.ensure_future(self._decide(half))
        try:
            await asyncio.wait([deciding])
        finally:
            deciding.cancel()
        state, remark = decision_of(deciding.result, CHECK_TROUBLE, half.message)
        end = partial(half.end, state, remark=remark)
        try:
            self._threaded.in_background(end)
        except RocketMQError:  # no thread is free, or the producer has ended
            end()

    async def _decide(self, half: AskedHalf) -> LocalTransactionState:
        half.message = half.message.unpacked(self._threaded.config.decompressed_body_max_bytes)
        return await self._check(half.message)
