"""The fixtures in an event loop: waits are awaited, and what starts there ends with its test."""

from __future__ import annotations

from tests.kit.conftest import RunKit


def test_an_expectation_in_an_event_loop_names_its_twin(run_kit: RunKit) -> None:
    result = run_kit("""
import asyncio

def test_loop(rocketmq_broker, rocketmq_topic, rocketmq_recorder):
    async def test():
        arrived = await rocketmq_recorder.aio(rocketmq_topic)
        rocketmq_broker.send(rocketmq_topic, b"x", delay=60)
        with pytest.raises(Exception, match="await recorder.aio.expect"):
            arrived.expect(b"x", within=60)
        with pytest.raises(Exception, match="await recorder.aio.expect_nothing"):
            arrived.expect_nothing()
        await arrived.aio.expect_nothing(within=59)
        await arrived.aio.expect(b"x", within=1)
        with pytest.raises(AssertionError, match="did not arrive"):
            await arrived.aio.expect(b"x")
    asyncio.run(test())
""")
    result.assert_outcomes(passed=1)


def test_consumers_for_coroutines_are_started_and_ended_by_a_fixture(run_kit: RunKit) -> None:
    result = run_kit("""
import asyncio
from rocketmq_py import running_clients

def test_a_listener(rocketmq_broker, rocketmq_topic, rocketmq_aio_consumer):
    async def main():
        handled = []
        async def handle(delivery):
            handled.append(delivery.message.body)
        consumer = await rocketmq_aio_consumer("billing", rocketmq_topic, handle, tags="paid")
        assert {one.topic for one in consumer.assigned_queues()} > {rocketmq_topic}
        rocketmq_broker.send(rocketmq_topic, b"wanted", tags="paid")
        rocketmq_broker.send(rocketmq_topic, b"other", tags="sent")
        await rocketmq_broker.aio.settle()
        assert handled == [b"wanted"]
    asyncio.run(main())

def test_a_second_loop_iterates(rocketmq_broker, rocketmq_topic, rocketmq_aio_consumer):
    async def main():
        async with await rocketmq_aio_consumer(consume_thread_min=1) as consumer:
            assert (consumer.consume_thread_min, consumer.is_running) == (1, True)
            rocketmq_broker.send(rocketmq_topic, b"x")
            delivery = await anext(consumer)
            assert delivery.message.body == b"x"
            await delivery.ack()
        assert not consumer.is_running
    asyncio.run(main())

def test_a_wrong_listener(rocketmq_aio_consumer):
    with pytest.raises(TypeError, match="async def"):
        asyncio.run(rocketmq_aio_consumer("billing", listener=print))

def test_all_have_ended():
    assert running_clients() == ()
""")
    result.assert_outcomes(passed=4)
