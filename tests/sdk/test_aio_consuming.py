"""What an asyncio consumer receives, awaited or by its coroutines, and what becomes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.pytest_plugin import Store
from rocketmq_py import ConsumeFromWhere, DefaultMQProducer, DeliveryEndedError, Message, aio
from tests.sdk.conftest import GUARD_S, Forward
from tests.sdk.listeners import SOON_MS
from tests.sdk.test_listening import dead_letters
from tests.waiting import until

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
SECOND = timedelta(seconds=1)

Making = Callable[..., aio.Consumer]


@pytest.fixture
def making(rocketmq_broker: EmbeddedBroker, rocketmq_group: str, rocketmq_topic: str) -> Making:
    """Makes consumers of the group and topic of this test."""

    def make(listener: Any = None, **settings: Any) -> aio.Consumer:
        given = {
            "consume_from_where": FIRST,
            "poll_name_server_interval": SOON_MS,
            "pull_time_delay_millis_when_exception": 10,
            **settings,
        }
        consumer = aio.Consumer(rocketmq_group, namesrv_addr=rocketmq_broker.namesrv_addr, **given)
        consumer.subscribe(rocketmq_topic)
        if listener is not None:
            consumer.register_message_listener(listener)
        return consumer

    return make


def run(main: Any) -> None:
    """Run a coroutine in a loop of its own, with a guard."""
    asyncio.run(asyncio.wait_for(main, GUARD_S))


def send(producer: DefaultMQProducer, topic: str, count: int, first: int = 0) -> list[bytes]:
    """Send numbered messages; return their bodies."""
    bodies = [b"%d" % number for number in range(first, first + count)]
    for body in bodies:
        producer.send(Message(topic, body, keys=["K"]))
    return bodies


async def take(consumer: aio.Consumer, count: int) -> list[bytes]:
    """Acknowledge so many messages; return their bodies."""
    bodies: list[bytes] = []
    while len(bodies) < count:
        delivery = await anext(consumer)
        bodies.append(delivery.message.body)
        await delivery.ack()
    return bodies


async def take_one(consumer: aio.Consumer) -> aio.Delivery:
    """Acknowledge one delivery."""
    delivery = await anext(consumer)
    await delivery.ack()
    return delivery


async def true(holds: Callable[[], object]) -> None:
    """Wait until something holds; the loop goes on meanwhile."""
    await asyncio.to_thread(until, holds, GUARD_S)


def test_an_iteration_gets_each_message_that_was_sent_and_ends_with_the_consumer(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, making: Making
) -> None:
    sent = send(rocketmq_producer, rocketmq_topic, 40)

    async def main() -> None:
        got: list[bytes] = []
        async with making() as consumer:
            async for delivery in consumer:
                got.append(delivery.message.body)
                await delivery.ack()
                if len(got) == len(sent):
                    waiting = asyncio.ensure_future(anext(consumer))
                    await asyncio.sleep(0)
                    await consumer.shutdown()
                    with pytest.raises(StopAsyncIteration):
                        await waiting
        assert sorted(got) == sorted(sent)

    run(main())


def test_what_is_subscribed_after_the_start_arrives_too(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_group: str,
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
) -> None:
    for tag in ("paid", "new", "cancelled"):
        rocketmq_producer.send(Message(rocketmq_topic, tag.encode(), tags=tag))

    async def main() -> None:
        address = rocketmq_broker.namesrv_addr
        async with aio.Consumer(
            rocketmq_group, namesrv_addr=address, consume_from_where=FIRST
        ) as consumer:
            consumer.subscribe(rocketmq_topic, "paid || cancelled")
            assert sorted(await take(consumer, 2)) == [b"cancelled", b"paid"]

    run(main())


def test_the_offset_moves_over_what_was_acknowledged_and_over_nothing_else(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, making: Making
) -> None:
    queue = rocketmq_producer.fetch_publish_message_queues(rocketmq_topic)[0]
    for number in range(4):
        rocketmq_producer.send(Message(rocketmq_topic, b"%d" % number), queue=queue)

    async def first() -> None:
        async with making() as consumer:
            assert await take(consumer, 2) == [b"0", b"1"]
            open_one = await anext(consumer)
        with pytest.raises(DeliveryEndedError, match="does not have the queue any more"):
            await open_one.ack()

    async def second() -> None:
        async with making() as consumer:
            assert await take(consumer, 2) == [b"2", b"3"]

    run(first())
    run(second())


def test_a_refused_message_comes_again_and_a_second_settlement_is_an_error(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, making: Making, forward: Forward
) -> None:
    send(rocketmq_producer, rocketmq_topic, 1)

    async def main() -> None:
        async with making() as consumer:
            delivery = await anext(consumer)
            await delivery.nack(SECOND)
            assert delivery.is_settled
            assert delivery.next_due is not None
            with pytest.raises(DeliveryEndedError, match="settled before"):
                await delivery.ack()
            again = asyncio.create_task(take_one(consumer))  # the clock waits until it is settled
            await asyncio.to_thread(forward, again.done)
            second = await again
            assert (second.attempt, second.message.msg_id) == (2, delivery.message.msg_id)

    run(main())


def test_a_message_can_be_put_among_the_dead_letters(
    rocketmq_group: str,
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    making: Making,
) -> None:
    send(rocketmq_producer, rocketmq_topic, 1)

    async def main() -> None:
        async with making() as consumer:
            await (await anext(consumer)).dead()

    run(main())
    until(lambda: dead_letters(rocketmq_producer, rocketmq_group), GUARD_S)
    assert dead_letters(rocketmq_producer, rocketmq_group) == [b"0"]


def test_a_listener_that_returns_has_handled_its_message_and_one_that_raises_gets_it_again(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, making: Making, forward: Forward
) -> None:
    got: list[tuple[bytes, int]] = []

    async def handle(delivery: aio.Delivery) -> None:
        got.append((delivery.message.body, delivery.attempt))
        await asyncio.sleep(0)
        if delivery.message.body == b"1" and delivery.attempt == 1:
            raise LookupError("theirs")

    async def main() -> None:
        async with making(handle):
            send(rocketmq_producer, rocketmq_topic, 3)
            await asyncio.to_thread(forward, lambda: len(got) == 4)

    run(main())
    assert sorted(got) == [(b"0", 1), (b"1", 1), (b"1", 2), (b"2", 1)]

    async def nothing_is_left() -> None:
        async with making() as consumer:
            send(rocketmq_producer, rocketmq_topic, 1, first=7)
            assert await take(consumer, 1) == [b"7"]

    run(nothing_is_left())


def test_an_orderly_listener_has_one_message_of_a_queue_at_a_time_and_in_its_order(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, making: Making
) -> None:
    queues = rocketmq_producer.fetch_publish_message_queues(rocketmq_topic)[:2]
    for number in range(20):
        message = Message(rocketmq_topic, b"%d" % (number // 2))
        rocketmq_producer.send(message, queue=queues[number % 2])
    got: dict[int, list[bytes]] = {queue.queue_id: [] for queue in queues}
    under_way: set[int] = set()
    failed: list[bytes] = []

    async def handle(delivery: aio.Delivery) -> None:
        key, body = delivery.queue.queue_id, delivery.message.body
        assert key not in under_way
        under_way.add(key)
        await asyncio.sleep(0)
        under_way.remove(key)
        if body == b"3" and not failed:
            failed.append(body)
            raise LookupError("theirs")
        got[key].append(body)

    async def main() -> None:
        settings = {"suspend_current_queue_time_millis": 10, "consume_thread_min": 2}
        async with making(aio.Orderly(handle), **settings):
            await true(lambda: sum(map(len, got.values())) == 20)

    run(main())
    assert failed
    assert list(got.values()) == [[b"%d" % number for number in range(10)]] * 2


def test_two_members_share_the_queues_and_the_one_that_stays_gets_all(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, making: Making
) -> None:
    async def settled(*consumers: aio.Consumer) -> None:
        """Wait until the members have all queues, none of them twice."""
        wanted = set(rocketmq_producer.fetch_publish_message_queues(rocketmq_topic))

        def are_shared() -> bool:
            had = [
                {one for one in consumer.assigned_queues() if one.topic == rocketmq_topic}
                for consumer in consumers
            ]
            count = sum(map(len, had))
            return all(had) and set.union(*had) == wanted and count == len(wanted)

        await true(are_shared)

    async def main() -> None:
        async with making() as one:
            async with making() as other:
                await settled(one, other)
                sent = await asyncio.to_thread(send, rocketmq_producer, rocketmq_topic, 20)
                got: list[bytes] = []

                async def collect(consumer: aio.Consumer) -> None:
                    async for delivery in consumer:
                        got.append(delivery.message.body)
                        await delivery.ack()

                both = [asyncio.create_task(collect(each)) for each in (one, other)]
                await true(lambda: len(got) == len(sent))
                both[0].cancel()
            await settled(one)
            assert sorted(got) == sorted(sent)
            more = await asyncio.to_thread(send, rocketmq_producer, rocketmq_topic, 8, 50)
            assert sorted(await take(one, 8)) == sorted(more)

    run(main())


def test_an_iteration_outlives_a_broker_that_is_killed(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_store: Store,
    making: Making,
) -> None:
    async def main() -> None:
        async with making() as consumer:
            send(rocketmq_producer, rocketmq_topic, 1)
            assert await take(consumer, 1) == [b"0"]
            await asyncio.to_thread(rocketmq_store.reopen, crash=True)
            rocketmq_producer.send(Message(rocketmq_topic, b"1"), timeout=int(GUARD_S) * 1000)
            while await take(consumer, 1) != [b"1"]:
                pass  # the first one may come twice

    run(main())


def test_a_cancelled_iteration_takes_no_message_away(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, making: Making
) -> None:
    async def main() -> None:
        async with making() as consumer:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(consumer), 0.001)
            asker = asyncio.ensure_future(anext(consumer))
            await asyncio.sleep(0)
            await asyncio.to_thread(send, rocketmq_producer, rocketmq_topic, 1)
            # On its way to the asker, which is cancelled in the same turn of the loop.
            asyncio.get_running_loop().call_soon(asker.cancel)
            with suppress(asyncio.CancelledError):
                await asyncio.wait([asker])
            found = [] if asker.cancelled() else [asker.result().message.body]
            assert found or await take(consumer, 1) == [b"0"]

    run(main())


def test_each_loop_has_a_consumer_of_its_own_in_two_threads_and_one_after_the_other(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, making: Making
) -> None:
    got: list[bytes] = []
    sent = send(rocketmq_producer, rocketmq_topic, 12)

    async def main() -> None:
        async with making() as consumer:
            while set(got) < set(sent):  # what moves between the two may come twice
                try:
                    delivery = await asyncio.wait_for(anext(consumer), 0.05)
                except TimeoutError:
                    continue
                got.append(delivery.message.body)
                with suppress(DeliveryEndedError):  # it moved meanwhile
                    await delivery.ack()

    threads = [threading.Thread(target=run, args=(main(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD_S)
    assert set(got) == set(sent)

    async def again() -> None:
        async with making() as consumer:
            send(rocketmq_producer, rocketmq_topic, 1, first=99)
            while await take(consumer, 1) != [b"99"]:
                pass

    run(again())
