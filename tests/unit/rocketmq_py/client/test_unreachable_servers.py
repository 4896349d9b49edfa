"""How often a broker that does not answer is told of."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.client import unreachable_servers as absences_module
from rocketmq_py.client.unreachable_servers import UnreachableServers
from rocketmq_py.errors import (
    BodyError,
    MQBrokerException,
    MQClientException,
    RemotingConnectException,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.rocketmq_py.conftest import ClusterMaker
from tests.unit.rocketmq_py.consumer.inbox import Inbox, consumer
from tests.unit.rocketmq_py.scripted import ScriptedServer
from tests.waiting import until

BROKER = "127.0.0.1:1"
AWAY = RemotingConnectException("connection refused", address=BROKER)


class Moment:
    """A clock that stands until it is told."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Moment:
    return Moment()


@pytest.fixture
def unreachable(now: Moment) -> UnreachableServers:
    return UnreachableServers(now)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_broker_that_is_away_is_told_once_a_minute_and_once_when_it_is_back(
    unreachable: UnreachableServers, now: Moment, caplog: pytest.LogCaptureFixture
) -> None:
    for second in range(90):
        now.seconds = 1000.0 + second
        for queue in range(4):
            unreachable.failed("broker-a", f"pull {queue}", AWAY)
        assert unreachable
    unreachable.answered("127.0.0.1:2")
    unreachable.answered(BROKER)
    unreachable.answered(BROKER)
    still_away = (
        f"server {BROKER} does not answer for 60 s now, 241 calls failed, the last one was pull 0: "
        "connection refused"
    )
    assert told(caplog) == [
        f"server {BROKER} does not answer: pull 0: connection refused",
        still_away,
        f"server {BROKER} answers again after 89.0 s, 360 calls had failed",
    ]
    assert not unreachable


def test_every_broker_has_its_own_lines(
    unreachable: UnreachableServers, caplog: pytest.LogCaptureFixture
) -> None:
    for address in ("a:1", "b:1", "a:1"):
        unreachable.failed("any", "heartbeat", RemotingConnectException("refused", address=address))
    assert [line.split()[1] for line in told(caplog)] == ["a:1", "b:1"]


def test_a_refusal_is_an_answer_and_is_told_once_a_minute_for_each_code(
    unreachable: UnreachableServers, now: Moment, caplog: pytest.LogCaptureFixture
) -> None:
    unreachable.failed("broker-a", "pull", AWAY)
    for code in (1, 1, 16):
        unreachable.failed("broker-a", "pull", MQBrokerException(code, "no", BROKER))
    now.seconds += 60
    unreachable.failed("broker-a", "pull", MQBrokerException(1, "no", BROKER))
    lines = told(caplog)
    assert "answers again" in lines[1]
    assert [line.rpartition("code ")[2] for line in lines[2:]] == [
        f"{code} from {BROKER}: no" for code in (1, 16, 1)
    ]


def test_what_cannot_be_read_is_told_for_each_place_and_a_missing_route_for_each_broker(
    unreachable: UnreachableServers, caplog: pytest.LogCaptureFixture
) -> None:
    for offset in (1, 1, 2):
        unreachable.failed("broker-a", f"pull at {offset}", BodyError("record", "cut"))
    assert len(told(caplog)) == 2
    for offset in (1, 2):
        unreachable.failed("broker-a", f"pull at {offset}", MQClientException("in no route"))
    assert len(told(caplog)) == 3
    assert not unreachable


def test_so_many_brokers_are_remembered_and_no_more(
    monkeypatch: pytest.MonkeyPatch, unreachable: UnreachableServers
) -> None:
    monkeypatch.setattr(absences_module, "REMEMBERED_MAX", 3)
    for number in range(10):
        error = RemotingConnectException("refused", address=f"a:{number}")
        unreachable.failed("any", "pull", error)
        unreachable.failed("any", "pull", MQBrokerException(number, "no", "b:1"))
    assert len(unreachable._away) <= 3
    assert len(unreachable._troubles) <= 3


@pytest.mark.parametrize("code", [RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT])
def test_calls_that_the_end_of_the_client_ends_are_told_of_nobody(
    clusters: ClusterMaker, caplog: pytest.LogCaptureFixture, code: RequestCode
) -> None:
    cluster = clusters(1)
    broker = cluster.brokers[0]
    broker.silent(code)
    with DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr) as producer:
        producer.send(Message("T", b"x"))
        broker.wait_for(RequestCode.HEART_BEAT)
    broker.wait_for(code)
    assert told(caplog) == []


class Counter(logging.Handler):
    """Lets a test wait until so many single failures were noted."""

    def __init__(self, wanted: int) -> None:
        super().__init__(logging.DEBUG)
        self.wanted = wanted
        self.enough, self.back = threading.Event(), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        self.wanted -= "failed" in message
        if self.wanted <= 0:
            self.enough.set()
        if "answers again" in message:
            self.back.set()


@pytest.fixture
def counter() -> Iterator[Counter]:
    logger, handler = logging.getLogger("rocketmq_py"), Counter(40)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_a_consumer_tells_of_a_broker_that_dies_and_comes_back_in_two_lines(
    clusters: ClusterMaker, counter: Counter, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = clusters(1)
    broker = cluster.brokers[0]
    pulling = consumer("G", cluster.namesrv_addr, Inbox(), {"T": "*"})
    pulling.pull_time_delay_millis_when_exception = 10
    pulling.client_ip, pulling.instance_name = "10.0.0.1", "one"
    body = b'{"consumerIdList":["10.0.0.1@one"]}'

    def members(server: ScriptedServer) -> None:
        server.on(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            lambda request, _: request.answer(ResponseCode.SUCCESS, body=body),
        )
        for code in (RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.GET_MAX_OFFSET):
            server.on(
                code,
                lambda request, _: request.answer(ResponseCode.SUCCESS, ext_fields={"offset": "0"}),
            )
        server.silent(RequestCode.PULL_MESSAGE)

    members(broker)
    with pulling:
        broker.wait_for(RequestCode.PULL_MESSAGE, 4)
        broker.close()
        assert counter.enough.wait(20)
        again = ScriptedServer(broker.port, members)
        assert counter.back.wait(20)
        again.wait_for(RequestCode.PULL_MESSAGE, 4)
    again.close()
    lines = [line for line in told(caplog) if broker.address in line]
    assert [line.split()[2] for line in lines] == ["does", "answers"]


def test_a_broker_that_restarts_and_has_forgotten_the_group_is_no_further_line(
    counter: Counter, caplog: pytest.LogCaptureFixture
) -> None:
    """Pulls reach it before the heartbeat does; they are repeated when it knows who asks."""
    inbox = Inbox()
    with EmbeddedBroker(tcp=True) as broker:
        pulling = consumer("G", broker.namesrv_addr, inbox, {"T": "*"})
        pulling.transport, pulling.pull_time_delay_millis_when_exception = "tcp", 10
        broker.topics.create("T", queues=4)
        with pulling:
            broker.send("T", b"before")
            until(lambda: len(inbox) == 1)
            broker.crash()
            assert counter.enough.wait(20)
            broker.restart()
            broker.send("T", b"after")
            until(lambda: len(inbox) >= 2)
            assert counter.back.wait(20)
    lines = [line for line in told(caplog) if line.startswith("server")]
    assert [line.split()[2] for line in lines] == ["does", "answers"]
