"""Tests in an event loop, with pytest-asyncio: what waits is awaited, and the loop goes on.

Copy it to a folder of your own, since in here the settings of this clone's pytest count. There:

    pip install pytest-asyncio
    pytest test_with_asyncio.py
"""

from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.pytest_plugin import AsyncConsumers, Recorders
from rocketmq_py import Message, aio

HOUR = timedelta(hours=1)


@pytest.mark.asyncio
async def test_a_reminder_arrives_while_the_loop_goes_on(
    rocketmq_aio_producer: aio.Producer, rocketmq_topic: str, rocketmq_recorder: Recorders
) -> None:
    arrived = await rocketmq_recorder.aio(rocketmq_topic)
    await rocketmq_aio_producer.send(Message(rocketmq_topic, b"renew", delay=HOUR))
    await arrived.aio.expect_nothing(within=HOUR / 2)
    await arrived.aio.expect(b"renew", within=HOUR / 2)


@pytest.mark.asyncio
async def test_a_coroutine_handles_what_arrives(
    rocketmq_broker: EmbeddedBroker, rocketmq_topic: str, rocketmq_aio_consumer: AsyncConsumers
) -> None:
    texts = []

    async def remind(delivery: aio.Delivery) -> None:
        texts.append(delivery.message.body.decode())

    await rocketmq_aio_consumer("reminders", rocketmq_topic, remind)
    rocketmq_broker.send(rocketmq_topic, b"renew", delay=HOUR)
    await rocketmq_broker.aio.run(HOUR)
    assert texts == ["renew"]
