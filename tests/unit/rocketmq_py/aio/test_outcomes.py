"""Outcomes reach the loop, many with one wake-up; a call counts until its task has gone on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import Message, aio
from rocketmq_py.aio.outcomes import HANDED_OUT_MAX, Outcomes
from rocketmq_py.client.activity import Activity
from tests.unit.rocketmq_py.aio.conftest import Held
from tests.unit.rocketmq_py.scripted import ScriptedCluster
from tests.waiting import until


def outcomes_of(loop: asyncio.AbstractEventLoop, activity: Activity | None = None) -> Outcomes:
    book = (activity or Activity()).open("producer G", "awaited calls", loop.is_closed)
    return Outcomes(loop, book)


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts how often a thread wakes it."""

    woken = 0

    def call_soon_threadsafe(self, *args: object, **kwargs: object) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(*args, **kwargs)  # type: ignore[arg-type]


def test_many_outcomes_wake_the_loop_once() -> None:
    loop = CountingLoop()
    outcomes = outcomes_of(loop)
    handed_out: list[int] = []
    outcomes.on_handed_out = handed_out.append
    waiters = [loop.create_future() for _ in range(HANDED_OUT_MAX * 2 + 1)]

    def put_all() -> None:
        for waiter in waiters:
            outcomes.put(waiter)

    thread = threading.Thread(target=put_all)
    thread.start()
    thread.join()
    assert loop.woken == 1
    loop.run_until_complete(waiters[-1])
    assert handed_out == [HANDED_OUT_MAX, HANDED_OUT_MAX, 1]
    assert all(waiter.done() for waiter in waiters)

    late = loop.create_future()
    outcomes.put(late)  # the loop has slept since, so it is woken again
    assert loop.woken == 2
    late.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_a_closed_loop_is_left_alone_and_holds_nothing_up() -> None:
    loop = asyncio.new_event_loop()
    activity = Activity()
    outcomes = outcomes_of(loop, activity)
    outcomes.begin("a call")
    assert activity.told() == "producer G: 1 awaited calls"
    waiter = loop.create_future()
    loop.close()
    outcomes.put(waiter)
    outcomes.call(lambda: None)
    assert not waiter.done()
    assert activity.told() is None
    outcomes.end("a call")
    assert len(outcomes.book) == 0


def test_a_call_whose_task_is_collected_on_another_thread_counts_no_more() -> None:
    loop = asyncio.new_event_loop()
    outcomes = outcomes_of(loop)
    outcomes.begin("a call")
    thread = threading.Thread(target=outcomes.end, args=("a call",))
    thread.start()
    thread.join()
    assert len(outcomes.book) == 0
    loop.close()


async def rounds() -> None:
    """Let the loop go round so often that no call counts any more."""
    for _ in range(20):
        await asyncio.sleep(0)


async def by_itself(send: Callable[[], Awaitable[object]]) -> None:
    await send()


async def gathered(send: Callable[[], Awaitable[object]]) -> None:
    await asyncio.gather(send(), send())


async def in_a_task_group(send: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(by_itself(send))
        group.create_task(by_itself(send))


async def in_a_task_of_a_task(send: Callable[[], Awaitable[object]]) -> None:
    await asyncio.create_task(gathered(send))


@pytest.mark.parametrize("way", [by_itself, gathered, in_a_task_group, in_a_task_of_a_task])
def test_a_call_counts_until_whoever_waits_for_it_has_gone_on(
    cluster: ScriptedCluster, way: Callable[..., Awaitable[None]]
) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            await producer.send(Message("T", b"x"))
            assert producer._calls is not None
            outcomes = producer._calls.outcomes
            await rounds()
            assert len(outcomes.book) == 0
            await way(lambda: producer.send(Message("T", b"x")))
            assert len(outcomes.book) > 0
            await rounds()
            assert len(outcomes.book) == 0

    asyncio.run(main())


def test_the_clock_of_a_test_waits_for_a_task_that_does_not_know_its_outcome_yet() -> None:
    with EmbeddedBroker(topics=["T"], tcp=False, clock=VirtualClock()) as broker:
        loop = asyncio.new_event_loop()
        with aio.Producer("G", namesrv_addr=broker.namesrv_addr, topics=["T"]) as producer:

            async def begin() -> asyncio.Task[object]:
                task: asyncio.Task[object] = asyncio.create_task(producer.send(Message("T", b"x")))
                await asyncio.sleep(0)
                return task

            task = loop.run_until_complete(begin())
            until(lambda: len(producer._threaded._running().sender.unfinished) == 0)
            seen = broker.clock.settle(0, check=False)
            assert "producer G: 1 awaited calls" in str(seen.busy)
            loop.run_until_complete(task)
            loop.run_until_complete(rounds())
            assert broker.clock.settle().ok
        loop.close()


def test_a_send_in_flight_and_one_that_waits_for_room_count(
    cluster: ScriptedCluster, held: Held
) -> None:
    async def main() -> None:
        async with aio.Producer(
            "G", namesrv_addr=cluster.namesrv_addr, topics=["T"], client_async_permits=1
        ) as producer:
            tasks = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(2)]
            await held.arrived(1)
            assert producer._calls is not None
            assert len(producer._calls.outcomes.book) == 2
            held.answer_all()
            await asyncio.gather(*tasks)

    asyncio.run(main())
