"""A connected socket whose bytes only the server can read.

`TlsSocket` looks to a connection as its socket does: it sends and receives without waiting, and is
watched by its descriptor. Two things must be as with a socket. When nothing can be received, the
descriptor says so: each `recv` takes out all that arrived, so that nothing readable stays inside.
And what `send` has taken leaves: its last byte is not taken before what is encrypted has left, so
whoever sends comes again. `Securing` is the handshake, done by the I/O thread. Must not know
frames. Read on in ``tcp.py``; ``outbox.py`` comes again.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from ssl import MemoryBIO, SSLContext, SSLObject, SSLWantReadError

from rocketmq_py.transport.calls import Schedule
from rocketmq_py.transport.io_thread import IoThread

PIECE = 65_536
"""Encrypted at once: so much more than the server takes is kept at most."""

Secured = Callable[["TlsSocket | None", OSError | None], None]
"""Takes the outcome of a handshake, exactly once, on any thread."""


class TlsSocket:
    """A socket that encrypts. Any thread may send while another one receives."""

    def __init__(self, sock: socket.socket, context: SSLContext, host: str) -> None:
        self._sock = sock
        self._lock = threading.Lock()  # OpenSSL takes one call at a time; held for moments
        self._incoming = MemoryBIO()
        self._outgoing = MemoryBIO()
        self._secure: SSLObject = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=host
        )
        self._unwritten = b""
        self._owed = 0
        """Bytes that are encrypted already of what is sent next: one at most."""

    # -- as a socket ------------------------------------------------------------------------

    def fileno(self) -> int:
        """Return the descriptor to watch."""
        return self._sock.fileno()

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Set an option of the socket."""
        self._sock.setsockopt(level, option, value)

    def setblocking(self, flag: bool) -> None:
        """Set the socket's mode."""
        self._sock.setblocking(flag)

    def shutdown(self, how: int) -> None:
        """End the connection for whoever waits for it."""
        self._sock.shutdown(how)

    def close(self) -> None:
        """Release the descriptor."""
        self._sock.close()

    def send(self, data: bytes | memoryview) -> int:
        """Send what the server takes; return how much, or raise `BlockingIOError` for nothing."""
        view = memoryview(data)
        with self._lock:
            if not self._has_left():
                raise BlockingIOError
            taken, self._owed = self._owed, 0
            while taken < len(view):
                piece = view[taken : taken + PIECE]
                self._encrypt(piece)
                taken += len(piece)
                if not self._has_left():
                    self._owed = 1
                    return taken - 1
        return taken

    def recv(self, size: int) -> bytes:
        """Return all that arrived, which may be more than ``size``; empty at the end.

        Raises `BlockingIOError` while there is nothing whole to decrypt.
        """
        data = self._sock.recv(size)
        if not data:
            return b""
        found: list[bytes] = []
        with self._lock:
            self._incoming.write(data)
            with suppress(SSLWantReadError):
                while part := self._secure.read(PIECE):
                    found.append(part)
                return b"".join(found)  # the server has said goodbye
            self._has_left()  # what the server asked for, such as other keys
        if not found:
            raise BlockingIOError
        return b"".join(found)

    # -- the handshake ------------------------------------------------------------------------

    def shake_hands(self) -> bool:
        """Go on with the handshake; say whether it has ended. Raises `OSError`."""
        with self._lock:
            while True:
                try:
                    self._secure.do_handshake()
                except SSLWantReadError:
                    self._has_left()
                else:
                    return self._has_left()
                try:
                    data = self._sock.recv(PIECE)
                except BlockingIOError:
                    return False
                if not data:
                    raise ConnectionResetError("the server closed it in the TLS handshake")
                self._incoming.write(data)

    @property
    def has_unwritten(self) -> bool:
        """Whether the server has not taken all that is encrypted."""
        return bool(self._unwritten)

    def _encrypt(self, piece: memoryview) -> None:
        while piece:
            piece = piece[self._secure.write(piece) :]

    def _has_left(self) -> bool:
        """Write what is encrypted; say whether all of it has left. Under the lock."""
        waiting = self._unwritten
        if self._outgoing.pending:
            waiting += self._outgoing.read()
        while waiting:
            try:
                waiting = waiting[self._sock.send(waiting) :]
            except BlockingIOError:
                break
        self._unwritten = waiting
        return not waiting


class Securing:
    """One handshake, watched by the I/O thread; begins when made."""

    def __init__(
        self,
        sock: TlsSocket,
        timeout_ms: float,
        *,
        io_thread: IoThread,
        schedule: Schedule,
        done: Secured,
    ) -> None:
        self._sock = sock
        self._fd = sock.fileno()
        self._io = io_thread
        self._done = done
        self._lock = threading.Lock()
        self._over = False
        late = TimeoutError(f"no TLS handshake within {timeout_ms:.0f} ms")
        self._limit = schedule(timeout_ms, lambda: self._end(late))
        io_thread.add(self)
        self.on_readable()

    def fileno(self) -> int:
        """Return the descriptor to watch."""
        return self._fd

    @property
    def is_over(self) -> bool:
        """Whether the outcome is decided."""
        return self._over

    def cancel(self) -> None:
        """Give up; whoever waits is told."""
        self._end(ConnectionAbortedError("the client gave up"))

    def drop_inherited(self) -> None:
        """Release the descriptor in a forked child; the parent's handshake goes on."""
        if not self._over:
            self._sock.close()

    def on_readable(self) -> None:
        """Go on with the handshake."""
        error: OSError | None = None
        with self._lock:
            if self._over:
                return
            try:
                if not self._sock.shake_hands():
                    if self._sock.has_unwritten:
                        self._io.add_write(self)
                    return
            except OSError as trouble:
                error = trouble
        self._end(error)

    def on_writable(self) -> None:
        """Write the rest of a message of the handshake."""
        self._io.forget_write(self._fd)
        self.on_readable()

    def _end(self, error: OSError | None) -> None:
        with self._lock:
            was_over, self._over = self._over, True
            if was_over:
                return
            self._limit.cancel()
            self._io.forget(self._fd)
            if error is not None:
                self._sock.close()
        self._done(None if error is not None else self._sock, error)
