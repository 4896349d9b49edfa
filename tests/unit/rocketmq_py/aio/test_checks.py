"""A broker's question about a transaction is answered by a coroutine function in the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import LocalTransactionState, Message, MessageExt, aio
from rocketmq_py.aio import checks
from tests.waiting import until

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW
ASKED_S = 120

Check = Callable[[MessageExt], Awaitable[LocalTransactionState]]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"], tcp=False, clock=VirtualClock()) as started:
        yield started


def producer_of(broker: EmbeddedBroker, check: Check) -> aio.Producer:
    return aio.Producer("G", namesrv_addr=broker.namesrv_addr, transaction_check=check)


async def leave_open(producer: aio.Producer, body: bytes = b"x") -> None:
    """Store a half message, and tell the broker to ask."""
    async with producer.transaction(Message("T", body)) as half:
        half.end(UNKNOW)


def is_undecided(broker: EmbeddedBroker) -> bool:
    """Whether this is what the clock waits for; other things may end before."""
    return "1 transactions undecided" in str(broker.clock.settle(0, check=False).busy)


def test_the_answer_counts_and_is_given_in_the_loop(broker: EmbeddedBroker) -> None:
    asked: list[tuple[bytes, int]] = []

    async def check(message: MessageExt) -> LocalTransactionState:
        await asyncio.sleep(0)
        asked.append((message.body, threading.get_ident()))
        return COMMIT if message.body == b"paid" else ROLLBACK

    async def main() -> None:
        async with producer_of(broker, check) as producer:
            await leave_open(producer, b"paid")
            await leave_open(producer, b"unpaid")
            await broker.aio.run(ASKED_S)

    asyncio.run(main())
    me = threading.get_ident()
    assert sorted(asked) == [(b"paid", me), (b"unpaid", me)]
    assert [one.body for one in broker.messages.in_topic("T")] == [b"paid"]


def test_an_exception_is_no_answer_and_the_broker_asks_again(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    answers: Iterator[Any] = iter([ZeroDivisionError, "no state", COMMIT])

    async def check(_: MessageExt) -> LocalTransactionState:
        answer = next(answers)
        if answer is ZeroDivisionError:
            raise ZeroDivisionError
        return answer  # type: ignore[no-any-return]

    async def main() -> None:
        async with producer_of(broker, check) as producer:
            await leave_open(producer)
            await broker.aio.run(4 * ASKED_S)

    asyncio.run(main())
    assert len(broker.messages.in_topic("T")) == 1
    assert caplog.text.count("its answer counts as UNKNOW") == 1
    assert "returned 'no state', a str, for id=" in caplog.text


def test_the_clock_of_a_test_waits_for_the_answer_and_a_shutdown_does_not(
    broker: EmbeddedBroker,
) -> None:
    async def main() -> None:
        asked = asyncio.Event()
        cancelled = asyncio.Event()

        async def check(_: MessageExt) -> LocalTransactionState:
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return COMMIT

        async with producer_of(broker, check) as producer:
            await leave_open(producer)
            await broker.aio.advance(ASKED_S)
            await asked.wait()
            await asyncio.to_thread(until, partial(is_undecided, broker))
        await cancelled.wait()

    asyncio.run(main())
    assert broker.messages.in_topic("T") == []


def test_questions_beyond_the_limit_are_dropped_and_said(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "CHECKS_MAX", 0)

    async def check(_: MessageExt) -> LocalTransactionState:
        raise AssertionError

    async def main() -> None:
        async with producer_of(broker, check) as producer:
            await leave_open(producer)
            await broker.aio.run(ASKED_S)

    asyncio.run(main())
    assert "transaction check dropped id=" in caplog.text


def test_a_question_that_comes_when_the_loop_has_closed_harms_nobody(
    broker: EmbeddedBroker,
) -> None:
    async def check(_: MessageExt) -> LocalTransactionState:
        raise AssertionError

    with producer_of(broker, check) as producer:
        asyncio.run(leave_open(producer))
        broker.clock.advance(ASKED_S)
        assert producer._checks is not None
        until(lambda: broker.clock.settle(0, check=False).ok)
        assert producer._checks._open == {}


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="transaction_check is a coroutine function, not bool"):
        aio.Producer("G", transaction_check=True)  # type: ignore[arg-type]
