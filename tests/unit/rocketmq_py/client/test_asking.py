"""Where questions go, and what becomes of their answers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import pytest

from rocketmq_py import DefaultMQProducer, Message, QueueAccess, RecallHandle
from rocketmq_py.client.asking import Address, AnyOf, Asker, Broker, Question
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.queue_requests import group_offset_is
from rocketmq_py.client.queue_sends import RunOutcome, SendRun
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import (
    ClientClosedError,
    MQBrokerException,
    MQClientException,
    NoRouteError,
    RemotingConnectException,
    RemotingException,
    RemotingTimeoutException,
    TopicNotExistError,
)
from rocketmq_py.protocol.bodies.topics import BrokerData, QueueData, TopicRouteData
from rocketmq_py.protocol.codes import SEND_REQUESTS, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.properties import encode_properties
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.client.conftest import InstanceMaker
from tests.unit.rocketmq_py.scripted import ScriptedCluster, ScriptedServer, stored
from tests.waiting import until

CODE = 9001
CLOSED_PORT = "127.0.0.1:9"
HANDLE = RecallHandle("T", "broker-a", 2_000_000_000_000, "A" * 32).encode()
QUEUE = MessageQueue("T", "broker-a", 3)
GONE = (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.INVALID_PARAMETER)

Clusters = Callable[[int], ScriptedCluster]


def body(answer: RemotingCommand, _: str) -> bytes:
    return answer.body


def saying(said: bytes) -> Callable[..., RemotingCommand]:
    return lambda request, _: request.answer(0, body=said)


@pytest.fixture
def two(clusters: Clusters) -> list[ScriptedServer]:
    return clusters(2).brokers


@pytest.fixture
def asker(instance: ClientInstance) -> Asker:
    return Asker(instance)


def either(two: list[ScriptedServer]) -> Question[bytes]:
    return Question(AnyOf(tuple(one.address for one in two)), CODE, body)


# --- the fast port -------------------------------------------------------------------------------


@pytest.fixture
def fast(clusters: Clusters) -> ScriptedCluster:
    """A cluster whose broker listens two below the port that its route names."""
    cluster = clusters(1)
    named = f"127.0.0.1:{cluster.brokers[0].port + 2}"
    cluster.routes["T"].broker_datas[0].broker_addrs = {0: named}
    return cluster


@pytest.mark.parametrize("waits", [True, False], ids=["answer", "ask"])
@pytest.mark.parametrize("code", sorted(SEND_REQUESTS))
def test_what_gives_a_broker_a_message_goes_to_its_fast_port_if_wanted(
    fast: ScriptedCluster, make_instance: InstanceMaker, code: int, waits: bool
) -> None:
    fast.brokers[0].on(code, saying(b"taken"))
    asker = Asker(make_instance(fast.namesrv_addr, vip_channel_enabled=True))
    question = Question(Broker("T", "broker-a", only_this=True), code, body)
    answer = asker.answer(question, 5_000) if waits else asker.ask(question, 5_000).result(10)
    assert answer == b"taken"


def test_all_other_questions_go_to_the_port_of_the_route(
    cluster: ScriptedCluster, make_instance: InstanceMaker
) -> None:
    cluster.brokers[0].on(CODE, saying(b"here"))
    asker = Asker(make_instance(cluster.namesrv_addr, vip_channel_enabled=True))
    question = Question(Broker("T", "broker-a"), CODE, body)
    assert asker.answer(question, 5_000) == b"here"
    assert asker.ask(question, 5_000).result(10) == b"here"


def test_bulk_sends_go_to_the_fast_port_and_bear_the_mark_of_a_unit(fast: ScriptedCluster) -> None:
    text = encode_properties({"UNIQ_KEY": "0" * 32}).decode()
    ended: Future[RunOutcome] = Future()
    with QueueAccess(
        namesrv_addr=fast.namesrv_addr, vip_channel_enabled=True, unit_mode=True
    ) as access:
        access.write_queues("T")
        assert access.send(QUEUE, b"x", properties=text).result(10).queue_offset == 7
        access.send_run(SendRun(QUEUE, [b"x"] * 2, [text] * 2), ended.set_result)
        assert [one.error for one in ended.result(10)] == [None, None]
    assert [one.ext_fields["k"] for one in fast.sends()] == ["true"] * 3


# --- one of many ---------------------------------------------------------------------------------


def test_the_first_of_many_servers_is_asked_and_no_other(
    two: list[ScriptedServer], asker: Asker
) -> None:
    for number, server in enumerate(two):
        server.on(CODE, saying(b"%d" % number))
    assert asker.answer(either(two), 5_000) == b"0"
    assert two[1].of(CODE) == []


def test_a_server_that_refuses_or_is_away_gives_way_to_the_next(
    two: list[ScriptedServer], asker: Asker
) -> None:
    two[0].answer(CODE, 1, "not here")
    two[1].on(CODE, saying(b"here"))
    places = CLOSED_PORT, two[0].address, two[1].address
    assert asker.answer(Question(AnyOf(places), CODE, body), 5_000) == b"here"


def test_a_slow_server_is_not_waited_for_while_another_answers(
    two: list[ScriptedServer], asker: Asker
) -> None:
    two[0].silent(CODE)
    two[1].on(CODE, saying(b"quick"))
    assert asker.answer(either(two), 600_000) == b"quick"
    two[0].wait_for(CODE)


def test_a_slow_server_that_answers_after_all_counts(
    two: list[ScriptedServer], asker: Asker
) -> None:
    for server in two:
        server.silent(CODE)
    asked = asker.ask(either(two), 600_000)
    first, second = (server.wait_for(CODE)[0] for server in two)
    two[1].peers[0].send(second.answer(1, "no"))
    two[0].peers[0].send(first.answer(0, body=b"late"))
    assert asked.result(10) == b"late"


def test_the_first_failure_is_told_when_all_fail(two: list[ScriptedServer], asker: Asker) -> None:
    for number, server in enumerate(two):
        server.answer(CODE, 1, f"reason {number}")
    with pytest.raises(MQBrokerException, match="reason 0"):
        asker.answer(either(two), 5_000)
    with pytest.raises(MQClientException, match="no server"):
        asker.answer(Question(AnyOf(()), CODE, body), 5_000)


@pytest.mark.case("W19")
def test_success_passes_whatever_its_remark_says_and_nothing_else_does(
    cluster: ScriptedCluster, asker: Asker
) -> None:
    broker = cluster.brokers[0]
    question = Question(Address(broker.address), CODE, body)
    broker.answer(CODE, 0, "not set any response code")
    assert asker.answer(question, 5_000) == b""
    broker.answer(CODE, ResponseCode.TOPIC_NOT_EXIST)
    for answer in (asker.answer, lambda *given: asker.ask(*given).result(10)):
        with pytest.raises(TopicNotExistError):
            answer(question, 5_000)


# --- many ----------------------------------------------------------------------------------------


def test_many_questions_have_their_own_outcomes_in_their_order(
    cluster: ScriptedCluster, asker: Asker
) -> None:
    broker = cluster.brokers[0]
    broker.on(CODE, saying(b"x"))
    broker.answer(CODE + 1, 1, "no")
    here = Address(broker.address)
    found = asker.ask_all(
        {
            "refused": Question(here, CODE + 1, body),
            "fine": Question(here, CODE, body),
            "nowhere": Question(Broker("T", "broker-z"), CODE, body),
            "away": Question(Address(CLOSED_PORT), CODE, body),
        },
        5_000,
    )
    assert list(found) == ["refused", "fine", "nowhere", "away"]
    assert found["fine"] == b"x"
    kinds = MQBrokerException, MQClientException, RemotingConnectException
    assert tuple(type(found[key]) for key in ("refused", "nowhere", "away")) == kinds
    assert asker.ask_all({}, 5_000) == {}


def test_of_offsets_that_a_group_stores_the_first_of_each_topic_goes_alone(
    cluster: ScriptedCluster, asker: Asker
) -> None:
    broker, held = cluster.brokers[0], list[Callable[[], None]]()
    cluster.routes["U"] = cluster.whole_route()
    code = RequestCode.UPDATE_CONSUMER_OFFSET
    broker.on(code, lambda request, peer: held.append(lambda: peer.send(request.answer(0))))
    queues = [MessageQueue(topic, "broker-a", number) for topic in "TU" for number in range(4)]
    asked = asker.ask_many({one: group_offset_is(one, "G", 5) for one in queues}, 5_000)
    first = [request.ext_fields["topic"] for request in broker.wait_for(code, 2)[:2]]
    assert sorted(first) == ["T", "U"]
    until(lambda: len(held) == 2)
    for answer in held[:]:
        answer()
    broker.wait_for(code, len(queues))
    until(lambda: len(held) == len(queues))
    for answer in held[2:]:
        answer()
    assert asked.result(10) == dict.fromkeys(queues)


def test_what_is_no_error_of_ours_is_raised_and_not_kept(
    cluster: ScriptedCluster, asker: Asker
) -> None:
    def broken(_: RemotingCommand, __: str) -> bytes:
        raise ZeroDivisionError

    cluster.brokers[0].on(CODE, saying(b"x"))
    here = Address(cluster.brokers[0].address)
    questions = {"fine": Question(here, CODE, body), "broken": Question(here, CODE, broken)}
    with pytest.raises(ZeroDivisionError):
        asker.ask_all(questions, 5_000)


def test_a_question_whose_broker_nobody_knows_waits_for_the_route_elsewhere(
    cluster: ScriptedCluster, asker: Asker
) -> None:
    cluster.brokers[0].on(CODE, saying(b"found"))
    asked = cluster.name_server
    question = Question(Broker("T", "broker-a"), CODE, body)
    assert asked.of(RequestCode.GET_ROUTEINFO_BY_TOPIC) == []
    assert asker.ask(question, 5_000).result(10) == b"found"


def test_a_client_that_has_ended_asks_for_no_route(
    cluster: ScriptedCluster, instance: ClientInstance, asker: Asker
) -> None:
    instance.end(5)
    with pytest.raises(ClientClosedError):
        asker.ask(Question(Broker("T", "broker-a"), CODE, body), 5_000).result(10)
    here = Question(Address(cluster.brokers[0].address), CODE, body)
    with pytest.raises(RemotingException):
        asker.ask(here, 5_000).result(10)


def test_the_time_of_a_question_ends_it(cluster: ScriptedCluster, asker: Asker) -> None:
    address = Address(cluster.brokers[0].address)
    asker.ask(Question(address, RequestCode.HEART_BEAT, body), 10_000).result(10)  # it connects
    cluster.brokers[0].silent(CODE)
    asked: Future[bytes] = asker.ask(Question(address, CODE, body), 30)
    with pytest.raises(RemotingTimeoutException):
        asked.result(10)


# --- recalls -------------------------------------------------------------------------------------


def slave_only(cluster: ScriptedCluster) -> ScriptedServer:
    """Let a topic's only broker be a slave."""
    cluster.routes["T"] = TopicRouteData(
        queue_datas=[QueueData("broker-a", 4, 4, 6)],
        broker_datas=[BrokerData("c", "broker-a", {1: cluster.brokers[0].address})],
    )
    cluster.brokers[0].answer(RequestCode.RECALL_MESSAGE, ResponseCode.SLAVE_NOT_AVAILABLE)
    return cluster.brokers[0]


def recall_by_producer(namesrv_addr: str) -> None:
    with DefaultMQProducer("recalls", namesrv_addr=namesrv_addr) as producer:
        producer.recall_message("T", HANDLE)


def recall_by_access(namesrv_addr: str) -> None:
    with QueueAccess(namesrv_addr=namesrv_addr) as access:
        access.recall("T", HANDLE).result(10)


@pytest.mark.parametrize("recall", [recall_by_producer, recall_by_access])
def test_a_recall_asks_no_slave(cluster: ScriptedCluster, recall: Callable[[str], None]) -> None:
    slave = slave_only(cluster)
    with pytest.raises(MQClientException, match="has no master") as caught:
        recall(cluster.namesrv_addr)
    assert not isinstance(caught.value, MQBrokerException)
    assert slave.of(RequestCode.RECALL_MESSAGE) == []


def test_a_topic_is_created_on_no_slave(cluster: ScriptedCluster) -> None:
    slave = slave_only(cluster)
    with (
        DefaultMQProducer("creates", namesrv_addr=cluster.namesrv_addr) as producer,
        pytest.raises(NoRouteError),
    ):
        producer.create_topic("T", "new", 1)
    assert slave.of(RequestCode.UPDATE_AND_CREATE_TOPIC) == []


# --- routes that a broker contradicts ------------------------------------------------------------


def send_one(access: QueueAccess) -> None:
    access.send(QUEUE, b"x").exception(10)


def send_run(access: QueueAccess) -> None:
    told: Future[RunOutcome] = Future()
    access.send_run(SendRun(QUEUE, [b"x", b"y"], ["", ""]), told.set_result)
    told.result(10)


def pull_one(access: QueueAccess) -> None:
    access.pull(QUEUE, 0).exception(10)


def pull_run(access: QueueAccess) -> None:
    access.pull_run(QUEUE, [0, 1]).result(10)


@pytest.mark.parametrize("refusal", GONE)
@pytest.mark.parametrize("ask", [send_one, send_run, pull_one, pull_run])
def test_a_queue_that_the_broker_does_not_have_lets_the_route_be_asked_for(
    cluster: ScriptedCluster, ask: Callable[[QueueAccess], None], refusal: ResponseCode
) -> None:
    for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE):
        cluster.brokers[0].answer(code, refusal)
    with QueueAccess(namesrv_addr=cluster.namesrv_addr) as access:
        assert len(access.write_queues("T")) == 4
        cluster.routes["T"] = cluster.whole_route(queues=2)
        ask(access)
        until(lambda: len(access.write_queues("T")) == 2)


def test_the_inner_producer_goes_on_by_a_newer_route(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    broker = cluster.brokers[0]
    calls = ConsumerCalls(instance, "G", PushConsumerConfig())
    cluster.routes["%RETRY%G"] = cluster.whole_route(queues=9)
    assert len(instance.routes.publish_info("%RETRY%G").queues) == 9
    cluster.routes["%RETRY%G"] = cluster.whole_route(queues=1)

    def has_one(request: RemotingCommand, _: object) -> RemotingCommand:
        if request.ext_fields["e"] == "0":
            return stored(request)
        return request.answer(ResponseCode.INVALID_PARAMETER, "request queueId is illegal")

    broker.on(RequestCode.SEND_MESSAGE_V2, has_one)
    for _ in range(4):
        calls.publish_retry(Message("%RETRY%G", b"x"), 0, 1, 16)
    refused = len(broker.of(RequestCode.SEND_MESSAGE_V2)) - 4
    assert refused <= 1
