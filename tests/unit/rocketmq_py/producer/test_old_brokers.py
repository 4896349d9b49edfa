"""Timers and brokers before 5.0, which would deliver at once: every way to send judges them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    DefaultMQProducer,
    DelayValueError,
    LocalTransactionState,
    Message,
    SendFailedError,
    TransactionListener,
    TransactionMQProducer,
    aio,
)
from rocketmq_py.protocol.codes import MQVersion, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.rocketmq_py.conftest import ClusterMaker
from tests.unit.rocketmq_py.producer.conftest import ProducerMaker
from tests.unit.rocketmq_py.scripted import Peer, ScriptedCluster, ScriptedServer
from tests.waiting import until

WAIT_S = 30.0
Send = Callable[[DefaultMQProducer, Message], object]


@pytest.fixture(params=["in-process", "tcp"])
def old_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    tcp = request.param == "tcp"
    with EmbeddedBroker(
        clock=VirtualClock(), profile="rocketmq-4.9", topics=["T"], tcp=tcp, inproc=not tcp
    ) as made:
        yield made


@pytest.fixture
def producer(old_broker: EmbeddedBroker) -> Iterator[DefaultMQProducer]:
    with DefaultMQProducer("G", namesrv_addr=old_broker.namesrv_addr) as made:
        yield made


def sent_by(broker: EmbeddedBroker) -> int:
    return len(broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2))


BLOCKING = pytest.param(lambda p, m: p.send(m), id="send")
WAYS = [
    BLOCKING,
    pytest.param(lambda p, m: p.send_async(m).result(WAIT_S), id="send_async"),
    pytest.param(lambda p, m: p.send_oneway(m), id="send_oneway"),
    pytest.param(lambda p, m: p.request(m, timeout=2_000), id="request"),
]


@pytest.mark.parametrize("send", WAYS)
def test_a_timer_is_refused_and_the_error_names_broker_version_and_nearest_level(
    old_broker: EmbeddedBroker, producer: DefaultMQProducer, send: Send
) -> None:
    with pytest.raises(DelayValueError) as caught:
        send(producer, Message("T", b"x", delay=timedelta(seconds=9)))
    for part in (old_broker.addr, "4.9.4", "set_delay_time_level(3)", "delay_policy"):
        assert part in str(caught.value)
    assert sent_by(old_broker) == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda m, _: m.set_delay_time_level(3),
        lambda m, _: m.set_delay_time_sec(0),
        lambda m, _: m,
    ],
    ids=["a level", "no time", "no delay"],
)
def test_what_an_old_broker_keeps_is_sent(
    old_broker: EmbeddedBroker,
    producer: DefaultMQProducer,
    ask: Callable[[Message, int], Message],
) -> None:
    producer.send(ask(Message("T", b"x"), old_broker.clock.now_ms))
    assert sent_by(old_broker) == 1


def test_an_instant_and_aliyuns_way_are_timers_unless_the_program_says_that_the_broker_knows_it(
    old_broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    due_ms = old_broker.clock.now_ms + 600_000
    for message in (
        Message("T", b"x").set_deliver_time_ms(due_ms),
        Message("T", b"x").set_start_deliver_time(due_ms),
    ):
        with pytest.raises(DelayValueError, match="level"):
            producer.send(message)
    producer.translate_start_deliver_time = "never"
    producer.send(Message("T", b"x").set_start_deliver_time(due_ms))
    assert sent_by(old_broker) == 1


@pytest.mark.parametrize("send", WAYS[:3])
def test_a_warning_names_the_message_once_which_is_then_delivered_at_once(
    old_broker: EmbeddedBroker,
    producer: DefaultMQProducer,
    send: Send,
    caplog: pytest.LogCaptureFixture,
) -> None:
    producer.delay_policy = "warn"
    message = Message("T", b"x", keys="order-42", delay=timedelta(hours=1))
    with caplog.at_level(logging.WARNING, "rocketmq_py.client.delay_policy"):
        send(producer, message)
        old_broker.wait_delivered("T", 1)
    (record,) = caplog.records
    for part in (message.unique_key or "?", "order-42", "4.9.4", "level 17 (1h)"):
        assert part in record.getMessage()


def test_javas_way_asks_nobody_for_a_version_and_says_nothing(
    old_broker: EmbeddedBroker, producer: DefaultMQProducer, caplog: pytest.LogCaptureFixture
) -> None:
    producer.delay_policy = "as_java"
    producer.send(Message("T", b"x", delay=timedelta(hours=1)))
    old_broker.wait_delivered("T", 1)
    assert caplog.records == []


def test_asyncio_sends_are_judged(old_broker: EmbeddedBroker) -> None:
    async def send_both() -> None:
        async with aio.Producer("A", namesrv_addr=old_broker.namesrv_addr) as producer:
            message = Message("T", b"x", delay=timedelta(seconds=9))
            with pytest.raises(DelayValueError, match=r"set_delay_time_level\(3\)"):
                await producer.send(message)
            with pytest.raises(DelayValueError, match=r"set_delay_time_level\(3\)"):
                await producer.send_oneway(message)

    asyncio.run(send_both())
    assert sent_by(old_broker) == 0


class Commits(TransactionListener):
    def execute_local_transaction(self, msg: Message, arg: object) -> LocalTransactionState:
        raise AssertionError("its half message was not stored")

    def check_local_transaction(self, msg: Message) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE


def test_a_delay_that_begins_at_a_commit_is_judged(old_broker: EmbeddedBroker) -> None:
    with (
        TransactionMQProducer(
            "X",
            namesrv_addr=old_broker.namesrv_addr,
            transaction_listener=Commits(),
            transaction_delay="at_commit",
        ) as producer,
        pytest.raises(DelayValueError, match="level"),
    ):
        producer.send_message_in_transaction(Message("T", b"x", delay=timedelta(seconds=9)))
    assert sent_by(old_broker) == 0


# --- how the version is learnt ------------------------------------------------------------------


def as_version(version: int) -> Callable[[RemotingCommand, Peer], RemotingCommand]:
    def answer(request: RemotingCommand, _: Peer) -> RemotingCommand:
        answer = request.answer(ResponseCode.SUCCESS)
        answer.version = version
        return answer

    return answer


def heartbeats(broker: ScriptedServer) -> int:
    return len(broker.of(RequestCode.HEART_BEAT))


def test_one_heartbeat_before_the_first_timer_asks_for_the_version_and_none_afterwards(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    (broker,) = cluster.brokers
    producer = start(cluster.namesrv_addr, heartbeat_broker_interval=600_000)
    producer.send(Message("T", b"no timer asks"))
    broker.wait_for(RequestCode.HEART_BEAT)  # the greeting of a new connection
    before = heartbeats(broker)
    for _ in range(3):
        producer.send(Message("T", b"x").set_delay_time_sec(5))
    assert heartbeats(broker) <= before + 1
    assert len(cluster.sends()) == 4


@pytest.mark.parametrize("send", WAYS[:2])
def test_a_broker_that_came_back_in_another_version_is_asked_again(
    cluster: ScriptedCluster, start: ProducerMaker, send: Send
) -> None:
    (broker,) = cluster.brokers
    broker.on(RequestCode.HEART_BEAT, as_version(MQVersion.V4_9_8))
    producer = start(cluster.namesrv_addr)
    with pytest.raises(DelayValueError, match=r"4\.9\.8"):
        send(producer, Message("T", b"x").set_delay_time_sec(5))
    broker.on(RequestCode.HEART_BEAT, as_version(MQVersion.V5_3_3))
    broker.drop_peers()

    def is_accepted() -> bool:
        try:
            send(producer, Message("T", b"x").set_delay_time_sec(5))
        except DelayValueError:  # the end of the connection has not been seen yet
            return False
        return True

    until(is_accepted)
    assert len(cluster.sends()) == 1


@pytest.mark.parametrize("send", WAYS[:2])
def test_a_broker_that_tells_no_version_gets_no_timer_and_another_one_does(
    clusters: ClusterMaker, start: ProducerMaker, send: Send
) -> None:
    cluster = clusters(2)
    sick, healthy = cluster.brokers
    sick.answer(RequestCode.HEART_BEAT, ResponseCode.SYSTEM_BUSY, "[OVERLOAD]")
    producer = start(cluster.namesrv_addr)
    for _ in range(4):
        send(producer, Message("T", b"x").set_delay_time_sec(5))
    assert len(healthy.of(RequestCode.SEND_MESSAGE_V2)) == 4
    assert sick.of(RequestCode.SEND_MESSAGE_V2) == []


def test_a_question_for_the_version_without_an_answer_has_stored_nothing(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    (broker,) = cluster.brokers
    broker.silent(RequestCode.HEART_BEAT)
    producer = start(cluster.namesrv_addr)
    with pytest.raises(SendFailedError) as caught:
        producer.send(Message("T", b"x").set_delay_time_sec(5), timeout=200)
    assert not caught.value.possibly_stored
    assert broker.of(RequestCode.SEND_MESSAGE_V2) == []
