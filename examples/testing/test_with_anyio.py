"""The same tests under asyncio and under trio, with anyio's plugin.

Copy it to a folder of your own, since in here the settings of this clone's pytest count. There:

    pip install anyio trio
    pytest test_with_anyio.py
"""

from datetime import timedelta

import pytest

from embedded_broker.pytest_plugin import Recorders
from rocketmq_py import DefaultMQProducer, Message

pytestmark = pytest.mark.anyio


async def test_a_reminder_arrives(
    rocketmq_producer: DefaultMQProducer, rocketmq_topic: str, rocketmq_recorder: Recorders
) -> None:
    arrived = await rocketmq_recorder.aio(rocketmq_topic)
    rocketmq_producer.send(Message(rocketmq_topic, b"renew", delay=timedelta(days=2)))
    await arrived.aio.expect(b"renew", within=timedelta(days=2), after=timedelta(days=2))
