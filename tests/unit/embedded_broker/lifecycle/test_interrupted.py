"""Brokers whose start or end is interrupted, and whose process has children."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.errors import BrokerStateError
from embedded_broker.lifecycle.flusher import Flusher
from embedded_broker.lifecycle.node import BrokerNode
from embedded_broker.lifecycle.runtime import Runtime
from embedded_broker.remoting import server as server_module
from embedded_broker.remoting import socket_loop
from embedded_broker.remoting.inproc import InprocAdapter
from embedded_broker.remoting.server import TcpServer
from rocketmq_py.errors import ConfigError
from tests.unit.embedded_broker.peers import RawClient, open_files

THREADS = ("embedded-broker-tcp", "embedded-broker-clock", "embedded-broker-flush")
GUARD_S = 20.0


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Every test leaves the threads and files that it found."""
    with EmbeddedBroker():  # what the first one opens for all
        pass
    threads, files = set(threading.enumerate()), open_files()
    yield
    assert set(threading.enumerate()) <= threads
    assert open_files() <= files


@pytest.mark.parametrize("name", THREADS)
def test_a_thread_that_cannot_be_started_is_what_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    start = Thread.start

    def refuse(thread: Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        EmbeddedBroker(inproc=False).start()


@pytest.mark.parametrize("name", THREADS)
def test_a_ctrl_c_while_a_thread_begins_is_a_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    start = Thread.start

    def interrupt(thread: Thread) -> None:
        start(thread)
        if thread.name == name:
            raise KeyboardInterrupt

    monkeypatch.setattr(Thread, "start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        EmbeddedBroker(inproc=False).start()


def test_a_thread_of_sockets_that_begins_late_hears_that_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, may_begin = TcpServer._run, Event()

    def begin_late(server: TcpServer, loop: socket_loop.SocketLoop) -> None:
        assert may_begin.wait(GUARD_S)
        run(server, loop)

    def close(server: TcpServer, *, reset: bool = False) -> None:
        may_begin.set()
        closed(server, reset=reset)

    closed = TcpServer.close
    monkeypatch.setattr(TcpServer, "_run", begin_late)
    monkeypatch.setattr(TcpServer, "close", close)
    monkeypatch.setattr(server_module, "START_S", 0.0)
    with pytest.raises(BrokerStateError, match="did not start within"):
        EmbeddedBroker(inproc=False).start()


@pytest.mark.parametrize(
    ("owner", "name"), [(Runtime, "close"), (Flusher, "close"), (BrokerNode, "_leave")]
)
def test_a_close_that_was_interrupted_is_done_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner: type, name: str
) -> None:
    broker = EmbeddedBroker(store=tmp_path, topics=["T"], inproc=False)
    broker.start()
    broker.send("T", b"kept")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            broker.close()
    running = [broker.is_running]
    broker.close()
    running.append(broker.is_running)
    assert running == [True, False]
    with EmbeddedBroker(store=tmp_path) as again:
        assert again.recovery.clean
        assert [one.body for one in again.messages.in_topic("T")] == [b"kept"]


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_what_cannot_be_ended_keeps_nothing_else_going(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    def fail(adapter: InprocAdapter) -> None:
        closed.append(adapter)
        close(adapter)  # or a later broker of this process could not have its port
        raise OSError("it does not end")

    close = InprocAdapter.close
    monkeypatch.setattr(InprocAdapter, "close", fail)
    broker = EmbeddedBroker()
    broker.start()
    with pytest.raises(OSError, match="it does not end"):
        broker.close()
    assert len(closed) == 2  # of the name server and of the broker


def test_when_its_thread_is_stuck_a_server_lets_go_of_its_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = EmbeddedBroker(inproc=False)
    broker.start()
    server, may_go_on, is_stuck = broker._running_brokers._running()._tcp, Event(), Event()
    assert server is not None
    thread = server._thread
    assert thread is not None

    def stay() -> None:
        is_stuck.set()
        may_go_on.wait(GUARD_S)

    server.call_soon(stay)
    assert is_stuck.wait(GUARD_S)
    with monkeypatch.context() as patch:
        patch.setattr(server_module, "CLOSE_S", 0.0)
        broker.close()
    broker.start()
    broker.close()
    may_go_on.set()
    thread.join(GUARD_S)


def test_without_descriptors_an_address_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> socket.socket:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:0.*Too many open files$"):
        server_module.listen("127.0.0.1", 0)


@contextmanager
def forked_child() -> Iterator[None]:
    """A child of this process that does nothing, and lives as long as the body."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    try:
        yield
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


def test_a_child_that_has_not_closed_its_copy_yet_keeps_no_port_open() -> None:
    broker = EmbeddedBroker(inproc=False)
    broker.start()
    server, address = broker._running_brokers._running()._tcp, broker.addr
    assert server is not None
    with server._listeners[address].dup():  # as of a child that the system has not run yet
        broker.close()
        with pytest.raises(ConnectionRefusedError):
            RawClient(address)


def is_ended(peer: RawClient) -> bool:
    return peer.socket.recv(1) == b""


def is_reset(peer: RawClient) -> bool:
    with pytest.raises(ConnectionResetError):
        peer.socket.recv(1)
    return True


@pytest.mark.parametrize(
    ("end", "sees"), [(EmbeddedBroker.close, is_ended), (EmbeddedBroker.crash, is_reset)]
)
def test_peers_see_the_end_while_a_forked_child_lives_on(
    end: Callable[[EmbeddedBroker], None], sees: Callable[[RawClient], bool]
) -> None:
    broker = EmbeddedBroker(topics=["T"], inproc=False)
    broker.start()
    address = broker.addr
    peer = RawClient(address)
    peer.route()  # it is served
    with forked_child():
        end(broker)
        assert sees(peer)
        host, _, port = address.rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
        broker.restart()
        assert broker.addr == address
        broker.close()
    peer.close()
