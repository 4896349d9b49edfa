"""Time waits for tasks that handlers have started, and for no others."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextvars import Context
from datetime import timedelta
from functools import wraps
from typing import Any, ParamSpec
from weakref import ref

import pytest

from embedded_broker import EmbeddedBroker, SettleTimeout, VirtualClock
from rocketmq_py import Message, aio
from rocketmq_py.aio.handler_tasks import HandlerTasks, settled
from rocketmq_py.client.activity import Activity

P = ParamSpec("P")


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


async def later(moment: asyncio.Event) -> None:
    await moment.wait()


@in_a_loop
async def test_a_task_counts_until_it_ends() -> None:
    tasks, moment = HandlerTasks(asyncio.get_running_loop()), asyncio.Event()

    async def handle() -> asyncio.Task[None]:
        tasks.begin("billing")
        return asyncio.create_task(later(moment), name="receipt")

    started = await asyncio.create_task(handle())
    told = tasks.told()
    assert told is not None
    assert told.startswith("consumer billing: tasks that its handlers started have not ended: ")
    assert "receipt (later)" in told
    moment.set()
    await started
    assert tasks.told() is None


@in_a_loop
async def test_a_task_of_a_task_counts_and_many_are_not_all_named() -> None:
    tasks, moment = HandlerTasks(asyncio.get_running_loop()), asyncio.Event()

    async def start_five() -> list[asyncio.Task[None]]:
        return [asyncio.create_task(later(moment)) for _ in range(5)]

    async def handle() -> list[asyncio.Task[None]]:
        tasks.begin("billing")
        return await asyncio.create_task(start_five())

    started = await asyncio.create_task(handle())
    assert " and 2 more " in str(tasks.told())
    moment.set()
    await asyncio.gather(*started)
    assert tasks.told() is None


@in_a_loop
async def test_neither_the_handling_task_counts_nor_one_with_a_context_of_its_own() -> None:
    tasks, moment = HandlerTasks(asyncio.get_running_loop()), asyncio.Event()
    before = asyncio.create_task(later(moment))
    tasks.begin("billing")
    service = asyncio.create_task(later(moment), context=Context())
    assert tasks.told() is None
    moment.set()
    await asyncio.gather(before, service)


def test_a_loop_that_has_closed_is_kept_by_nobody() -> None:
    activity = Activity()

    async def handle() -> ref[HandlerTasks]:
        loop = asyncio.get_running_loop()
        tasks = activity.share(loop, HandlerTasks(loop))
        assert activity.share(loop, HandlerTasks(loop)) is tasks
        tasks.begin("billing")
        task = asyncio.create_task(asyncio.sleep(0))
        assert activity.told() is not None
        await task
        return ref(tasks)

    kept = asyncio.run(handle())
    gc.collect()
    assert kept() is None
    assert activity.told() is None


@in_a_loop
async def test_what_a_task_creates_after_it_has_settled_does_not_count() -> None:
    tasks, moment = HandlerTasks(asyncio.get_running_loop()), asyncio.Event()
    first, second = object(), object()
    tasks.begin("billing", until_settled=first)
    tasks.begin("billing", until_settled=second)
    settled(first)
    counted = asyncio.create_task(later(moment), name="counted")
    settled(second)
    service = asyncio.create_task(later(moment), name="service")
    told = str(tasks.told())
    assert "counted" in told
    assert "service" not in told
    moment.set()
    await asyncio.gather(counted, service)


@in_a_loop
async def test_tasks_of_handlers_of_another_loop_are_not_its_own() -> None:
    loop, other = asyncio.get_running_loop(), asyncio.new_event_loop()
    HandlerTasks(other).begin("billing")
    task = asyncio.create_task(asyncio.sleep(0))
    assert HandlerTasks(loop).told() is None
    await task
    other.close()


def test_in_a_loop_that_has_closed_nothing_is_waited_for() -> None:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # that a task was never done
    tasks, moment = HandlerTasks(loop), asyncio.Event()

    async def handle() -> asyncio.Task[None]:
        tasks.begin("billing")
        return asyncio.create_task(later(moment))

    task = loop.run_until_complete(loop.create_task(handle()))
    assert tasks.told() is not None
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert not task.done()
    assert tasks.told() is None


@pytest.mark.parametrize("iterates", [False, True], ids=["listener", "iterating"])
def test_a_chain_that_goes_through_tasks_of_handlers_misses_no_day(iterates: bool) -> None:
    days: list[int] = []
    looks: list[None] = []

    def note_look() -> bool:
        looks.append(None)
        return True

    with EmbeddedBroker(tcp=False, topics=["T"], clock=VirtualClock()) as broker:
        begun = broker.clock.now()
        broker.clock.idle_when(note_look)

        @in_a_loop
        async def main() -> None:
            producer = aio.Producer("P", namesrv_addr=broker.namesrv_addr)

            async def arm() -> None:
                enough = len(looks) + 2
                while len(looks) < enough:  # noqa: ASYNC110 - another thread looks; did it not wait,
                    await asyncio.sleep(0)  # time would go on here
                await producer.send(Message("T", b"ring", delay=timedelta(days=1)))

            tasks: set[asyncio.Task[None]] = set()

            async def ring(_: aio.Delivery) -> None:
                days.append((broker.clock.now() - begun).days)
                tasks.add(asyncio.create_task(arm()))

            consumer = aio.Consumer("G", namesrv_addr=broker.namesrv_addr)
            consumer.subscribe("T")
            if not iterates:
                consumer.register_message_listener(ring)

            async def iterate() -> None:
                async for delivery in consumer:
                    await ring(delivery)
                    await delivery.ack()

            async with producer, consumer:
                iteration = asyncio.create_task(iterate()) if iterates else None
                await producer.send(Message("T", b"ring", delay=timedelta(days=1)))
                await broker.aio.run(days=5)
                await consumer.shutdown()
                if iteration is not None:
                    await iteration

        main()
    assert days == [1, 2, 3, 4, 5]


def test_a_task_that_never_ends_is_named_and_may_be_left_out() -> None:
    with EmbeddedBroker(tcp=False, topics=["T"], clock=VirtualClock()) as broker:

        @in_a_loop
        async def main() -> None:
            services: list[asyncio.Task[bool]] = []

            async def handle(delivery: aio.Delivery) -> None:
                context = Context() if delivery.message.body == b"apart" else None
                services.append(
                    asyncio.create_task(asyncio.Event().wait(), name="pool", context=context)
                )

            consumer = aio.Consumer("G", namesrv_addr=broker.namesrv_addr)
            consumer.subscribe("T")
            consumer.register_message_listener(handle)
            async with consumer:
                broker.send("T", b"apart")
                await broker.aio.settle()
                broker.send("T", b"within")
                with pytest.raises(SettleTimeout, match=r"consumer G: tasks .*pool \(Event.wait\)"):
                    await broker.aio.settle(timeout=0.2)
                for service in services:
                    service.cancel()
                await asyncio.gather(*services, return_exceptions=True)
                await broker.aio.settle()

        main()
