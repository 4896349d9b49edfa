"""What failed sends once told differently on each face, and what they never needed to fail for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ClientClosedError,
    DefaultMQProducer,
    LocalTransactionState,
    Message,
    MessageExt,
    MQClientException,
    NameServerUnavailableError,
    SendFailedError,
    SendResult,
    SendTimeoutError,
    TooManySendsError,
    TransactionMQProducer,
)
from rocketmq_py.errors import (
    FlowControlError,
    RemotingConnectException,
    RemotingTimeoutException,
    RemotingTooMuchRequestException,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.socket_buffers import bound_buffers
from tests.unit.rocketmq_py.scripted import Peer, ScriptedCluster, ScriptedServer, stored
from tests.waiting import freeze, until

SEND = RequestCode.SEND_MESSAGE_V2
Face = Callable[..., SendResult]


def blocking(
    producer: DefaultMQProducer, timeout_ms: int, message: Message | None = None
) -> SendResult:
    return producer.send(message or Message("T", b"x"), timeout=timeout_ms)


def future(
    producer: DefaultMQProducer, timeout_ms: int, message: Message | None = None
) -> SendResult:
    return producer.send_async(message or Message("T", b"x"), timeout=timeout_ms).result(20)


FACES = pytest.mark.parametrize("send", [blocking, future])


@pytest.fixture
def producer(cluster: ScriptedCluster) -> Iterator[DefaultMQProducer]:
    made = DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"])
    made.start()
    yield made
    made.shutdown(0.1)


def failure(send: Face, producer: DefaultMQProducer, timeout_ms: int) -> SendFailedError:
    with pytest.raises(SendFailedError) as caught:
        send(producer, timeout_ms)
    return caught.value


@FACES
def test_a_silent_broker_is_a_time_out_that_may_have_stored_the_message(
    send: Face, cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    cluster.brokers[0].silent(SEND)
    error = failure(send, producer, 100)
    assert type(error) is SendTimeoutError
    for kind in (
        TimeoutError,
        MQClientException,
        RemotingTimeoutException,
        RemotingTooMuchRequestException,
    ):
        assert isinstance(error, kind)
    assert error.possibly_stored
    assert [one.broker_name for one in error.attempts] == ["broker-a"]
    assert "no answer" in error.attempts[0].reason
    assert error.attempts[0].seconds >= 0.09
    assert error.response_code == ResponseCode.ACCESS_BROKER_TIMEOUT


@FACES
def test_refused_connections_stored_nothing(
    send: Face, cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    cluster.brokers[0].close()
    failure(send, producer, 300)  # perhaps on a connection of which nobody knows that it has ended
    error = failure(send, producer, 300)
    assert not error.possibly_stored
    assert "No broker has stored the message" in str(error)
    assert {one.possibly_stored for one in error.attempts} <= {False}
    assert isinstance(error.__cause__, RemotingConnectException)


@FACES
def test_a_broker_that_refuses_stored_nothing(
    send: Face, cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    cluster.brokers[0].answer(SEND, ResponseCode.SYSTEM_BUSY)
    error = failure(send, producer, 2_000)
    assert not error.possibly_stored
    assert isinstance(error.__cause__, FlowControlError)
    assert error.response_code == ResponseCode.SYSTEM_BUSY


@FACES
def test_a_connection_that_ends_during_a_send_may_have_stored_the_message(
    send: Face, cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    cluster.brokers[0].on(SEND, lambda _, peer: peer.close())
    error = failure(send, producer, 2_000)
    assert error.possibly_stored
    assert {one.possibly_stored for one in error.attempts} == {True}
    assert len(error.attempts) == error.attempt == 3


@FACES
def test_the_end_of_the_producer_in_the_middle_of_a_send_is_told_as_such(
    send: Face, cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    cluster.brokers[0].silent(SEND)
    found: list[BaseException] = []

    def run() -> None:
        try:
            send(producer, 20_000)
        except BaseException as error:  # noqa: BLE001 - told to the test
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    cluster.brokers[0].wait_for(SEND)
    producer.shutdown(0.05)
    thread.join(30)
    assert [type(error) for error in found] == [ClientClosedError]
    assert "may have stored" in str(found[0])


class NoWork:
    """A transaction's listener that is never asked."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        raise AssertionError((message, arg))

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        raise AssertionError(message)


def test_the_end_of_a_producer_in_the_middle_of_a_transaction_is_told_as_such(
    cluster: ScriptedCluster,
) -> None:
    cluster.brokers[0].silent(SEND)
    producer = TransactionMQProducer(
        "G", namesrv_addr=cluster.namesrv_addr, transaction_listener=NoWork()
    )
    producer.start()
    with ThreadPoolExecutor(1) as threads:
        send = partial(producer.send_message_in_transaction, timeout=20_000)
        future = threads.submit(send, Message("T", b"x"))
        cluster.brokers[0].wait_for(SEND)
        producer.shutdown(0.05)
        with pytest.raises(ClientClosedError, match="may have stored"):
            future.result(10)


@FACES
def test_all_who_wait_for_a_silent_name_server_are_told_the_same(
    send: Face, cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    """Only one at a time asks, and some get their turn when their time is over."""
    cluster.name_server.silent(RequestCode.GET_ROUTEINFO_BY_TOPIC)

    def failed(_: int) -> type[BaseException] | None:
        try:
            send(producer, 300, Message("New", b"x"))
        except Exception as error:  # noqa: BLE001 - told to the test
            return type(error)
        return None

    count = 2 * producer.async_sender_threads
    with ThreadPoolExecutor(count) as threads:
        found = Counter(threads.map(failed, range(count)))
    assert found == {NameServerUnavailableError: count}


@FACES
def test_attempts_at_a_busy_broker_are_put_off_and_those_at_another_are_not(
    send: Face, cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    """Two answers that a broker gives while it starts do not use up a send."""
    calm = threading.Event()
    came = []

    def answer(request: RemotingCommand, peer: Peer) -> RemotingCommand | None:
        came.append(request)
        if len(came) == 1:
            threading.Timer(0.02, calm.set).start()
        if calm.is_set():
            return stored(request)
        peer.close()
        return None

    cluster.brokers[0].on(SEND, answer)
    assert send(producer, 3_000)
    assert len(came) <= 3


@FACES
def test_a_broker_that_restarts_within_the_budget_fails_no_send(
    send: Face, cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    broker = cluster.brokers[0]
    assert send(producer, 3_000)
    broker.close()
    back: list[ScriptedServer] = []

    def restart() -> None:
        back.append(ScriptedServer(broker.port, lambda it: it.on(SEND, lambda one, _: stored(one))))

    again = threading.Timer(0.6, restart)
    again.start()
    try:
        assert send(producer, 5_000)
    finally:
        again.join(30)
        for server in back:
            server.close()


def test_code_of_the_application_that_waits_for_a_later_callback_gets_it(
    cluster: ScriptedCluster,
) -> None:
    """Callbacks have more threads than there are blocked ones."""
    held: list[tuple[RemotingCommand, Peer]] = []
    cluster.brokers[0].on(SEND, lambda request, peer: held.append((request, peer)))
    ended = [threading.Event() for _ in range(6)]
    with DefaultMQProducer(
        "G", namesrv_addr=cluster.namesrv_addr, client_callback_executor_threads=1
    ) as producer:

        def first(mine: threading.Event, later: threading.Event | None, _: object) -> None:
            if later is None or later.wait(10):
                mine.set()

        for number, mine in enumerate(ended):
            later = ended[number + 1] if number + 1 < len(ended) else None
            told = partial(first, mine, later)
            producer.send_async(Message("T", b"x")).add_done_callback(told)
        cluster.brokers[0].wait_for(SEND, len(ended))
        for request, peer in held:
            peer.send(stored(request))
        assert [one.wait(10) for one in ended] == [True] * len(ended)


def test_a_callback_may_send_and_wait_for_the_result(
    cluster: ScriptedCluster, producer: DefaultMQProducer
) -> None:
    found: list[SendResult] = []
    done = threading.Event()

    def again(_: object) -> None:
        found.append(producer.send_async(Message("T", b"again")).result(10))
        done.set()

    del cluster
    producer.send_async(Message("T", b"x")).add_done_callback(again)
    assert done.wait(10)
    assert len(found) == 1


# --- a broker that is stopped -----------------------------------------------------------------

SERVE = [sys.executable, "-c", "from embedded_broker.cli import main; main()", "serve"]
LARGE = os.urandom(2_000_000)


@contextmanager
def stopped_broker() -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """A broker in a process of its own, and how to stop it and to let it go on."""
    command = [*SERVE, "--namesrv-port", "0", "--broker-port", "0"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            namesrv = process.stdout.readline().split("namesrv=")[1].split()[0]
            yield (
                namesrv,
                partial(freeze, process.pid),
                lambda: process.send_signal(signal.SIGCONT),
            )
        finally:
            process.kill()  # also ends one that is stopped
            process.wait(20)


def test_a_stopped_broker_blocks_nobody_who_sends_asynchronously() -> None:
    with (
        stopped_broker() as (namesrv, stop, go_on),
        DefaultMQProducer(
            "G",
            namesrv_addr=namesrv,
            send_msg_timeout=20_000,
            client_async_bytes=17_000_000,
        ) as producer,
    ):
        producer.send(Message("T", b"warm"))
        stop()
        futures = [producer.send_async(Message("T", LARGE)) for _ in range(12)]
        refused = [one for one in futures if one.done()]
        assert len(refused) == 4, "8 of 2 MB are in flight, none has ended, and none had to wait"
        for one in refused:
            error = one.exception()
            assert isinstance(error, TooManySendsError)
            assert "client_async_bytes" in str(error)
            assert not error.possibly_stored
        go_on()
        assert all(one.result(20) for one in futures if one not in refused)


def test_a_stopped_broker_says_which_messages_it_may_have() -> None:
    with (
        stopped_broker() as (namesrv, stop, _),
        DefaultMQProducer("G", namesrv_addr=namesrv, compress_level=0) as producer,
    ):
        producer.send(Message("T", b"warm"))
        stop()
        connections: Any = producer._engine.instance.connections  # type: ignore[union-attr]
        bound_buffers(*(channel._sock for channel in connections._channels.values()))
        bodies = [b"fits into the buffers", *[LARGE] * 12]
        futures = [producer.send_async(Message("T", body), timeout=400) for body in bodies]
        errors = [one.exception(20) for one in futures]
        assert {type(error): str(error) for error in errors}.keys() == {SendTimeoutError}
        stored = [error.possibly_stored for error in errors if isinstance(error, SendFailedError)]
    assert stored[0]
    assert not stored[-1]


def test_a_broker_that_answers_nothing_any_more_is_passed_over_until_it_does() -> None:
    cluster = ScriptedCluster(2)
    lost = cluster.brokers[0]
    held: list[tuple[RemotingCommand, Peer]] = []
    try:
        with DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            for _ in range(8):
                producer.send(Message("T", b"warm"))
            lost.on(SEND, lambda request, peer: held.append((request, peer)))
            futures = [producer.send_async(Message("T", b"x"), timeout=9_000) for _ in range(8)]
            lost.wait_for(SEND, 5)
            silent = producer._engine.instance.connections  # type: ignore[union-attr]

            def is_passed_over() -> bool:
                # Each look asks: an answer of before, to a heartbeat, may have come after the last.
                futures.append(producer.send_async(Message("T", b"x"), timeout=9_000))
                return lost.address in silent.silent

            until(is_passed_over)
            found = {
                producer.send(Message("T", b"y")).message_queue.broker_name for _ in "12345678"
            }
            assert found == {"broker-b"}
            lost.on(SEND, lambda request, _: stored(request))
            for request, peer in held:
                peer.send(stored(request))
            assert all(future.result(10) for future in futures)
            until(lambda: not silent.silent)
            found = {
                producer.send(Message("T", b"z")).message_queue.broker_name for _ in "12345678"
            }
            assert found == {"broker-a", "broker-b"}
    finally:
        cluster.close()


def test_a_broker_that_restarts_is_survived_on_both_faces() -> None:
    with (
        EmbeddedBroker(tcp=True) as broker,
        DefaultMQProducer(
            "G", namesrv_addr=broker.namesrv_addr, transport="tcp", send_msg_timeout=5_000
        ) as producer,
    ):
        producer.send(Message("T", b"warm"))
        broker.crash()
        sends = [producer.send_async(Message("T", b"x")) for _ in range(5)]
        again = threading.Timer(0.3, broker.restart)
        again.start()
        assert producer.send(Message("T", b"y"))
        assert all(one.result(10) for one in sends)
        again.join(30)
