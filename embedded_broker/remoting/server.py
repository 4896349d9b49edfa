"""Clients over TCP: one asyncio loop on a thread of its own carries bytes to the endpoints.

Answers: how sockets become frames and answers become writes, on uvloop when it is installed.
Imported only when a broker listens, because asyncio is slow to import. A long answer waits here and
not in transports, and is written in pieces: so it is in memory once, however many get it, and
nobody waits until all of it is written. Must not know: requests. Read on: ``turns.py`` for who is
served next, ``traffic.py`` for what all connections may hold up together,
``endpoint.py`` (``receive``), and ``inproc.py`` for clients of the same process.
"""

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from threading import Event, Lock, Thread, get_ident
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from embedded_broker.door import Door
from embedded_broker.errors import BrokerStateError
from embedded_broker.remoting.endpoint import Connection, Endpoint, SharedBytes
from embedded_broker.remoting.rare_lines import RareLines
from embedded_broker.remoting.spare_memory import give_back_soon
from embedded_broker.remoting.traffic import Traffic
from embedded_broker.remoting.turns import TURN_NS, Turns
from embedded_broker.settings.tls import Tls, TlsMode
from rocketmq_py.clock import monotonic_ns
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.frame import FrameDecoder

if TYPE_CHECKING:
    from embedded_broker.remoting.tls import TlsTransport

logger = logging.getLogger(__name__)

BACKLOG = 512
HELLO: Final = 0x16
"""The first byte of TLS; a frame begins with 0, since it is shorter than 16 MiB."""
START_S = 10.0
HAND_OVER_S = 5.0
CLOSE_S = 10.0
WRITE_BUFFER_PAUSE = 4 * 1024 * 1024
"""A peer that leaves this much unread is not read from until it catches up."""
WRITE_BUFFER_MAX = 64 * 1024 * 1024
"""A peer that leaves this much unread is disconnected."""
PIECE = 128 * 1024
"""Long answers are written in pieces of this size, each when the transport has taken the last."""
LONG = 4 * PIECE
"""So many bytes are a long answer, or a long request."""
APART = 4096
"""Answers of this size are not joined: the copy costs more than it saves."""
ACCEPT_ROUNDS = 5
GIVE_BACK_S = 1.0
STEP_NS = 500_000
"""Only what takes longer is counted as time of a turn."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket; ``ConfigError`` says why the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            "address", f"{host}:{port}", f"{error.strerror or error}. Port 0 takes a free port"
        ) from error
    return listener


class Open(Protocol):
    """A connection, as far as its end goes."""

    def abort(self) -> None:
        """Close at once. On the loop's thread."""

    def reset_on_close(self) -> None:
        """Let the kernel send a reset when the socket closes. On the loop's thread."""


class TcpServer:
    """Accepts on every added listener until ``close``; owns the loop, its thread, the sockets.

    Addresses may come and go while it runs: ``open`` and ``close_address``.
    """

    def __init__(self, traffic: Traffic | None = None, tls: Tls | None = None) -> None:
        self.traffic = Traffic() if traffic is None else traffic
        self.tls_mode: TlsMode = "disabled" if tls is None else tls.mode
        self.tls = None if tls is None else tls.make_context()
        self.slow = RareLines(logger)
        """What is told of peers that do not read."""
        self.refused = RareLines(logger)
        """What is told of peers that speak what is not served."""
        self._listeners: dict[str, socket.socket] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._protocols: dict[str, Callable[[], asyncio.BaseProtocol]] = {}
        self._servers: dict[str, asyncio.Server] = {}
        self._connections: dict[Open, str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writing: deque[TcpConnection] = deque()
        self.takes_parts = False
        """Whether transports take several answers at once without joining them.

        asyncio's own either join them, or forget to say that they are full (gh-127655).
        """
        self.turns = Turns(self.call_soon)
        self._doors: set[Door] = set()
        self._is_giving_back = False
        self.traffic.on_spare = self._give_back_later
        self._stop: asyncio.Event | None = None
        self._someone_left: asyncio.Event | None = None
        self._reset = False
        self._thread: Thread | None = None
        self._ready = Event()
        self._failure: BaseException | None = None
        self.thread_id = 0

    def add(self, address: str, listener: socket.socket) -> None:
        """Take over a listening socket; peers wait in its backlog until ``start`` or ``open``."""
        listener.setblocking(False)
        self._listeners[address] = listener

    def serve(self, address: str, endpoint: Endpoint) -> None:
        """Say who answers on the listener of an address. Before ``start`` or ``open``."""
        self._endpoints[address] = endpoint
        self.serve_by(address, partial(SocketProtocol, self, endpoint, address))

    def serve_by(self, address: str, make: Callable[[], asyncio.BaseProtocol]) -> None:
        """Say who serves a socket that is accepted at an address, whatever it speaks there."""
        self._protocols[address] = make

    def endpoint(self, address: str) -> Endpoint:
        """Give who answers at an address."""
        return self._endpoints[address]

    def start(self) -> None:
        """Accept connections; returns when every listener is served."""
        self._thread = Thread(target=self._run, name="embedded-broker-tcp", daemon=True)
        self._thread.start()
        if not self._ready.wait(START_S):
            raise BrokerStateError(f"the TCP thread did not start within {START_S} s")
        if self._failure is not None:
            raise BrokerStateError(f"the TCP thread failed: {self._failure}") from self._failure

    def open(self, address: str) -> None:
        """Accept at one more address while the others go on; returns when it is served."""
        self._on_loop(self._open(address))

    def close_address(self, address: str) -> None:
        """Close one listener and its connections while the others go on; idempotent."""
        if self._loop is not None and address in self._listeners:
            self._on_loop(self._close_address(address))
        else:
            self._close_listener(address)

    def _on_loop(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` on the loop's thread and wait for it, bounded."""
        loop = self._loop
        if loop is None:
            work.close()
            raise BrokerStateError("the TCP thread does not run")
        asyncio.run_coroutine_threadsafe(work, loop).result(CLOSE_S)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Run ``call`` on the loop's thread; nothing happens after ``close``."""
        loop = self._loop
        if loop is None:
            return
        # The loop's own thread is awake: two system calls less.
        is_here = self.thread_id == get_ident()
        try:
            (loop.call_soon if is_here else loop.call_soon_threadsafe)(call)
        except RuntimeError:  # the loop closed in between: its sockets are gone as well
            logger.debug("the TCP loop is closed")

    def write_later(self, connection: "TcpConnection") -> None:
        """Let a connection write its next piece when it is its turn. On the loop's thread."""
        if not self._writing:
            self.call_soon(self._write_pieces)
        self._writing.append(connection)

    def _write_pieces(self) -> None:
        """Write pieces in turn, a few milliseconds long; then others are served."""
        writing, until_ns = self._writing, monotonic_ns() + TURN_NS
        while writing:
            if writing[0].write_piece():
                writing.append(writing[0])
            writing.popleft()
            if monotonic_ns() >= until_ns:
                break
        if writing:
            self.call_soon(self._write_pieces)

    def _give_back_later(self) -> None:
        """Give memory back in a while: connections that were closed still have some."""
        if self._loop is not None and not self._is_giving_back:
            self._is_giving_back = True
            self._loop.call_later(GIVE_BACK_S, self._give_back)

    def _give_back(self) -> None:
        self._is_giving_back = False
        give_back_soon()

    def hand_over(self) -> None:
        """Wait until what was delivered before this call is written to its socket."""
        if self._loop is None or get_ident() == self.thread_id:
            return
        written = Event()
        self.call_soon(written.set)
        written.wait(HAND_OVER_S)

    def close(self, *, reset: bool = False) -> None:
        """Close listeners and connections, join the thread; idempotent.

        With ``reset`` peers see a connection reset instead of an end.
        """
        self._reset = reset
        thread, self._thread = self._thread, None
        if thread is None:
            self._close_listeners()
            return
        stop = self._stop
        if stop is not None:
            self.call_soon(stop.set)
        thread.join(CLOSE_S)
        if thread.is_alive():
            logger.error("the TCP thread did not end within %s s", CLOSE_S)

    def adopt(self, connection: Open, address: str) -> None:
        """Note an open connection, to be closed with its address."""
        self._connections[connection] = address
        if address not in self._servers:  # accepted while the address was being closed
            self._abort(connection)

    def has_room(self) -> bool:
        """Say whether one more connection is served; who is refused is told of now and then."""
        most = self.traffic.connections_max
        if len(self._connections) < most:
            return True
        self.refused.warn(f"a connection is refused: {most} are open (maxConnections)")
        return False

    def forget(self, connection: Open) -> None:
        """Note that a connection has ended."""
        self._connections.pop(connection, None)
        if self._someone_left is not None:
            self._someone_left.set()

    def _run(self) -> None:
        self.thread_id = get_ident()
        try:
            _run_loop(self._serve())
        except Exception as error:
            self._failure = error
            logger.exception("the TCP thread ended")
        finally:
            self._close_listeners()
            for door in self._doors:
                door.use_turns(None)
            self._loop = None
            self._ready.set()

    def _close_listeners(self) -> None:
        for address in list(self._listeners):
            self._close_listener(address)

    def _close_listener(self, address: str) -> None:
        self._endpoints.pop(address, None)
        self._protocols.pop(address, None)
        listener = self._listeners.pop(address, None)
        if listener is not None:
            listener.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._someone_left = asyncio.Event()
        for address in self._protocols:
            await self._open(address)
        self._loop = asyncio.get_running_loop()
        self.takes_parts = not isinstance(self._loop, asyncio.BaseEventLoop)
        self._ready.set()
        await self._stop.wait()
        await _let_accepts_end()
        for address in list(self._servers):
            self._servers.pop(address).close()
        await self._end(set(self._connections.values()))

    async def _open(self, address: str) -> None:
        endpoint = self._endpoints.get(address)
        if endpoint is not None and endpoint.door not in self._doors:
            self._doors.add(endpoint.door)
            endpoint.door.use_turns(partial(self.turns.wait, again=True))

        def protocol() -> asyncio.BaseProtocol:
            return self._protocols[address]()

        loop = asyncio.get_running_loop()
        # Before the first connection can be made: it is looked up there.
        self._servers[address] = await loop.create_server(
            protocol, sock=self._listeners[address], start_serving=False
        )
        await self._servers[address].start_serving()

    async def _close_address(self, address: str) -> None:
        await _let_accepts_end()
        server = self._servers.pop(address, None)
        if server is not None:
            server.close()
        self._close_listener(address)
        await self._end({address})

    async def _end(self, addresses: set[str]) -> None:
        """Abort the connections of these addresses and wait until they are gone, bounded."""
        gone = self._someone_left
        for connection, address in list(self._connections.items()):
            if address in addresses:
                self._abort(connection)
        async with asyncio.timeout(CLOSE_S):
            while gone is not None and addresses & set(self._connections.values()):
                gone.clear()
                await gone.wait()

    def _abort(self, connection: Open) -> None:
        if self._reset:
            connection.reset_on_close()
        connection.abort()


class TcpConnection(Connection):
    """One accepted socket. Writes happen on the loop's thread, one write for many frames."""

    is_stream = True

    __slots__ = (
        "_at",
        "_ends",
        "_is_owing",
        "_is_waiting",
        "_is_writing",
        "_later",
        "_later_bytes",
        "_outbox",
        "_outbox_lock",
        "_server",
        "_traffic",
        "_transport",
        "full_since_ns",
        "noted",
        "unfinished",
    )

    def __init__(
        self,
        server: TcpServer,
        transport: asyncio.Transport,
        remote: tuple[str, int],
        local: tuple[str, int],
    ) -> None:
        super().__init__(remote, local)
        self._server = server
        self._transport: asyncio.Transport | TlsTransport = transport
        self._outbox: list[bytes] = []
        self._outbox_lock = Lock()
        self._traffic = server.traffic
        self._later: deque[bytes] = deque()
        self._later_bytes = 0
        self._at = 0
        self.full_since_ns = 0
        self._is_owing = False
        self._is_waiting = False
        self._is_writing = False
        self._ends = False
        self.noted = self.unfinished = 0

    def deliver(self, frames: list[bytes]) -> None:
        """Write now on the loop's thread; hand to it from any other."""
        if self._server.thread_id == get_ident():
            if self._outbox:
                self._flush()
            self._write(frames)
            return
        with self._outbox_lock:
            idle = not self._outbox
            self._outbox.extend(frames)
        if idle:
            self._server.call_soon(self._flush)

    def close(self) -> None:
        """Close after what is buffered has been written."""
        self.closed = True
        self._server.call_soon(self._end)

    def _end(self) -> None:
        self._ends = True
        if not self._later:
            self._transport.close()

    def use_tls(self, tls: "TlsTransport") -> None:
        """Write by TLS from now on; nothing was written before."""
        self._transport = tls

    def reset_on_close(self) -> None:
        """Let the kernel send a reset when the socket closes. On the loop's thread."""
        peer = self._transport.get_extra_info("socket")
        if peer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def abort(self) -> None:
        """Close at once. On the loop's thread."""
        self.closed = True
        self.forget_answers()
        self._transport.abort()

    def forget_answers(self) -> None:
        """Drop what waits, and count no more. On the loop's thread; idempotent."""
        for answer in self._later:
            self._traffic.release(answer)
        self._later.clear()
        self._later_bytes = 0
        self._traffic.forget(self)

    def count_unread(self) -> int:
        """Give the bytes that the transport holds."""
        return self._transport.get_write_buffer_size()

    def long_answers(self) -> Sequence[bytes]:
        """Give what is not written yet."""
        return self._later

    def _flush(self) -> None:
        with self._outbox_lock:
            frames, self._outbox = self._outbox, []
        if frames:
            self._write(frames)

    def _write(self, frames: list[bytes]) -> None:
        transport = self._transport
        if transport.is_closing():
            return
        data = frames[0]
        if self._later or len(data) >= LONG or (len(frames) > 1 and _are_long(frames)):
            self._write_later(frames)
            return
        if len(frames) == 1:
            transport.write(data)
        elif self._server.takes_parts and len(data) >= APART:
            transport.writelines(frames)
        else:
            transport.write(b"".join(frames))
        size = transport.get_write_buffer_size()
        if size or self.noted:
            self._note(size)

    def _write_later(self, frames: list[bytes]) -> None:
        short: list[bytes] = []
        for frame in frames:
            if len(frame) < PIECE and type(frame) is not SharedBytes:
                short.append(frame)
                continue
            if short:
                self._hold(b"".join(short))
                short = []
            self._hold(frame)
        if short:
            self._hold(b"".join(short))
        self._write_on()
        self._note(self._transport.get_write_buffer_size())

    def _hold(self, data: bytes) -> None:
        self._later.append(data)
        self._later_bytes += len(data)
        self._traffic.hold(data)

    def _write_on(self) -> None:
        """Go on writing pieces, unless it does already."""
        if self._later and not self._is_writing and not self.full_since_ns:
            self._is_writing = True
            self._server.write_later(self)

    def write_piece(self) -> bool:
        """Write the next piece; says whether there is another one now. On the loop's thread."""
        transport, later = self._transport, self._later
        if not later or transport.is_closing():
            self._is_writing = False
            return False
        answer, at = later[0], self._at
        self._at = end = at + PIECE
        if end < len(answer):
            transport.write(memoryview(answer)[at:end])
        else:
            # It is held until its last piece is with the transport.
            transport.write(memoryview(answer)[at:] if at else answer)
            self._at = 0
            later.popleft()
            self._later_bytes -= len(answer)
            self._traffic.release(answer)
        self._note(transport.get_write_buffer_size())
        if not later:
            if self._ends:
                transport.close()
            elif not self.full_since_ns:  # else the transport tells when it has room
                self._pay()
        self._is_writing = bool(later) and not self.full_since_ns
        return self._is_writing

    def _note(self, size: int) -> None:
        """Count what waits, and see to it that a slow peer asks for nothing more."""
        owed = size + self._later_bytes - self._at
        if owed > WRITE_BUFFER_MAX:
            self._server.slow.warn(f"closing {self!r}: it leaves {WRITE_BUFFER_MAX} bytes unread")
            self.abort()
            return
        if owed > WRITE_BUFFER_PAUSE:
            self._is_owing = True
            self._transport.pause_reading()
        self._traffic.note_unread(self, size)

    def note_full(self) -> None:
        """Note since when the transport is full: what is written waits here until it has room."""
        self.full_since_ns = monotonic_ns()

    def note_drained(self) -> None:
        """The transport takes more; once nothing waits the peer may ask again."""
        self.full_since_ns = 0
        self._write_on()
        if not self._later:
            self._pay()

    def _pay(self) -> None:
        """Nothing waits any more: the peer may ask again."""
        if self._is_owing:
            self._is_owing = False
            self._read_on()

    def give_way(self, go_on: Callable[[], None]) -> bool:
        """Let others have their turn; true on the loop's thread only."""
        if self._server.thread_id != get_ident():
            return False
        self.wait_turn(go_on, again=True)
        return True

    def wait_turn(self, go_on: Callable[[], None], *, again: bool) -> None:
        """Go on when it is our turn; nothing is read until then. On the loop's thread."""
        self._is_waiting = True
        if not self._transport.is_closing():
            self._transport.pause_reading()
        self._server.turns.wait(partial(self._go_on, go_on), again=again)

    def _go_on(self, go_on: Callable[[], None]) -> None:
        self._is_waiting = False
        if not self.closed:
            go_on()
            self._read_on()

    def _read_on(self) -> None:
        """Read what the peer sends, unless it has to wait."""
        if not (self._is_waiting or self._is_owing or self.closed or self._transport.is_closing()):
            self._transport.resume_reading()

    def note_unfinished(self, size: int) -> None:
        """Count the bytes of a request that is not complete."""
        self._traffic.note_unfinished(self, size)


class SocketProtocol(asyncio.Protocol):
    """Frames in, and nothing else: one object per accepted socket."""

    __slots__ = (
        "_address",
        "_connection",
        "_decoder",
        "_endpoint",
        "_receive",
        "_server",
        "_tls",
        "_transport",
        "_turns",
    )

    def __init__(self, server: TcpServer, endpoint: Endpoint, address: str) -> None:
        self._server = server
        self._endpoint = endpoint
        self._address = address
        self._decoder = FrameDecoder()
        self._connection: TcpConnection | None = None
        self._transport: asyncio.Transport | None = None
        self._turns = server.turns
        self._receive = self._receive_first
        self._tls: TlsTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving a socket (TCP_NODELAY is set by the loop)."""
        transport = cast("asyncio.Transport", transport)  # uvloop's class is no subclass of it
        if not self._server.has_room():
            transport.abort()
            return
        transport.set_write_buffer_limits(high=PIECE)
        self._transport = transport
        remote, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        connection = TcpConnection(self._server, transport, _pair(remote), _pair(local))
        self._connection = connection
        self._server.adopt(connection, self._address)
        self._endpoint.connected(connection)

    def data_received(self, data: bytes) -> None:
        """Have the endpoint cut and handle frames."""
        connection = self._connection
        if connection is not None and not connection.closed:
            self._receive(connection, data)

    def _receive_first(self, connection: TcpConnection, data: bytes) -> None:
        """Learn from the first byte what the peer speaks, and whether that is served."""
        server, transport = self._server, self._transport
        mode = server.tls_mode
        self._receive = self._receive_plain
        if data[0] == HELLO:
            if server.tls is None or transport is None:
                self._refuse(
                    connection, "it speaks TLS, which is off: give the broker tls=Tls(...)"
                )
                return
            from embedded_broker.remoting.tls import TlsTransport

            self._tls = TlsTransport(transport, server.tls, partial(self._refuse, connection))
            connection.use_tls(self._tls)
            self._receive = self._receive_tls
        elif mode == "enforcing":
            self._refuse(connection, "it does not speak TLS, which is enforced")
            return
        self._receive(connection, data)

    def _refuse(self, connection: TcpConnection, reason: str) -> None:
        self._server.refused.warn(f"closing {connection!r}: {reason}")
        connection.close()

    def _receive_tls(self, connection: TcpConnection, data: bytes) -> None:
        if self._tls is not None and (plain := self._tls.receive(data)):
            self._receive_plain(connection, plain)

    def _receive_plain(self, connection: TcpConnection, data: bytes) -> None:
        if self._turns.is_over:
            connection.wait_turn(partial(self._read, connection, data), again=False)
        else:
            self._read(connection, data)

    def _read(self, connection: TcpConnection, data: bytes) -> None:
        started_ns = monotonic_ns()
        self._endpoint.read(connection, self._decoder, data)
        size = self._decoder.buffered
        if size != connection.unfinished:
            connection.note_unfinished(size)
        took_ns = monotonic_ns() - started_ns
        if took_ns > STEP_NS or size >= LONG:
            self._turns.use(took_ns)

    def pause_writing(self) -> None:
        """Keep what is written from now on: the peer does not read so fast."""
        if self._connection is not None:
            self._connection.note_full()

    def resume_writing(self) -> None:
        """Go on: the peer has read."""
        if self._connection is not None:
            self._connection.note_drained()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the broker forget the peer."""
        logger.debug("connection lost: %r", exc)
        connection, self._connection = self._connection, None
        if self._tls is not None:
            self._tls.forget()
        # The journal and a closed transport may keep this object for long, but not its bytes.
        self._decoder = FrameDecoder()
        if connection is not None:
            connection.closed = True
            connection.forget_answers()
            self._server.forget(connection)
            self._endpoint.disconnected(connection)


async def _let_accepts_end() -> None:
    """Wait until what is accepted already has a transport, bounded.

    asyncio's own loop makes it in a task, which loses the socket if the server is closed meanwhile.
    """
    for _ in range(ACCEPT_ROUNDS):
        tasks = {task for task in asyncio.all_tasks() if not _is_own(task)}
        if not tasks:
            return
        await asyncio.wait(tasks, timeout=1.0)


def _is_own(task: "asyncio.Task[Any]") -> bool:
    return getattr(task.get_coro(), "__qualname__", "").startswith(f"{TcpServer.__name__}.")


def _are_long(frames: list[bytes]) -> bool:
    return SharedBytes in map(type, frames) or sum(map(len, frames)) >= LONG


def _pair(address: object) -> tuple[str, int]:
    """Return host and port of a socket name; unnamed sockets (a test's own) count as loopback."""
    if isinstance(address, tuple) and len(address) >= 2:
        return str(address[0]), int(address[1])
    return "127.0.0.1", 0


def _run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run ``main`` on uvloop when it is installed, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
    else:
        loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(main)
    finally:
        loop.close()
