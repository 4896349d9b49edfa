"""Who waits for a connection, for how long, and what becomes of hosts that do not answer."""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import closing
from typing import Any

import pytest

from rocketmq_py.client.connections import Connections, Wait
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.errors import (
    RemotingConnectException,
    RemotingTooMuchRequestException,
    RocketMQError,
)
from rocketmq_py.transport import inproc
from rocketmq_py.transport.channel import Channel
from tests.black_hole import BlackHole
from tests.unit.rocketmq_py.client.conftest import InstanceMaker
from tests.unit.rocketmq_py.scripted import ScriptedCluster, ScriptedServer


class Waiting:
    """Somebody who wants a connection."""

    def __init__(
        self,
        instance: ClientInstance,
        address: str,
        ms: float = 5_000,
        *,
        patient: bool = False,
        can_turn: bool = False,
        size: int = 0,
    ) -> None:
        self.told = threading.Event()
        self.outcomes: list[tuple[Channel | None, RocketMQError | None]] = []
        wait = Wait(ms, patient, can_turn)
        instance.connections.reach(address, wait, self._reached, size=size)

    def _reached(self, channel: Channel | None, error: RocketMQError | None) -> None:
        self.outcomes.append((channel, error))
        self.told.set()

    @property
    def error(self) -> RocketMQError | None:
        assert self.told.wait(30)
        assert len(self.outcomes) == 1
        return self.outcomes[0][1]


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port: int = free.getsockname()[1]
    return port


def test_everybody_who_waits_gets_the_one_connection(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    address = cluster.brokers[0].address
    waiting = [Waiting(instance, address) for _ in range(100)]
    assert [one.error for one in waiting] == [None] * 100
    channels = {id(one.outcomes[0][0]) for one in waiting}
    assert len(channels) == 1
    assert instance.connections.addresses() == {address}
    assert Waiting(instance, address).told.is_set()


def test_a_refusal_is_told_at_once_and_leaves_nothing_behind(instance: ClientInstance) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    error = Waiting(instance, address).error
    assert isinstance(error, RemotingConnectException)
    assert isinstance(error.__cause__, ConnectionRefusedError)
    assert instance.connections.silent == frozenset()
    server = ScriptedServer(port)
    assert Waiting(instance, address).error is None
    server.close()


def test_only_a_broker_that_is_away_may_have_announced_a_wrong_address(
    make_instance: InstanceMaker,
) -> None:
    name_server, broker = (f"127.0.0.1:{free_port()}" for _ in range(2))
    instance = make_instance(name_server)
    assert "reachable from here?" in str(Waiting(instance, name_server).error)
    assert "address_mapper" not in str(Waiting(instance, name_server).error)
    assert str(Waiting(instance, broker).error).endswith("set address_mapper")


def test_who_comes_during_a_try_that_fails_gets_one_of_its_own(
    cluster: ScriptedCluster, make_instance: InstanceMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, port = cluster.brokers[0].address.split(":")
    look_up, is_asked, may_fail = socket.getaddrinfo, threading.Event(), threading.Event()

    def unknown_at_first(host: str, *rest: Any, **others: Any) -> Any:
        if others.get("flags") or host != "late.invalid":
            return look_up(host, *rest, **others)
        if not is_asked.is_set():
            is_asked.set()
            assert may_fail.wait(10)
            raise socket.gaierror(socket.EAI_NONAME, "not known yet")
        return look_up("127.0.0.1", int(port), type=socket.SOCK_STREAM)

    monkeypatch.setattr(socket, "getaddrinfo", unknown_at_first)
    instance = make_instance("")
    early = Waiting(instance, f"late.invalid:{port}")
    assert is_asked.wait(10)
    late = Waiting(instance, f"late.invalid:{port}")
    may_fail.set()
    assert isinstance(early.error, RemotingConnectException)
    assert late.error is None
    assert instance.connections.silent == frozenset()


def test_who_is_patient_gets_a_connection_when_the_server_comes(instance: ClientInstance) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    patient = Waiting(instance, address, patient=True)
    assert isinstance(Waiting(instance, address).error, RemotingConnectException)
    assert not patient.told.is_set()
    hurried = Waiting(instance, address, 30, patient=True)
    assert isinstance(hurried.error, RemotingConnectException)
    server = ScriptedServer(port)
    assert patient.error is None
    server.close()


class Sender(logging.Handler):
    """A handler of the log that itself uses the client whose lines it gets."""

    def __init__(self, instance: ClientInstance, address: str) -> None:
        super().__init__()
        self.instance, self.address = instance, address
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        Waiting(self.instance, self.address, 10)
        self.lines.append(record.getMessage())


@pytest.mark.timeout(20)
def test_a_handler_of_the_log_may_use_the_client_that_tells_of_a_silent_host(
    make_instance: InstanceMaker,
) -> None:
    log = logging.getLogger("rocketmq_py")
    with BlackHole() as hole:
        instance = make_instance("")
        log.addHandler(sender := Sender(instance, hole.address))
        try:
            assert isinstance(Waiting(instance, hole.address, 500).error, RemotingConnectException)
        finally:
            log.removeHandler(sender)
    assert len(sender.lines) == 1
    assert "does not answer" in sender.lines[0]


def test_each_waits_for_its_own_time_and_then_the_host_is_silent(
    make_instance: InstanceMaker,
) -> None:
    with BlackHole() as hole:
        instance = make_instance("")
        hasty = Waiting(instance, hole.address, 10)
        assert isinstance(hasty.error, RemotingConnectException)
        assert instance.connections.silent == frozenset()  # 10 ms prove nothing
        long = Waiting(instance, hole.address, 1_000)
        short = Waiting(instance, hole.address, 500)
        assert isinstance(short.error, RemotingConnectException)
        assert instance.connections.silent == {hole.address}
        assert not long.told.is_set()
        late = Waiting(instance, hole.address)
        assert late.told.is_set()
        assert isinstance(late.error, RemotingConnectException)
        assert isinstance(long.error, RemotingConnectException)


@pytest.mark.timeout(20)
def test_who_can_turn_to_another_server_is_told_as_soon_as_the_host_is_silent(
    make_instance: InstanceMaker,
) -> None:
    with BlackHole() as hole:
        instance = make_instance("")
        movable = [
            Waiting(instance, hole.address, 60_000, can_turn=True, size=10) for _ in range(100)
        ]
        bound = Waiting(instance, hole.address, 60_000)
        assert isinstance(Waiting(instance, hole.address, 500).error, RemotingConnectException)
        assert {type(one.error) for one in movable} == {RemotingConnectException}
        assert not bound.told.is_set()


def test_a_silent_host_is_tried_until_it_answers_and_told_of_twice(
    make_instance: InstanceMaker, caplog: pytest.LogCaptureFixture
) -> None:
    with BlackHole() as hole:
        instance = make_instance("", connect_timeout=50)
        assert isinstance(Waiting(instance, hole.address).error, RemotingConnectException)
        assert instance.connections.silent == {hole.address}
        for _ in range(3):
            error = Waiting(instance, hole.address).error
            instance.unreachable.failed("broker-a", "pull", error)
        patient = Waiting(instance, hole.address, patient=True)
        hole.end()
        server = ScriptedServer(hole.port)
        assert patient.error is None
        assert instance.connections.silent == frozenset()
        server.close()
    lines = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    prefix = f"server {hole.address} "
    told = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
    assert [line.split(":")[0][:18] for line in told] == [
        "does not answer",
        "answers again afte",
    ]


def test_a_silent_host_that_no_route_names_any_more_is_forgotten(
    make_instance: InstanceMaker,
) -> None:
    with BlackHole() as hole:
        instance = make_instance("", connect_timeout=50)
        assert isinstance(Waiting(instance, hole.address).error, RemotingConnectException)
        instance.connections.keep_only(["127.0.0.1:1"])
        assert instance.connections.silent == frozenset()


@pytest.mark.parametrize("limit", ["client_async_permits", "client_async_bytes"])
def test_what_waits_for_a_connection_is_bounded(make_instance: InstanceMaker, limit: str) -> None:
    with BlackHole() as hole:
        instance = make_instance("", **{limit: 2})
        kept = [Waiting(instance, hole.address, size=1) for _ in range(2)]
        refused = Waiting(instance, hole.address, size=1)
        assert isinstance(refused.error, RemotingTooMuchRequestException)
        instance.end(1)
        assert all(isinstance(one.error, RemotingConnectException) for one in kept)


def test_the_end_lets_everybody_go(make_instance: InstanceMaker) -> None:
    with BlackHole() as hole:
        instance = make_instance("")
        waiting = [Waiting(instance, hole.address, 60_000) for _ in range(3)]
        blocked: list[BaseException] = []

        def block() -> None:
            try:
                instance.connections.channel(hole.address, Wait(60_000))
            except RemotingConnectException as error:
                blocked.append(error)

        thread = threading.Thread(target=block)
        thread.start()
        instance.end(1)
        thread.join(30)
        assert [str(one.error).count("shut down") for one in waiting] == [1, 1, 1]
        assert len(blocked) == 1
        assert "shut down" in str(Waiting(instance, hole.address).error)


class Sockets:
    """Remembers the sockets that are made from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = self.made = list[socket.socket]()

        class Kept(socket.socket):
            def __init__(self, *args: Any, **settings: Any) -> None:  # Any: as of any socket
                super().__init__(*args, **settings)
                made.append(self)

        monkeypatch.setattr(socket, "socket", Kept)

    @property
    def open(self) -> list[socket.socket]:
        return [one for one in self.made if one.fileno() != -1]


def test_a_connection_that_opens_while_somebody_looks_for_one_is_the_only_one(
    cluster: ScriptedCluster, instance: ClientInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, others = Connections.get, list[Waiting]()

    def look_too_early(self: Connections, address: str) -> Channel | None:
        found = look(self, address)
        monkeypatch.setattr(Connections, "get", look)
        others.append(Waiting(instance, address))
        assert others[0].error is None
        return found

    monkeypatch.setattr(Connections, "get", look_too_early)
    late = Waiting(instance, cluster.brokers[0].address)
    assert late.error is None
    assert late.outcomes == others[0].outcomes


def test_a_try_at_a_host_that_no_route_names_any_more_ends_with_the_client(
    make_instance: InstanceMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BlackHole() as hole:
        instance = make_instance("", connect_timeout=60_000)
        sockets = Sockets(monkeypatch)
        assert isinstance(Waiting(instance, hole.address, 10).error, RemotingConnectException)
        instance.connections.keep_only(["127.0.0.1:1"])
        assert sockets.open
        instance.end(1)
        assert sockets.open == []


def test_who_takes_the_end_badly_leaves_no_connection_open(
    cluster: ScriptedCluster, make_instance: InstanceMaker
) -> None:
    address = cluster.brokers[0].address

    def take_it_badly(_channel: object, _error: object) -> None:
        raise RuntimeError("failed on purpose")

    with BlackHole() as hole:
        instance = make_instance("")
        instance.connections.reach(hole.address, Wait(60_000), take_it_badly)
        channel = instance.connections.channel(address, Wait(5_000))
        instance.end(1)
        assert not channel.is_open


class Restarting:
    """A server of this process that lets its clients wait."""

    def __init__(self) -> None:
        self.is_over = threading.Event()

    def connect(self, _mailbox: inproc.Mailbox, *, name: str) -> inproc.InprocConnection:
        assert self.is_over.wait(10)
        raise ConnectionRefusedError(f"it did not come back for {name}")

    def expect(self, client: inproc.LocalClient, *, name: str) -> None:
        """Note nobody."""


def test_a_server_of_this_process_that_lets_its_clients_wait_holds_up_nobody(
    make_instance: InstanceMaker,
) -> None:
    server, address = Restarting(), "restarting.invalid:1"
    instance = make_instance("")
    inproc.register(address, server)
    try:
        waiting = Waiting(instance, address)
        assert not waiting.told.is_set()
        assert isinstance(Waiting(instance, address, 10).error, RemotingConnectException)
        server.is_over.set()
        assert "did not come back" in str(waiting.error)
    finally:
        server.is_over.set()
        inproc.unregister(address, server)
