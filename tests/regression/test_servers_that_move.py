"""What sends once failed for while a topic or a broker moved: a route that was out of date."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MQBrokerException,
    MQClientException,
    NameServerUnavailableError,
    RouteTimeoutError,
    SendResult,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.rocketmq_py.scripted import Peer, ScriptedCluster, ScriptedServer, route_of, stored
from tests.waiting import until

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
Face = Callable[[DefaultMQProducer], SendResult]


def blocking(producer: DefaultMQProducer) -> SendResult:
    return producer.send(Message("T", b"x"), timeout=10_000)


def future(producer: DefaultMQProducer) -> SendResult:
    return producer.send_async(Message("T", b"x"), timeout=10_000).result(20)


def batch(producer: DefaultMQProducer) -> SendResult:
    return producer.send_batch([Message("T", b"x"), Message("T", b"y")], timeout=10_000)


FACES = pytest.mark.parametrize("send", [blocking, future, batch])


@pytest.fixture(autouse=True)
def no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks for routes but who needs one."""
    monkeypatch.setattr("rocketmq_py.client.instance.ROUTE_FIRST_MS", 600_000)


@pytest.fixture
def producer(cluster: ScriptedCluster) -> Iterator[DefaultMQProducer]:
    made = DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"])
    made.start()
    yield made
    made.shutdown(0.1)


def refuse_queues(server: ScriptedServer, code: int, remark: str, from_number: int) -> None:
    """Let a broker have the queues below a number only."""

    def answer(request: RemotingCommand, _: Peer) -> RemotingCommand:
        if int(request.ext_fields["e"]) >= from_number:
            return request.answer(code, remark)
        return stored(request)

    for send in SENDS:
        server.on(send, answer)


def routes_asked(cluster: ScriptedCluster) -> int:
    return sum(one.ext_fields["topic"] == "T" for one in cluster.name_server.of(ROUTE))


@FACES
@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (ResponseCode.INVALID_PARAMETER, "request queueId[3] is illegal"),
        (ResponseCode.SYSTEM_ERROR, "request queueId[3] is illegal"),
        (ResponseCode.NO_PERMISSION, "the topic[T] sending message is forbidden"),
    ],
)
def test_a_topic_that_was_made_again_with_fewer_queues_fails_no_send(
    send: Face, code: int, remark: str, cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    send(producer)
    cluster.routes["T"] = cluster.whole_route(queues=1)
    refuse_queues(cluster.brokers[0], code, remark, 1)
    before = routes_asked(cluster)
    numbers = {send(producer).message_queue.queue_id for _ in range(8)}
    assert numbers == {0}
    assert routes_asked(cluster) - before == 1


@FACES
def test_a_topic_that_has_left_a_broker_is_sent_to_where_it_is(send: Face) -> None:
    cluster = ScriptedCluster(2)
    try:
        with DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"]) as producer:
            producer.fetch_publish_message_queues("T")
            cluster.routes["T"] = route_of([("broker-b", cluster.brokers[1].address)])
            refuse_queues(cluster.brokers[0], ResponseCode.TOPIC_NOT_EXIST, "no such topic", 0)
            found = {send(producer).message_queue.broker_name for _ in range(8)}
    finally:
        cluster.close()
    assert found == {"broker-b"}


@FACES
def test_a_refused_queue_that_the_newest_route_names_is_not_tried_again(
    send: Face, cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    refuse_queues(cluster.brokers[0], ResponseCode.INVALID_PARAMETER, "no", 0)
    before = routes_asked(cluster)
    with pytest.raises(MQBrokerException) as caught:
        send(producer)
    assert caught.value.code == ResponseCode.INVALID_PARAMETER
    assert sum(len(cluster.brokers[0].of(code)) for code in SENDS) == 1
    assert routes_asked(cluster) - before == 1


@FACES
def test_a_refused_send_waits_for_the_route_when_that_was_asked_for_in_vain_just_now(
    send: Face,
    cluster: ScriptedCluster,
    producer: DefaultMQProducer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rocketmq_py.client.routes.LOOK_AGAIN_S", 0.3)
    refuse_queues(cluster.brokers[0], ResponseCode.INVALID_PARAMETER, "no", 0)
    with pytest.raises(MQBrokerException):
        send(producer)  # the broker has not told its name server yet
    cluster.routes["T"] = cluster.whole_route(queues=1)
    refuse_queues(cluster.brokers[0], ResponseCode.INVALID_PARAMETER, "no", 1)
    assert {send(producer).message_queue.queue_id for _ in range(3)} == {0}


def test_a_queue_that_the_caller_chose_is_tried_once_and_its_route_asked_for_again(
    cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    queue = producer.fetch_publish_message_queues("T")[3]
    cluster.routes["T"] = cluster.whole_route(queues=1)
    refuse_queues(cluster.brokers[0], ResponseCode.INVALID_PARAMETER, "no", 1)
    with pytest.raises(MQBrokerException):
        producer.send(Message("T", b"x"), queue=queue)
    until(lambda: len(producer.fetch_publish_message_queues("T")) == 1)
    assert len(cluster.sends()) == 1


def takes_sends(server: ScriptedServer) -> None:
    for code in SENDS:
        server.on(code, lambda request, _: stored(request))


@FACES
def test_a_broker_that_has_moved_is_found_by_the_send_that_its_old_address_refuses(
    send: Face, cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    send(producer)
    moved = ScriptedServer(0, takes_sends)
    try:
        cluster.routes["T"] = route_of([("broker-a", moved.address)])
        cluster.brokers[0].close()
        for _ in range(4):
            send(producer)
        assert sum(len(moved.of(code)) for code in SENDS) == 4
    finally:
        moved.close()


@FACES
def test_a_send_asks_another_name_server_when_the_chosen_one_leads_it_nowhere(
    send: Face, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketmq_py.client.name_servers.random.shuffle", lambda _: None)
    stale = ScriptedCluster()
    stale.brokers[0].close()
    try:
        names = f"{stale.namesrv_addr};{cluster.namesrv_addr}"
        with DefaultMQProducer("G", namesrv_addr=names) as producer:
            assert send(producer)
            assert send(producer)
    finally:
        stale.close()


@pytest.mark.parametrize(
    "send",
    [
        lambda producer: producer.send(Message("T", b"x")),
        lambda producer: producer.send_async(Message("T", b"x")).result(10),
    ],
    ids=["blocking", "future"],
)
def test_a_send_with_too_little_time_for_a_name_server_says_that_and_names_the_setting(
    send: Face, cluster: ScriptedCluster
) -> None:
    names = cluster.namesrv_addr
    with (
        DefaultMQProducer("G", namesrv_addr=names, send_msg_timeout=1) as producer,
        pytest.raises(RouteTimeoutError, match=r"too short.*send_msg_timeout") as caught,
    ):
        send(producer)
    assert "no name server answers" not in str(caught.value)
    assert cluster.name_server.of(ROUTE) == []


@pytest.mark.case("T5")
@FACES
def test_a_producer_without_a_name_server_says_so_at_its_start_and_in_each_send(
    send: Face, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with DefaultMQProducer("G") as producer:
        told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
        assert len(told) == 1
        assert "namesrv_addr" in told[0]
        assert "NAMESRV_ADDR" in told[0]
        with pytest.raises(MQClientException) as caught:
            send(producer)
    assert type(caught.value) is NameServerUnavailableError
    assert caught.value.response_code == ResponseCode.NO_NAME_SERVER_EXCEPTION


def test_a_consumer_without_a_name_server_says_so_once_at_its_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    consumer = DefaultMQPushConsumer("C")
    consumer.subscribe("T")
    consumer.register_message_listener(lambda *_: ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
    with consumer:
        told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(told) == 1
    assert "namesrv_addr" in told[0]
