"""How a poll ends; what polls give is in tests/sdk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import ClientClosedError, ConsumeFromWhere, DefaultLitePullConsumer, aio
from tests.waiting import until

LONG_MS = 60_000
GUARD_S = 30.0
SHUT_DOWN = "consumer of group G is shut down"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"], tcp=False) as started:
        yield started


@pytest.fixture
def settings(broker: EmbeddedBroker) -> dict[str, Any]:
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    return {"namesrv_addr": broker.namesrv_addr, "consume_from_where": first}


def test_a_poll_of_a_thread_that_the_end_lets_go_says_so(settings: dict[str, Any]) -> None:
    consumer = DefaultLitePullConsumer("G", **settings)
    consumer.subscribe("T")
    consumer.start()
    inbox = consumer._joined().dispatch
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(consumer.poll, LONG_MS)
        until(lambda: inbox._asked)
        consumer.shutdown()
        with pytest.raises(ClientClosedError, match=SHUT_DOWN):
            polling.result(GUARD_S)


def test_a_poll_of_a_task_that_the_end_lets_go_says_so(settings: dict[str, Any]) -> None:
    async def main() -> None:
        consumer = aio.LitePullConsumer("G", **settings)
        consumer.subscribe("T")
        await consumer.start()
        polling = asyncio.create_task(consumer.poll(LONG_MS))
        await asyncio.sleep(0)  # it has asked
        await consumer.shutdown()
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(ClientClosedError, match=SHUT_DOWN):
                await polling

    asyncio.run(main())


@pytest.mark.parametrize("wrong", [-1, 0.5, True, "5"])
def test_a_poll_with_a_wrong_timeout_commits_nothing(
    broker: EmbeddedBroker, settings: dict[str, Any], wrong: Any
) -> None:
    broker.send("T", b"x")
    with DefaultLitePullConsumer("G", **settings) as consumer:
        consumer.subscribe("T")
        (message,) = consumer.poll(LONG_MS)
        (queue,) = (one for one in consumer.assignment() if one.queue_id == message.queue_id)
        with pytest.raises((TypeError, ValueError), match="time-out"):
            consumer.poll(wrong)
        assert consumer.committed(queue) in {None, 0}
        assert consumer.poll(0) == []
        assert consumer.committed(queue) == 1


def test_queues_that_are_assigned_later_are_there_when_the_call_returns(
    broker: EmbeddedBroker, settings: dict[str, Any]
) -> None:
    consumer = DefaultLitePullConsumer("G", **settings)
    consumer.assign([])
    with consumer:
        queues = consumer.fetch_message_queues("T")
        consumer.assign(queues[1:3])
        assert consumer.assignment() == queues[1:3]
        consumer.seek_to_end(queues[2])
        consumer.assign(queues[:1])
        assert consumer.assignment() == queues[:1]
