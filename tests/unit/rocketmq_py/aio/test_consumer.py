"""The asyncio consumer: messages for the tasks of one event loop, which is never blocked."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ClientClosedError,
    ConfigError,
    ConsumeFromWhere,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DeliveryEndedError,
    IllegalStateError,
    Message,
    MessageSelector,
    MQClientException,
    NotStartedError,
    PushConsumerConfig,
    UnsupportedOperationError,
    aio,
    running_clients,
)
from rocketmq_py.consumer.dispatch.pool import PoolDispatch
from rocketmq_py.protocol import compression
from tests.waiting import until

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
GUARD_S = 30.0


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"T": 2}, tcp=False, clock=VirtualClock()) as started:
        yield started


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Iterator[DefaultMQProducer]:
    with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as started:
        yield started


Make = Callable[..., aio.Consumer]


@pytest.fixture
def make(broker: EmbeddedBroker) -> Make:
    def made(group: str = "G", listener: Any = None, **settings: Any) -> aio.Consumer:
        given = {"consume_from_where": FIRST, **settings}
        consumer = aio.Consumer(group, namesrv_addr=broker.namesrv_addr, **given)
        consumer.subscribe("T")
        if listener is not None:
            consumer.register_message_listener(listener)
        return consumer

    return made


async def true(holds: Callable[[], object]) -> None:
    await asyncio.to_thread(until, holds, GUARD_S)


async def handle(delivery: aio.Delivery) -> None:
    """Do nothing with it."""


# --- subscriptions -----------------------------------------------------------------------------

NOT_SUBSCRIBED = "group G: no topic is subscribed, so nothing arrives until subscribe()"


def test_who_subscribes_in_the_block_and_then_iterates_is_not_warned(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.send("T", b"x")

    async def main() -> None:
        async with aio.Consumer(
            "G", namesrv_addr=broker.namesrv_addr, consume_from_where=FIRST
        ) as consumer:
            consumer.subscribe("T")
            delivery = await anext(consumer)
            await delivery.ack()

    asyncio.run(main())
    assert "no topic is subscribed" not in caplog.text


def test_who_asks_for_messages_of_no_topic_is_warned_once(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with aio.Consumer("G", namesrv_addr=broker.namesrv_addr) as consumer:
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(consumer), 0)
                asking = asyncio.create_task(anext(consumer))
                await asyncio.sleep(0)
                asking.cancel()

    asyncio.run(main())
    assert caplog.text.count(NOT_SUBSCRIBED) == 1


@pytest.mark.parametrize("asks", ["blocking", "awaited"])
def test_who_polls_without_a_topic_is_warned_once(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture, asks: str
) -> None:
    if asks == "blocking":
        with DefaultLitePullConsumer("G", namesrv_addr=broker.namesrv_addr) as consumer:
            assert [consumer.poll(0), consumer.poll(0)] == [[], []]
    else:

        async def main() -> None:
            async with aio.LitePullConsumer("G", namesrv_addr=broker.namesrv_addr) as consumer:
                assert [await consumer.poll(0), await consumer.poll(0)] == [[], []]

        asyncio.run(main())
    assert caplog.text.count(NOT_SUBSCRIBED) == 1


# --- settings ----------------------------------------------------------------------------------


def test_a_consumer_is_its_settings_and_start_fixes_what_it_reads(make: Make) -> None:
    base = PushConsumerConfig(unit_name="u", consume_timeout=3)
    assert aio.Consumer.of(base, "G", unit_name="v").unit_name == "v"
    assert "consume_timeout" in (inspect.getdoc(aio.Consumer) or "")
    assert "consume_timeout" in inspect.signature(aio.Consumer).parameters
    with pytest.raises(TypeError, match=r"pickle PushConsumerConfig\.of"):
        pickle.dumps(aio.Consumer("G"))
    with pytest.raises(TypeError, match=r"Consumer has no setting .* mean consume_timeout"):
        aio.Consumer("G", consume_timeot=1)  # type: ignore[call-arg] # the mistake

    async def main() -> None:
        async with make() as consumer:
            assert consumer.config is consumer
            assert consumer.is_running
            for name in ("consumer_group", "consume_thread_min", "namesrv_addr"):
                with pytest.raises(ConfigError, match="has read this setting"):
                    setattr(consumer, name, 7 if name == "consume_thread_min" else "x:1")
        assert not consumer.is_running

    asyncio.run(main())


def test_a_wrong_group_or_contradicting_bounds_fail_the_start_and_may_be_mended(
    make: Make, producer: DefaultMQProducer
) -> None:
    handled: list[bytes] = []

    async def listen(delivery: aio.Delivery) -> None:
        handled.append(delivery.message.body)

    async def main() -> None:
        consumer = make("no group", listen)
        with pytest.raises(MQClientException, match="group"):
            await consumer.start()
        consumer.consumer_group = "mended"
        async with consumer:
            producer.send(Message("T", b"x"))
            await true(lambda: handled)
            assert running_clients()[-1].consumer_groups == ("mended",)
        with pytest.raises(ConfigError, match="consume_thread_max"):
            await make(consume_thread_min=5, consume_thread_max=4).start()

    asyncio.run(main())
    assert all(one.consumer_groups == () for one in running_clients())


@pytest.mark.parametrize("wrong", [print, 5, aio.Orderly(print)])  # type: ignore[arg-type] # the mistakes
def test_a_listener_that_is_no_coroutine_function_is_refused(make: Make, wrong: Any) -> None:
    with pytest.raises(TypeError, match="is a coroutine function"):
        make().register_message_listener(wrong)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_decorated_coroutine_function_handles_the_deliveries_and_stays_itself(
    make: Make, producer: DefaultMQProducer, *, orderly: bool
) -> None:
    async def main() -> None:
        got: asyncio.Queue[bytes] = asyncio.Queue()
        consumer = make()

        async def taken(delivery: aio.Delivery) -> None:
            await got.put(delivery.message.body)

        decorate = consumer.listener(orderly=True) if orderly else consumer.listener
        assert decorate(taken) is taken
        assert consumer._is_orderly is orderly
        with pytest.raises(IllegalStateError, match=r"has a listener, which gets all its"):
            consumer.listener(handle)
        async with consumer:
            producer.send(Message("T", b"x"))
            assert await asyncio.wait_for(got.get(), GUARD_S) == b"x"

    asyncio.run(main())


@pytest.mark.parametrize("wrong", [print, 5])
def test_a_decorated_function_that_is_no_coroutine_function_is_refused(
    make: Make, wrong: Any
) -> None:
    consumer = make()
    for decorate in (consumer.listener, consumer.listener(orderly=True)):
        with pytest.raises(TypeError, match="is a coroutine function"):
            decorate(wrong)


def test_a_listener_takes_one_delivery_and_may_be_an_object(make: Make) -> None:
    async def two(messages: object, context: object) -> None:
        """Take what no asyncio consumer gives."""

    class Handler:
        async def __call__(self, delivery: aio.Delivery) -> None:
            """Take it."""

    consumer = make()
    with pytest.raises(TypeError, match=r"called with one aio\.Delivery"):
        consumer.register_message_listener(two)  # type: ignore[arg-type] # the mistake
    consumer.register_message_listener(Handler())


# --- state -------------------------------------------------------------------------------------


def test_what_needs_another_state_says_so(make: Make) -> None:
    consumer = make()

    async def main() -> None:
        with pytest.raises(NotStartedError):
            await anext(consumer)
        with pytest.raises(NotStartedError):
            consumer.suspend()
        await consumer.start()
        with pytest.raises(MQClientException, match="starts once"):
            await consumer.start()
        with pytest.raises(IllegalStateError, match="before start"):
            consumer.register_message_listener(handle)
        with pytest.raises(UnsupportedOperationError, match="subscribe before"):
            consumer.subscribe("T", MessageSelector.by_sql("a > 1"))
        await consumer.shutdown()
        await consumer.shutdown()
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)
        with pytest.raises(ClientClosedError):
            await consumer.start()
        with pytest.raises(ClientClosedError, match="group G is shut down"):
            consumer.resume()
        async with make("H", handle) as listening:
            with pytest.raises(IllegalStateError, match="has a listener"):
                await anext(listening)
        with pytest.raises(TypeError, match="number of seconds"):
            await consumer.shutdown("1")  # type: ignore[arg-type] # the mistake

    asyncio.run(main())
    with pytest.raises(IllegalStateError, match="has closed: make a consumer for each loop"):
        asyncio.run(consumer.start())
    asyncio.run(consumer.shutdown())
    with pytest.raises(IllegalStateError, match="no event loop"):
        consumer.start().send(None)


def test_a_loop_that_closes_without_a_shutdown_takes_its_consumer_out_of_the_group(
    make: Make, producer: DefaultMQProducer, broker: EmbeddedBroker, caplog: Any
) -> None:
    loop = asyncio.new_event_loop()
    consumer = make(listener=handle)
    loop.run_until_complete(consumer.start())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    producer.send(Message("T", b"x"))
    until(lambda: not consumer.is_running, GUARD_S)
    assert "group G: the event loop of its consumer has closed without shutdown()" in caplog.text

    async def main() -> None:
        async with make() as other:
            assert (await anext(other)).message.body == b"x"

    asyncio.run(main())


def test_many_consumers_of_one_instance_have_no_threads_of_their_own(make: Make) -> None:
    def count() -> int:
        return sum(one.name.startswith("rocketmq") for one in threading.enumerate())

    async def main() -> None:
        async with make("G0", instance_name="shared"):
            consumers = [make(f"G{1 + n}", instance_name="shared") for n in range(30)]
            await asyncio.gather(*(one.start() for one in consumers))
            assert len({one.client_id for one in consumers}) == 1
            assert count() < 20  # the pools of the instance have 4, 4 and some more
            await asyncio.gather(*(one.shutdown() for one in consumers))

    asyncio.run(main())


# --- messages ----------------------------------------------------------------------------------


@pytest.mark.case("T80")
@pytest.mark.parametrize("listens", [False, True], ids=["iterating", "listening"])
def test_while_suspended_nothing_is_fetched_and_all_of_it_after(
    make: Make, producer: DefaultMQProducer, listens: bool
) -> None:
    got: list[bytes] = []

    async def note(delivery: aio.Delivery) -> None:
        got.append(delivery.message.body)
        await delivery.ack()

    async def iterate(consumer: aio.Consumer) -> None:
        async for delivery in consumer:
            await note(delivery)

    async def main() -> None:
        async with make(listener=note if listens else None) as consumer:
            iteration = None if listens else asyncio.create_task(iterate(consumer))
            producer.send(Message("T", b"before"))
            await true(lambda: got == [b"before"])
            consumer.suspend()
            async with make("H") as other:
                for number in range(10):
                    producer.send(Message("T", b"%d" % number))
                for _ in range(11):
                    await (await anext(other)).ack()
            assert got == [b"before"]
            consumer.resume()
            await true(lambda: len(got) == 11)
        if iteration is not None:
            await iteration

    asyncio.run(main())
    assert sorted(got[1:]) == [b"%d" % number for number in range(10)]


def test_a_compressed_body_is_unpacked_on_another_thread(
    make: Make, producer: DefaultMQProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    unpack = compression.decompress

    def noting(*args: Any, **settings: Any) -> bytes:
        threads.append(threading.get_ident())
        return unpack(*args, **settings)

    monkeypatch.setattr("rocketmq_py.message.decompress", noting)
    producer.send(Message("T", b"x" * 100_000))

    async def main() -> None:
        async with make() as consumer:
            delivery = await anext(consumer)
            assert delivery.message.body == b"x" * 100_000
            await delivery.ack()

    asyncio.run(main())
    assert threads
    assert threading.get_ident() not in threads


def test_no_more_listener_calls_run_at_a_time_than_the_setting_says(
    make: Make, producer: DefaultMQProducer
) -> None:
    running: list[aio.Delivery] = []
    most: list[int] = []
    handled: list[bytes] = []

    async def listen(delivery: aio.Delivery) -> None:
        running.append(delivery)
        most.append(len(running))
        for _ in range(3):
            await asyncio.sleep(0)
        running.remove(delivery)
        handled.append(delivery.message.body)

    for number in range(30):
        producer.send(Message("T", b"%d" % number))

    async def main() -> None:
        async with make(listener=listen, consume_thread_min=3):
            await true(lambda: len(handled) == 30)

    asyncio.run(main())
    assert max(most) == 3


def test_the_clock_of_a_test_waits_until_a_delivery_is_settled_and_its_task_has_gone_on(
    make: Make, producer: DefaultMQProducer, broker: EmbeddedBroker
) -> None:
    after: list[str] = []

    async def main() -> None:
        async with make() as consumer:
            producer.send(Message("T", b"x"))
            delivery = await anext(consumer)
            seen = await asyncio.to_thread(broker.clock.settle, 0, check=False)
            assert "is in its listener" in str(seen.busy)

            async def finish() -> None:
                await delivery.ack()
                after.append("ack")

            finishing = asyncio.create_task(finish())
            assert (await broker.aio.settle()).ok
            assert after == ["ack"]
            await finishing

    asyncio.run(main())


def test_the_clock_waits_for_a_task_that_a_listener_has_started_and_named(
    make: Make, producer: DefaultMQProducer, broker: EmbeddedBroker
) -> None:
    done: list[int] = []
    tasks: list[asyncio.Task[None]] = []

    async def later() -> None:
        with broker.clock.busy("a task"):
            for _ in range(50):
                await asyncio.sleep(0)
            done.append(1)

    async def listen(_delivery: aio.Delivery) -> None:
        tasks.append(asyncio.create_task(later()))
        await asyncio.sleep(0)

    async def main() -> None:
        async with make(listener=listen):
            producer.send(Message("T", b"x"))
            assert (await broker.aio.settle()).ok
            assert done == [1]

    asyncio.run(main())


def test_a_delivery_that_took_too_long_is_taken_back_and_its_ack_says_so(
    make: Make, producer: DefaultMQProducer, broker: EmbeddedBroker
) -> None:
    async def main() -> None:
        async with make(consume_timeout=timedelta(minutes=1)) as consumer:
            producer.send(Message("T", b"x"))
            delivery = await anext(consumer)
            member, now_ms = consumer._member._joined(), consumer._clock.now_ms
            assert isinstance(member.dispatch, PoolDispatch)
            delivery.message.properties["CONSUME_START_TIME"] = str(now_ms - 61_000)
            await asyncio.to_thread(member.dispatch.sweep, member.lanes)
            with pytest.raises(DeliveryEndedError, match="not settled within consume_timeout"):
                await delivery.ack()

    asyncio.run(main())


def test_a_listener_whose_task_is_cancelled_gives_its_message_back(
    make: Make, producer: DefaultMQProducer
) -> None:
    begun: list[aio.Delivery] = []

    async def listen(delivery: aio.Delivery) -> None:
        begun.append(delivery)
        await asyncio.Event().wait()

    async def main() -> None:
        async with make(listener=listen) as consumer:
            producer.send(Message("T", b"x"))
            await true(lambda: begun)
            for task in list(consumer._member.receiver._tasks):  # type: ignore[union-attr]
                task.cancel()
            await true(lambda: begun[0].is_settled)
            assert begun[0].next_due is not None

    asyncio.run(main())


def test_a_shutdown_waits_for_a_running_listener_and_not_for_one_that_takes_too_long(
    make: Make, producer: DefaultMQProducer, caplog: Any
) -> None:
    begun: list[aio.Delivery] = []
    let_go = asyncio.Event()

    async def listen(delivery: aio.Delivery) -> None:
        begun.append(delivery)
        await let_go.wait()

    async def main() -> None:
        consumer = make(listener=listen)
        await consumer.start()
        producer.send(Message("T", b"first"))
        await true(lambda: begun)
        ending = asyncio.create_task(consumer.shutdown(GUARD_S))
        await asyncio.sleep(0)
        let_go.set()
        await ending
        assert begun[0].is_settled
        let_go.clear()
        second = make("H", listen)
        await second.start()
        await true(lambda: len(begun) == 2)
        await second.shutdown(0)
        with pytest.raises(DeliveryEndedError, match="does not have the queue any more"):
            await begun[1].ack()
        let_go.set()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert "a listener still runs" in caplog.text


@pytest.mark.parametrize("shape", [lambda handle: handle, aio.Orderly], ids=["", "orderly"])
def test_listeners_may_shut_their_consumer_down_also_at_once(
    make: Make,
    producer: DefaultMQProducer,
    caplog: pytest.LogCaptureFixture,
    shape: Callable[[Any], Any],
) -> None:
    for queue in producer.fetch_publish_message_queues("T"):
        producer.send(Message("T", b"stop"), queue=queue)

    async def main() -> None:
        over: asyncio.Queue[bytes] = asyncio.Queue()
        started, both, came = asyncio.Event(), asyncio.Event(), []

        async def stop(delivery: aio.Delivery) -> None:
            came.append(delivery)
            if len(came) == 2:
                both.set()
            await both.wait()
            await started.wait()
            await delivery.ack()
            await asyncio.wait_for(consumer.shutdown(3 * GUARD_S), 2 * GUARD_S)
            over.put_nowait(delivery.message.body)

        consumer = make(listener=shape(stop))
        await consumer.start()
        started.set()
        async with asyncio.timeout(GUARD_S):
            assert [await over.get() for _ in range(2)] == [b"stop"] * 2
        assert not consumer.is_running

    asyncio.run(main())
    assert "still" not in caplog.text


def test_asking_and_giving_up_again_and_again_leaves_nothing_behind(
    make: Make, producer: DefaultMQProducer
) -> None:
    async def main() -> None:
        async with make() as consumer:
            for _ in range(10):
                asking = asyncio.ensure_future(anext(consumer))
                await asyncio.sleep(0)
                asking.cancel()
                await asyncio.wait([asking])
            receiver: Any = consumer._member.receiver
            assert (len(receiver._askers), receiver.workers._room) == (0, 0)
            for number in range(4):
                producer.send(Message("T", b"%d" % number))
            await true(lambda: receiver.workers.unfinished == 4)
            # Cancelled in the very turn in which its message is handed over.
            first, second = (asyncio.ensure_future(anext(consumer)) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first, second])
            bodies = [] if first.cancelled() else [first.result().message.body]
            bodies.append(second.result().message.body)
            while len(bodies) < 4:
                bodies.append((await anext(consumer)).message.body)
            assert sorted(bodies) == [b"0", b"1", b"2", b"3"]

    asyncio.run(main())
