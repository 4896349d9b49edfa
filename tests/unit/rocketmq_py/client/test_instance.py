"""What one client instance does for the producers and consumers that share it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable

import pytest

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.pool import acquire_instance
from rocketmq_py.config import ClientConfig
from rocketmq_py.errors import (
    ClientClosedError,
    ForkedClientError,
    MQClientException,
    NotStartedError,
)
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.transport.inproc import SubscribedRoute
from tests.unit.rocketmq_py.client.conftest import InstanceMaker
from tests.unit.rocketmq_py.scripted import ScriptedCluster, route_of
from tests.waiting import until

HEART_BEAT = RequestCode.HEART_BEAT
WAIT_S = 10


class Consumer:
    """A consumer that counts what it is asked."""

    consume_type = "CONSUME_PASSIVELY"
    message_model = "CLUSTERING"
    consume_from_where = "CONSUME_FROM_LAST_OFFSET"

    def __init__(self, group: str = "C", topic: str = "T") -> None:
        self.group = group
        self.rebalanced = threading.Semaphore(0)
        self.persisted = threading.Semaphore(0)
        self.busy: str | None = None
        self.hastened = 0
        self.lost: list[str] = []
        self.fails = False
        self._subscriptions = [SubscriptionData.parse(topic, "a || b", 5)]

    def subscriptions(self) -> list[SubscriptionData]:
        return self._subscriptions

    def subscribes(self, topic: str) -> bool:
        return any(one.topic == topic for one in self._subscriptions)

    def rebalance(self) -> None:
        self.rebalanced.release()
        if self.fails:
            raise ValueError("on purpose")

    def connection_lost(self, address: str) -> None:
        self.lost.append(address)
        if self.fails:
            raise ValueError("on purpose")

    def persist_offsets(self) -> None:
        self.persisted.release()
        if self.fails:
            raise ValueError("on purpose")

    def handle_broker_request(self, command: RemotingCommand) -> RemotingCommand | None:
        if self.fails:
            raise ValueError("on purpose")
        return command.answer(0, "served") if command.code == 307 else None

    def told(self) -> str | None:
        return self.busy

    def hasten(self) -> None:
        self.hastened += 1


def test_a_heartbeat_names_every_group_and_subscription(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    instance.register_producer("P", object())
    instance.register_consumer("C", Consumer())
    instance.routes.update("T")
    instance.send_heartbeats()
    body = json.loads(cluster.brokers[0].of(HEART_BEAT)[-1].body)
    assert body["clientID"] == instance.client_id
    assert [group["groupName"] for group in body["producerDataSet"]] == ["P"]
    (consumer,) = body["consumerDataSet"]
    assert (consumer["groupName"], consumer["consumeType"]) == ("C", "CONSUME_PASSIVELY")
    assert sorted(consumer["subscriptionDataSet"][0]["tagsSet"]) == ["a", "b"]


def test_nobody_registered_means_no_heartbeat(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    instance.routes.update("T")
    instance.send_heartbeats()
    assert cluster.brokers[0].of(HEART_BEAT) == []


def test_producers_greet_masters_only_and_consumers_slaves_too(
    clusters: Callable[[int], ScriptedCluster], make_instance: InstanceMaker
) -> None:
    cluster = clusters(2)
    master, slave = cluster.brokers
    cluster.routes["T"].broker_datas[0].broker_addrs = {0: master.address, 1: slave.address}
    del cluster.routes["T"].broker_datas[1]
    instance = make_instance(cluster.namesrv_addr)
    instance.register_producer("P", object())
    instance.routes.update("T")
    instance.send_heartbeats()
    assert slave.of(HEART_BEAT) == []
    instance.register_consumer("C", Consumer())
    instance.send_heartbeats()
    assert slave.of(HEART_BEAT)


def test_a_broker_is_greeted_as_soon_as_it_is_connected(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    instance.register_producer("P", object())
    instance.routes.update("T")
    broker = cluster.brokers[0]
    instance.remoting.invoke(broker.address, RemotingCommand(9001), 3_000)
    assert len(broker.wait_for(HEART_BEAT)) == 1
    first = instance.connections.get(broker.address)
    broker.drop_peers()
    until(lambda: instance.connections.get(broker.address) is not first)
    instance.remoting.invoke(broker.address, RemotingCommand(9001), 3_000)
    assert len(broker.wait_for(HEART_BEAT, 2)) == 2


def test_a_failing_or_refused_heartbeat_is_logged_and_no_more(
    cluster: ScriptedCluster, instance: ClientInstance, caplog: pytest.LogCaptureFixture
) -> None:
    instance.register_producer("P", object())
    instance.routes.update("T")
    cluster.brokers[0].answer(HEART_BEAT, 1, "not now")
    for _ in range(3):
        instance.send_heartbeats()
    address = cluster.brokers[0].address
    told = f"heartbeat failed (told once a minute): code 1 from {address}: not now"
    assert caplog.text.count(told) == 1
    cluster.brokers[0].close()
    instance.send_heartbeats()
    assert "does not answer: heartbeat" in caplog.text


def test_the_goodbye_goes_to_connected_brokers_and_its_failure_is_logged(
    cluster: ScriptedCluster, instance: ClientInstance, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = Consumer()
    instance.register_consumer("C", consumer)
    instance.routes.update("T")
    instance.send_heartbeats()
    broker = cluster.brokers[0]
    # A new connection has a heartbeat of its own: both must be over before the peer closes.
    channel = instance.connections.get(broker.address)
    until(lambda: len(broker.of(HEART_BEAT)) == 2 and channel is not None and not channel.in_flight)
    broker.on(RequestCode.UNREGISTER_CLIENT, lambda _, peer: peer.close())
    instance.unregister_consumer("C")
    (request,) = broker.of(RequestCode.UNREGISTER_CLIENT)
    assert request.ext_fields == {"clientID": instance.client_id, "consumerGroup": "C"}
    assert "goodbye of group C" in caplog.text


def test_one_group_has_one_member_in_an_instance(instance: ClientInstance) -> None:
    instance.register_consumer("C", Consumer())
    with pytest.raises(MQClientException, match="created before"):
        instance.register_consumer("C", Consumer())
    instance.unregister_consumer("C")
    instance.register_consumer("C", Consumer())


def test_routes_are_refreshed_and_consumers_rebalance_after_a_change(
    cluster: ScriptedCluster, make_instance: InstanceMaker
) -> None:
    instance = make_instance(cluster.namesrv_addr, poll_name_server_interval=10)
    consumer = Consumer()
    instance.register_consumer("C", consumer)
    instance.register_consumer("D", Consumer("D", topic="other"))
    cluster.name_server.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC, 4)
    assert len(instance.routes.subscribe_queues("T") or ()) == 4
    assert consumer.rebalanced.acquire(timeout=30)
    assert not consumer.rebalanced.acquire(timeout=0)


@pytest.mark.parametrize(("subscribed", "rebalances"), [("T", 1), ("other", 0)])
def test_only_the_changed_route_of_a_subscribed_topic_asks_for_a_rebalance(
    instance: ClientInstance, monkeypatch: pytest.MonkeyPatch, subscribed: str, rebalances: int
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(instance, "rebalance_soon", asked.append)
    instance.register_consumer("C", Consumer(topic=subscribed))
    instance.register_consumer("D", Consumer("D", topic="another"))
    instance.routes.update("T")
    instance.routes.update("T")
    assert asked == ["C"] * rebalances


def test_a_broker_that_comes_back_into_a_route_is_found_long_before_the_next_poll(
    cluster: ScriptedCluster, make_instance: InstanceMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketmq_py.client.instance.MISSED_EVERY_MS", 10)
    monkeypatch.setattr("rocketmq_py.client.instance.ROUTE_FIRST_MS", 3_600_000)
    instance = make_instance(cluster.namesrv_addr)
    consumer = Consumer(topic="Shrinks")
    there = cluster.routes["T"]
    cluster.routes["Shrinks"] = there
    instance.routes.update("Shrinks")
    cluster.routes["Shrinks"] = route_of([("broker-z", cluster.brokers[0].address)])
    instance.routes.update("Shrinks")
    instance.register_consumer("C", consumer)  # only what happens from now on wakes it
    cluster.routes["Shrinks"] = there
    assert consumer.rebalanced.acquire(timeout=WAIT_S)
    assert {queue.broker_name for queue in instance.routes.subscribe_queues("Shrinks") or ()} == {
        "broker-a"
    }


def test_a_broker_that_lost_the_connection_is_greeted_long_before_the_next_heartbeat(
    cluster: ScriptedCluster, make_instance: InstanceMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketmq_py.client.instance.MISSED_EVERY_MS", 10)
    monkeypatch.setattr("rocketmq_py.client.instance.HEARTBEAT_FIRST_MS", 3_600_000)
    instance = make_instance(cluster.namesrv_addr)
    instance.register_consumer("C", Consumer())
    instance.routes.update("T")
    broker = cluster.brokers[0]
    seen = len(broker.wait_for(HEART_BEAT, 2))  # one asks for the connection, one greets it
    broker.drop_peers()
    broker.wait_for(HEART_BEAT, seen + 1)


def test_every_consumer_learns_that_a_connection_has_ended_but_not_of_the_clients_own_end(
    instance: ClientInstance, cluster: ScriptedCluster
) -> None:
    failing, consumer = Consumer("F"), Consumer("C")
    failing.fails = True
    instance.register_consumer("F", failing)
    instance.register_consumer("C", consumer)
    instance.routes.update("T")
    (broker,) = cluster.brokers
    instance.start()
    broker.wait_for(HEART_BEAT, 2)  # one asks for the connection, one greets it
    broker.drop_peers()
    until(lambda: failing.lost == consumer.lost == [broker.address])
    instance.end(1)
    assert consumer.lost == [broker.address]


def test_a_vanished_broker_loses_its_connection_at_the_next_round(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    broker = cluster.brokers[0]
    instance.routes.update("T")
    instance.remoting.invoke(broker.address, RemotingCommand(9001), 3_000)
    cluster.routes["T"].broker_datas[0].broker_addrs = {0: "127.0.0.1:1"}
    instance.routes.update("T")
    instance._heartbeat_round()
    assert broker.address not in instance.connections.addresses()


@pytest.mark.parametrize(
    ("named", "turns"),
    [("C", {"C"}), (None, {"B", "C", "D"}), ("unknown", set())],
    ids=["its group", "no group", "a group of nobody"],
)
def test_notice_40_makes_the_consumer_of_its_group_rebalance(
    cluster: ScriptedCluster, instance: ClientInstance, named: str | None, turns: set[str]
) -> None:
    consumers = [Consumer(group, topic="other") for group in ("B", "C", "D")]
    for consumer in consumers:
        instance.register_consumer(consumer.group, consumer)
    broker = cluster.brokers[0]
    instance.remoting.invoke(broker.address, RemotingCommand(9001), 3_000)
    fields = {} if named is None else {"consumerGroup": named}
    code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    broker.peers[0].send(RemotingCommand(code, flag=2, ext_fields=fields))
    broker.peers[0].send(RemotingCommand(307, opaque=7))
    broker.wait_for(3)  # the answer to that: the notice has been read before
    until(lambda: instance.told() is None)
    assert {one.group for one in consumers if one.rebalanced.acquire(blocking=False)} == turns


def test_a_heartbeat_for_something_new_of_a_group_names_no_other(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    for group in ("A", "B"):
        instance.register_producer(group, object())
    for group in ("B", "C"):
        instance.register_consumer(group, Consumer(group))
    instance.routes.update("T")
    instance.send_heartbeats()  # the connection has one of its own
    beats = len(cluster.brokers[0].wait_for(HEART_BEAT, 2))
    named = []
    for group in ("A", "B", "C", "unknown"):
        instance.send_heartbeats(group=group)
    for request in cluster.brokers[0].of(HEART_BEAT)[beats:]:
        body = json.loads(request.body)
        producers = [one["groupName"] for one in body["producerDataSet"]]
        named.append((producers, [one["groupName"] for one in body["consumerDataSet"]]))
    assert named == [(["A"], []), (["B"], ["B"]), ([], ["C"])]


def test_consumers_rebalance_in_turn_and_each_again_when_asked_meanwhile(
    instance: ClientInstance,
) -> None:
    turns: list[str] = []
    first, second = Consumer("A", topic="other"), Consumer("B", topic="other")

    def rebalance() -> None:
        turns.append("A")
        if len(turns) == 1:
            for _ in range(3):
                instance.rebalance_soon("A")
                instance.rebalance_soon()

    first.rebalance = rebalance  # type: ignore[method-assign] # asks while it has its turn
    second.rebalance = lambda: turns.append("B")  # type: ignore[method-assign]
    for consumer in (first, second):
        instance.register_consumer(consumer.group, consumer)
    instance.rebalance_soon("A")
    until(lambda: instance.told() is None)
    assert turns == ["A", "A", "B"]


def test_a_failing_consumer_does_not_take_the_others_turn(
    instance: ClientInstance, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = Consumer("A"), Consumer("B")
    bad.fails = True
    instance.register_consumer("A", bad)
    instance.register_consumer("B", good)
    instance.rebalance_soon()
    assert good.rebalanced.acquire(timeout=WAIT_S)
    instance._persist_offsets()
    assert good.persisted.acquire(timeout=WAIT_S)
    assert "rebalance failed" in caplog.text
    assert "saving offsets failed" in caplog.text


def test_rebalance_requests_during_a_round_make_one_more_round(instance: ClientInstance) -> None:
    consumer = Consumer()
    entered, gate = threading.Semaphore(0), threading.Event()

    def rebalance() -> None:
        entered.release()
        gate.wait(WAIT_S)
        consumer.rebalanced.release()

    consumer.rebalance = rebalance  # type: ignore[method-assign] # a slow one
    instance.register_consumer("C", consumer)
    instance.rebalance_soon()
    assert entered.acquire(timeout=WAIT_S)
    for _ in range(5):
        instance.rebalance_soon()
    gate.set()
    assert consumer.rebalanced.acquire(timeout=WAIT_S)
    assert consumer.rebalanced.acquire(timeout=WAIT_S)
    instance.end(5)
    assert not consumer.rebalanced.acquire(blocking=False)


@pytest.mark.parametrize(
    ("code", "fields", "fails", "answer"),
    [
        (307, {"consumerGroup": "C"}, False, (0, "served")),
        (220, {"group": "C"}, False, (3, " request type 220 not supported")),
        (307, {"consumerGroup": "nobody"}, False, (3, " request type 307 not supported")),
        (307, {"consumerGroup": "C"}, True, (1, "ValueError: on purpose")),
    ],
)
def test_requests_of_a_broker_are_answered_by_the_group_they_concern(
    cluster: ScriptedCluster,
    instance: ClientInstance,
    code: int,
    fields: dict[str, str],
    fails: bool,
    answer: tuple[int, str],
) -> None:
    consumer = Consumer()
    consumer.fails = fails
    instance.register_consumer("C", consumer)
    broker = cluster.brokers[0]
    instance.remoting.invoke(broker.address, RemotingCommand(9001), 3_000)
    broker.peers[0].send(RemotingCommand(code, opaque=77, ext_fields=fields))
    (reply,) = broker.wait_for(answer[0])
    assert (reply.is_response, reply.opaque, reply.remark) == (True, 77, answer[1])


def test_oneway_requests_of_a_broker_get_no_answer(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    broker = cluster.brokers[0]
    instance.remoting.invoke(broker.address, RemotingCommand(9001), 3_000)
    broker.peers[0].send(RemotingCommand(39, flag=2), RemotingCommand(307, opaque=5))
    (reply,) = broker.wait_for(3)
    assert reply.opaque == 5


def test_a_request_that_nobody_can_take_is_a_warning_while_the_client_runs(
    cluster: ScriptedCluster, instance: ClientInstance, caplog: pytest.LogCaptureFixture
) -> None:
    address = cluster.brokers[0].address
    instance.remoting.invoke(address, RemotingCommand(9001), 3_000)
    channel = instance.connections.get(address)
    assert channel is not None
    instance._background._tasks_max = 0
    with caplog.at_level("DEBUG", logger="rocketmq_py.client.instance"):
        instance._on_broker_request(channel, RemotingCommand(40))
        instance.end(5)
        instance._on_broker_request(channel, RemotingCommand(40))
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", "broker request dropped code=40: background is full"),
        ("DEBUG", "broker request dropped code=40: the client is shut down"),
    ]


def test_the_instance_tells_which_routes_it_knows_and_asks_for_those_that_are_missing(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    known = frozenset(one.broker_name for one in cluster.routes["T"].broker_datas)
    consumers = [Consumer(topic, topic=topic) for topic in ("T", "New", "%RETRY%G")]
    for consumer in consumers:
        instance.register_consumer(consumer.group, consumer)
    instance.routes.update("T")
    lacking = [SubscribedRoute("T", "T", known), SubscribedRoute("New", "New", None)]
    assert instance.subscribed_routes() == lacking

    cluster.routes["New"] = cluster.routes["T"]

    def is_looked_at() -> bool:
        instance.look_at_routes()  # nothing while a poll goes on
        return consumers[1].rebalanced.acquire(timeout=0.01)

    until(is_looked_at)
    assert instance.subscribed_routes()[1] == SubscribedRoute("New", "New", known)
    instance.end(1)
    assert instance.subscribed_routes() == []


def test_every_consumer_hastens(instance: ClientInstance) -> None:
    consumers = [Consumer(group) for group in ("A", "B")]
    for consumer in consumers:
        instance.register_consumer(consumer.group, consumer)
    instance.hasten()
    assert [one.hastened for one in consumers] == [1, 1]


def test_the_instance_knows_who_is_busy(instance: ClientInstance) -> None:
    consumer = Consumer()
    instance.register_consumer("C", consumer)
    until(lambda: instance.told() is None, WAIT_S)  # what began with the instance has ended
    consumer.busy = "3 messages cached"
    assert instance.told() == "C: 3 messages cached"
    consumer.busy = None

    book = instance.activity.open("producer P", "sends in flight")
    with book.working():
        assert instance.told() == "producer P: 1 sends in flight"
        instance.activity.close(book)
        assert instance.told() is None
    hold = threading.Event()
    instance.submit(hold.wait, 10)
    until(lambda: instance.told() == "1 background tasks", WAIT_S)
    hold.set()


def test_tasks_run_later_again_and_on_other_threads(instance: ClientInstance) -> None:
    ran = threading.Semaphore(0)
    handle = instance.schedule_every(0, 1, ran.release)
    instance.schedule_after(0, ran.release)
    assert instance.submit(ran.release)
    assert instance.submit_background(ran.release)
    for _ in range(5):
        assert ran.acquire(timeout=WAIT_S)
    handle.cancel()


def test_states_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = acquire_instance(ClientConfig())
    with pytest.raises(NotStartedError):
        instance.check_usable()
    instance.start()
    instance.start()
    instance.check_usable()
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        with pytest.raises(ForkedClientError):
            instance.check_usable()
    instance.shutdown()
    for call in (instance.check_usable, instance.start):
        with pytest.raises(ClientClosedError):
            call()


def test_a_closed_instance_ends_its_threads(
    cluster: ScriptedCluster, make_instance: InstanceMaker
) -> None:
    instance = make_instance(cluster.namesrv_addr)
    instance.register_consumer("C", Consumer())
    instance.routes.update("T")
    instance.send_heartbeats()
    instance.shutdown()
    until(lambda: not any(t.name.startswith("rocketmq-client") for t in threading.enumerate()))
