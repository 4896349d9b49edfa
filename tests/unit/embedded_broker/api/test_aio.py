"""Waits that can be awaited, and blocking ones that say so."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from threading import get_ident

import pytest

from embedded_broker import BrokerStateError, EmbeddedBroker, VirtualClock, WaitTimeoutError

GUARD_S = 30.0


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    asyncio.run(main())


@pytest.mark.case("K33")
def test_a_blocking_wait_on_the_thread_of_a_running_loop_raises_with_the_advice() -> None:
    async def main() -> None:
        async with EmbeddedBroker(tcp=False, clock=VirtualClock()) as broker:
            for wait, advice in (
                (lambda: broker.wait_for(lambda _: True), "broker.aio.wait_for"),
                (lambda: broker.wait_delivered("T"), "broker.aio.wait_for"),
                (broker.wait_idle, "broker.aio.settle"),
                (broker.clock.settle, "broker.aio.settle"),
            ):
                with pytest.raises(BrokerStateError, match=advice):
                    wait()

    run(main)


@pytest.mark.case("K33")
def test_the_awaitable_forms_work_and_leave_the_loop_free() -> None:
    async def main() -> None:
        async with EmbeddedBroker(clock=VirtualClock()) as broker:
            assert broker.is_running
            mine: list[int] = []

            async def other_task() -> None:
                mine.append(1)
                broker.send("T", b"later", delay=60)

            task = asyncio.create_task(other_task())
            await broker.aio.wait_for(lambda b: mine and b.timers.count() == 1, timeout=GUARD_S)
            await task
            assert (await broker.aio.advance(minutes=1)).fired == 1
            await broker.aio.wait_for(lambda b: b.topics["T"].count() == 1, timeout=GUARD_S)
            assert (await broker.aio.settle()).ok
        assert not broker.is_running

    run(main)


def test_every_wait_and_every_move_of_time_has_an_awaitable_form() -> None:
    async def main() -> None:
        async with EmbeddedBroker(clock=VirtualClock(), topics=["T"], tcp=False) as broker:
            began = broker.clock.now()
            for hours in (1, 2, 3):
                broker.send("T", b"later", delay=timedelta(hours=hours))
            loop_thread = get_ident()
            asked_on: set[int] = set()

            def two_are_there() -> bool:
                asked_on.add(get_ident())
                return broker.topics["T"].count() == 2

            await broker.aio.jump_to(began + timedelta(minutes=30))
            assert (await broker.aio.run_until(two_are_there)).until == began + timedelta(hours=2)
            assert asked_on == {loop_thread}
            await broker.aio.wait_delivered("T", 2, timeout=GUARD_S)
            with pytest.raises(WaitTimeoutError, match="1 members in group 'G'"):
                await broker.aio.wait_members("G", timeout=0.01)
            with pytest.raises(WaitTimeoutError, match="at_most was reached"):
                await broker.aio.run_until(lambda: False, at_most=60)
            assert (await broker.aio.run(days=1)).fired == 1

    run(main)


def test_an_awaited_condition_that_never_holds_says_what_was_seen() -> None:
    async def main() -> None:
        async with EmbeddedBroker(tcp=False) as broker:
            with pytest.raises(WaitTimeoutError, match="99") as caught:
                await broker.aio.wait_for(lambda b: b.topics["T"].count() == 99, timeout=0.05)
            assert "no topic 'T'" in str(caught.value)

    run(main)


def test_an_exception_inside_the_async_block_closes_the_broker_and_stays_itself() -> None:
    broker = EmbeddedBroker(tcp=False)

    async def main() -> None:
        async with broker:
            raise ZeroDivisionError("the test's own")

    with pytest.raises(ZeroDivisionError, match="the test's own"):
        run(main)
    assert not broker.is_running
