"""Non-blocking reads and writes of one accepted socket on the event loop.

Answers: what is told when a peer writes, reads slowly or goes away, and what happens to bytes that
it does not take at once: they wait here as they are, without a copy. Must not know: frames, TLS.
Read on: ``socket_loop.py``, which tells when, and ``tcp_connection.py``, which is told.
"""

import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol

from embedded_broker.remoting.forks import keep_from_children
from embedded_broker.remoting.rate_limited_log import RateLimitedLog
from embedded_broker.remoting.socket_loop import READ, WRITE, SocketLoop
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

READ_SIZE: Final = 256 * 1024
"""Most bytes of one read."""
PARTS: Final = 64
"""Most parts of one write."""
ACCEPTS: Final = 128
"""So many peers are accepted before others have their turn."""
ACCEPT_AGAIN_S: Final = 1.0
"""How long nobody is accepted when the system has no room for a socket."""

_LINGER_NOT: Final = struct.pack("ii", 1, 0)
_HAS_SENDMSG: Final = hasattr(socket.socket, "sendmsg")

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
        """Hear that more waits than ``high``."""

    def resume_writing(self) -> None:
        """Hear that the peer has read most of that."""

    def connection_lost(self, error: BaseException | None) -> None:
        """End: nothing is told after this. None: the peer or this side has closed it."""


class SocketTransport:
    """Reads and writes an accepted socket, which it owns. Used on the thread of the loop.

    ``remote`` and ``local`` are host and port of both ends; ``receive`` takes what comes next: a
    protocol that knows its peer may put something else there. When more bytes than ``high`` wait,
    whoever writes is told to pause. What a protocol raises ends its connection.
    """

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_buffered",
        "_events",
        "_fd",
        "_is_closing",
        "_is_full",
        "_is_lost",
        "_is_reading",
        "_loop",
        "_protocol",
        "_recv_into",
        "_send",
        "_socket",
        "_space",
        "call_later",
        "high",
        "local",
        "receive",
        "remote",
    )

    def __init__(
        self,
        loop: SocketLoop,
        sock: socket.socket,
        remote: object,
        space: memoryview,
        protocol: Received,
    ) -> None:
        self._loop = loop
        keep_from_children(sock)
        self._socket = sock
        self._fd = sock.fileno()
        self._recv_into, self._send = sock.recv_into, sock.send
        self._space = space
        self._protocol = protocol
        self._buffer: deque[Bytes] = deque()
        self._buffered = 0
        self._events = 0
        self._is_reading = True
        self._is_full = self._is_closing = self._is_lost = False
        self.high = 65_536
        self.receive = protocol.data_received
        self.call_later = loop.call_later
        self.remote, self.local = _name(remote), _name(sock.getsockname())
        try:
            protocol.connection_made(self)
            self._watch()
        except BaseException as error:  # noqa: BLE001 - told, and it ends nobody else
            self._fail(error)

    # -- reading ----------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Leave what the peer writes where it is; idempotent."""
        if self._is_reading:
            self._is_reading = False
            self._watch()

    def resume_reading(self) -> None:
        """Read on; idempotent, and without effect on what is closed."""
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            self._watch()

    def _on_ready(self, events: int) -> None:
        if self._is_reading and events != WRITE:
            space = self._space
            try:
                size = self._recv_into(space)
            except (BlockingIOError, InterruptedError):
                size = -1
            except OSError as error:
                self._lose(error)
                return
            if size > 0:
                try:
                    self.receive(bytes(space[:size]))
                except BaseException as error:  # noqa: BLE001 - told, and it ends nobody else
                    self._fail(error)
            elif not size:
                self.pause_reading()
                try:
                    self._protocol.end_received(self)
                except BaseException as error:  # noqa: BLE001 - told, and it ends nobody else
                    self._fail(error)
        if self._buffer and events != READ:
            self._write_on()

    # -- writing ----------------------------------------------------------------------------

    def write(self, data: Bytes) -> None:
        """Write now what the peer takes, and the rest when it does."""
        if self._is_lost:
            return
        if not self._buffer:
            try:
                sent = self._send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._lose(error)
                return
            if sent == len(data):
                return
            self._hold(memoryview(data)[sent:] if sent else data)
            self._watch()
        elif data:
            self._hold(data)

    def writelines(self, parts: Sequence[Bytes]) -> None:
        """Write several, one behind the other; they are not joined."""
        if self._is_lost:
            return
        is_first = not self._buffer
        for part in parts:
            if part:
                self._hold(part, tell=False)
        if is_first and self._buffer:
            self._write_on()
        self._tell_if_full()
        self._watch()

    def get_write_buffer_size(self) -> int:
        """Give the bytes that the peer has not taken."""
        return self._buffered

    def _hold(self, data: Bytes, *, tell: bool = True) -> None:
        self._buffer.append(data)
        self._buffered += len(data)
        if tell:
            self._tell_if_full()

    def _tell_if_full(self) -> None:
        if self._buffered > self.high and not self._is_full and not self._is_lost:
            self._is_full = True
            self._protocol.pause_writing()

    def _write_on(self) -> None:
        """Write what waits, as far as the peer takes it."""
        buffer = self._buffer
        try:
            sent = self._send_some()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        self._buffered -= sent
        while sent:
            first = buffer[0]
            if sent < len(first):
                buffer[0] = memoryview(first)[sent:]
                break
            sent -= len(first)
            buffer.popleft()
        if not buffer:
            self._watch()
        if self._is_full and self._buffered <= self.high // 4:
            self._is_full = False
            try:
                self._protocol.resume_writing()
            except BaseException as error:  # noqa: BLE001 - told, and it ends nobody else
                self._fail(error)
        if self._is_closing and not buffer:
            self._lose(None)

    def _send_some(self) -> int:
        if len(self._buffer) > 1 and _HAS_SENDMSG:
            return self._socket.sendmsg(list(islice(self._buffer, PARTS)))
        return self._send(self._buffer[0])

    # -- the end ----------------------------------------------------------------------------

    def is_closing(self) -> bool:
        """Say whether it is closed, or will be when the peer has read what waits."""
        return self._is_closing

    def close(self) -> None:
        """Close when the peer has taken what waits; nothing is read any more. Idempotent."""
        if self._is_closing:
            return
        self._is_closing, self._is_reading = True, False
        if self._buffer:
            self._watch()
        else:
            self._lose(None)

    def abort(self) -> None:
        """Close now; what waits is dropped. Idempotent."""
        self._lose(None)

    def reset_on_close(self) -> None:
        """Let the kernel send a reset when the socket closes."""
        with suppress(OSError):  # it is closed already, or its peer has closed it
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)

    def _lose(self, error: BaseException | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._is_reading = False
        self._buffer.clear()
        self._buffered = 0
        self._loop.call_soon(lambda: self._tell_end(error))
        self._watch()

    def _fail(self, error: BaseException) -> None:
        logger.error("closing the connection to %s: its work failed", self.remote, exc_info=error)
        self._lose(error)

    def _tell_end(self, error: BaseException | None) -> None:
        protocol = self._protocol
        del self._protocol, self.receive  # or both would wait for the garbage collector
        try:
            protocol.connection_lost(error)
        finally:
            self._socket.close()

    def _watch(self) -> None:
        """Have the loop wait for what is wanted now."""
        events = (READ if self._is_reading else 0) | (WRITE if self._buffer else 0)
        if events != self._events:
            if events:
                self._loop.watch(self._fd, events, self._on_ready)
            else:
                self._loop.forget(self._fd)
            self._events = events  # not before: it may fail


class Acceptor:
    """Accepts peers of one listening socket, each served by what ``make`` makes.

    A peer that comes when the system has no room for a socket waits in the listener's backlog;
    ``warnings`` are told.
    """

    __slots__ = ("_loop", "_make", "_socket", "_space", "_warnings")

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
        self._space = memoryview(bytearray(READ_SIZE))
        """Every read goes there first: one at a time is going on."""
        self._watch()

    def close(self) -> None:
        """Accept no more, and close the listener; idempotent."""
        self._loop.forget(self._socket.fileno())
        self._socket.close()

    def _watch(self) -> None:
        if self._socket.fileno() >= 0:  # not closed while it waited
            self._loop.watch(self._socket.fileno(), READ, self._accept)

    def _accept(self, _: int) -> None:
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
                self._loop.forget(self._socket.fileno())
                self._loop.call_later(ACCEPT_AGAIN_S, self._watch)
                return
            try:
                sock.setblocking(False)
                if sock.family != getattr(socket, "AF_UNIX", None):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                protocol = self._make()
            except BaseException as error:  # noqa: BLE001 - it is told, and others are served
                self._warnings.warn(f"a peer at {remote} cannot be served: {error!r}")
                sock.close()
            else:
                SocketTransport(self._loop, sock, remote, self._space, protocol)


def _name(name: object) -> tuple[str, int]:
    """Give host and port of a socket's end; a socket that has none is this machine's own."""
    if isinstance(name, tuple) and len(name) >= 2:
        return str(name[0]), int(name[1])
    return "127.0.0.1", 0
