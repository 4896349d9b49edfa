"""Who notices that a socket can be read or written: one thread for all connections of a client.

The thread only watches and lets the connection read or write itself. A caller that wants to read
its own answer takes its socket out of the watch (`IoThread.pause`) and puts it back (`resume`); on
Linux both act on the running epoll at once and wake nobody. Elsewhere sockets stay watched, and
callers wait for this thread (`can_pause` is False). Writing is watched apart from reading, and only
while something waits: the end of a connect, or bytes that the server did not take yet. Must not
know frames. Read on in ``tcp.py`` and ``connecting.py``.
"""

import contextlib
import select
import selectors
import socket
import sys
import threading
from collections.abc import Callable
from typing import Protocol

from rocketmq_py.logs import get_logger
from rocketmq_py.threads import RETRY_MS, ScheduleAfter, started, tell_of_shortage

_log = get_logger(__name__)


class Readable(Protocol):
    """A connection as the I/O thread sees it."""

    def fileno(self) -> int:
        """Return the descriptor to watch."""

    def on_readable(self) -> None:
        """Read what is there; must not block and must not raise."""


class Writable(Protocol):
    """Who waits until a socket takes bytes."""

    def fileno(self) -> int:
        """Return the descriptor to watch."""

    def on_writable(self) -> None:
        """Write what waits; must not block and must not raise. Also called for nothing."""


class _Watch(Protocol):
    """The sets of watched descriptors; every call is safe while another thread waits."""

    can_pause: bool

    def add(self, fd: int) -> None:
        """Watch a new descriptor for something to read."""

    def remove(self, fd: int) -> None:
        """Stop watching for good."""

    def pause(self, fd: int) -> None:
        """Stop watching until `resume`."""

    def resume(self, fd: int) -> None:
        """Watch again."""

    def add_write(self, fd: int) -> None:
        """Watch for room to write."""

    def remove_write(self, fd: int) -> None:
        """Stop watching for room."""

    def wait(self) -> tuple[list[int], list[int]]:
        """Wait until something is readable or writable; return both."""

    def close(self) -> None:
        """Release the sets."""


class _SelectorWatch:
    """Any platform: changes are applied by the waiting thread itself, after a wake-up."""

    can_pause = False

    def __init__(self, wake: socket.socket) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake = wake
        self._lock = threading.Lock()
        self._changes: list[tuple[int, int, bool]] = []

    def add(self, fd: int) -> None:
        self._change(fd, selectors.EVENT_READ, watch=True)

    def remove(self, fd: int) -> None:
        self._change(fd, selectors.EVENT_READ, watch=False)

    def pause(self, fd: int) -> None:
        """Do nothing: callers never read themselves here."""

    def resume(self, fd: int) -> None:
        """Do nothing: callers never read themselves here."""

    def add_write(self, fd: int) -> None:
        self._change(fd, selectors.EVENT_WRITE, watch=True)

    def remove_write(self, fd: int) -> None:
        self._change(fd, selectors.EVENT_WRITE, watch=False)

    def wait(self) -> tuple[list[int], list[int]]:
        with self._lock:
            changes, self._changes = self._changes, []
        for fd, event, watch in changes:
            self._apply(fd, event, watch=watch)
        ready = [(key.fd, events) for key, events in self._selector.select()]
        readable = [fd for fd, events in ready if events & selectors.EVENT_READ]
        return readable, [fd for fd, events in ready if events & selectors.EVENT_WRITE]

    def _apply(self, fd: int, event: int, *, watch: bool) -> None:
        known = self._selector.get_map().get(fd)
        before = 0 if known is None else known.events
        wanted = before | event if watch else before & ~event
        if known is not None:
            self._selector.unregister(fd)
        if wanted:
            with contextlib.suppress(OSError):  # closed before the watch began
                self._selector.register(fd, wanted)

    def close(self) -> None:
        self._selector.close()

    def _change(self, fd: int, event: int, *, watch: bool) -> None:
        with self._lock:
            self._changes.append((fd, event, watch))
        _wake_up(self._wake)


if sys.platform == "linux":

    class _EpollWatch:
        """Linux: the kernel applies changes to a wait that is going on.

        Who waits for room stands in a set of its own, which the first one watches: so a caller
        that reads itself and a writer never change the same entry.
        """

        can_pause = True

        def __init__(self) -> None:
            self._epoll = select.epoll()
            self._writes = select.epoll()
            self._writes_fd = self._writes.fileno()
            self._epoll.register(self._writes_fd, select.EPOLLIN)

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

        def add_write(self, fd: int) -> None:
            self._writes.register(fd, select.EPOLLOUT)

        def remove_write(self, fd: int) -> None:
            try:
                self._writes.unregister(fd)
            except (OSError, ValueError):
                return

        def wait(self) -> tuple[list[int], list[int]]:
            readable = [fd for fd, _ in self._epoll.poll()]
            if self._writes_fd not in readable:
                return readable, []
            readable.remove(self._writes_fd)
            return readable, [fd for fd, _ in self._writes.poll(0)]

        def close(self) -> None:
            self._epoll.close()
            self._writes.close()


def _wake_up(sender: socket.socket) -> None:
    try:
        sender.send(b"\0")
    except OSError:
        return  # plenty of wake-ups are waiting already, or the thread has ended


class IoThread:
    """The reading and writing thread of one client instance; starts with the first connection.

    While the system starts no thread, sockets wait, and ``schedule_after`` is asked to try again.
    """

    def __init__(
        self, name: str, *, portable: bool = False, schedule_after: ScheduleAfter | None = None
    ) -> None:
        self._name = name
        self._schedule_after = schedule_after
        self._lock = threading.Lock()
        self._readables: dict[int, Readable] = {}
        self._writables: dict[int, Writable] = {}
        self._thread: threading.Thread | None = None
        self._tries_again = False
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
            self._start()
            self._watch.add(readable.fileno())  # under the lock: `close` comes before or after

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor that is about to be closed."""
        self._readables.pop(fd, None)
        self._watch.remove(fd)
        self.forget_write(fd)

    def add_write(self, writable: Writable) -> None:
        """Call `on_writable` as long as there is room to write, until `forget_write`."""
        with self._lock:
            if self._closing:
                return
            self._writables[writable.fileno()] = writable
            self._start()
            self._watch.add_write(writable.fileno())

    def forget_write(self, fd: int) -> None:
        """Undo `add_write`."""
        if self._writables.pop(fd, None) is not None:
            self._watch.remove_write(fd)

    def pause(self, fd: int) -> None:
        """Leave the reading to a caller until `resume`."""
        self._watch.pause(fd)

    def resume(self, fd: int) -> None:
        """Watch the descriptor again; what came meanwhile is seen."""
        self._watch.resume(fd)

    def is_current(self) -> bool:
        """Say whether this code runs on the I/O thread."""
        return threading.current_thread() is self._thread

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            if started(thread):
                self._thread = thread
            elif self._schedule_after is not None and not self._tries_again:
                self._tries_again = True
                self._schedule_after(RETRY_MS, self._try_again)

    def _try_again(self) -> None:
        with self._lock:
            self._tries_again = False
            if not self._closing:
                self._start()
        tell_of_shortage()

    def _run(self) -> None:
        wake = self._receiver.fileno()
        while not self._closing:
            readable, writable = self._watch.wait()
            for fd in writable:
                waiting = self._writables.get(fd)
                if waiting is not None:
                    self._let(waiting.on_writable)
            for fd in readable:
                if fd == wake:
                    self._swallow_wake_ups()
                    continue
                connection = self._readables.get(fd)
                if connection is not None:
                    self._let(connection.on_readable)
        with self._lock:  # `close` has woken this thread before: its call needs a descriptor
            self.drop_inherited()

    def _let(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:  # noqa: BLE001 - other connections live on
            _log.exception("reading or writing failed: %r", act)

    def _swallow_wake_ups(self) -> None:
        try:
            while len(self._receiver.recv(4096)) == 4096:
                pass
        except BlockingIOError:
            return

    def close(self, timeout: float) -> None:
        """End the thread within ``timeout`` seconds; connections must be closed before.

        The thread itself releases the descriptors, last of all, however long it takes.
        """
        with self._lock:
            if self._closing:
                return
            self._closing = True
            thread = self._thread
            if thread is None:
                self.drop_inherited()
                return
            _wake_up(self._sender)
        if not self.is_current():
            thread.join(timeout)
            if thread.is_alive():
                _log.warning("thread %s is still busy after %.1f s", thread.name, timeout)

    def drop_inherited(self) -> None:
        """Release the descriptors; those of a thread that runs here are its own to release."""
        self._watch.close()
        self._receiver.close()
        self._sender.close()
