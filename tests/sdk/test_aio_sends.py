"""Awaited sends: each way stores the message once and tells where it lies, as the blocking one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.pytest_plugin import Recorders
from rocketmq_py import (
    LocalTransactionState,
    Message,
    MessageExt,
    MessageQueue,
    QueueAccess,
    SendResult,
    SendStatus,
    aio,
)
from tests.sdk.conftest import GUARD_S, Replier, body_at, stored
from tests.waiting import until

SECOND = timedelta(seconds=1)
LATE = timedelta(seconds=60)
PATIENCE = timedelta(seconds=30)
ASKED = timedelta(seconds=60)
"""Brokers ask after 6 s, when they look next."""


def test_an_awaited_send_tells_where_the_message_lies(
    rocketmq_topic: str, rocketmq_aio_producer: aio.Producer, access: QueueAccess
) -> None:
    result = asyncio.run(rocketmq_aio_producer.send(Message(rocketmq_topic, b"x")))
    assert result.send_status is SendStatus.SEND_OK
    assert body_at(access, result) == b"x"


def test_many_tasks_send_each_message_once(
    rocketmq_topic: str, rocketmq_aio_producer: aio.Producer, access: QueueAccess
) -> None:
    bodies = [b"%d" % number for number in range(200)]

    async def main() -> list[SendResult]:
        sends = (rocketmq_aio_producer.send(Message(rocketmq_topic, one)) for one in bodies)
        return await asyncio.gather(*sends)

    results = asyncio.run(main())
    assert [body_at(access, one) for one in results[::50]] == bodies[::50]
    assert len({(one.message_queue, one.queue_offset) for one in results}) == len(bodies)
    until(lambda: stored(access, rocketmq_topic) == len(bodies), GUARD_S)


def test_few_permits_slow_sends_down_and_lose_none(
    rocketmq_broker: EmbeddedBroker, rocketmq_topic: str, rocketmq_group: str, access: QueueAccess
) -> None:
    async def main() -> None:
        async with aio.Producer(
            f"{rocketmq_group}_few",
            namesrv_addr=rocketmq_broker.namesrv_addr,
            client_async_permits=3,
            send_msg_timeout=round(GUARD_S * 1000),
        ) as producer:
            sends = (producer.send(Message(rocketmq_topic, b"x")) for _ in range(100))
            await asyncio.gather(*sends)

    asyncio.run(main())
    until(lambda: stored(access, rocketmq_topic) == 100, GUARD_S)


def test_a_batch_a_oneway_message_and_a_large_one_arrive(
    rocketmq_topic: str, rocketmq_aio_producer: aio.Producer, rocketmq_recorder: Recorders
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    large = b"a" * 1_000_000

    async def main() -> None:
        messages = [Message(rocketmq_topic, b"a"), Message(rocketmq_topic, b"b")]
        result = await rocketmq_aio_producer.send_batch(messages)
        assert result.msg_id.split(",") == [one.properties["UNIQ_KEY"] for one in messages]
        await rocketmq_aio_producer.send_oneway(Message(rocketmq_topic, b"oneway"))
        await rocketmq_aio_producer.send(Message(rocketmq_topic, large))

    asyncio.run(main())
    for body in (b"a", b"b", b"oneway", large):
        arrived.expect(body)


def test_a_queue_is_named_or_chosen(
    rocketmq_topic: str, rocketmq_aio_producer: aio.Producer
) -> None:
    def select(queues: Sequence[MessageQueue], message: Message, arg: object) -> MessageQueue:
        return queues[len(message.body) if arg else 0]

    async def main() -> list[int]:
        queues = await rocketmq_aio_producer.fetch_publish_message_queues(rocketmq_topic)
        message = Message(rocketmq_topic, b"xx")
        named = await rocketmq_aio_producer.send(message, queue=queues[1])
        chosen = await rocketmq_aio_producer.send(message, selector=select, arg=True)
        return [named.message_queue.queue_id, chosen.message_queue.queue_id]

    assert asyncio.run(main()) == [1, 2]


@pytest.mark.rocketmq(timers=True, recall=True)
def test_a_delayed_message_that_is_called_back_never_comes(
    rocketmq_topic: str, rocketmq_aio_producer: aio.Producer, rocketmq_recorder: Recorders
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)

    async def main() -> None:
        unwanted = Message(rocketmq_topic, b"unwanted", delay=10 * SECOND)
        receipt = await rocketmq_aio_producer.send(unwanted)
        await rocketmq_aio_producer.send(Message(rocketmq_topic, b"wanted", delay=12 * SECOND))
        recalled = await rocketmq_aio_producer.recall(rocketmq_topic, receipt.recall_handle)
        assert recalled == receipt.msg_id

    asyncio.run(main())
    arrived.expect("wanted", within=LATE)
    assert arrived.texts == ["wanted"]


def test_a_request_gets_the_reply_of_a_consumer(
    rocketmq_topic: str, rocketmq_aio_producer: aio.Producer, replier: Replier
) -> None:
    replier(lambda message: b"yes to " + message.body)

    async def main() -> bytes:
        question = Message(rocketmq_topic, b"tea?")
        return (await rocketmq_aio_producer.request(question, timeout=PATIENCE)).body

    assert asyncio.run(main()) == b"yes to tea?"


def test_time_moves_when_the_tasks_of_a_loop_wait_for_it(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_topic: str,
    rocketmq_aio_producer: aio.Producer,
    rocketmq_recorder: Recorders,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)

    async def main() -> None:
        for number in range(3):
            delayed = Message(rocketmq_topic, b"%d" % number)
            delayed.set_delay_time_level(1)
            await asyncio.gather(rocketmq_aio_producer.send(delayed))
            await arrived.aio.expect(b"%d" % number, within=LATE)

    asyncio.run(main())
    assert len(arrived.texts) == 3


def test_a_transaction_is_delivered_when_its_block_ends_and_never_after_an_exception(
    rocketmq_topic: str, rocketmq_aio_producer: aio.Producer, rocketmq_recorder: Recorders
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with rocketmq_aio_producer.transaction(Message(rocketmq_topic, b"undone")):
                raise ZeroDivisionError
        async with rocketmq_aio_producer.transaction(Message(rocketmq_topic, b"done")) as half:
            assert half.message_id

    asyncio.run(main())
    arrived.expect("done", within=LATE)
    assert arrived.texts == ["done"]


def test_a_transaction_that_is_left_open_is_asked_about_and_the_answer_counts(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_recorder: Recorders,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    asked: list[bytes] = []

    async def check(message: MessageExt) -> LocalTransactionState:
        asked.append(message.body)
        return LocalTransactionState.COMMIT_MESSAGE

    async def main() -> None:
        async with aio.Producer(
            f"{rocketmq_group}_asked",
            namesrv_addr=rocketmq_broker.namesrv_addr,
            transaction_check=check,
        ) as producer:
            async with producer.transaction(Message(rocketmq_topic, b"x")) as half:
                half.end(LocalTransactionState.UNKNOW)
            await arrived.aio.expect("x", within=ASKED)

    asyncio.run(main())
    assert asked[0] == b"x"
