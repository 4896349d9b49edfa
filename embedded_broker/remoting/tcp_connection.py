"""One client's TCP connection: bytes become frames, answers become writes, and its own limits.

Answers: who speaks TLS, and how answers leave: one write for many frames. How long a frame may be
is decided by ``rocketmq_py/protocol/frame.py``. A long answer waits here and not in transports, and
is written in pieces: so it is in memory once, however many get it, and nobody waits until all of it
is written. Must not know: requests. Read on: ``server.py``, which owns all connections,
``socket_transport.py`` for the socket below, and ``endpoint.py`` (``receive``).
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Final, Protocol

from embedded_broker.remoting.connection_limits import ConnectionLimits
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.rate_limited_log import RateLimitedLog
from embedded_broker.remoting.requests import Connection, SharedBytes
from embedded_broker.remoting.socket_transport import Received, SocketTransport
from embedded_broker.remoting.turns import Turns
from embedded_broker.settings.tls import TlsMode
from rocketmq_py.clock import monotonic_ns
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.frame import FrameDecoder

if TYPE_CHECKING:
    from ssl import SSLContext

    from embedded_broker.remoting.tls import TlsTransport

logger = get_logger(__name__)

HELLO: Final = 0x16
"""The first byte of TLS; a frame begins with 0, since it is shorter than 16 MiB."""
WRITE_BUFFER_PAUSE = 4 * 1024 * 1024
"""A peer that leaves this much unread is not read from until it catches up."""
WRITE_BUFFER_MAX = 64 * 1024 * 1024
"""A peer that leaves this much unread is disconnected."""
PIECE = 128 * 1024
"""Long answers are written in pieces of this size, each when the transport has taken the last."""
LONG = 4 * PIECE
"""So many bytes are a long answer, or a long request."""
CLOSING_S = 10.0
"""A connection that ends is closed when its peer has read nothing for so long."""
APART = 4096
"""Answers of this size are not joined: the copy costs more than it saves."""
STEP_NS = 500_000
"""Only what takes longer is counted as time of a turn."""


class Owner(Protocol):
    """Who has all connections; ``server.TcpServer`` does."""

    limits: ConnectionLimits
    turns: Turns
    slow: RateLimitedLog
    refused: RateLimitedLog
    tls: "SSLContext | None"
    tls_mode: TlsMode
    thread_id: int

    def call_soon(self, call: Callable[[], None]) -> bool:
        """Run ``call`` on the loop's thread; false when that has ended."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Run ``call`` on the loop's thread in so many seconds, unless it ends before."""

    def after_this(self, call: Callable[[], None]) -> None:
        """Run ``call`` right behind what the loop's thread does now."""

    def write_later(self, connection: "TcpConnection") -> None:
        """Let a connection write its next piece when it is its turn."""

    def has_room(self) -> bool:
        """Say whether one more connection is served."""

    def adopt(self, connection: "TcpConnection", address: str) -> None:
        """Note an open connection, to be closed with its address."""

    def forget(self, connection: "TcpConnection") -> None:
        """Note that it has ended."""


class TcpConnection(Connection):
    """One accepted socket. Writes happen on the loop's thread, one write for many frames."""

    is_stream = True

    __slots__ = (
        "_at",
        "_due",
        "_ends",
        "_is_last",
        "_is_owing",
        "_is_waiting",
        "_is_writing",
        "_later",
        "_later_bytes",
        "_limits",
        "_outbox",
        "_outbox_lock",
        "_server",
        "_transport",
        "full_since_ns",
        "noted",
        "unfinished",
    )

    def __init__(
        self,
        server: Owner,
        transport: SocketTransport,
    ) -> None:
        super().__init__(transport.remote, transport.local)
        self._server = server
        self._transport: SocketTransport | TlsTransport = transport
        self._due: list[bytes] = []
        self._outbox: list[bytes] = []
        self._outbox_lock = Lock()
        self._limits = server.limits
        self._later: deque[bytes] = deque()
        self._later_bytes = 0
        self._at = 0
        self.full_since_ns = 0
        self._is_owing = False
        self._is_waiting = self._is_last = False
        self._is_writing = False
        self._ends = False
        self.noted = self.unfinished = 0

    def deliver(self, frames: list[bytes]) -> None:
        """Write on the loop's thread, once what goes on there is done.

        So whoever has an answer finds the broker through with the request.
        """
        if self._server.thread_id == get_ident():
            if self._due:
                self._due += frames
            else:
                self._due = frames
                self._server.after_this(self._write_due)
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

    def close_behind_requests(self) -> None:
        """Close as ``close`` does, but not before requests that wait for their turn are handled.

        The peer writes nothing more. On the loop's thread.
        """
        if self._is_waiting:
            self._is_last = True
        else:
            self.close()

    def _end(self) -> None:
        if self._ends:
            return
        self._ends = True
        if not self._later:
            self._transport.close()
        self._end_at_last(self._count_owed())

    def _end_at_last(self, owed: int) -> None:
        """Wait no longer for a peer that has read nothing of what it was owed."""
        if owed:
            self._server.call_later(CLOSING_S, partial(self._look_at_end, owed))

    def _look_at_end(self, owed_before: int) -> None:
        owed = self._count_owed()
        if owed >= owed_before:
            logger.info("%r does not read its last %d bytes: they are dropped", self, owed)
            self.abort()
        else:
            self._end_at_last(owed)

    def _count_owed(self) -> int:
        return self._transport.get_write_buffer_size() + self._later_bytes - self._at

    def use_tls(self, tls: "TlsTransport") -> None:
        """Write by TLS from now on; nothing was written before."""
        self._transport = tls

    def reset_on_close(self) -> None:
        """Let the kernel send a reset when the socket closes. On the loop's thread."""
        self._transport.reset_on_close()

    def abort(self) -> None:
        """Close at once. On the loop's thread."""
        self.closed = True
        self.forget_answers()
        self._transport.abort()

    def forget_answers(self) -> None:
        """Drop what waits, and count no more. On the loop's thread; idempotent."""
        for answer in self._later:
            self._limits.release(answer)
        self._later.clear()
        self._later_bytes = self._at = 0
        self._limits.forget(self)

    def count_unread(self) -> int:
        """Give the bytes that the transport holds."""
        return self._transport.get_write_buffer_size()

    def long_answers(self) -> Sequence[bytes]:
        """Give what is not written yet."""
        return self._later

    def _write_due(self) -> None:
        frames, self._due = self._due, []
        if self._outbox:  # they came before, from other threads
            self._flush()
        self._write(frames)

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
        elif len(data) >= APART:
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
        self._limits.hold(data)

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
            self._limits.release(answer)
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
        owed = self._count_owed()
        if owed > WRITE_BUFFER_MAX:
            self._server.slow.warn(f"closing {self!r}: it leaves {WRITE_BUFFER_MAX} bytes unread")
            self.abort()
            return
        if owed > WRITE_BUFFER_PAUSE:
            self._is_owing = True
            self._transport.pause_reading()
        self._limits.note_unread(self, size)

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
        if self.closed:
            return
        try:
            go_on()
        except BaseException:
            logger.exception("closing %r: its requests failed", self)
            self.abort()
        if self._is_last:
            self.close_behind_requests()
        else:
            self._read_on()

    def _read_on(self) -> None:
        """Read what the peer sends, unless it has to wait."""
        if not (self._is_waiting or self._is_owing or self.closed or self._transport.is_closing()):
            self._transport.resume_reading()

    def note_unfinished(self, size: int) -> None:
        """Count the bytes of a request that is not complete."""
        self._limits.note_unfinished(self, size)


class SocketProtocol(Received):
    """Frames in, and nothing else: one object per accepted socket."""

    __slots__ = (
        "_address",
        "_connection",
        "_decoder",
        "_endpoint",
        "_server",
        "_tls",
        "_transport",
        "_turns",
    )

    def __init__(self, server: Owner, endpoint: Endpoint, address: str) -> None:
        self._server = server
        self._endpoint = endpoint
        self._address = address
        self._decoder = FrameDecoder()
        self._connection: TcpConnection | None = None
        self._transport: SocketTransport | None = None
        self._turns = server.turns
        self._tls: TlsTransport | None = None

    def connection_made(self, transport: SocketTransport) -> None:
        """Start serving a socket."""
        if not self._server.has_room():
            transport.abort()
            return
        transport.set_write_buffer_limits(PIECE)
        self._transport = transport
        self._connection = connection = TcpConnection(self._server, transport)
        self._server.adopt(connection, self._address)
        self._endpoint.connected(connection)

    def data_received(self, data: bytes) -> None:
        """Learn from the first byte what the peer speaks, and whether that is served."""
        connection, server, transport = self._connection, self._server, self._transport
        if connection is None or transport is None or connection.closed:
            return
        receive = self._receive_plain
        if data[0] == HELLO:
            if server.tls is None:
                self._refuse(
                    connection, "it speaks TLS, which is off: give the broker tls=Tls(...)"
                )
                return
            from embedded_broker.remoting.tls import TlsTransport

            self._tls = TlsTransport(transport, server.tls, partial(self._refuse, connection))
            connection.use_tls(self._tls)
            receive = self._receive_tls
        elif server.tls_mode == "enforcing":
            self._refuse(connection, "it does not speak TLS, which is enforced")
            return
        transport.receive = receive
        receive(data)

    def _refuse(self, connection: TcpConnection, reason: str) -> None:
        self._server.refused.warn(f"closing {connection!r}: {reason}")
        connection.forget_answers()  # there may be no way to write them
        connection.close()

    def _receive_tls(self, data: bytes) -> None:
        connection = self._connection
        if connection is None or connection.closed:
            return
        tls = self._tls
        if tls is None:
            return
        plain = tls.receive(data)
        if plain:
            self._receive_plain(plain)
        if tls.has_ended:
            connection.close_behind_requests()

    def _receive_plain(self, data: bytes) -> None:
        """Have the endpoint cut and handle frames."""
        connection = self._connection
        if connection is None or connection.closed:
            return
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

    def end_received(self, transport: SocketTransport) -> None:
        """Let the peer have what it has asked for, then close."""
        if self._connection is None:
            transport.close()
        else:
            self._connection.close_behind_requests()

    def pause_writing(self) -> None:
        """Keep what is written from now on: the peer does not read so fast."""
        if self._connection is not None:
            self._connection.note_full()

    def resume_writing(self) -> None:
        """Go on: the peer has read."""
        if self._connection is not None:
            self._connection.note_drained()

    def connection_lost(self, error: BaseException | None) -> None:
        """Let the broker forget the peer."""
        logger.debug("connection lost: %r", error)
        connection, self._connection = self._connection, None
        tls, self._tls = self._tls, None
        if tls is not None:
            tls.forget()
        # The journal and a closed transport may keep this object for long, but not its bytes.
        self._decoder = FrameDecoder()
        if connection is not None:
            connection.closed = True
            connection.forget_answers()
            self._server.forget(connection)
            self._endpoint.disconnected(connection)


def _are_long(frames: list[bytes]) -> bool:
    return SharedBytes in map(type, frames) or sum(map(len, frames)) >= LONG
