"""Connections, hooks, signatures, and servers that say go away."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.client.connections import Wait
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.config import Credentials
from rocketmq_py.errors import (
    RemotingConnectException,
    RemotingSendRequestException,
    RemotingTimeoutException,
)
from rocketmq_py.protocol import signing
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.transport import inproc
from tests.unit.rocketmq_py.client.conftest import InstanceMaker
from tests.unit.rocketmq_py.scripted import Peer, ScriptedCluster

ECHO = 9001


def echo(request: RemotingCommand, _: Peer) -> RemotingCommand:
    return request.answer(0, ext_fields=dict(request.ext_fields), body=request.body)


class Hook:
    """Adds a field, remembers codes, and fails when told to."""

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        self.name, self.log, self.fails = name, log, fails
        self.told = threading.Semaphore(0)

    def before_request(self, address: str, request: RemotingCommand) -> None:
        del address
        if self.fails == "before":
            raise PermissionError("no calls today")
        request.ext_fields["hooked"] = self.name
        self.log.append(f"before {self.name} {request.code}")

    def after_response(
        self, address: str, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        del address, request
        self.log.append(f"after {self.name} {response.code}")
        self.told.release()
        if self.fails == "after":
            raise ValueError("the hook's own trouble")


def test_threads_that_need_the_same_server_share_one_connection(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    broker = cluster.brokers[0]
    broker.on(ECHO, echo)

    def call(number: int) -> bytes:
        return instance.remoting.invoke(
            broker.address, RemotingCommand(ECHO, body=b"%d" % number), 5_000
        ).body

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(call, range(40))) == [b"%d" % n for n in range(40)]
    assert len(broker.peers) == 1


def test_a_connection_that_the_server_closed_is_opened_again(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    broker = cluster.brokers[0]
    broker.on(ECHO, echo)
    instance.remoting.invoke(broker.address, RemotingCommand(ECHO), 3_000)
    channel = instance.connections.channel(broker.address, Wait(100))
    broker.on(9002, lambda _, peer: peer.close())
    with pytest.raises(RemotingSendRequestException):
        instance.remoting.invoke(broker.address, RemotingCommand(9002), 3_000)
    assert not channel.is_open
    assert instance.remoting.invoke(broker.address, RemotingCommand(ECHO), 3_000).code == 0


def test_hooks_see_every_call_in_order(
    cluster: ScriptedCluster, make_instance: InstanceMaker
) -> None:
    log: list[str] = []
    last = Hook("b", log, fails="after")
    instance = make_instance("", [Hook("a", log), last])
    broker = cluster.brokers[0]
    broker.on(ECHO, echo)
    answer = instance.remoting.invoke(broker.address, RemotingCommand(ECHO), 3_000)
    assert answer.ext_fields["hooked"] == "b"
    assert log == ["before a 9001", "before b 9001", "after a 0", "after b 0"]
    called = instance.remoting.invoke_async(broker.address, RemotingCommand(ECHO), 3_000)
    assert called.result(30).code == 0
    assert last.told.acquire(timeout=30)
    assert last.told.acquire(timeout=30)  # of the second call, on a callback thread
    instance.remoting.invoke_oneway(broker.address, RemotingCommand(ECHO), 3_000)
    assert len(log) == 10


def test_a_hook_may_stop_a_call(cluster: ScriptedCluster, make_instance: InstanceMaker) -> None:
    instance = make_instance("", [Hook("a", [], fails="before")])
    with pytest.raises(PermissionError):
        instance.remoting.invoke(cluster.brokers[0].address, RemotingCommand(ECHO), 3_000)
    assert cluster.brokers[0].of(ECHO) == []


@pytest.mark.parametrize("rotating", [False, True])
def test_every_request_is_signed_after_the_hooks(
    cluster: ScriptedCluster, make_instance: InstanceMaker, rotating: bool
) -> None:
    keys = Credentials("rocketmq2", "12345678", "token" if rotating else None)
    source = (lambda: keys) if rotating else keys
    instance = make_instance("", [Hook("a", [])], credentials=source)
    broker = cluster.brokers[0]
    broker.on(ECHO, echo)
    fields = instance.remoting.invoke(
        broker.address, RemotingCommand(ECHO, ext_fields={"topic": "T"}, body=b"x"), 3_000
    ).ext_fields
    assert signing.verify("12345678", fields, b"x")
    assert fields["hooked"] == "a"
    assert fields.get("SecurityToken") == ("token" if rotating else None)


@pytest.mark.case("W97")
def test_the_signature_of_the_published_vector_leaves_the_client(
    cluster: ScriptedCluster, make_instance: InstanceMaker
) -> None:
    instance = make_instance("", credentials=Credentials("rocketmq2", "12345678"))
    broker = cluster.brokers[0]
    broker.on(ECHO, echo)
    command = RemotingCommand(ECHO, ext_fields={"topic": "TBW102"})
    fields = instance.remoting.invoke(broker.address, command, 3_000).ext_fields
    assert fields["Signature"] == "/u5P/wZUbhjanu4LM/UzEdo2u2I="


@pytest.mark.parametrize("asynchronous", [False, True])
def test_go_away_means_once_more_on_another_connection(
    cluster: ScriptedCluster, instance: ClientInstance, asynchronous: bool
) -> None:
    broker = cluster.brokers[0]
    answers = iter([ResponseCode.GO_AWAY, 0])
    broker.on(ECHO, lambda request, _: request.answer(next(answers)))
    command = RemotingCommand(ECHO)
    if asynchronous:
        answer = instance.remoting.invoke_async(broker.address, command, 5_000).result(30)
    else:
        answer = instance.remoting.invoke(broker.address, command, 5_000)
    assert answer.code == 0
    assert len(broker.peers) == 2
    instance.connections.close_idle()
    assert len(instance.connections.addresses()) == 1


def test_idle_connections_are_closed_but_not_those_in_use(
    cluster: ScriptedCluster, make_instance: InstanceMaker
) -> None:
    instance = make_instance("", channel_max_idle=1)
    broker = cluster.brokers[0]
    broker.silent(ECHO)
    future = instance.remoting.invoke_async(broker.address, RemotingCommand(ECHO), 60_000)
    channel = instance.connections.channel(broker.address, Wait(1_000))
    threading.Event().wait(0.005)  # longer than channel_max_idle
    instance.connections.close_idle()
    assert channel.is_open
    broker.peers[0].send(broker.wait_for(ECHO)[0].answer(0))
    assert future.result(30).code == 0
    threading.Event().wait(0.005)
    instance.connections.close_idle()
    assert not channel.is_open


def test_a_connect_that_fails_is_an_outcome_of_the_future(instance: ClientInstance) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(RemotingConnectException):
        instance.remoting.invoke_async(address, RemotingCommand(ECHO), 500).result(30)
    with pytest.raises(RemotingConnectException):
        instance.remoting.invoke("no-such-host.invalid:1", RemotingCommand(ECHO), 500)


def test_after_the_end_nothing_is_opened(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    instance.end(5)
    with pytest.raises(RemotingConnectException, match="shut down"):
        instance.remoting.invoke(cluster.brokers[0].address, RemotingCommand(ECHO), 500)


def test_an_end_in_the_middle_of_a_connect_leaves_no_thread_behind(
    cluster: ScriptedCluster, instance: ClientInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    remoting, address = instance.remoting, cluster.brokers[0].address
    looked_up = inproc.lookup

    def end_now(wanted: str) -> object:
        found = looked_up(wanted)
        instance.end(5)
        return found

    monkeypatch.setattr(inproc, "lookup", end_now)
    with pytest.raises(RemotingConnectException, match="shut down"):
        remoting.invoke(address, RemotingCommand(ECHO), 500)
    assert instance.connections._io is None


@pytest.mark.case("W12")
def test_a_name_server_that_does_not_know_a_request_lets_it_time_out_and_nothing_else(
    make_instance: InstanceMaker,
) -> None:
    """A name server of 4.9 answers nothing to a code that it does not know."""
    with EmbeddedBroker(profile="rocketmq-4.9", inproc=False) as broker:
        instance = make_instance(broker.namesrv_addr)
        unknown = RemotingCommand(RequestCode.REGISTER_TOPIC_IN_NAMESRV, ext_fields={"topic": "T"})
        with pytest.raises(RemotingTimeoutException):
            instance.remoting.invoke(broker.namesrv_addr, unknown, 100)
        known = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert instance.remoting.invoke(broker.namesrv_addr, known, 20_000).code == 0
