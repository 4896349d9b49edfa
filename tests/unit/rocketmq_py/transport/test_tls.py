"""A socket with TLS takes and gives bytes as a plain one does, however slowly they move."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest
from attrs import define, field

from rocketmq_py.transport.io_thread import IoThread
from rocketmq_py.transport.tls import Securing, TlsSocket
from tests.certificates import Certificates

GUARD_S = 20.0


@define
class Server:
    """The other end, moved by hand."""

    sock: socket.socket
    context: ssl.SSLContext
    incoming: ssl.MemoryBIO = field(factory=ssl.MemoryBIO)
    outgoing: ssl.MemoryBIO = field(factory=ssl.MemoryBIO)
    secure: ssl.SSLObject = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.sock.setblocking(False)
        self.secure = self.context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def move(self) -> bytes:
        """Take what arrived, answer, and give what it means."""
        with contextlib.suppress(BlockingIOError):
            while data := self.sock.recv(4096):
                self.incoming.write(data)
        found = b""
        try:
            self.secure.do_handshake()
            while part := self.secure.read(65_536):
                found += part
        except ssl.SSLWantReadError:
            pass
        self.flush()
        return found

    def flush(self) -> None:
        data = self.outgoing.read()
        self.sock.setblocking(True)
        self.sock.sendall(data)
        self.sock.setblocking(False)


@pytest.fixture
def ends(certificates: Certificates) -> Iterator[tuple[TlsSocket, Server]]:
    """Two ends after their handshake; little fits between them."""
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    near.setblocking(False)
    context = ssl.create_default_context(cafile=str(certificates.authority))
    client = TlsSocket(near, context, "127.0.0.1")
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificates.server.chain, certificates.server.key)
    server = Server(far, theirs)
    while not client.shake_hands():
        server.move()
    server.move()
    with near, far:
        yield client, server


@pytest.mark.parametrize("seed", range(5))
def test_what_a_slow_server_takes_is_what_was_sent(
    ends: tuple[TlsSocket, Server], seed: int
) -> None:
    """The rest of what was not taken is sent again by whoever sends, as with a plain socket."""
    client, server = ends
    chance = random.Random(seed)
    data = chance.randbytes(700_000)
    came, at, blocked = b"", 0, 0
    while at < len(data):
        try:
            at += client.send(memoryview(data)[at : at + chance.choice([1, 2, 9, 70_000, 200_000])])
        except BlockingIOError:
            blocked += 1
        if chance.random() < 0.7:
            came += server.move()
    while client.has_unwritten:
        came += server.move()
        with contextlib.suppress(BlockingIOError):
            client.send(b"")
    came += server.move()
    assert came == data
    assert blocked


def test_what_is_taken_has_left(ends: tuple[TlsSocket, Server]) -> None:
    """Nobody has to come again for bytes that `send` has counted."""
    client, server = ends
    data = bytes(300_000)
    sent = client.send(data)
    assert 0 < sent < len(data)
    came = b""
    while sent < len(data):
        came += server.move()
        with contextlib.suppress(BlockingIOError):
            sent += client.send(memoryview(data)[sent:])
    while len(came) < len(data):
        came += server.move()
    assert came == data


def test_nothing_readable_stays_inside(ends: tuple[TlsSocket, Server]) -> None:
    """A caller that waits for the descriptor would not see what was left there."""
    client, server = ends
    for _ in range(3):
        server.secure.write(b"x" * 5_000)
    server.flush()
    came = b""
    while select.select([client], [], [], 0)[0]:
        with contextlib.suppress(BlockingIOError):
            came += client.recv(100)
    assert came == b"x" * 15_000


def test_a_part_of_a_record_is_nothing_yet(ends: tuple[TlsSocket, Server]) -> None:
    client, server = ends
    with contextlib.suppress(BlockingIOError):
        client.recv(65_536)  # tickets of the server
    server.secure.write(b"y" * 1_000)
    record = server.outgoing.read()
    server.sock.send(record[:500])
    with pytest.raises(BlockingIOError):
        client.recv(65_536)
    server.sock.send(record[500:])
    assert client.recv(65_536) == b"y" * 1_000


@pytest.mark.parametrize("politely", [True, False])
def test_the_end_is_the_end(ends: tuple[TlsSocket, Server], politely: bool) -> None:
    client, server = ends
    with contextlib.suppress(BlockingIOError):
        client.recv(65_536)
    if politely:
        with contextlib.suppress(ssl.SSLError):
            server.secure.unwrap()
        server.flush()
    else:
        server.sock.shutdown(socket.SHUT_WR)
    assert client.recv(65_536) == b""


def test_bytes_that_were_changed_on_the_way_are_an_error(ends: tuple[TlsSocket, Server]) -> None:
    client, server = ends
    with contextlib.suppress(BlockingIOError):
        client.recv(65_536)
    server.secure.write(b"z" * 100)
    record = bytearray(server.outgoing.read())
    record[-1] ^= 1
    server.sock.send(record)
    with pytest.raises(OSError, match=r"(?i)mac|decrypt"):
        client.recv(65_536)


# -- the handshake ------------------------------------------------------------------------------


class Timer:
    """Runs nothing by itself."""

    def __init__(self) -> None:
        self.tasks: list[object] = []
        self.cancelled = 0

    def schedule(self, _ms: float, task: object) -> Timer:
        self.tasks.append(task)
        return self

    def cancel(self) -> None:
        self.cancelled += 1


@define
class Outcome:
    """How a handshake ended."""

    told: threading.Event = field(factory=threading.Event)
    results: list[tuple[TlsSocket | None, OSError | None]] = field(factory=list)

    def __call__(self, sock: TlsSocket | None, error: OSError | None) -> None:
        self.results.append((sock, error))
        self.told.set()


@pytest.fixture
def begun(
    certificates: Certificates,
) -> Iterator[tuple[Securing, socket.socket, Timer, Outcome]]:
    """A handshake whose hello is on its way."""
    io_thread = IoThread("io")
    near, far = socket.socketpair()
    near.setblocking(False)
    context = ssl.create_default_context(cafile=str(certificates.authority))
    timer, outcome = Timer(), Outcome()
    securing = Securing(
        TlsSocket(near, context, "127.0.0.1"),
        1000,
        io_thread=io_thread,
        schedule=timer.schedule,
        done=outcome,
    )
    with near, far:
        yield securing, far, timer, outcome
        securing.cancel()
        io_thread.close(GUARD_S)


def test_a_handshake_ends_on_the_io_thread(
    begun: tuple[Securing, socket.socket, Timer, Outcome], certificates: Certificates
) -> None:
    securing, far, timer, outcome = begun
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificates.server.chain, certificates.server.key)
    far.settimeout(GUARD_S)
    theirs.wrap_socket(far, server_side=True).detach()
    assert outcome.told.wait(GUARD_S)
    sock, error = outcome.results[0]
    assert (sock is not None, error, securing.is_over) == (True, None, True)
    assert timer.cancelled == 1


def test_a_server_that_closes_ends_the_handshake(
    begun: tuple[Securing, socket.socket, Timer, Outcome],
) -> None:
    _, far, _, outcome = begun
    far.shutdown(socket.SHUT_RDWR)
    assert outcome.told.wait(GUARD_S)
    assert isinstance(outcome.results[0][1], OSError)


def test_a_silent_server_ends_it_with_its_time(
    begun: tuple[Securing, socket.socket, Timer, Outcome],
) -> None:
    securing, _, timer, outcome = begun
    (late,) = timer.tasks
    late()  # type: ignore[operator]
    assert isinstance(outcome.results[0][1], TimeoutError)
    securing.cancel()
    securing.on_readable()
    assert len(outcome.results) == 1
