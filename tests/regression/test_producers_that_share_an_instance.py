"""What the end of one producer once left waiting: its own sends, and nobody else's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from rocketmq_py import ClientClosedError, DefaultMQProducer, Message, SendResult
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.black_hole import BlackHole
from tests.unit.rocketmq_py.scripted import Peer, ScriptedCluster, route_of, stored
from tests.waiting import until

SEND = RequestCode.SEND_MESSAGE_V2
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
BUDGET_MS = 40_000
"""Far longer than anybody waits here."""
Pair = tuple[DefaultMQProducer, DefaultMQProducer]
Begin = Callable[[DefaultMQProducer, Message], "Future[SendResult]"]


def on_a_thread(act: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(act())
        except BaseException as error:  # noqa: BLE001 - told to the test
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def blocking(producer: DefaultMQProducer, message: Message) -> Future[SendResult]:
    return on_a_thread(lambda: producer.send(message, timeout=BUDGET_MS))


def oneway(producer: DefaultMQProducer, message: Message) -> Future[SendResult]:
    return on_a_thread(lambda: producer.send_oneway(message))


def asynchronous(producer: DefaultMQProducer, message: Message) -> Future[SendResult]:
    return producer.send_async(message, timeout=BUDGET_MS)


FACES = pytest.mark.parametrize("begin", [blocking, asynchronous])
ALL_FACES = pytest.mark.parametrize("begin", [blocking, asynchronous, oneway])


@pytest.fixture
def pair(cluster: ScriptedCluster) -> Iterator[Pair]:
    """Two producers of one instance."""
    first, second = (
        DefaultMQProducer(
            group,
            namesrv_addr=cluster.namesrv_addr,
            instance_name="shared",
            connect_timeout=BUDGET_MS,
            mq_client_api_timeout=BUDGET_MS,
        )
        for group in ("first", "second")
    )
    with first, second:
        yield first, second
        first.shutdown(0)
        second.shutdown(0)


def ended(future: Future[SendResult]) -> str:
    """The text of a send that the end of its producer has ended, long before its time was over."""
    error = future.exception(10)
    assert type(error) is ClientClosedError, error
    return str(error)


@FACES
@pytest.mark.parametrize("waits_first", [True, False], ids=["alone", "not alone"])
def test_the_end_of_one_ends_its_sends_and_none_of_the_other(
    begin: Begin, waits_first: bool, cluster: ScriptedCluster, pair: Pair
) -> None:
    broker, (first, second) = cluster.brokers[0], pair
    held: list[tuple[RemotingCommand, Peer]] = []
    for one in pair:
        one.send(Message("T", b"warm"))
    broker.on(SEND, lambda request, peer: held.append((request, peer)))
    turns = [first, second] if waits_first else [second, first]
    futures = {}
    for number, one in enumerate(turns):
        futures[one] = begin(one, Message("T", b"x"))
        broker.wait_for(SEND, 3 + number)
    first.shutdown(0.05)
    assert "may have stored" in ended(futures[first])
    assert not futures[second].done()
    for request, peer in held:
        peer.send(stored(request))
    assert futures[second].result(10)
    broker.on(SEND, lambda request, _: stored(request))
    assert second.send(Message("T", b"y"))


@ALL_FACES
def test_a_send_that_waits_for_a_host_ends_with_its_producer(
    begin: Begin, cluster: ScriptedCluster, pair: Pair
) -> None:
    first, second = pair
    second.send(Message("T", b"warm"))
    with BlackHole() as hole:
        cluster.routes["Lost"] = route_of([("broker-lost", hole.address)])
        assert first.fetch_publish_message_queues("Lost")
        future = begin(first, Message("Lost", b"x"))
        connections = first._engine.instance.connections  # type: ignore[union-attr]
        until(lambda: connections._doors)
        first.shutdown(0.05)
        ended(future)
        assert second.send(Message("T", b"y"))


@ALL_FACES
def test_a_send_that_waits_for_a_route_ends_with_its_producer(
    begin: Begin, cluster: ScriptedCluster, pair: Pair
) -> None:
    first, second = pair
    second.send(Message("T", b"warm"))
    asked = len(cluster.name_server.of(ROUTE))
    cluster.name_server.silent(ROUTE)
    futures = [begin(first, Message(f"New{n}", b"x")) for n in range(3)]  # one asks, others queue
    cluster.name_server.wait_for(ROUTE, asked + 1)
    first.shutdown(0.05)
    for future in futures:
        ended(future)
    assert second.send(Message("T", b"y"))


@pytest.mark.parametrize("is_reached", [True, False])
def test_nothing_of_a_producer_runs_on_after_its_end_when_no_name_server_answers(
    is_reached: bool, cluster: ScriptedCluster, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = pair
    with BlackHole() as hole:
        if is_reached:
            cluster.name_server.silent(ROUTE)
        else:
            first.update_name_server_address(hole.address)
        instance = first._engine.instance  # type: ignore[union-attr]
        futures = [asynchronous(first, Message(f"New{n}", b"x")) for n in range(3)]
        until(lambda: cluster.name_server.of(ROUTE) if is_reached else instance.connections._doors)
        first.shutdown(0.05)
    names = [one.name for one in threading.enumerate() if "async-sender" in one.name]
    assert names == []
    assert "still busy" not in caplog.text
    for future in futures:
        assert "no broker has the message" in ended(future)
