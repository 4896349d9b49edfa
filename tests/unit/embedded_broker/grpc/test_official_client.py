"""RocketMQ's own Python client, unchanged, against the endpoint.

It writes its log below the home directory when it is imported, so it is imported in tests only,
with a home of their own. Its schedules count wall time: tests wait for what they need, and share
one broker. What a client asks for at once needs no wait.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from tests.certificates import Certificates, needs_openssl
from tests.pages import ROOT, blocks_of
from tests.unit.embedded_broker.grpc.test_receiving import put_group

_names = count(1)
DAY_S = 86_400


@pytest.fixture(autouse=True)
def event_loop_of_the_thread() -> Iterator[None]:
    """The client asks for that of the thread that uses it: a test before may have left none."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The package of the official client."""
    home = os.environ.get("HOME")
    os.environ["HOME"] = str(tmp_path_factory.mktemp("home"))
    try:
        yield import_module("rocketmq")
    finally:
        if home is None:
            del os.environ["HOME"]
        else:
            os.environ["HOME"] = home


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker that delays for 40 days, on a frozen clock."""
    with EmbeddedBroker(grpc=True, limits="aliyun", clock=VirtualClock()) as one:
        yield one


class Kit:
    """Starts clients that end with their test."""

    def __init__(self, official: Any, broker: EmbeddedBroker, ends: ExitStack) -> None:
        self.rmq, self.broker, self._ends = official, broker, ends
        self.topic = f"Official{next(_names)}"
        broker.topics.create(self.topic, queues=1)
        self.group = f"{self.topic}-group"
        self.configuration = official.ClientConfiguration(broker.endpoints, official.Credentials())

    def start(self, client: Any) -> Any:
        """Start a client."""
        client.startup()
        self._ends.callback(client.shutdown)
        return client

    def producer(self, **settings: Any) -> Any:
        """Start a producer of the topic."""
        return self.start(self.rmq.Producer(self.configuration, (self.topic,), **settings))

    def simple_consumer(self) -> Any:
        """Start a consumer that receives when it is asked to."""
        wanted = {self.topic: self.rmq.FilterExpression()}
        return self.start(
            self.rmq.SimpleConsumer(self.configuration, self.group, wanted, await_duration=5)
        )

    def push_consumer(self, listen: Callable[[Any], Any]) -> Any:
        """Start a consumer that calls a function."""

        class Listener(self.rmq.MessageListener):  # type: ignore[misc, name-defined]
            def consume(self, message: Any) -> Any:
                return listen(message)

        wanted = {self.topic: self.rmq.FilterExpression()}
        return self.start(self.rmq.PushConsumer(self.configuration, self.group, Listener(), wanted))

    def message(self, body: bytes = b"hello", **said: Any) -> Any:
        """Make a message."""
        message = self.rmq.Message()
        message.topic, message.body = self.topic, body
        for name, value in said.items():
            setattr(message, name, value)
        return message


@pytest.fixture
def kit(official: Any, broker: EmbeddedBroker) -> Iterator[Kit]:
    with ExitStack() as ends:
        yield Kit(official, broker, ends)


@pytest.mark.case("G6", "G19", "G30")
def test_it_sends_and_receives(kit: Kit) -> None:
    message = kit.message(b"hello", tag="paid", keys="k1")
    message.add_property("a", "b")
    receipt = kit.producer().send(message)
    consumer = kit.simple_consumer()
    (found,) = consumer.receive(32, 15)
    assert (found.body, found.tag, found.keys) == (b"hello", "paid", {"k1"})
    assert (found.properties["a"], found.message_id) == ("b", receipt.message_id)
    assert not found.corrupted
    consumer.ack(found)
    assert kit.broker.groups[kit.group].lag() == 0


@pytest.mark.case("G26")
def test_a_message_of_a_month_ahead_comes_when_the_clock_jumps(kit: Kit) -> None:
    producer, consumer = kit.producer(), kit.simple_consumer()
    at = int(kit.broker.clock.now_ms / 1000) + 30 * DAY_S
    producer.send(kit.message(b"in a month", delivery_timestamp=at))
    kit.broker.clock.advance(days=29, hours=23)
    assert kit.broker.topics[kit.topic].count() == 0
    kit.broker.clock.advance(hours=1)
    (found,) = consumer.receive(32, 15)
    assert (found.body, found.delivery_timestamp) == (b"in a month", at * 1000)
    consumer.ack(found)


@pytest.mark.case("G28")
def test_it_recalls_a_timer(kit: Kit) -> None:
    producer = kit.producer()
    at = int(kit.broker.clock.now_ms / 1000) + 60
    receipt = producer.send(kit.message(delivery_timestamp=at))
    recalled = producer.recall_message(kit.topic, receipt.recall_handle)
    assert recalled == receipt.message_id
    kit.broker.clock.advance(120)
    assert kit.broker.topics[kit.topic].count() == 0


@pytest.mark.case("G31", "G32")
def test_it_hides_a_message_for_longer(kit: Kit) -> None:
    kit.producer().send(kit.message())
    consumer = kit.simple_consumer()
    (found,) = consumer.receive(1, 10)
    consumer.change_invisible_duration(found, 60)
    kit.broker.clock.advance(59)
    assert kit.broker.groups[kit.group].unread() == 0
    consumer.ack(found)
    kit.broker.clock.advance(3600)
    assert kit.broker.groups[kit.group].unread() == 0


@pytest.mark.case("G44", "G45")
def test_a_push_consumer_gets_each_message_and_one_that_failed_again(kit: Kit) -> None:
    attempts: list[tuple[bytes, int]] = []
    failed, done = Event(), Event()

    def listen(message: Any) -> Any:
        attempts.append((message.body, message.delivery_attempt))
        if message.body == b"bad" and message.delivery_attempt < 3:
            return kit.rmq.ConsumeResult.FAILURE
        if message.body == b"bad":
            done.set()
        elif message.body == b"9":
            failed.set()
        return kit.rmq.ConsumeResult.SUCCESS

    producer = kit.producer()
    producer.send(kit.message(b"bad"))
    for number in range(10):
        producer.send(kit.message(b"%d" % number))
    kit.push_consumer(listen)
    assert failed.wait(20)
    clock = kit.broker.clock
    clock.run(seconds=60)
    assert done.wait(20)
    clock.settle()
    assert [attempt for body, attempt in attempts if body == b"bad"] == [1, 2, 3]
    good = sorted(one for one in attempts if one[0] != b"bad")
    assert good == [(b"%d" % number, 1) for number in range(10)]


@pytest.mark.case("G52", "G53")
def test_transactions_end_by_themselves_or_when_the_broker_asks(kit: Kit) -> None:
    asked = Event()
    rmq = kit.rmq

    class Checker(rmq.TransactionChecker):  # type: ignore[misc, name-defined]
        def check(self, message: Any) -> Any:
            asked.set()
            return rmq.TransactionResolution.COMMIT

    producer = kit.start(rmq.Producer(kit.configuration, (kit.topic,), checker=Checker()))
    for body, end in ((b"yes", "commit"), (b"no", "rollback")):
        transaction = producer.begin_transaction()
        producer.send(kit.message(body), transaction)
        getattr(transaction, end)()
    topic = kit.broker.topics[kit.topic]
    assert topic.count() == 1
    producer.send(kit.message(b"orphan"), producer.begin_transaction())
    kit.broker.clock.advance(6)
    assert asked.wait(20)
    kit.broker.wait_for(lambda _: topic.count() == 2)
    assert [one.body for one in kit.broker.messages.in_topic(kit.topic)] == [b"yes", b"orphan"]


@pytest.mark.case("G47", "G48")
def test_in_order_what_fails_is_a_dead_letter_and_the_others_follow(kit: Kit) -> None:
    steps = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [100]}}
    put_group(
        kit.broker,
        kit.group,
        consume_message_orderly=True,
        retry_max_times=1,
        group_retry_policy=steps,
    )
    seen: list[bytes] = []
    done = Event()

    def listen(message: Any) -> Any:
        seen.append(message.body)
        if message.body == b"2":
            done.set()
        failed = message.body == b"0"
        return kit.rmq.ConsumeResult.FAILURE if failed else kit.rmq.ConsumeResult.SUCCESS

    producer = kit.producer()
    for number in range(3):
        producer.send(kit.message(b"%d" % number, message_group="one"))
    kit.push_consumer(listen)
    assert done.wait(20)
    kit.broker.wait_for(lambda one: one.groups[kit.group].lag() == 0)
    assert seen == [b"0", b"0", b"1", b"2"]
    assert [one.body for one in kit.broker.groups[kit.group].dead_letters()] == [b"0"]


SECURED = """
import sys
from embedded_broker import AuthUser, EmbeddedBroker, Tls, UserAcl, VirtualClock
from rocketmq import ClientConfiguration, Credentials, Message, Producer

acl = UserAcl(users=(AuthUser(username="root", password="secret", superuser=True),))
tls = Tls(certificate=sys.argv[1], key=sys.argv[2])
with EmbeddedBroker(
    grpc=True, grpc_tls=tls, acl=acl, clock=VirtualClock(), topics=["T"], tcp=False
) as broker:
    for password in ("secret", "wrong"):
        credentials = Credentials("root", password)
        configuration = ClientConfiguration(broker.tls_endpoints, credentials)
        producer = Producer(configuration, ["T"], tls_enable=True)
        try:
            producer.startup()
            message = Message()
            message.topic, message.body = "T", b"secret"
            producer.send(message)
            print("sent", broker.topics["T"].count())
            producer.shutdown()
        except Exception:
            print("refused", broker.journal.requests(code="QueryRoute")[-1].response_code)
"""


@needs_openssl
@pytest.mark.case("G5", "G60")
def test_it_speaks_tls_and_signs(tmp_path: Path, certificates: Certificates) -> None:
    server = certificates.server
    done = subprocess.run(
        [sys.executable, "-c", SECURED, str(server.chain), str(server.key)],
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT),
            "HOME": str(tmp_path),
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificates.authority),
        },
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stdout == "sent 1\nrefused 40100\n", done.stderr


def test_the_program_that_readme_shows_runs(tmp_path: Path) -> None:
    (shown,) = [one for one in blocks_of("README.md") if "from rocketmq import" in one]
    done = subprocess.run(
        [sys.executable, "-c", shown],
        env=os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("b'renew'\n", 0), done.stderr


@pytest.mark.rocketmq(grpc=True, topics=["Orders"], limits="aliyun")
def test_the_fixture_gives_the_address(
    official: Any, rocketmq_endpoints: str, rocketmq_clock: VirtualClock
) -> None:
    configuration = official.ClientConfiguration(rocketmq_endpoints, official.Credentials())
    producer = official.Producer(configuration, ["Orders"])
    wanted = {"Orders": official.FilterExpression()}
    consumer = official.SimpleConsumer(configuration, "billing", wanted)
    producer.startup()
    consumer.startup()
    message = official.Message()
    message.topic, message.body = "Orders", b"later"
    message.delivery_timestamp = rocketmq_clock.now_ms // 1000 + 30 * DAY_S
    producer.send(message)
    rocketmq_clock.advance(days=30)
    assert [one.body for one in consumer.receive(32, 15)] == [b"later"]
    consumer.shutdown()
    producer.shutdown()
