"""Clients with the settings they come with, and under load, on real servers that die or stop.

``test_a_sick_cluster.py`` asks how each fault ends. Here clients poll routes twice a minute, as
users' clients do; they start while something is dead; and what they log is counted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_broker.kit.process import Servers, servers
from embedded_broker.kit.real import ROUTE_SECONDS, wait_until
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from tests.black_hole import BlackHole
from tests.interop.java_tools import CACHE
from tests.interop.traffic import Account, consuming, sending
from tests.waiting import PATIENT, freeze, within

RESTART_MS = 90_000
"""A budget in which a Java program starts, on a busy machine too."""
START_S, OVER_S = 3.0, 0.5
"""What a start may take, and a shutdown beyond its time, whatever is dead."""
REFUSED = "no consumer for this group"
"""What a broker that has just started says to a rebalance that comes before the heartbeat."""
SLOW = "no answer from"
"""What a client says of a broker that is there, but not in time: a busy machine has those."""
SOME = 60
QUEUES = 4
SOON_MS = 500
NO_TOPIC = "no-pattern-for-topics"


@pytest.fixture(scope="module", params=["5.3.3", "4.9.7"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """A real name server and broker; each test leaves them healthy."""
    home = tmp_path_factory.mktemp(f"plain-{request.param}")
    with servers(home, request.param, cache=CACHE, politely=False) as made:
        yield made


def new_topic(pair: Servers, *broker_names: str) -> str:
    """Create a topic at all brokers that run: broker-a, or those that are named."""
    topic = f"Plain_{uuid.uuid4().hex[:8]}"
    with DefaultMQProducer(
        "makes",
        namesrv_addr=pair.namesrv_addr,
        create_topic_key=NO_TOPIC,
        poll_name_server_interval=SOON_MS,
    ) as producer:
        producer.create_topic(AUTO_CREATE_TOPIC, topic, QUEUES)
        wanted = set(broker_names or ["broker-a"])
        wait_until(
            lambda: (
                wanted
                == {queue.broker_name for queue in producer.fetch_publish_message_queues(topic)}
            ),
            f"routes show topic {topic}",
            timeout=ROUTE_SECONDS,
        )
    return topic


@contextlib.contextmanager
def stopped(pair: Servers) -> Iterator[None]:
    """The broker's process is there, and does nothing."""
    freeze(pair.broker_pid)
    try:
        yield
    finally:
        os.kill(pair.broker_pid, signal.SIGCONT)


class Told(logging.Handler):
    """The warnings of the SDK."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def kinds(self) -> Counter[str]:
        """The lines by what they say of a server; the others by all they say."""
        kinds = ("does not answer for", SLOW, "does not answer: ", "answers again", REFUSED)
        return Counter(next((one for one in kinds if one in line), line) for line in self.lines)


@pytest.fixture
def told() -> Iterator[Told]:
    handler, logger = Told(), logging.getLogger("rocketmq_py")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_a_broker_is_killed_under_load_and_each_client_says_so_in_two_lines(
    pair: Servers, told: Told
) -> None:
    topic, account = new_topic(pair), Account()
    with (
        DefaultMQProducer(
            "sends", namesrv_addr=pair.namesrv_addr, send_msg_timeout=RESTART_MS
        ) as producer,
        consuming(pair.namesrv_addr, topic, account),
    ):
        told.lines.clear()
        with sending(producer, topic, account):
            account.more_came(SOME)
            pair.broker.end(politely=False)
            account.more_begun(SOME)
            pair.start_broker()
            account.more_stored(SOME)
            account.more_came(SOME)
        account.all_came()
    print(pair.version, account, *told.lines, sep="\n  ")
    assert account.failed == {}
    # One client sends and one consumes. A restart that takes a minute is told of once more.
    kinds = told.kinds()
    gone, slow, back = (
        kinds.pop("does not answer: "),
        kinds.pop(SLOW, 0),
        kinds.pop("answers again"),
    )
    assert gone <= 2
    assert back <= gone + slow <= back + 2
    assert kinds.pop(REFUSED, 0) <= 1
    assert set(kinds) <= {"does not answer for"}


def test_one_of_two_masters_is_killed_under_load_and_comes_back(
    pair: Servers, told: Told, tmp_path: Path
) -> None:
    account = Account()
    with servers(
        tmp_path,
        pair.version,
        settings={"brokerName": "broker-b"},
        cache=CACHE,
        politely=False,
        beside=pair,
    ) as other:
        topic = new_topic(pair, "broker-a", "broker-b")
        with (
            DefaultMQProducer("sends", namesrv_addr=pair.namesrv_addr) as producer,
            consuming(pair.namesrv_addr, topic, account),
        ):
            with sending(producer, topic, account):
                account.more_stored(SOME, "broker-b")
                other.broker.end(politely=False)
                account.more_stored(SOME, "broker-a")
            account.all_came("broker-a")
            other.start_broker()
            account.all_came()
    print(pair.version, account, *told.lines, sep="\n  ")
    assert account.failed == {}


def test_clients_start_in_time_while_the_broker_is_stopped_and_work_when_it_goes_on(
    pair: Servers,
) -> None:
    topic, account = new_topic(pair), Account()
    producer = DefaultMQProducer("sends", namesrv_addr=pair.namesrv_addr, topics=[topic], **PATIENT)
    consumer = consuming(pair.namesrv_addr, topic, account, **PATIENT)
    with contextlib.ExitStack() as life:
        with stopped(pair):
            life.callback(producer.shutdown)
            within(START_S, producer.start)
            life.callback(consumer.shutdown)
            within(START_S, consumer.start)
        with sending(producer, topic, account):
            account.more_came(SOME)
        account.all_came()
    account.check_failures()


def test_clients_that_start_without_a_name_server_work_when_it_is_there(pair: Servers) -> None:
    topic, account = new_topic(pair), Account()
    producer = DefaultMQProducer("sends", namesrv_addr=pair.namesrv_addr, **PATIENT)
    consumer = consuming(pair.namesrv_addr, topic, account, **PATIENT)
    consumer.poll_name_server_interval = SOON_MS
    pair.namesrv.end(politely=False)
    with contextlib.ExitStack() as life:
        try:
            life.callback(producer.shutdown)
            within(START_S, producer.start)
            life.callback(consumer.shutdown)
            within(START_S, consumer.start)
        finally:
            pair.start_namesrv()
        with sending(producer, topic, account):
            account.more_came(SOME)
        account.all_came()
    assert account.failed == {}


def test_one_of_two_name_servers_is_out_of_reach(pair: Servers) -> None:
    topics, account = [new_topic(pair) for _ in range(3)], Account()
    with BlackHole() as hole:
        addresses = f"{hole.address};{pair.namesrv_addr}"
        producer = DefaultMQProducer("sends", namesrv_addr=addresses, **PATIENT)
        consumer = consuming(addresses, topics[0], account, **PATIENT)
        try:
            within(START_S, producer.start)
            within(START_S, consumer.start)
            for topic in topics:
                assert producer.send(Message(topic, b"0")).queue_offset >= 0
            account.wait(lambda: 0 in account.came, "the message comes")
        finally:
            within(0.3 + OVER_S, lambda: consumer.shutdown(0.3))
            within(0.3 + OVER_S, lambda: producer.shutdown(0.3))
