"""Who notices that a socket has something to read: one thread for all connections of a client.

The thread only watches and lets the connection read itself. A caller that wants to read its own
answer takes its socket out of the watch (`IoThread.pause`) and puts it back (`resume`); on Linux
both act on the running epoll at once and wake nobody. Elsewhere sockets stay watched, and callers
wait for this thread (`can_pause` is False). Must not know frames. Read on in ``tcp.py``.
"""

import logging
import select
import selectors
import socket
import sys
import threading
from typing import Protocol

_log = logging.getLogger(__name__)


class Readable(Protocol):
    """A connection as the I/O thread sees it."""

    def fileno(self) -> int:
        """Return the descriptor to watch."""

    def on_readable(self) -> None:
        """Read what is there; must not block and must not raise."""


class _Watch(Protocol):
    """The set of watched descriptors; every call is safe while another thread waits."""

    can_pause: bool

    def add(self, fd: int) -> None:
        """Watch a new descriptor."""

    def remove(self, fd: int) -> None:
        """Stop watching for good."""

    def pause(self, fd: int) -> None:
        """Stop watching until `resume`."""

    def resume(self, fd: int) -> None:
        """Watch again."""

    def wait(self) -> list[int]:
        """Wait until something is readable."""

    def close(self) -> None:
        """Release the set."""


class _SelectorWatch:
    """Any platform: changes are applied by the waiting thread itself, after a wake-up."""

    can_pause = False

    def __init__(self, wake: socket.socket) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake = wake
        self._lock = threading.Lock()
        self._changes: list[tuple[int, bool]] = []

    def add(self, fd: int) -> None:
        self._change(fd, watch=True)

    def remove(self, fd: int) -> None:
        self._change(fd, watch=False)

    def pause(self, fd: int) -> None:
        """Do nothing: callers never read themselves here."""

    def resume(self, fd: int) -> None:
        """Do nothing: callers never read themselves here."""

    def wait(self) -> list[int]:
        with self._lock:
            changes, self._changes = self._changes, []
        for fd, watch in changes:
            known = fd in self._selector.get_map()
            if known:
                self._selector.unregister(fd)
            if watch:
                try:
                    self._selector.register(fd, selectors.EVENT_READ)
                except OSError:
                    continue  # closed before the watch began
        return [key.fd for key, _ in self._selector.select()]

    def close(self) -> None:
        self._selector.close()

    def _change(self, fd: int, *, watch: bool) -> None:
        with self._lock:
            self._changes.append((fd, watch))
        _wake_up(self._wake)


if sys.platform == "linux":

    class _EpollWatch:
        """Linux: the kernel applies changes to a wait that is going on."""

        can_pause = True

        def __init__(self) -> None:
            self._epoll = select.epoll()

        def add(self, fd: int) -> None:
            self._epoll.register(fd, select.EPOLLIN)

        def remove(self, fd: int) -> None:
            try:
                self._epoll.unregister(fd)
            except (OSError, ValueError):
                return  # paused when it ended, or the whole set is closed

        # Taken out rather than masked: a masked descriptor still reports a hang-up, forever.
        pause = remove
        resume = add

        def wait(self) -> list[int]:
            return [fd for fd, _ in self._epoll.poll()]

        def close(self) -> None:
            self._epoll.close()


def _wake_up(sender: socket.socket) -> None:
    try:
        sender.send(b"\0")
    except BlockingIOError:
        return  # plenty of wake-ups are waiting already


class IoThread:
    """The reading thread of one client instance; starts with the first connection."""

    def __init__(self, name: str, *, portable: bool = False) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._readables: dict[int, Readable] = {}
        self._thread: threading.Thread | None = None
        self._closing = False
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        self._watch: _Watch
        if sys.platform == "linux" and not portable:
            self._watch = _EpollWatch()
        else:
            self._watch = _SelectorWatch(self._sender)
        self.can_pause = self._watch.can_pause
        self._watch.add(self._receiver.fileno())

    def add(self, readable: Readable) -> None:
        """Begin to watch a connection."""
        with self._lock:
            if self._closing:
                return
            self._readables[readable.fileno()] = readable
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        self._watch.add(readable.fileno())

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor that is about to be closed."""
        self._readables.pop(fd, None)
        self._watch.remove(fd)

    def pause(self, fd: int) -> None:
        """Leave the reading to a caller until `resume`."""
        self._watch.pause(fd)

    def resume(self, fd: int) -> None:
        """Watch the descriptor again; what came meanwhile is seen."""
        self._watch.resume(fd)

    def is_current(self) -> bool:
        """Say whether this code runs on the I/O thread."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        wake = self._receiver.fileno()
        while not self._closing:
            for fd in self._watch.wait():
                if fd == wake:
                    self._swallow_wake_ups()
                    continue
                readable = self._readables.get(fd)
                if readable is None:
                    continue
                try:
                    readable.on_readable()
                except Exception:  # noqa: BLE001 - other connections live on
                    _log.exception("reading failed: %r", readable)

    def _swallow_wake_ups(self) -> None:
        try:
            while len(self._receiver.recv(4096)) == 4096:
                pass
        except BlockingIOError:
            return

    def close(self, timeout: float) -> None:
        """End the thread within ``timeout`` seconds; connections must be closed before."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            thread = self._thread
        _wake_up(self._sender)
        if thread is not None and not self.is_current():
            thread.join(timeout)
            if thread.is_alive():
                _log.warning("thread %s is still busy after %.1f s", thread.name, timeout)
                return  # its descriptors must outlive it
        self.drop_inherited()

    def drop_inherited(self) -> None:
        """Release the descriptors without touching the (parent's) thread."""
        self._watch.close()
        self._receiver.close()
        self._sender.close()
