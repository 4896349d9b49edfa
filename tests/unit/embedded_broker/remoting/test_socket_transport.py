"""An accepted socket: what is told of it, and what becomes of bytes that the peer does not take."""

from __future__ import annotations

import errno
import gc
import socket
import warnings
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import cast
from weakref import ref

import pytest
from attrs import define, field

from embedded_broker.remoting import socket_transport
from embedded_broker.remoting.rate_limited_log import RateLimitedLog
from embedded_broker.remoting.server import listen
from embedded_broker.remoting.socket_loop import SocketLoop
from embedded_broker.remoting.socket_transport import Acceptor, Received, SocketTransport
from tests.socket_buffers import bound_buffers

GUARD_S = 20.0
BIG = 8 * 1024 * 1024
"""More than sockets take at once."""
READ_MAX = 256 * 1024
"""Most bytes that a loop reads at once."""

pytestmark = pytest.mark.usefixtures("either_loop")


@define(eq=False)
class Told(Received):
    """Keeps what it is told."""

    transport: SocketTransport | None = None
    data: bytearray = field(factory=bytearray)
    events: list[str] = field(factory=list)
    lost: Event = field(factory=Event)
    error: BaseException | None = None
    on_data: Callable[[bytes], None] = lambda _: None
    on_resume: Callable[[], None] = lambda: None

    def connection_made(self, transport: SocketTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.on_data(data)

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")
        self.on_resume()

    def connection_lost(self, error: BaseException | None) -> None:
        self.error = error
        self.lost.set()


@define(eq=False)
class Bench:
    """A loop that runs, a listener at it, and what a test asks of both."""

    loop: SocketLoop
    listener: socket.socket
    warnings: list[str] = field(factory=list)
    told: list[Told] = field(factory=list)
    acceptor: Acceptor | None = None

    def make(self) -> Received:
        self.told.append(Told())
        return self.told[-1]

    def warn(self, line: str) -> None:
        self.warnings.append(line)

    def do(self, work: Callable[[], object]) -> None:
        """Do something on the thread of the loop, and wait until it is done."""
        done = Event()
        failed: list[Exception] = []

        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - raised by who asked
                failed.append(error)

        self.loop.call_soon(run)
        self.loop.call_behind(done.set)
        assert done.wait(GUARD_S)
        if failed:
            raise failed[0]

    def dial(self) -> tuple[socket.socket, Told, SocketTransport]:
        """Open a connection: the peer's socket, who is told of it, and its transport."""
        before = len(self.told)
        peer = socket.create_connection(self.listener.getsockname(), GUARD_S)
        self.settle(lambda: any(told.transport for told in self.told[before:]))
        told = self.told[-1]
        assert told.transport is not None
        bound_buffers(peer, told.transport._socket)
        return peer, told, told.transport

    def settle(self, is_so: Callable[[], bool]) -> None:
        """Let the loop go on until something is so."""
        for _ in range(200_000):
            if is_so():
                return
            self.do(lambda: None)
        raise AssertionError("it never was so")


@pytest.fixture
def bench(either_loop: str) -> Iterator[Bench]:
    loop, listener = SocketLoop(), listen("127.0.0.1", 0)
    listener.setblocking(False)
    bench = Bench(loop, listener)
    running = Thread(target=loop.run)
    running.start()
    warnings = cast("RateLimitedLog", bench)

    def accept() -> None:
        bench.acceptor = Acceptor(loop, listener, bench.make, warnings)

    bench.do(accept)
    yield bench
    for told in bench.told:
        if told.transport is not None:
            bench.do(told.transport.abort)
            assert told.lost.wait(GUARD_S)
    assert bench.acceptor is not None
    bench.do(bench.acceptor.close)
    loop.stop()
    running.join(GUARD_S)
    loop.close()
    listener.close()


def read_all(peer: socket.socket) -> bytes:
    got = bytearray()
    while data := peer.recv(1 << 20):
        got += data
    return bytes(got)


def pattern(size: int, step: int = 7) -> bytes:
    return bytes(range(0, 256, step)) * (size // len(range(0, 256, step)))


def test_names_of_both_ends(bench: Bench) -> None:
    peer, _, transport = bench.dial()
    with peer:
        assert transport.remote == peer.getsockname()
        assert transport.local == peer.getpeername()


def test_what_the_peer_does_not_take_waits_as_it_is_and_arrives_in_order(bench: Bench) -> None:
    peer, told, transport = bench.dial()
    first, second, third = pattern(BIG), pattern(BIG, 5), [pattern(1000, 3)] * 200
    waiting = []

    def write() -> None:
        transport.write(first)
        transport.write(memoryview(second))
        transport.writelines(third)
        waiting.append(transport.get_write_buffer_size())
        transport.close()

    with peer:
        bench.do(write)
        assert BIG < waiting[0] <= len(first) + len(second) + sum(map(len, third))
        assert told.events == ["pause"]
        assert transport.is_closing()
        assert not told.lost.is_set()
        assert read_all(peer) == first + second + b"".join(third)
    assert told.lost.wait(GUARD_S)
    assert told.error is None
    assert told.events == ["pause", "resume"]
    assert transport.get_write_buffer_size() == 0


def test_parts_leave_together_and_what_is_left_of_them_behind(bench: Bench) -> None:
    peer, told, transport = bench.dial()
    parts = [pattern(100_000, step) for step in range(1, 200)]
    with peer:
        bench.do(lambda: transport.writelines(parts))
        assert transport.get_write_buffer_size()
        bench.do(transport.close)
        assert read_all(peer) == b"".join(parts)
    assert told.lost.wait(GUARD_S)


def test_small_parts_leave_at_once(bench: Bench) -> None:
    peer, told, transport = bench.dial()
    with peer:
        bench.do(lambda: transport.writelines([b"one", b"two"]))
        assert transport.get_write_buffer_size() == 0
        assert peer.recv(6, socket.MSG_WAITALL) == b"onetwo"
    assert told.events == []


def test_who_writes_is_told_above_its_limit_and_again_when_a_quarter_is_left(bench: Bench) -> None:
    peer, told, transport = bench.dial()
    transport.set_write_buffer_limits(2 * BIG)
    with peer:
        bench.do(lambda: transport.write(bytes(BIG)))
        assert told.events == []
        bench.do(lambda: transport.write(bytes(4 * BIG)))
        assert told.events == ["pause"]
        left = 5 * BIG
        while left:
            if transport.get_write_buffer_size() > BIG // 2:
                assert told.events == ["pause"]
            left -= len(peer.recv(left))
        bench.settle(lambda: told.events == ["pause", "resume"])


def test_abort_drops_what_waits_and_nothing_is_told_or_written_after_it(bench: Bench) -> None:
    peer, told, transport = bench.dial()

    def end() -> None:
        transport.write(bytes(BIG))
        transport.abort()
        transport.abort()
        transport.write(b"late")
        transport.writelines([b"later", b"still"])
        transport.resume_reading()

    with peer:
        bench.do(end)
        assert told.lost.wait(GUARD_S)
        assert transport.get_write_buffer_size() == 0
        assert len(read_all(peer)) < BIG
    assert told.error is None


def test_a_reset_is_seen_by_the_peer(bench: Bench) -> None:
    peer, told, transport = bench.dial()

    def end() -> None:
        transport.reset_on_close()
        transport.abort()
        transport.reset_on_close()

    with peer:
        bench.do(end)
        assert told.lost.wait(GUARD_S)
        with pytest.raises(ConnectionResetError):
            peer.recv(1)


def test_a_peer_that_says_goodbye_gets_what_waits_for_it(bench: Bench) -> None:
    peer, told, transport = bench.dial()
    with peer:
        bench.do(lambda: transport.write(bytes(BIG)))
        peer.shutdown(socket.SHUT_WR)
        bench.settle(transport.is_closing)
        assert len(read_all(peer)) == BIG
    assert told.lost.wait(GUARD_S)
    assert told.error is None


@pytest.mark.parametrize("waiting", [0, BIG])
def test_a_peer_that_resets_is_lost_with_the_reason(bench: Bench, waiting: int) -> None:
    peer, told, transport = bench.dial()
    bench.do(lambda: transport.write(bytes(waiting)))
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, socket_transport._LINGER_NOT)
    peer.close()
    assert told.lost.wait(GUARD_S)
    assert isinstance(told.error, ConnectionError)


def test_a_peer_that_resets_is_noticed_by_the_next_write_while_nothing_is_read(
    bench: Bench,
) -> None:
    peer, told, transport = bench.dial()
    bench.do(transport.pause_reading)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, socket_transport._LINGER_NOT)
    peer.close()
    while not transport.is_closing():
        bench.do(lambda: transport.write(b"x"))
    assert told.lost.wait(GUARD_S)
    assert isinstance(told.error, ConnectionError)


def test_nothing_is_read_during_a_pause_and_everything_after_it(bench: Bench) -> None:
    peer, told, transport = bench.dial()
    with peer:
        bench.do(transport.pause_reading)
        bench.do(transport.pause_reading)
        peer.sendall(b"early")
        bench.do(lambda: None)
        assert told.data == b""
        bench.do(transport.resume_reading)
        bench.settle(lambda: told.data == b"early")


def test_nothing_is_read_from_who_is_being_closed(bench: Bench) -> None:
    peer, told, transport = bench.dial()

    def close() -> None:
        transport.write(bytes(BIG))
        transport.close()
        transport.resume_reading()

    with peer:
        bench.do(close)
        peer.sendall(b"late")
        assert len(peer.recv(BIG)) > 0
        bench.do(lambda: None)
    assert told.lost.wait(GUARD_S)
    assert told.data == b""


def test_a_long_request_comes_in_pieces(bench: Bench) -> None:
    peer, told, _ = bench.dial()
    sizes: list[int] = []
    told.on_data = lambda data: sizes.append(len(data))
    data = pattern(BIG)
    with peer:
        peer.sendall(data)
        bench.settle(lambda: len(told.data) == len(data))
    assert bytes(told.data) == data
    assert max(sizes) <= READ_MAX


def test_bytes_that_cannot_be_taken_end_that_connection_and_no_other(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    other, heard, _ = bench.dial()
    peer, told, _ = bench.dial()

    def fail(_: bytes) -> None:
        raise RuntimeError("not these")

    told.on_data = fail
    with peer, other:
        peer.sendall(b"x")
        assert told.lost.wait(GUARD_S)
        assert "not these" in str(told.error)
        assert peer.recv(1) == b""
        other.sendall(b"y")
        bench.settle(lambda: heard.data == b"y")
    assert "its work failed" in caplog.text


class Odd(BaseException):
    """As a test's own skip or fail is, which a hook of a broker may raise."""


def test_a_peer_that_nobody_serves_is_closed(bench: Bench) -> None:
    def fail() -> Received:
        raise Odd("no more")

    acceptor = bench.acceptor
    assert acceptor is not None
    make, acceptor._make = acceptor._make, fail
    with socket.create_connection(bench.listener.getsockname(), GUARD_S) as peer:
        assert peer.recv(1) == b""
    assert "cannot be served: Odd('no more')" in bench.warnings[0]
    acceptor._make = make
    peer, _, _ = bench.dial()
    peer.close()


def test_who_cannot_be_read_from_is_told_of_its_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: SocketTransport) -> None:
        raise OSError(errno.ENOSPC, "no more to watch")

    monkeypatch.setattr(SocketTransport, "resume_reading", fail)
    with socket.create_connection(bench.listener.getsockname(), GUARD_S) as peer:
        assert peer.recv(1) == b""
    told = bench.told[0]
    assert told.lost.wait(GUARD_S)
    assert isinstance(told.error, OSError)


def test_who_has_not_begun_when_the_listener_closes_never_begins(bench: Bench) -> None:
    acceptor = bench.acceptor
    assert acceptor is not None
    with socket.socket() as peer:
        peer.settimeout(GUARD_S)

        def accept_and_close() -> None:
            peer.connect(bench.listener.getsockname())
            acceptor._accept()
            acceptor.close()

        bench.do(accept_and_close)
        assert peer.recv(1) == b""
    assert [told.transport for told in bench.told] == [None]


@pytest.mark.parametrize("while_closing", [False, True])
def test_who_fails_to_go_on_is_ended(bench: Bench, *, while_closing: bool) -> None:
    peer, told, transport = bench.dial()

    def fail() -> None:
        raise Odd("no more")

    def write() -> None:
        transport.write(bytes(BIG))
        if while_closing:
            transport.close()

    told.on_resume = fail
    with peer:
        bench.do(write)
        assert len(read_all(peer)) <= BIG
    assert told.lost.wait(GUARD_S)
    assert isinstance(told.error, Odd)


def test_a_peer_that_has_gone_before_it_is_accepted_keeps_its_name(bench: Bench) -> None:
    # Linux still gives what it sent: whoever looks where a request comes from must not see another.
    def come_and_go() -> None:
        with socket.socket() as peer:
            peer.bind(("127.0.0.2", 0))
            peer.connect(bench.listener.getsockname())
            peer.sendall(b"x")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, socket_transport._LINGER_NOT)

    bench.do(come_and_go)
    bench.settle(lambda: bool(bench.told) and bench.told[0].lost.is_set())
    transport = bench.told[0].transport
    assert transport is not None
    assert transport.remote[0] == "127.0.0.2"
    assert bytes(bench.told[0].data) in {b"x", b""}


def test_peers_wait_while_the_system_has_no_room_for_a_socket(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_transport, "ACCEPT_AGAIN_S", 0.0)
    acceptor = bench.acceptor
    assert acceptor is not None
    full = FullListener(acceptor._socket)
    acceptor._socket = cast("socket.socket", full)
    peer, told, transport = bench.dial()
    with peer:
        bench.do(lambda: transport.write(b"welcome"))
        assert peer.recv(100) == b"welcome"
    assert told.lost.wait(GUARD_S)
    assert len(bench.warnings) == full.refuses
    assert "no peer is accepted" in bench.warnings[0]
    assert "Too many open files" in bench.warnings[0]


def test_while_there_is_no_room_nobody_asks_for_it_again_and_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_transport, "ACCEPT_AGAIN_S", 3600.0)
    acceptor = bench.acceptor
    assert acceptor is not None
    acceptor._socket = cast("socket.socket", FullListener(acceptor._socket))
    with socket.create_connection(bench.listener.getsockname(), GUARD_S):
        bench.settle(lambda: bool(bench.warnings))
        for _ in range(20):
            bench.do(lambda: None)
        assert len(bench.warnings) == 1
    bench.do(acceptor.close)
    bench.do(acceptor._watch)  # as when that time is over


def test_who_has_reset_before_it_is_accepted_holds_up_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_transport, "ACCEPT_AGAIN_S", 3600.0)
    acceptor = bench.acceptor
    assert acceptor is not None
    full = FullListener(acceptor._socket, ConnectionResetError(errno.ECONNRESET, "gone"))
    acceptor._socket = cast("socket.socket", full)
    peer, _, _ = bench.dial()
    peer.close()
    assert bench.warnings == []


class FullListener:
    """A listener at a system that has room for a socket at the third time only."""

    refuses = 2

    def __init__(self, listener: socket.socket, error: OSError | None = None) -> None:
        self._listener = listener
        self._left = self.refuses
        self._error = error or OSError(errno.EMFILE, "Too many open files")
        self.fileno, self.close = listener.fileno, listener.close

    def accept(self) -> tuple[socket.socket, object]:
        if self._left:
            self._left -= 1
            raise self._error
        return self._listener.accept()


def test_many_peers_at_once_are_all_accepted(bench: Bench) -> None:
    peers = [socket.create_connection(bench.listener.getsockname(), GUARD_S) for _ in range(300)]
    bench.settle(lambda: sum(told.transport is not None for told in bench.told) == len(peers))
    names = {told.transport.remote for told in bench.told if told.transport is not None}
    assert names == {peer.getsockname() for peer in peers}
    for peer in peers:
        peer.close()


def test_nothing_of_a_connection_that_has_ended_waits_for_the_garbage_collector(
    bench: Bench,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what other tests have left
        gc.collect()
    gc.disable()
    try:
        peer, told, transport = bench.dial()
        peer.close()
        assert told.lost.wait(GUARD_S)
        bench.do(lambda: None)
        bench.told.clear()
        protocol, below = ref(told), ref(transport)
        del told, transport
        bench.do(lambda: None)
        assert (protocol(), below()) == (None, None)
    finally:
        gc.enable()
