"""The trace of clients on an embedded broker: what is noted where, and never in the way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec
from rocketmq_py import (
    ConfigError,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Delivery,
    DeliveryListener,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageListenerOrderly,
    MQBrokerException,
    TransactionMQProducer,
    aio,
)
from rocketmq_py.consumer.dispatch.listener_calls import MINUTE_MS
from rocketmq_py.protocol.names import TRACE_TOPIC
from rocketmq_py.trace import (
    ConsumeEnd,
    EndTransaction,
    MessageKind,
    Pub,
    Recall,
    SubAfter,
    SubBefore,
    TraceRecord,
    dispatcher,
    read_records,
)
from tests.unit.rocketmq_py.consumer.fake_engine import FakeClock
from tests.waiting import until

DONE, LATER = list(ConsumeConcurrentlyStatus)
COMMIT = LocalTransactionState.COMMIT_MESSAGE
ONE_QUEUE = TopicSpec("T", queues=1)
SEND = "SEND_MESSAGE_V2"
NOW = FakeClock().now_ms
Kind = TypeVar("Kind", bound=TraceRecord)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the end of a client all its time: a busy machine may take more than a second."""
    monkeypatch.setattr(dispatcher, "CLOSE_S", 60.0)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=[ONE_QUEUE], config={"recallMessageEnable": True}) as started:
        yield started


def traced(broker: EmbeddedBroker, kind: type[Kind], topic: str = TRACE_TOPIC) -> list[Kind]:
    """The records of a type that the broker has, in the order of their messages."""
    if topic not in broker.topics:
        return []
    bodies = [one.body for one in broker.messages.in_topic(topic)]
    found = [record for body in bodies for record in read_records(body)]
    return [one for one in found if isinstance(one, kind)]


def producer(broker: EmbeddedBroker, **settings: object) -> DefaultMQProducer:
    settings = {"namesrv_addr": broker.namesrv_addr, "enable_trace": True} | settings
    return DefaultMQProducer("P", **settings)  # type: ignore[arg-type] # those of a test


def consumer(
    broker: EmbeddedBroker, listener: Any, /, topic: Any = "T", **settings: object
) -> DefaultMQPushConsumer:
    settings = {"namesrv_addr": broker.namesrv_addr, "enable_trace": True} | settings
    made = DefaultMQPushConsumer("G", **settings)  # type: ignore[arg-type] # those of a test
    made.subscribe(topic)
    made.register_message_listener(listener)
    return made


def acking(ended: threading.Event) -> DeliveryListener:
    """A listener that handles everything, and sets an event."""

    def listen(delivery: Delivery) -> None:
        delivery.ack()
        ended.set()

    return DeliveryListener(listen)


# --- sends --------------------------------------------------------------------------------------


def test_every_send_that_a_broker_has_answered_leaves_a_record(broker: EmbeddedBroker) -> None:
    with producer(broker) as sender:
        plain = sender.send(Message("T", b"four", tags="a", keys=["k1", "k2"]))
        later = sender.send_async(Message("T", b"x", delay=timedelta(hours=1))).result(10)
        batch = sender.send_batch([Message("T", b"1", keys=["one"]), Message("T", b"22")])
        sender.send_oneway(Message("T", b"nobody says what becomes of it"))
    one, two, *both = traced(broker, Pub)
    assert (one.group, one.topic, one.region) == ("P", "T", "DefaultRegion")
    assert (one.msg_id, one.offset_msg_id) == (plain.msg_id, plain.offset_msg_id)
    assert (one.tags, one.keys, one.body_length) == ("a", ("k1", "k2"), 4)
    assert (one.store_host, one.success, one.kind) == (broker.addr, True, MessageKind.NORMAL)
    assert one.cost_ms >= 0
    assert (two.msg_id, two.kind) == (later.msg_id, MessageKind.DELAY)
    assert [(each.keys, each.body_length) for each in both] == [(("one",), 1), ((), 2)]
    assert ",".join(each.msg_id for each in both) == batch.msg_id
    assert ",".join(str(each.offset_msg_id) for each in both) == batch.offset_msg_id


def test_one_message_carries_the_trace_of_many_in_the_name_of_its_own_group(
    broker: EmbeddedBroker,
) -> None:
    with producer(broker) as sender:
        sent = [sender.send(Message("T", b"x")) for _ in range(25)]
    stored = broker.messages.in_topic(TRACE_TOPIC)
    assert [len(read_records(one.body)) for one in stored] == [20, 5]
    assert [key for one in stored for key in one.keys] == [one.msg_id for one in sent]
    groups = {one.fields["a"] for one in broker.journal.requests(code=SEND, topic=TRACE_TOPIC)}
    assert {one.rpartition("-")[0] for one in groups} == {"_INNER_TRACE_PRODUCER-P-PRODUCE"}


def test_an_attempt_that_failed_leaves_no_record_and_the_next_one_does(
    broker: EmbeddedBroker,
) -> None:
    broker.faults.on(SEND, topic="T").respond("SYSTEM_BUSY")
    with producer(broker) as sender:
        sent = sender.send(Message("T", b"x"))
        broker.faults.on(SEND, topic="T").respond("NO_PERMISSION").always()
        with pytest.raises(MQBrokerException):
            sender.send(Message("T", b"refused"))
    assert [one.msg_id for one in traced(broker, Pub)] == [sent.msg_id]


@pytest.mark.parametrize("switched_on", [True, False])
def test_a_broker_that_wants_no_trace_gets_none(switched_on: bool) -> None:
    seen = threading.Event()
    settings = {"traceOn": switched_on}
    with EmbeddedBroker(topics=[ONE_QUEUE], config=settings) as broker:
        with consumer(broker, acking(seen)):
            with producer(broker) as sender:
                sender.send(Message("T", b"x"))
            assert seen.wait(10)
        assert len(traced(broker, Pub)) == len(traced(broker, SubAfter)) == int(switched_on)


def test_without_the_setting_there_is_no_trace(broker: EmbeddedBroker) -> None:
    with producer(broker, enable_trace=False) as sender:
        sender.send(Message("T", b"x"))
    assert TRACE_TOPIC not in broker.topics


def test_recalls_are_noted_with_what_the_broker_answered(broker: EmbeddedBroker) -> None:
    with producer(broker) as sender:
        sent = sender.send(Message("T", b"x", delay=timedelta(hours=1)))
        sender.recall_message("T", sent.recall_handle)
        broker.faults.on("RECALL_MESSAGE").respond("ILLEGAL_OPERATION")
        with pytest.raises(MQBrokerException):
            sender.recall_message("T", sent.recall_handle)
    assert [(one.topic, one.msg_id, one.success) for one in traced(broker, Recall)] == [
        ("T", sent.msg_id, True),
        ("T", sent.msg_id, False),
    ]


class Bank:
    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        del message
        assert isinstance(arg, LocalTransactionState)
        return arg

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        del message
        return COMMIT


def test_a_transaction_leaves_its_half_and_each_of_its_ends(broker: EmbeddedBroker) -> None:
    with TransactionMQProducer(
        "P", namesrv_addr=broker.namesrv_addr, transaction_listener=Bank(), enable_trace=True
    ) as bank:
        sent = bank.send_message_in_transaction(Message("T", b"x", tags="a", keys="k"), COMMIT)
    (half,) = traced(broker, Pub)
    assert (half.kind, half.msg_id) == (MessageKind.HALF, sent.msg_id)
    (end,) = traced(broker, EndTransaction)
    assert (end.msg_id, end.state, end.kind) == (sent.msg_id, COMMIT, MessageKind.COMMIT)
    assert (end.tags, end.keys, end.topic) == ("a", ("k",), "T")
    assert (end.from_check, end.transaction_id) == (False, sent.transaction_id)
    assert end.store_host == broker.addr


# --- listeners ----------------------------------------------------------------------------------


def raising(*_: object) -> ConsumeConcurrentlyStatus:
    raise LookupError("theirs")


ENDS: list[tuple[str, Callable[[FakeClock], object], ConsumeEnd]] = [
    ("done", lambda _: lambda _m, _c: DONE, ConsumeEnd.SUCCESS),
    ("later", lambda _: lambda _m, _c: LATER, ConsumeEnd.FAILED),
    ("none", lambda _: lambda _m, _c: None, ConsumeEnd.RETURNNULL),
    ("raises", lambda _: raising, ConsumeEnd.EXCEPTION),
    (
        "orderly",
        lambda _: MessageListenerOrderly(lambda _m, _c: ConsumeOrderlyStatus.SUCCESS),
        ConsumeEnd.SUCCESS,
    ),
    ("ack", lambda _: DeliveryListener(lambda one: one.ack()), ConsumeEnd.SUCCESS),
    ("nack", lambda _: DeliveryListener(lambda one: one.nack()), ConsumeEnd.FAILED),
]


@pytest.mark.parametrize(("name", "listener", "end"), ENDS, ids=[one[0] for one in ENDS])
def test_both_ends_of_a_listener_call_are_noted(
    broker: EmbeddedBroker,
    name: str,
    listener: Callable[[FakeClock], object],
    end: ConsumeEnd,
) -> None:
    del name
    clock, ended = FakeClock(), threading.Event()

    class Seen:
        def before(self, _: object) -> None:
            clock.now_ms += 30

        def after(self, _: object) -> None:
            ended.set()

    member = consumer(broker, listener(clock), clock=clock)
    member.register_consume_message_hook(Seen())
    with member:
        broker.send("T", b"x", keys="k")
        assert ended.wait(10)
    (before, *_), (after, *_) = traced(broker, SubBefore), traced(broker, SubAfter)
    (stored,) = broker.messages.in_topic("T")
    assert (before.group, before.msg_id, before.retry_times) == ("G", stored.msg_id, 0)
    assert (before.timestamp, before.keys) == (NOW, ("k",))
    assert (after.request_id, after.msg_id) == (before.request_id, before.msg_id)
    assert (after.end, after.success) == (end, end is ConsumeEnd.SUCCESS)
    assert (after.cost_ms, after.timestamp, after.group) == (30, NOW + 30, "G")


def test_a_call_that_took_too_long_is_noted_as_such(broker: EmbeddedBroker) -> None:
    clock, ended = FakeClock(), threading.Event()

    def listen(delivery: Delivery) -> None:
        clock.now_ms += MINUTE_MS
        delivery.ack()
        ended.set()

    with consumer(broker, listen, clock=clock, consume_timeout=1):
        broker.send("T", b"x")
        assert ended.wait(10)
    (after,) = traced(broker, SubAfter)
    assert (after.end, after.success, after.cost_ms) == (ConsumeEnd.TIME_OUT, True, MINUTE_MS)


def test_the_messages_of_one_call_share_its_id_and_its_time(broker: EmbeddedBroker) -> None:
    clock, ended = FakeClock(), threading.Event()
    sent = [broker.send("T", b"x").msg_id for _ in range(4)]

    def listen(_messages: object, _context: object) -> ConsumeConcurrentlyStatus:
        clock.now_ms += 100
        ended.set()
        return DONE

    with consumer(
        broker,
        listen,
        clock=clock,
        consume_message_batch_max_size=4,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    ):
        assert ended.wait(10)
    before, after = traced(broker, SubBefore), traced(broker, SubAfter)
    assert [one.msg_id for one in before] == [one.msg_id for one in after] == sent
    assert {one.request_id for one in before} == {one.request_id for one in after}
    assert len({one.request_id for one in before}) == 1
    assert {one.cost_ms for one in after} == {25}


def test_of_a_consumer_of_the_trace_itself_there_is_no_trace(broker: EmbeddedBroker) -> None:
    ended = threading.Event()
    broker.topics.create(TRACE_TOPIC, queues=1)
    with consumer(broker, acking(ended), topic=TRACE_TOPIC):
        with producer(broker) as sender:
            sender.send(Message("T", b"x"))
            sender.send(Message(TRACE_TOPIC, b"by hand"))
        assert ended.wait(10)
    assert [one.topic for one in traced(broker, Pub)] == ["T"]
    assert traced(broker, SubBefore) == []


def test_what_a_poll_returns_is_noted_as_handled(broker: EmbeddedBroker) -> None:
    clock = FakeClock()
    broker.send("T", b"x", keys="k")
    with DefaultLitePullConsumer(
        "G",
        namesrv_addr=broker.namesrv_addr,
        clock=clock,
        enable_trace=True,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    ) as asking:
        asking.subscribe("T")
        polled = next(asking.batches())
    (before,), (after,) = traced(broker, SubBefore), traced(broker, SubAfter)
    assert [one.msg_id for one in polled] == [before.msg_id] == [after.msg_id]
    assert (before.group, before.timestamp, before.keys) == ("G", NOW, ("k",))
    assert (after.request_id, after.end, after.success, after.cost_ms) == (
        before.request_id,
        ConsumeEnd.SUCCESS,
        True,
        0,
    )


# --- asyncio ------------------------------------------------------------------------------------


def test_asyncio_clients_are_traced_as_the_others(broker: EmbeddedBroker) -> None:
    settings = {"namesrv_addr": broker.namesrv_addr, "enable_trace": True}

    async def main() -> tuple[str, str]:
        async with (
            aio.Consumer("G", **settings) as receiver,  # type: ignore[arg-type] # mixed types
            aio.Producer("P", **settings) as sender,  # type: ignore[arg-type] # likewise
        ):
            receiver.subscribe("T")
            sent = await sender.send(Message("T", b"x"))
            async with sender.transaction(Message("T", b"y")) as half:
                pass
            left = 2
            async for delivery in receiver:
                await delivery.ack()
                left -= 1
                if not left:
                    break
            return sent.msg_id, half.message_id

    ids = list(asyncio.run(main()))
    assert [one.msg_id for one in traced(broker, Pub)] == ids
    assert [(one.msg_id, one.state) for one in traced(broker, EndTransaction)] == [(ids[1], COMMIT)]
    assert sorted(one.msg_id for one in traced(broker, SubBefore)) == sorted(ids)
    assert all(one.success for one in traced(broker, SubAfter))
    assert len(traced(broker, SubAfter)) == 2


def test_an_awaited_poll_is_noted_too(broker: EmbeddedBroker) -> None:
    broker.send("T", b"x")

    async def main() -> list[MessageExt]:
        async with aio.LitePullConsumer(
            "G",
            namesrv_addr=broker.namesrv_addr,
            enable_trace=True,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        ) as asking:
            asking.subscribe("T")
            return await asking.poll(10_000)

    (polled,) = asyncio.run(main())
    assert [one.msg_id for one in traced(broker, SubAfter)] == [polled.msg_id]


# --- where it goes ------------------------------------------------------------------------------


def test_the_trace_goes_to_the_topic_of_the_setting(broker: EmbeddedBroker) -> None:
    with producer(broker, trace_topic="Way") as sender:
        sender.send(Message("T", b"x"))
    assert len(traced(broker, Pub, "Way")) == 1
    assert TRACE_TOPIC not in broker.topics


def test_in_a_cloud_the_trace_goes_to_the_topic_of_the_region() -> None:
    ended = threading.Event()
    with EmbeddedBroker(topics=[ONE_QUEUE], config={"regionId": "eu"}) as broker:
        with consumer(
            broker,
            acking(ended),
            access_channel="CLOUD",
        ):
            with producer(broker, access_channel="CLOUD") as sender:
                sender.send(Message("T", b"x"))
            assert ended.wait(10)
        (sent,) = traced(broker, Pub, "rmq_sys_TRACE_DATA_eu")
        (after,) = traced(broker, SubAfter, "rmq_sys_TRACE_DATA_eu")
    assert sent.region == "eu"
    assert (after.end, after.timestamp, after.group) == (ConsumeEnd.SUCCESS, None, None)


def test_a_topic_that_a_cloud_would_not_use_is_refused_at_the_start(
    broker: EmbeddedBroker,
) -> None:
    settings: dict[str, object] = {"access_channel": "CLOUD", "trace_topic": "Way"}
    with pytest.raises(ConfigError, match=r"trace_topic.*'Way'.*has no effect.*CLOUD"):
        producer(broker, **settings).start()
    with pytest.raises(ConfigError, match=r"trace_topic.*'Way'.*has no effect.*CLOUD"):
        consumer(broker, lambda _m, _c: DONE, **settings).start()
    sender = producer(broker, **settings)
    with pytest.raises(ConfigError):
        sender.start()
    sender.access_channel = "LOCAL"
    with sender:
        pass


@pytest.mark.parametrize(
    ("name", "value"),
    [("enable_trace", False), ("trace_topic", "Way"), ("access_channel", "CLOUD")],
)
def test_the_settings_count_from_the_start_on(
    broker: EmbeddedBroker, name: str, value: object
) -> None:
    with producer(broker) as sender, consumer(broker, acking(threading.Event())) as receiver:
        for client in (sender, receiver):
            with pytest.raises(ConfigError, match=f"{name}.*has read this setting already"):
                setattr(client, name, value)


@pytest.mark.parametrize("wrong", ["", "a b", "x" * 128, None, "SCHEDULE_TOPIC_XXXX"])
def test_a_topic_that_cannot_be_one_is_refused_where_it_is_written(wrong: object) -> None:
    with pytest.raises(ConfigError, match="trace_topic"):
        DefaultMQProducer("P", trace_topic=wrong)  # type: ignore[arg-type] # what is refused


# --- a broker of traces in trouble ----------------------------------------------------------------


@pytest.mark.case("T65")
@pytest.mark.parametrize("trouble", ["silent", "refuses", "closes"])
def test_sends_and_listeners_go_on_while_nobody_takes_the_trace(
    broker: EmbeddedBroker,
    trouble: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatcher, "CLOSE_S", 0.0)
    broker.topics.create(TRACE_TOPIC, queues=1)
    fault = broker.faults.on(SEND, topic=TRACE_TOPIC)
    {"silent": fault.drop, "closes": fault.close}.get(
        trouble, lambda: fault.respond("NO_PERMISSION")
    )()
    fault.always()
    got: list[bytes] = []

    def listen(delivery: Delivery) -> None:
        got.append(delivery.message.body)
        delivery.ack()

    with consumer(broker, listen), producer(broker) as sender:
        for number in range(50):
            sender.send(Message("T", b"%d" % number))
        until(lambda: len(set(got)) == 50)
    assert fault.hits
    assert "trace records are lost" in caplog.text
    assert traced(broker, Pub) == []


@pytest.mark.case("T65")
def test_a_broker_that_is_down_takes_only_the_trace_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with EmbeddedCluster(brokers=2) as cluster:
        cluster["broker-a"].topics.create("T", queues=1)
        cluster["broker-b"].topics.create("Way", queues=1)
        with DefaultMQProducer(
            "P", namesrv_addr=cluster.namesrv_addr, enable_trace=True, trace_topic="Way"
        ) as sender:
            for _ in range(20):
                sender.send(Message("T", b"x"))
            until(lambda: cluster["broker-b"].topics["Way"].count() == 1)
            cluster.stop("broker-b")
            for _ in range(30):
                sender.send(Message("T", b"x"))
        assert cluster["broker-a"].topics["T"].count() == 50
    assert "trace of P: " in caplog.text


@pytest.mark.parametrize("refusing", [1, 2])
def test_a_trace_that_one_broker_refuses_goes_to_another_once(refusing: int) -> None:
    with EmbeddedCluster(brokers=3, topics=["T", "Way"]) as cluster:
        first, *others = [cluster[name] for name in ("broker-a", "broker-b", "broker-c")]
        for one in (first, *others)[:refusing]:
            one.faults.on(SEND, topic="Way").respond("SYSTEM_BUSY").always()
        with DefaultMQProducer(
            "P", namesrv_addr=cluster.namesrv_addr, enable_trace=True, trace_topic="Way"
        ) as sender:
            for _ in range(40):
                sender.send(Message("T", b"x"))
        asked = len(first.journal.requests(code=SEND, topic="Way"))
        stored = sum(one.topics["Way"].count() for one in (first, *others))
    assert asked <= 4  # two batches, two attempts
    assert stored == 2 if refusing == 1 else stored <= 2
