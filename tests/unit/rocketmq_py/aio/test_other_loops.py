"""The asyncio clients under asyncio, uvloop and anyio, and why not under trio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from itertools import count
from typing import Any

import anyio
import pytest
import uvloop

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import ConsumeFromWhere, IllegalStateError, Message, aio
from tests.unit.rocketmq_py.aio.conftest import Held
from tests.unit.rocketmq_py.scripted import ScriptedCluster
from tests.waiting import until

Main = Callable[[], Coroutine[Any, Any, Any]]
Loop = Callable[[Main], Any]
GUARD_S = 30.0
BODIES = [b"%d" % number for number in range(10)]


# --- loops -------------------------------------------------------------------------------------


def on_asyncio(main: Main) -> Any:
    return asyncio.run(main())


def on_uvloop(main: Main) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def on_anyio(main: Main) -> Any:
    return anyio.run(main)


def on_anyio_with_uvloop(main: Main) -> Any:
    return anyio.run(main, backend_options={"use_uvloop": True})


LOOPS = (on_asyncio, on_uvloop, on_anyio, on_anyio_with_uvloop)
each_loop = pytest.mark.parametrize("run", LOOPS, ids=[run.__name__ for run in LOOPS])


# --- receiving ---------------------------------------------------------------------------------


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """A broker whose topic T has messages already."""
    with EmbeddedBroker(topics=["T"], tcp=False, clock=VirtualClock()) as started:
        for body in BODIES:
            started.send("T", body)
        yield started


@pytest.fixture
def settings(broker: EmbeddedBroker) -> dict[str, Any]:
    """Settings of consumers that receive them all, each group for itself."""
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    return {"namesrv_addr": broker.namesrv_addr, "consume_from_where": first}


async def iterated(group: str, settings: dict[str, Any]) -> list[bytes]:
    got: list[bytes] = []
    async with aio.Consumer(group, **settings) as consumer:
        consumer.subscribe("T")
        async for delivery in consumer:
            got.append(delivery.message.body)
            await delivery.ack()
            if len(got) == len(BODIES):
                return got
    raise AssertionError("the iteration has ended before the consumer")


async def _listened(
    group: str,
    settings: dict[str, Any],
    wrapped: Callable[[aio.Listener], aio.Listener | aio.Orderly],
) -> list[bytes]:
    got: list[bytes] = []
    has_all = asyncio.Event()

    async def listen(delivery: aio.Delivery) -> None:
        got.append(delivery.message.body)
        if len(got) == len(BODIES):
            has_all.set()

    consumer = aio.Consumer(group, **settings)
    consumer.subscribe("T")
    consumer.register_message_listener(wrapped(listen))
    async with consumer:
        await has_all.wait()
    return got


async def listened(group: str, settings: dict[str, Any]) -> list[bytes]:
    return await _listened(group, settings, lambda listener: listener)


async def listened_in_order(group: str, settings: dict[str, Any]) -> list[bytes]:
    return await _listened(group, settings, aio.Orderly)


async def polled(group: str, settings: dict[str, Any]) -> list[bytes]:
    got: list[bytes] = []
    consumer = aio.LitePullConsumer(group, **settings)
    consumer.subscribe("T")
    async with consumer:
        async for batch in consumer.batches():
            got += [one.body for one in batch]
            if len(got) == len(BODIES):
                return got
    raise AssertionError("the polls have ended before the consumer")


WAYS = (iterated, listened, listened_in_order, polled)


@each_loop
@pytest.mark.parametrize("receive", WAYS, ids=[way.__name__ for way in WAYS])
def test_every_way_to_receive_works_in_every_loop_and_in_one_after_the_other(
    settings: dict[str, Any],
    run: Loop,
    receive: Callable[[str, dict[str, Any]], Awaitable[list[bytes]]],
) -> None:
    async def main() -> list[bytes]:
        async with asyncio.timeout(GUARD_S):
            return await receive(f"G-{next(groups)}", settings)

    groups = count()
    assert sorted(run(main)) == BODIES
    assert sorted(run(main)) == BODIES


@pytest.mark.parametrize("run", [on_anyio, on_anyio_with_uvloop])
def test_a_cancel_scope_of_anyio_ends_a_consumer_whose_block_it_leaves(
    settings: dict[str, Any], run: Loop
) -> None:
    async def take_all(consumer: aio.Consumer, scope: anyio.CancelScope) -> None:
        with scope:
            async with consumer:
                async for delivery in consumer:
                    await delivery.ack()
                    if delivery.message.body == BODIES[-1]:
                        scope.cancel()

    async def main() -> None:
        consumer, scope = aio.Consumer("G", **settings), anyio.CancelScope()
        consumer.subscribe("T")
        await take_all(consumer, scope)
        assert scope.cancelled_caught
        await asyncio.to_thread(until, lambda: not consumer.is_running, GUARD_S)

    run(main)


@pytest.mark.parametrize("run", [on_anyio, on_anyio_with_uvloop])
def test_a_poll_that_a_cancel_scope_of_anyio_ends_takes_no_message_away(
    broker: EmbeddedBroker, settings: dict[str, Any], run: Loop
) -> None:
    async def main() -> None:
        consumer = aio.LitePullConsumer("G", **settings)
        consumer.subscribe("T")
        async with consumer:
            seen = 0
            async for batch in consumer.batches():
                seen += len(batch)
                if seen == len(BODIES):
                    break
            with anyio.move_on_after(0) as scope:
                await consumer.poll()
            assert scope.cancelled_caught
            broker.send("T", b"last")
            async with asyncio.timeout(GUARD_S):
                assert [one.body for one in await consumer.poll(int(GUARD_S) * 1_000)] == [b"last"]

    run(main)


# --- sending -----------------------------------------------------------------------------------


@pytest.mark.parametrize("debug", [False, True])
def test_uvloop_sends_and_may_end_while_a_send_is_in_flight(
    cluster: ScriptedCluster, held: Held, debug: bool
) -> None:
    with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"]) as producer:

        async def main() -> asyncio.Task[object]:
            sends = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(50)]
            await held.arrived(50)
            held.answer(50)
            assert len({one.msg_id for one in await asyncio.gather(*sends)}) == 50
            last: asyncio.Task[object] = asyncio.create_task(producer.send(Message("T", b"x")))
            await held.arrived(51)
            return last

        with asyncio.Runner(loop_factory=uvloop.new_event_loop, debug=debug) as runner:
            left = runner.run(main())
        assert left.cancelled()
        held.answer_all()


def test_a_cancel_scope_of_anyio_knows_the_cancellation_of_a_send_as_its_own(
    cluster: ScriptedCluster, held: Held
) -> None:
    found: list[aio.SendCancelledError | None] = []

    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"]) as producer:

            async def send(scope: anyio.CancelScope) -> None:
                with scope:
                    try:
                        await producer.send(Message("T", b"x"))
                    except anyio.get_cancelled_exc_class() as error:
                        found.append(aio.cancelled_send(error))
                        raise

            scope = anyio.CancelScope()
            async with anyio.create_task_group() as group:
                group.start_soon(send, scope)
                await held.arrived(1)
                scope.cancel()
            assert scope.cancelled_caught
            held.answer_all()

    anyio.run(main)
    (error,) = found
    assert error is not None
    assert error.possibly_stored


def test_under_trio_the_producer_says_that_it_needs_asyncio(cluster: ScriptedCluster) -> None:
    async def main() -> None:
        with pytest.raises(IllegalStateError, match="needs asyncio"):
            await aio.Producer("G", namesrv_addr=cluster.namesrv_addr).start()

    anyio.run(main, backend="trio")
