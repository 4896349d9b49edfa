"""What an asyncio consumer does that is asked for messages; the cases of all are in test_faces."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ClientClosedError,
    ConsumeFromWhere,
    DefaultMQProducer,
    IllegalStateError,
    Message,
    MessageExt,
    MessageQueue,
    MessageSelector,
    MQClientException,
    NotStartedError,
    UnsupportedOperationError,
    aio,
)
from rocketmq_py.aio import lite_pull
from tests.sdk.conftest import GUARD_S
from tests.sdk.test_aio_consuming import run, true
from tests.sdk.test_lite_pull import committed, send
from tests.waiting import until

POLL = timedelta(seconds=1)
NOTHING_MS = 50
LONG = timedelta(seconds=GUARD_S)

Pulling = Callable[..., aio.LitePullConsumer]


@pytest.fixture
def pulling(rocketmq_broker: EmbeddedBroker) -> Pulling:
    """Makes consumers of one group."""

    def make(**settings: Any) -> aio.LitePullConsumer:
        first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        given = {"consume_from_where": first, **settings}
        return aio.LitePullConsumer("lite", namesrv_addr=rocketmq_broker.namesrv_addr, **given)

    return make


async def polled(consumer: aio.LitePullConsumer, count: int) -> list[MessageExt]:
    """Poll until there are so many messages."""
    found: list[MessageExt] = []
    while len(found) < count:
        found += await consumer.poll(POLL)
    return found


@pytest.mark.case("T83")
def test_awaited_polls_commit_what_the_polls_before_them_returned(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    pulling: Pulling,
) -> None:
    queues = send(rocketmq_producer, rocketmq_topic, 8)

    async def main() -> None:
        first = pulling(pull_batch_size=1)
        first.assign(queues[:1])
        async with first:
            assert [one.queue_offset for one in await polled(first, 2)] == [0, 1]
        assert committed(rocketmq_broker, queues[:1]) == 1
        second = pulling(auto_commit=False)
        second.assign(queues[:1])
        async with second:
            assert [one.queue_offset for one in await polled(second, 1)] == [1]
            assert await second.poll(NOTHING_MS) == []
            second.commit()
            assert await second.committed(queues[0]) == 2
        assert committed(rocketmq_broker, queues[:1]) == 2

    run(main())


@pytest.mark.case("T84")
def test_an_awaited_seek_goes_on_at_an_offset(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    queue, *_ = send(rocketmq_producer, rocketmq_topic, 40)

    async def main() -> None:
        consumer = pulling()
        consumer.assign([queue])
        async with consumer:
            await polled(consumer, 10)
            await consumer.seek(queue, 7)
            assert [one.queue_offset for one in await polled(consumer, 3)] == [7, 8, 9]
            await consumer.seek_to_begin(queue)
            assert (await polled(consumer, 10))[0].queue_offset == 0
            await consumer.seek_to_end(queue)
            assert await consumer.poll(NOTHING_MS) == []
            long_ago = datetime(2001, 1, 1, tzinfo=UTC)
            assert await consumer.offset_for_timestamp(queue, long_ago) == 0
            with pytest.raises(MQClientException, match="must be from 0 to 10"):
                await consumer.seek(queue, 11)

    run(main())


def test_a_cancelled_poll_takes_no_message_away_and_leaves_the_loop_free(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    queue, *_ = sorted(rocketmq_producer.fetch_publish_message_queues(rocketmq_topic))

    async def main() -> None:
        consumer = pulling()
        consumer.assign([queue])
        async with consumer:
            for number in range(10):
                waiting = asyncio.create_task(consumer.poll(LONG))
                await asyncio.sleep(0)
                body = b"%d" % number
                sending = asyncio.to_thread(
                    rocketmq_producer.send, Message(rocketmq_topic, body), queue=queue
                )
                await asyncio.gather(sending, asyncio.sleep(0.002 * number))
                waiting.cancel()
                (found,) = await asyncio.gather(waiting, return_exceptions=True)
                if isinstance(found, asyncio.CancelledError):
                    found = await consumer.poll(LONG)
                assert not isinstance(found, BaseException)
                assert [one.body for one in found] == [body]

    run(main())


def test_a_body_is_decompressed_beside_the_loop_and_a_cancelled_task_loses_none(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    pulling: Pulling,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = b"x" * 100_000
    rocketmq_producer.send(Message(rocketmq_topic, body))
    wanted = [zlib.crc32(body)]

    async def main() -> None:
        consumer = pulling()
        consumer.subscribe(rocketmq_topic)
        async with consumer:
            loop, begun = asyncio.get_running_loop(), asyncio.Event()
            aside = loop.run_in_executor

            def in_executor(executor: Any, call: Callable[..., Any], *args: Any) -> Any:
                begun.set()
                return aside(executor, call, *args)

            monkeypatch.setattr(loop, "run_in_executor", in_executor)
            task = asyncio.create_task(consumer.poll(LONG))
            await begun.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            found = await consumer.poll(LONG)
            assert [zlib.crc32(one.body) for one in found] == wanted
            assert await consumer.poll(NOTHING_MS) == []

    run(main())


def test_a_shutdown_lets_go_who_polls_and_ends_the_batches(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    send(rocketmq_producer, rocketmq_topic, 8)

    async def main() -> None:
        consumer = pulling()
        consumer.subscribe(rocketmq_topic)
        await consumer.start()
        with pytest.raises(ValueError, match="time-out of -1 is not possible"):
            await anext(consumer.batches(-1))
        found = 0
        async for batch in consumer.batches(LONG):
            found += len(batch)
            if found == 8:
                ending = asyncio.create_task(consumer.shutdown())  # it ends the next wait
        await ending
        with pytest.raises(ClientClosedError):
            await consumer.poll()

    run(main())


def test_a_loop_that_closes_without_a_shutdown_gives_its_queues_to_other_members(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    pulling: Pulling,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(lite_pull, "LOOK_EVERY_MS", 20)
    left = pulling()
    left.subscribe(rocketmq_topic)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(left.start())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    until(lambda: not left.is_running, GUARD_S)
    assert "group lite: the event loop of its consumer has closed" in caplog.text
    send(rocketmq_producer, rocketmq_topic, 8)

    async def main() -> None:
        async with pulling() as other:
            other.subscribe(rocketmq_topic)
            assert len({one.body for one in await polled(other, 8)}) == 8

    run(main())


def test_what_an_asyncio_consumer_cannot_do_is_refused_at_once(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    rocketmq_producer.send(Message(rocketmq_topic, b"x"))

    async def main() -> None:
        consumer = pulling()
        with pytest.raises(NotStartedError, match="is not started"):
            await consumer.poll()
        with pytest.raises(ValueError, match="-1"):
            await consumer.poll(-1)
        consumer.subscribe(rocketmq_topic)
        with pytest.raises(IllegalStateError, match="exclude each other"):
            consumer.assign([MessageQueue(rocketmq_topic, "broker-a", 0)])
        async with consumer:
            with pytest.raises(UnsupportedOperationError, match="before it"):
                consumer.subscribe(rocketmq_topic, MessageSelector.by_sql("a = 1"))

            def elsewhere() -> None:
                with pytest.raises(IllegalStateError, match="event loop"):
                    asyncio.run(consumer.poll())

            await asyncio.to_thread(elsewhere)

    run(main())


def test_a_listener_hears_of_the_queues_of_a_topic_on_the_loops_thread(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    queues = send(rocketmq_producer, rocketmq_topic, 4)

    async def main() -> None:
        loop, heard = asyncio.get_running_loop(), []

        def hear(topic: str, found: frozenset[MessageQueue]) -> None:
            assert asyncio.get_running_loop() is loop
            heard.append((topic, found))

        consumer = pulling()
        consumer.subscribe(rocketmq_topic)
        async with consumer:
            assert await consumer.fetch_message_queues(rocketmq_topic) == queues
            consumer.register_topic_message_queue_change_listener(rocketmq_topic, hear)
            await true(lambda: heard == [(rocketmq_topic, frozenset(queues))])

    run(main())
