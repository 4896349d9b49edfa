"""How a TCP connection begins without anybody waiting for it.

`Connecting` is one try to reach one server: the kernel shakes hands, the I/O thread notices the
end, the timer notices that there is none. A name that is no number is looked up on a thread of the
owner first. Must not know frames, nor what is done when nobody answers; that is
``client/connections.py``.
"""

import errno
import os
import socket
import threading
from collections.abc import Callable

from rocketmq_py.clock import monotonic
from rocketmq_py.config import split_host_port
from rocketmq_py.transport.calls import Handle, Schedule
from rocketmq_py.transport.io_thread import IoThread

Connected = Callable[[socket.socket | None, OSError | None], None]
"""Takes the outcome of a try, exactly once, on any thread: a connected socket or an error."""

ConnectTarget = tuple[int, tuple[str | int | bytes, ...]]
"""Family and socket address."""


class Connecting:
    """One try, over all addresses that a name has; begins when made."""

    def __init__(
        self,
        address: str,
        timeout_ms: float,
        *,
        io_thread: IoThread,
        schedule: Schedule,
        look_up: Callable[[Callable[[], None]], bool],
        done: Connected,
    ) -> None:
        self._host, self._port = split_host_port(address)
        self._io = io_thread
        self._done = done
        self._deadline = monotonic() + timeout_ms / 1000
        self._lock = threading.Lock()
        self._schedule = schedule
        self._sock: socket.socket | None = None
        self._places: list[ConnectTarget] = []
        self._limit: Handle | None = None
        self._over = False
        try:
            self._places = self._look_up(socket.AI_NUMERICHOST)
        except socket.gaierror:
            if not look_up(self._resolve):
                self._end(None, OSError("too much work waits in this client"))
        else:
            self._next(None)

    def fileno(self) -> int:
        """Return the descriptor of the present socket."""
        sock = self._sock
        return -1 if sock is None else sock.fileno()

    @property
    def is_over(self) -> bool:
        """Whether the outcome is decided, and no socket is held any more."""
        return self._over

    def cancel(self) -> None:
        """Give up; whoever waits is told."""
        self._end(None, OSError(errno.ECANCELED, "the client gave up"))

    def drop_inherited(self) -> None:
        """Release the descriptor in a forked child; the parent's try goes on."""
        if self._sock is not None:
            self._sock.close()

    def _look_up(self, flags: int) -> list[ConnectTarget]:
        found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=flags)
        return [(family, place) for family, _, _, _, place in found]

    def _resolve(self) -> None:
        try:
            self._places = self._look_up(0)
        except OSError as error:
            self._end(None, error)
        else:
            self._next(None)

    def _next(self, error: OSError | None) -> None:
        """Try the next address; those that are left share what is left of the time."""
        while self._places:
            family, place = self._places.pop(0)
            try:
                sock = socket.socket(family, socket.SOCK_STREAM)
            except OSError as trouble:  # no descriptor is left, or no such family is here
                error = trouble
                continue
            sock.setblocking(False)
            code = sock.connect_ex(place)
            if code in {0, errno.EINPROGRESS}:
                self._wait_for(sock)
                return
            sock.close()
            error = OSError(code, os.strerror(code))
        self._end(None, error or OSError("the name has no address"))

    def _wait_for(self, sock: socket.socket) -> None:
        left_ms = (self._deadline - monotonic()) * 1000 / (len(self._places) + 1)
        with self._lock:
            if self._over:
                sock.close()
                return
            self._sock = sock
            self._limit = self._schedule(max(0.0, left_ms), lambda: self._expire(sock))
            self._io.add_write(self)

    def on_writable(self) -> None:
        """Learn that the handshake ended, one way or the other."""
        with self._lock:
            sock = self._sock
            if sock is None:
                return
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == 0:
                try:
                    own = sock.getsockname() == sock.getpeername()
                except OSError:
                    return  # called for nothing: this number was another descriptor's before
                # A port that nobody listens on may become our own: it would answer with echoes.
                code = errno.ECONNREFUSED if own else 0
            self._let_go(sock)
        if code == 0:
            self._end(sock, None)
        else:
            sock.close()
            self._next(OSError(code, os.strerror(code)))

    def _expire(self, sock: socket.socket) -> None:
        with self._lock:
            if self._sock is not sock:
                return
            self._let_go(sock)
        sock.close()
        self._next(TimeoutError(errno.ETIMEDOUT, "no answer"))

    def _let_go(self, sock: socket.socket) -> None:
        """Watch the socket no longer, under the lock: who does so decides what becomes of it."""
        self._sock = None
        self._io.forget_write(sock.fileno())
        if self._limit is not None:
            self._limit.cancel()

    def _end(self, sock: socket.socket | None, error: OSError | None) -> None:
        with self._lock:
            unused = self._sock
            if unused is not None:
                self._let_go(unused)
            was_over, self._over = self._over, True
        for useless in (unused, sock if was_over else None):
            if useless is not None:
                useless.close()
        if not was_over:
            self._done(sock, error)
