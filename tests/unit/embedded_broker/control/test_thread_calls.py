"""Calls on threads of their own."""

from __future__ import annotations

import asyncio
from threading import Event, current_thread

import pytest

from embedded_broker.control.thread_calls import CALLS_MAX, ThreadCalls, TooManyCalls
from embedded_broker.errors import BrokerStateError

GUARD_S = 30.0


def test_results_and_errors_come_back() -> None:
    async def ask() -> str:
        calls = ThreadCalls()
        with pytest.raises(ZeroDivisionError):
            await calls.run(lambda: 1 // 0)
        return await calls.run(lambda: current_thread().name)

    assert asyncio.run(ask()) == "embedded-broker-control-call"


def test_waits_hold_up_nobody_until_there_are_too_many() -> None:
    async def ask() -> int:
        calls, go = ThreadCalls(), Event()
        waits = [asyncio.create_task(calls.run(lambda: go.wait(GUARD_S))) for _ in range(CALLS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyCalls):
            await calls.run(lambda: True)
        go.set()
        done = await asyncio.gather(*waits)
        assert await calls.run(lambda: True)
        return sum(done)

    assert asyncio.run(ask()) == CALLS_MAX


def test_nobody_waits_for_a_call_that_does_not_end() -> None:
    calls, go = ThreadCalls(), Event()

    async def ask() -> None:
        asyncio.create_task(calls.run(lambda: go.wait(GUARD_S)))  # noqa: RUF006 - cancelled by run
        await asyncio.sleep(0)

    asyncio.run(ask())
    calls.join(0)
    go.set()
    calls.join(GUARD_S)


def test_who_awaits_a_call_is_told_when_nobody_waits_for_it_any_more() -> None:
    calls, go = ThreadCalls(), Event()

    async def ask() -> None:
        wait = asyncio.create_task(calls.run(lambda: go.wait(GUARD_S)))
        await asyncio.sleep(0)
        calls.give_up(BrokerStateError("closed"))
        with pytest.raises(BrokerStateError, match="closed"):
            await wait

    asyncio.run(ask())
    calls.give_up(BrokerStateError("closed"))  # the loop has ended: nobody is told
    go.set()
    calls.join(GUARD_S)
