"""Our SDK on real name servers and brokers that are killed, stopped, slow, lost, or not there.

One pair of servers per version serves all tests. Each leaves it healthy, whatever became of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import uuid
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Unpack

import pytest

from embedded_broker.kit.process import Servers, servers
from rocketmq_py import (
    ClientClosedError,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    NameServerUnavailableError,
    NoRouteError,
    SendFailedError,
    SendResult,
    SendTimeoutError,
)
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from tests.black_hole import BlackHole
from tests.interop.java_tools import CACHE
from tests.relay import Relay
from tests.unit.rocketmq_py.scripted import name_server
from tests.waiting import HANG_S, PATIENT, Timeouts, freeze, until, within

RESTART_MS = 90_000
"""A budget of a send that a restart of a broker fits into."""
START_S = 3.0
OVER_S = 0.5
"""What a start may take, and a shutdown or a send beyond its time, whatever is dead."""
SOON_MS = 500
"""How often clients ask for routes here: by default twice a minute."""
MANY = 20


@pytest.fixture(scope="module", params=["5.3.3", "4.9.7"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    home = tmp_path_factory.mktemp(f"sick-{request.param}")
    with servers(home, request.param, cache=CACHE, politely=False) as made:
        yield made


@pytest.fixture
def cluster(pair: Servers) -> Iterator[Servers]:
    """The servers, which are healthy again after the test."""
    yield pair
    if pair.broker.process.poll() is None:
        os.kill(pair.broker_pid, signal.SIGCONT)
    if pair.namesrv.process.poll() is not None:
        pair.start_namesrv()
    if pair.broker.process.poll() is not None:
        pair.start_broker()


def make_topic(cluster: Servers, *, brokers: int = 1) -> str:
    """Create a topic of four queues on every broker there is; return when routes show it."""
    topic = f"Sick_{uuid.uuid4().hex[:8]}"

    def is_known() -> bool:
        with contextlib.suppress(NoRouteError):
            return len(producer.fetch_publish_message_queues(topic)) == 4 * brokers
        return False

    with DefaultMQProducer(
        "makes", namesrv_addr=cluster.namesrv_addr, poll_name_server_interval=SOON_MS
    ) as producer:
        producer.create_topic(AUTO_CREATE_TOPIC, topic, 4)
        until(is_known, HANG_S)
    return topic


class Inbox:
    """A listener that knows the bodies of what came."""

    def __init__(self) -> None:
        self.bodies: set[str] = set()
        self._changed = threading.Condition()

    def __call__(
        self, messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        with self._changed:
            self.bodies.update(message.body.decode() for message in messages)
            self._changed.notify_all()
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    def wait_for(self, bodies: Collection[str]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.bodies.issuperset(bodies), HANG_S)
            missing = set(bodies) - self.bodies
        assert not missing, f"{len(missing)} of {len(bodies)} did not come: {sorted(missing)[:9]}"

    def wait_for_more(self, count: int) -> None:
        with self._changed:
            wanted = len(self.bodies) + count
            assert self._changed.wait_for(lambda: len(self.bodies) >= wanted, HANG_S)


def consumer(
    namesrv_addr: str, topics: Collection[str], inbox: Inbox, **settings: Unpack[Timeouts]
) -> DefaultMQPushConsumer:
    """One that handles the messages of each queue in their order: it has one thread."""
    made = DefaultMQPushConsumer(
        f"G_{uuid.uuid4().hex[:8]}",
        namesrv_addr=namesrv_addr,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        consume_thread_min=1,
        consume_thread_max=1,
        poll_name_server_interval=SOON_MS,
        **settings,
    )
    for topic in topics:
        made.subscribe(topic)
    made.register_message_listener(inbox)
    return made


class Sender:
    """A thread that sends one message after the other, and what became of each.

    With a ``window`` it sends without waiting while there are not more than so many unfinished.
    """

    def __init__(
        self,
        name: str,
        producer: DefaultMQProducer,
        topic: str,
        *,
        timeout_ms: int,
        window: int = 0,
    ) -> None:
        self.stored: dict[str, SendResult] = {}
        self.failed: dict[str, BaseException] = {}
        self._name, self._producer, self._topic = name, producer, topic
        self._timeout_ms = timeout_ms
        self._window = window
        self._free = threading.Semaphore(window)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        turn = 0
        while not self._over.wait(0.02):
            turn += 1
            body = f"{self._name} {turn}"
            message = Message(self._topic, body.encode())
            if self._window:
                self._free.acquire()
                future = self._producer.send_async(message, timeout=self._timeout_ms)
                future.add_done_callback(partial(self._ended, body))
                continue
            try:
                self.stored[body] = self._producer.send(message, timeout=self._timeout_ms)
            except Exception as error:  # noqa: BLE001 - the test looks at it
                self.failed[body] = error

    def _ended(self, body: str, future: Future[SendResult]) -> None:
        error = future.exception()
        if error is None:
            self.stored[body] = future.result()
        else:
            self.failed[body] = error
        self._free.release()

    def wait_for_more(self, count: int) -> None:
        wanted = len(self.stored) + count
        until(lambda: len(self.stored) >= wanted, HANG_S)

    def end(self) -> None:
        """Return when the outcome of every send is known."""
        self._over.set()
        self._thread.join(RESTART_MS / 1000)
        assert not self._thread.is_alive()
        for _ in range(self._window):
            assert self._free.acquire(timeout=RESTART_MS / 1000)


def send_many(producer: DefaultMQProducer, topic: str, name: str) -> dict[str, SendResult]:
    """Send some, half of them without waiting; all are stored."""
    bodies = [f"{name} {number}" for number in range(MANY)]
    futures = {one: producer.send_async(Message(topic, one.encode())) for one in bodies[::2]}
    found = {one: producer.send(Message(topic, one.encode())) for one in bodies[1::2]}
    return found | {body: future.result(HANG_S) for body, future in futures.items()}


def stored_by(results: dict[str, SendResult], broker_name: str) -> set[str]:
    return {body for body, one in results.items() if one.message_queue.broker_name == broker_name}


def check_the_log(caplog: pytest.LogCaptureFixture, address: str, *, clients: int) -> None:
    """Each client has told that a server does not answer, at most once, and that it does again.

    A broker that has just started may refuse a rebalance that comes before the heartbeat.
    """
    said = [one.getMessage() for one in caplog.records if one.name.startswith("rocketmq_py.")]
    lines = [line for line in said if address in line]
    refused = [line for line in lines if "no consumer for this group" in line]
    assert len(refused) <= clients, said
    assert len(lines) - len(refused) <= 2 * clients, said


def test_a_broker_is_killed_while_clients_send_and_consume(
    cluster: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is synced to disk: pages that a killed process has written are the kernel's."""
    topic, inbox = make_topic(cluster), Inbox()
    with (
        DefaultMQProducer("sends", namesrv_addr=cluster.namesrv_addr) as producer,
        consumer(cluster.namesrv_addr, [topic], inbox),
    ):
        patient = Sender("patient", producer, topic, timeout_ms=RESTART_MS)
        waiting = Sender("asynchronous", producer, topic, timeout_ms=RESTART_MS, window=8)
        hasty = Sender("hasty", producer, topic, timeout_ms=300)
        senders = (patient, waiting, hasty)
        for sender in senders:
            sender.wait_for_more(MANY)
        inbox.wait_for_more(MANY)

        cluster.broker.end(politely=False)
        until(lambda: any(not one.possibly_stored for one in failures(hasty)), HANG_S)
        cluster.start_broker()
        for sender in senders:
            sender.wait_for_more(MANY)
        for sender in senders:
            sender.end()

        print({name: len(one.failed) for name, one in zip("pah", senders, strict=True)})
        for sender in senders:
            inbox.wait_for(sender.stored)
            assert all(error.attempts for error in failures(sender))
        assert patient.failed == {}
        # What comes after all of it, so that nothing is still on its way.
        queues = producer.fetch_publish_message_queues(topic)
        for queue in queues:
            producer.send(Message(topic, str(queue).encode()), queue=queue, timeout=RESTART_MS)
        inbox.wait_for({str(queue) for queue in queues})
    refused = {
        body
        for sender in senders
        for body, error in sender.failed.items()
        if isinstance(error, SendFailedError) and not error.possibly_stored
    }
    assert refused
    assert refused & inbox.bodies == set()
    check_the_log(caplog, cluster.broker_addr, clients=2)


def failures(sender: Sender) -> list[SendFailedError]:
    """Errors of the sends that failed, which are all of one family."""
    found = list(sender.failed.values())
    assert [one for one in found if not isinstance(one, SendFailedError)] == []
    return [one for one in found if isinstance(one, SendFailedError)]


def test_one_of_two_masters_dies(
    cluster: Servers, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    inbox = Inbox()
    with servers(
        tmp_path,
        cluster.version,
        settings={"brokerName": "broker-b"},
        cache=CACHE,
        politely=False,
        beside=cluster,
    ) as other:
        topic = make_topic(cluster, brokers=2)
        with (
            DefaultMQProducer(
                "sends", namesrv_addr=cluster.namesrv_addr, poll_name_server_interval=SOON_MS
            ) as producer,
            consumer(cluster.namesrv_addr, [topic], inbox) as listens,
        ):
            inbox.wait_for(send_many(producer, topic, "both live"))
            listens.suspend()
            before = send_many(producer, topic, "before")
            assert {one.message_queue.broker_name for one in before.values()} == {
                "broker-a",
                "broker-b",
            }
            other.broker.end(politely=False)
            during = send_many(producer, topic, "one lives")
            assert stored_by(during, "broker-a") == set(during)
            listens.resume()
            inbox.wait_for(stored_by(before, "broker-a") | set(during))
            assert stored_by(before, "broker-b") & inbox.bodies == set()

            other.start_broker()
            inbox.wait_for(before)
            until(lambda: stored_by(send_many(producer, topic, "back"), "broker-b"), HANG_S)
        check_the_log(caplog, other.broker_addr, clients=2)


def test_a_host_that_does_not_answer_costs_a_real_broker_nothing(
    cluster: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    topic, inbox = make_topic(cluster), Inbox()
    with BlackHole() as hole:
        names = name_server([("broker-lost", hole.address), ("broker-a", cluster.broker_addr)])
        listens = consumer(names.address, [topic], inbox, **PATIENT)
        producer = DefaultMQProducer("sends", namesrv_addr=names.address, **PATIENT)
        try:
            within(START_S, producer.start)
            within(START_S, listens.start)
            found = send_many(producer, topic, "healthy")
            assert stored_by(found, "broker-a") == set(found)
            inbox.wait_for(found)
            within(0.2 + OVER_S, lambda: listens.shutdown(0.2))
            within(0.2 + OVER_S, lambda: producer.shutdown(0.2))
            check_the_log(caplog, hole.address, clients=2)
        finally:
            listens.shutdown(0)
            producer.shutdown(0)
            names.close()


def test_the_name_server_is_lost_and_comes_back(
    cluster: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    topic, later, inbox = make_topic(cluster), f"Later_{uuid.uuid4().hex[:8]}", Inbox()
    with (
        DefaultMQProducer(
            "sends", namesrv_addr=cluster.namesrv_addr, poll_name_server_interval=SOON_MS
        ) as producer,
        consumer(cluster.namesrv_addr, [topic, later], inbox),
    ):
        inbox.wait_for(send_many(producer, topic, "healthy"))
        cluster.namesrv.end(politely=False)
        for turn in range(3):
            inbox.wait_for(send_many(producer, topic, f"lost {turn}"))
        with pytest.raises(NameServerUnavailableError):
            producer.send(Message(later, b"too early"), timeout=1_000)
        cluster.start_namesrv()
        inbox.wait_for(send_many(producer, later, "back"))
        inbox.wait_for(send_many(producer, topic, "back as well"))
    check_the_log(caplog, cluster.namesrv_addr, clients=2)


def test_a_broker_is_stopped_and_goes_on(
    cluster: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    topic, inbox, namesrv_addr = make_topic(cluster), Inbox(), cluster.namesrv_addr
    ends = DefaultMQProducer(
        "ends", namesrv_addr=namesrv_addr, send_msg_timeout=RESTART_MS, **PATIENT
    )
    leaves = consumer(namesrv_addr, [topic], Inbox(), **PATIENT)
    with (
        DefaultMQProducer(
            "sends", namesrv_addr=namesrv_addr, send_msg_timeout=RESTART_MS
        ) as producer,
        consumer(namesrv_addr, [topic], inbox),
    ):
        ends.start()
        leaves.start()
        inbox.wait_for(send_many(producer, topic, "healthy") | send_many(ends, topic, "ends"))
        freeze(cluster.broker_pid)
        for _ in range(3):
            within(0.7 + OVER_S, partial(times_out, producer, topic))
        futures = [ends.send_async(Message(topic, b"x")) for _ in range(MANY)]
        within(0.2 + OVER_S, lambda: ends.shutdown(0.2))
        assert {type(one.exception(0)) for one in futures} == {ClientClosedError}
        within(0.2 + OVER_S, lambda: leaves.shutdown(0.2))

        os.kill(cluster.broker_pid, signal.SIGCONT)
        inbox.wait_for(send_many(producer, topic, "goes on"))
    check_the_log(caplog, cluster.broker_addr, clients=4)


def times_out(producer: DefaultMQProducer, topic: str) -> None:
    with pytest.raises(SendTimeoutError) as caught:
        producer.send(Message(topic, b"x"), timeout=700)
    assert caught.value.possibly_stored
    assert [one.broker_name for one in caught.value.attempts] == ["broker-a"]


def test_a_broker_is_slow(cluster: Servers) -> None:
    topic, inbox = make_topic(cluster), Inbox()
    with Relay(cluster.broker_addr) as relay:
        way: Callable[[str], str] = {cluster.broker_addr: relay.address}.__getitem__
        listens = consumer(cluster.namesrv_addr, [topic], inbox)
        listens.address_mapper = way
        with (
            DefaultMQProducer(
                "sends",
                namesrv_addr=cluster.namesrv_addr,
                address_mapper=way,
                send_msg_timeout=RESTART_MS,
            ) as producer,
            listens,
        ):
            inbox.wait_for(send_many(producer, topic, "quick"))
            relay.delay_s = 0.3
            inbox.wait_for(send_many(producer, topic, "slow"))
            relay.delay_s = 2.0
            with pytest.raises(SendTimeoutError) as caught:
                producer.send(Message(topic, b"not in this time"), timeout=1_000)
            assert caught.value.possibly_stored
            inbox.wait_for({"not in this time"})
            relay.delay_s = 0.0
            inbox.wait_for(send_many(producer, topic, "quick again"))
