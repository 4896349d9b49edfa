"""Message trace: what became of each message can be asked for by its id, or by one of its keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConsumeFromWhere,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Delivery,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageListenerOrderly,
    RocketMQError,
    TransactionMQProducer,
    aio,
)
from rocketmq_py.admin import AdminClient
from rocketmq_py.trace import (
    ConsumeEnd,
    EndTransaction,
    MessageKind,
    Pub,
    Recall,
    SubAfter,
    SubBefore,
    TraceRecord,
    read_records,
)
from tests.sdk.conftest import GUARD_S, Forward
from tests.sdk.listeners import SOON_MS
from tests.waiting import until

FAR_AWAY_MS = 2**62
COMMIT = LocalTransactionState.COMMIT_MESSAGE
SECOND = timedelta(seconds=1)

Way = Callable[[str], list[TraceRecord]]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the end of a client all its time: a busy machine may take more than a second."""
    monkeypatch.setattr("rocketmq_py.trace.dispatcher.CLOSE_S", 60.0)


@pytest.fixture
def traces(rocketmq_topic: str, rocketmq_producer: DefaultMQProducer) -> str:
    """A topic for traces of this test alone."""
    name = f"{rocketmq_topic}-traces"
    rocketmq_producer.create_topic("TBW102", name, 2)
    until(lambda: rocketmq_producer.fetch_publish_message_queues(name), GUARD_S)
    return name


@pytest.fixture
def settings(rocketmq_broker: EmbeddedBroker, traces: str) -> dict[str, object]:
    """Those of clients that are traced."""
    return {
        "namesrv_addr": rocketmq_broker.namesrv_addr,
        "enable_trace": True,
        "trace_topic": traces,
    }


@pytest.fixture
def way(rocketmq_producer: DefaultMQProducer, traces: str) -> Way:
    """Asks for the records about the message with an id, those with the key when it is one."""

    def ask(key: str) -> list[TraceRecord]:
        try:
            found = rocketmq_producer.query_message(traces, key, 64, 0, FAR_AWAY_MS)
        except RocketMQError:  # 208: not indexed yet
            return []
        records = [record for one in found.message_list for record in read_records(one.body)]
        return [one for one in records if key == one.msg_id or key in getattr(one, "keys", ())]

    return ask


def kinds(records: Iterable[TraceRecord]) -> list[str]:
    return sorted(type(record).__name__ for record in records)


def wait_for(way: Way, key: str, *expected: type[TraceRecord]) -> list[TraceRecord]:
    """The records about a message: there are just these in the end."""
    names = sorted(kind.__name__ for kind in expected)
    until(lambda: kinds(way(key)) == names, GUARD_S)
    return way(key)


def only(records: list[TraceRecord], kind: type[TraceRecord]) -> list[TraceRecord]:
    return [one for one in records if isinstance(one, kind)]


@pytest.mark.case("T65")
@pytest.mark.parametrize("key", ["id", "key"])
def test_a_send_and_its_consumption_are_found_by_the_id_and_by_the_key(
    rocketmq_topic: str, rocketmq_group: str, settings: dict[str, object], way: Way, key: str
) -> None:
    got: list[MessageExt] = []

    def listen(delivery: Delivery) -> None:
        got.append(delivery.message)
        delivery.ack()

    consumer = DefaultMQPushConsumer(rocketmq_group, **settings)  # type: ignore[arg-type] # mixed
    consumer.subscribe(rocketmq_topic)
    consumer.register_message_listener(listen)
    with consumer:
        with DefaultMQProducer("shop", **settings) as producer:  # type: ignore[arg-type] # mixed
            sent = producer.send(Message(rocketmq_topic, b"paid", tags="a", keys=["order", "42"]))
        until(lambda: got, GUARD_S)
    asked = {"id": sent.msg_id, "key": "42"}[key]
    records = wait_for(way, asked, Pub, SubBefore, SubAfter)
    assert {one.msg_id for one in records} == {sent.msg_id}
    (pub,), (before,), (after,) = (only(records, kind) for kind in (Pub, SubBefore, SubAfter))
    assert isinstance(pub, Pub)
    assert (pub.group, pub.topic, pub.tags, pub.keys) == (
        "shop",
        rocketmq_topic,
        "a",
        ("order", "42"),
    )
    assert (pub.success, pub.offset_msg_id) == (True, sent.offset_msg_id)
    assert isinstance(before, SubBefore)
    assert isinstance(after, SubAfter)
    assert (before.group, after.group) == (rocketmq_group, rocketmq_group)
    assert before.request_id == after.request_id
    assert (after.success, after.end) == (True, ConsumeEnd.SUCCESS)


def test_an_administrator_follows_a_message_by_either_of_its_ids(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_topic: str,
    rocketmq_group: str,
    settings: dict[str, object],
    traces: str,
) -> None:
    server = rocketmq_broker.namesrv_addr
    taken: list[str] = []

    def listen(delivery: Delivery) -> None:
        taken.append(delivery.message.msg_id)
        delivery.ack()

    async def awaited(msg_id: str) -> tuple[TraceRecord, ...]:
        async with aio.AdminClient(namesrv_addr=server) as asking:
            return await asking.trace(msg_id, trace_topic=traces)

    with AdminClient(namesrv_addr=server) as admin:

        def steps(msg_id: str) -> list[type[TraceRecord]]:
            return [type(record) for record in admin.trace(msg_id, trace_topic=traces)]

        with DefaultMQProducer("shop", **settings) as producer:  # type: ignore[arg-type] # mixed
            sent = producer.send(Message(rocketmq_topic, b"paid"))
            producer.send(Message(rocketmq_topic, b"paid, too"))
        until(lambda: steps(sent.msg_id) == [Pub], GUARD_S)
        consumer = DefaultMQPushConsumer(
            rocketmq_group,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            **settings,  # type: ignore[arg-type] # mixed
        )
        consumer.subscribe(rocketmq_topic)
        consumer.register_message_listener(listen)
        with consumer:
            until(lambda: len(taken) == 2, GUARD_S)
        until(lambda: steps(sent.msg_id) == [Pub, SubBefore, SubAfter], GUARD_S)
        way = admin.trace(sent.msg_id, trace_topic=traces)
        by_place = admin.trace(sent.offset_msg_id, topic=rocketmq_topic, trace_topic=traces)
        assert by_place == way == asyncio.run(awaited(sent.msg_id))


@pytest.mark.parametrize("in_order", [False, True], ids=["side by side", "in order"])
def test_each_attempt_of_a_listener_is_noted(
    rocketmq_topic: str,
    rocketmq_group: str,
    settings: dict[str, object],
    way: Way,
    forward: Forward,
    in_order: bool,
) -> None:
    attempts: list[int] = []

    def listen(delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        if len(attempts) == 1:
            delivery.nack(SECOND)
        else:
            delivery.ack()

    soon = {"poll_name_server_interval": SOON_MS}
    consumer = DefaultMQPushConsumer(rocketmq_group, **settings, **soon)  # type: ignore[arg-type]
    consumer.subscribe(rocketmq_topic)
    consumer.register_message_listener(MessageListenerOrderly(listen) if in_order else listen)
    with consumer:
        with DefaultMQProducer("shop", **settings) as producer:  # type: ignore[arg-type] # mixed
            sent = producer.send(Message(rocketmq_topic, b"x"))
        forward(lambda: len(attempts) == 2)
    expected = (Pub, SubBefore, SubBefore, SubAfter, SubAfter)
    records = wait_for(way, sent.msg_id, *expected)
    retries = [one.retry_times for one in records if isinstance(one, SubBefore)]
    ends = {one.end for one in records if isinstance(one, SubAfter)}
    assert sorted(retries) == [0, 1]
    assert ends == {ConsumeEnd.FAILED, ConsumeEnd.SUCCESS}


def test_what_a_poll_returns_is_noted_as_handled(
    rocketmq_topic: str, rocketmq_group: str, settings: dict[str, object], way: Way
) -> None:
    with (
        DefaultLitePullConsumer(
            rocketmq_group,
            # It may not have asked yet where it begins when the message comes.
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            **settings,  # type: ignore[arg-type] # mixed
        ) as asking,
        DefaultMQProducer("shop", **settings) as producer,  # type: ignore[arg-type] # mixed
    ):
        asking.subscribe(rocketmq_topic)
        until(asking.assignment, GUARD_S)
        sent = producer.send(Message(rocketmq_topic, b"x"))
        assert [one.msg_id for one in next(asking.batches())] == [sent.msg_id]
    records = wait_for(way, sent.msg_id, Pub, SubBefore, SubAfter)
    assert [one.success for one in records if isinstance(one, SubAfter)] == [True]


class Bank:
    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        del message, arg
        return COMMIT

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        del message
        return COMMIT


def test_a_transaction_is_noted_from_its_half_to_its_end(
    rocketmq_topic: str, settings: dict[str, object], way: Way
) -> None:
    with TransactionMQProducer(
        "bank",
        transaction_listener=Bank(),
        **settings,  # type: ignore[arg-type] # mixed
    ) as producer:
        sent = producer.send_message_in_transaction(Message(rocketmq_topic, b"x"))
    records = wait_for(way, sent.msg_id, Pub, EndTransaction)
    assert [one.kind for one in records if isinstance(one, Pub)] == [MessageKind.HALF]
    (end,) = only(records, EndTransaction)
    assert isinstance(end, EndTransaction)
    assert (end.state, end.from_check, end.group) == (COMMIT, False, "bank")


@pytest.mark.rocketmq(timers=True, recall=True)
def test_a_delayed_message_and_its_recall_are_noted(
    rocketmq_topic: str, settings: dict[str, object], way: Way
) -> None:
    with DefaultMQProducer("shop", **settings) as producer:  # type: ignore[arg-type] # mixed
        sent = producer.send(Message(rocketmq_topic, b"x", delay=60 * SECOND))
        producer.recall_message(rocketmq_topic, sent.recall_handle)
    records = wait_for(way, sent.msg_id, Pub, Recall)
    assert [one.kind for one in records if isinstance(one, Pub)] == [MessageKind.DELAY]
    assert [one.success for one in records if isinstance(one, Recall)] == [True]


def test_each_message_of_a_batch_is_found_by_its_own_id(
    rocketmq_topic: str, settings: dict[str, object], way: Way
) -> None:
    with DefaultMQProducer("shop", **settings) as producer:  # type: ignore[arg-type] # mixed
        sent = producer.send_batch([Message(rocketmq_topic, body) for body in (b"1", b"22")])
    for number, msg_id in enumerate(sent.msg_id.split(","), 1):
        (record,) = wait_for(way, msg_id, Pub)
        assert isinstance(record, Pub)
        assert record.body_length == number


def test_asyncio_clients_are_traced_as_the_others(
    rocketmq_topic: str, rocketmq_group: str, settings: dict[str, object], way: Way
) -> None:
    async def main() -> str:
        async with (
            aio.Consumer(rocketmq_group, **settings) as consumer,  # type: ignore[arg-type] # mixed
            aio.Producer("shop", **settings) as producer,  # type: ignore[arg-type] # mixed
        ):
            consumer.subscribe(rocketmq_topic)
            sent = await producer.send(Message(rocketmq_topic, b"x"))
            async with asyncio.timeout(GUARD_S):
                delivery = await anext(consumer)
            await delivery.ack()
            return sent.msg_id

    wait_for(way, asyncio.run(main()), Pub, SubBefore, SubAfter)
