"""Messages on their way to tasks: none is lost to a task that is cancelled, none comes too late."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from rocketmq_py import Delivery, MessageExt, MessageQueue
from rocketmq_py.aio.handler_tasks import HandlerTasks
from rocketmq_py.aio.outcomes import Outcomes
from rocketmq_py.aio.receiving import Iterating, Listening
from rocketmq_py.client.activity import Activity
from rocketmq_py.consumer.core.delivery import Settlement
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, DONE, Outcome
from tests.unit.rocketmq_py.consumer.fake_engine import message


class Workers:
    """Counts what is asked of them; what is passed on is called in the next turn."""

    def __init__(self) -> None:
        self.room = self.held = 0

    def widen(self, by: int) -> None:
        self.room += by

    def hold(self) -> None:
        self.held += 1

    def give_back(self) -> None:
        self.held -= 1

    def pass_on(self, call: Any) -> None:
        asyncio.get_running_loop().call_soon(call)


def outcomes() -> Outcomes:
    """Those of the running loop."""
    loop = asyncio.get_running_loop()
    return Outcomes(loop, Activity().open("consumer G", "awaited calls", loop.is_closed))


def iterating() -> tuple[Iterating, Any]:
    receiver, workers = Iterating(outcomes(), "G"), Workers()
    receiver.handler_tasks = HandlerTasks(receiver.outcomes.loop)
    receiver.workers = workers  # type: ignore[assignment] # a fake
    return receiver, workers


def listening(listener: Any) -> tuple[Listening, Any]:
    receiver, workers = Listening(outcomes(), "G", listener), Workers()
    receiver.handler_tasks = HandlerTasks(receiver.outcomes.loop)
    receiver.workers = workers  # type: ignore[assignment] # a fake
    return receiver, workers


def delivery(settled: list[Outcome] | None = None, offset: int = 0) -> Delivery:
    lane = Lane(MessageQueue("T", "b", 0), 0, fetched_at=0.0)
    one = message(offset)
    lane.put([one])

    def settle(_lane: Lane, _: object, outcome: Outcome) -> Future[None]:
        if settled is not None:
            settled.append(outcome)
        ended: Future[None] = Future()
        ended.set_result(None)
        return ended

    def plan(_lane: Lane, _: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        return AS_ATTEMPT, delay_ms or 0

    return Delivery([one], Settlement([one], lane, settle), plan, plan)


def test_messages_for_a_task_that_is_cancelled_in_that_moment_are_the_next_ones_again() -> None:
    async def main() -> None:
        receiver, workers = iterating()
        asking = asyncio.create_task(receiver.next())
        await asyncio.sleep(0)
        first, second = delivery(), delivery(offset=1)
        receiver.take(first)
        receiver.take(second)  # nobody has asked for it: it waits
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert workers.room == 0
        for wanted in (first, second):
            got = await receiver.next()
            assert got is not None
            assert got.message is wanted.message

    asyncio.run(main())


def test_messages_of_a_cancelled_task_go_to_one_that_waits() -> None:
    async def main() -> None:
        receiver, workers = iterating()
        one, other = (asyncio.create_task(receiver.next()) for _ in range(2))
        await asyncio.sleep(0)
        assert workers.room == 2
        receiver.take(delivery())
        one.cancel()
        assert await other is not None
        assert (one.cancelled(), workers.room) == (True, 0)

    asyncio.run(main())


def test_the_end_lets_everybody_go_who_waits_and_hands_nothing_over() -> None:
    async def main() -> None:
        receiver, _ = iterating()
        asking = asyncio.create_task(receiver.next())
        await asyncio.sleep(0)
        receiver.close()
        assert await asking is None
        receiver.take(delivery())
        assert await receiver.next() is None

    asyncio.run(main())


def test_a_listener_that_settles_is_left_alone_and_one_that_does_not_has_handled() -> None:
    async def main() -> None:
        async def settling(handed: Any) -> None:
            await handed.nack()

        async def returning(handed: Any) -> None:
            assert repr(handed).startswith("aio.Delivery(")

        for listener, wanted in ((settling, AS_ATTEMPT), (returning, DONE)):
            settled: list[Outcome] = []
            receiver, workers = listening(listener)
            receiver.take(delivery(settled))
            assert workers.held == 1
            for _ in range(5):
                await asyncio.sleep(0)
            assert (settled, workers.held) == ([wanted], 0)

    asyncio.run(main())


def test_a_listener_that_raises_or_is_cancelled_gets_its_messages_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async def raising(_: object) -> None:
            raise LookupError("theirs")

        async def cancelled(_: object) -> None:
            raise asyncio.CancelledError

        for listener, told in ((raising, True), (cancelled, False)):
            caplog.clear()
            settled: list[Outcome] = []
            receiver, workers = listening(listener)
            receiver.take(delivery(settled))
            for _ in range(5):
                await asyncio.sleep(0)
            assert (settled, workers.held) == ([AS_ATTEMPT], 0)
            assert ("theirs" in caplog.text) is told

    asyncio.run(main())


def test_after_the_end_no_listener_begins_and_its_place_is_free() -> None:
    async def main() -> None:
        begun: list[object] = []

        async def listener(handed: object) -> None:
            begun.append(handed)

        receiver, workers = listening(listener)
        receiver.take(delivery())
        receiver.close()
        for _ in range(3):
            await asyncio.sleep(0)
        assert (begun, workers.held) == ([], 0)

    asyncio.run(main())
