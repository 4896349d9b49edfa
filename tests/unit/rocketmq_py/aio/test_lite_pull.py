"""Waiting for an inbox in an event loop; what the consumer does is in tests/sdk."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.aio.lite_pull import _asked
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.dispatch.inbox import Inbox
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import message

LONG_S = 60.0


def test_messages_that_come_just_before_a_task_is_cancelled_wait_for_the_next_one() -> None:
    async def main() -> None:
        inbox, lane = Inbox(), Lane(MessageQueue("T", "broker-a", 0), 0, fetched_at=0.0)
        asking = asyncio.create_task(_asked(inbox, LONG_S))
        await asyncio.sleep(0)  # it has asked
        inbox.deliver(lane, [message(0)])
        assert inbox.waiting == 0
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert inbox.waiting == 1
        batch = await _asked(inbox, LONG_S)
        assert batch is not None
        assert batch.lane is lane

    asyncio.run(main())
