"""Accepted sockets on the event loop: who is told what becomes of one, and how it is accepted.

Answers: what is told when a peer writes, reads slowly or goes away, and that whatever a protocol
raises ends its own connection only. asyncio's transports carry the bytes. Must not know: frames,
TLS. Read on: ``socket_loop.py`` for the loop, and ``tcp_connection.py``, which is told.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, cast

from embedded_broker.remoting.forks import keep_from_children
from embedded_broker.remoting.rate_limited_log import RateLimitedLog
from embedded_broker.remoting.socket_loop import SocketLoop
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

ACCEPTS: Final = 128
"""So many peers are accepted before others have their turn."""
ACCEPT_AGAIN_S: Final = 1.0
"""How long nobody is accepted when the system has no room for a socket."""

_LINGER_NOT: Final = struct.pack("ii", 1, 0)

Bytes = bytes | memoryview


class Received(Protocol):
    """Who is told what happens to a socket. Called on the thread of the loop."""

    def connection_made(self, transport: "SocketTransport") -> None:
        """Begin."""

    def data_received(self, data: bytes) -> None:
        """Take what the peer wrote, in any pieces."""

    def end_received(self, transport: "SocketTransport") -> None:
        """Hear that the peer writes nothing more: close when all that it asked for is written."""
        transport.close()

    def pause_writing(self) -> None:
        """Hear that more waits than the limit of the transport's buffer."""

    def resume_writing(self) -> None:
        """Hear that the peer has read most of that."""

    def connection_lost(self, error: BaseException | None) -> None:
        """End: nothing is told after this. None: the peer or this side has closed it."""


class SocketTransport(asyncio.Protocol):
    """An accepted socket between asyncio's transport and who serves it. On the loop's thread.

    ``remote`` and ``local`` are host and port of both ends; ``receive`` takes what comes next: a
    protocol that knows its peer may put something else there.
    """

    __slots__ = (
        "__weakref__",
        "_acceptor",
        "_error",
        "_loop",
        "_protocol",
        "_socket",
        "_transport",
        "call_later",
        "local",
        "receive",
        "remote",
    )
    _transport: asyncio.Transport

    def __init__(
        self,
        loop: SocketLoop,
        sock: socket.socket,
        remote: object,
        protocol: Received,
        acceptor: "Acceptor",
    ) -> None:
        keep_from_children(sock)
        self._loop = loop
        self._socket = sock
        self._protocol: Received | None = protocol
        self._acceptor = acceptor
        self._error: BaseException | None = None
        self.receive = protocol.data_received
        self.call_later = loop.call_later
        self.remote, self.local = _name(remote), _name(sock.getsockname())

    # -- what asyncio tells -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless the listener has been closed since the socket was accepted."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is no subclass
        protocol = self._protocol
        if protocol is None or self._acceptor.is_closed:
            self._protocol = None
            self._transport.abort()
            return

        def begin() -> None:
            # Here and not where asyncio begins to read: if it cannot, somebody is told.
            self.pause_reading()
            self.resume_reading()
            protocol.connection_made(self)

        self._tell(begin)

    def data_received(self, data: bytes) -> None:
        """Give what came to who takes it now."""
        try:
            self.receive(data)
        except BaseException as error:  # noqa: BLE001 - told, and it ends nobody else
            self._fail(error)
        self._loop.make_late_calls()

    def eof_received(self) -> bool:
        """Tell that the peer writes nothing more; the protocol says when that is the end."""
        protocol = self._protocol
        if protocol is not None:
            self.pause_reading()
            self._tell(lambda: protocol.end_received(self))
        return True

    def pause_writing(self) -> None:
        """Tell that the peer does not read so fast."""
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Tell that the peer has read."""
        if self._protocol is not None:
            self._tell(self._protocol.resume_writing)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the end, and let go of who was told: no cycle is left."""
        protocol, self._protocol = self._protocol, None
        del self.receive
        if protocol is not None:
            error = self._error or exc
            self._loop.do(lambda: protocol.connection_lost(error))

    def _tell(self, call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - told, and it ends nobody else
            self._fail(error)
        self._loop.make_late_calls()

    def _fail(self, error: BaseException) -> None:
        logger.error("closing the connection to %s: its work failed", self.remote, exc_info=error)
        self._error = self._error or error
        self.abort()

    # -- what is done with it ---------------------------------------------------------------

    def pause_reading(self) -> None:
        """Leave what the peer writes where it is; idempotent."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on; idempotent, and without effect on what is closed."""
        self._transport.resume_reading()

    def write(self, data: Bytes) -> None:
        """Write what the peer takes, and the rest when it does."""
        self._transport.write(data)

    def writelines(self, parts: Sequence[Bytes]) -> None:
        """Write several, one behind the other."""
        self._transport.writelines(parts)

    def set_write_buffer_limits(self, high: int) -> None:
        """Have the protocol pause when more bytes than this wait, until a quarter is left."""
        self._transport.set_write_buffer_limits(high)

    def get_write_buffer_size(self) -> int:
        """Give the bytes that the peer has not taken; none once it is lost."""
        return 0 if self._protocol is None else self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Say whether it is closed, or will be when the peer has read what waits."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close when the peer has taken what waits; nothing is read any more. Idempotent."""
        self._transport.close()

    def abort(self) -> None:
        """Close now; what waits is dropped. Idempotent."""
        if self._protocol is not None:  # asyncio's transport fails when its socket is lost
            self._transport.abort()

    def reset_on_close(self) -> None:
        """Let the kernel send a reset when the socket closes."""
        with suppress(OSError):  # it is closed already, or its peer has closed it
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)


class Acceptor:
    """Accepts peers of one listening socket, each served by what ``make`` makes.

    A peer that comes when the system has no room for a socket waits in the listener's backlog;
    ``warnings`` are told.
    """

    __slots__ = ("_loop", "_make", "_socket", "_warnings", "is_closed")

    def __init__(
        self,
        loop: SocketLoop,
        listener: socket.socket,
        make: Callable[[], Received],
        warnings: RateLimitedLog,
    ) -> None:
        self._loop = loop
        self._socket = listener
        self._make = make
        self._warnings = warnings
        self.is_closed = False
        self._watch()

    def close(self) -> None:
        """Accept no more; the listener stays open, for its owner to close. Idempotent."""
        self.is_closed = True
        self._loop.forget(self._socket)

    def _watch(self) -> None:
        if not self.is_closed:  # while it waited
            self._loop.watch(self._socket, self._accept)

    def _accept(self) -> None:
        for _turn in range(ACCEPTS):
            try:
                # Who has gone already is known from here only, and what it sent is still read.
                sock, remote = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:  # gone before it was accepted
                continue
            except OSError as error:  # no descriptor, or no memory for one
                self._warnings.warn(f"no peer is accepted for {ACCEPT_AGAIN_S} s: {error}")
                self._loop.forget(self._socket)
                self._loop.call_later(ACCEPT_AGAIN_S, self._watch)
                return
            try:
                sock.setblocking(False)
                if sock.family != getattr(socket, "AF_UNIX", None):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                transport = SocketTransport(self._loop, sock, remote, self._make(), self)
            except BaseException as error:  # noqa: BLE001 - it is told, and others are served
                self._warnings.warn(f"a peer at {remote} cannot be served: {error!r}")
                sock.close()
            else:
                self._loop.connect(sock, transport)


def _name(name: object) -> tuple[str, int]:
    """Give host and port of a socket's end; a socket that has none is this machine's own."""
    if isinstance(name, tuple) and len(name) >= 2:
        return str(name[0]), int(name[1])
    return "127.0.0.1", 0
