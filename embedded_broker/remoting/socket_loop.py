"""Event loop of the TCP server: one thread waits for sockets, calls and timers.

Answers: who is told that a socket can be read or written, and in which order calls are made. A
handler is called where the wait ends, with nothing in between: in a broker whose requests take
20 us that is worth more than a loop written in C. On Linux it waits by epoll, elsewhere by what
``selectors`` finds best. Must not know: what is read or written. Read on: ``socket_transport.py``
for what is done with a socket, and ``server.py``, which owns the thread.
"""

import errno
import select
import selectors
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from threading import get_ident
from typing import Final, Protocol

from attrs import define, field

from rocketmq_py.clock import monotonic_ns
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

READ: Final = 1
WRITE: Final = 4
"""Bits of what is waited for; as in epoll, whose others (an error, a hang-up) mean both."""
WAKE_UPS_READ: Final = 4096
SELECT_MAX: Final = 500
"""What Windows' ``select`` takes, and a few less."""

Handler = Callable[[int], None]
"""Told what its socket is ready for."""


class Poll(Protocol):
    """The sockets that are waited for."""

    def register(self, fd: int, events: int) -> None:
        """Wait for one more."""

    def modify(self, fd: int, events: int) -> None:
        """Wait for something else."""

    def unregister(self, fd: int) -> None:
        """Wait for it no more."""

    def poll(self, timeout: float | None) -> Iterable[tuple[int, int]]:
        """Wait until some are ready, at most so many seconds; None: as long as it takes."""

    def close(self) -> None:
        """Give back what it has of the system."""


class Selector:
    """Waits wherever Python runs."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        is_small = isinstance(self._selector, selectors.SelectSelector)
        self._most = SELECT_MAX if is_small else None

    def register(self, fd: int, events: int) -> None:
        """Wait for one more; `OSError` when it can wait for no more."""
        if self._most is not None and len(self._selector.get_map()) >= self._most:
            raise OSError(errno.EMFILE, f"select() can wait for {self._most} sockets only")
        self._selector.register(fd, _mask(events))

    def modify(self, fd: int, events: int) -> None:
        """Wait for something else."""
        self._selector.modify(fd, _mask(events))

    def unregister(self, fd: int) -> None:
        """Wait for it no more."""
        self._selector.unregister(fd)

    def poll(self, timeout: float | None) -> Iterable[tuple[int, int]]:
        """Wait until some are ready."""
        for key, mask in self._selector.select(timeout):
            reads, writes = mask & selectors.EVENT_READ, mask & selectors.EVENT_WRITE
            yield key.fd, (READ if reads else 0) | (WRITE if writes else 0)

    def close(self) -> None:
        """Give back what it has of the system."""
        self._selector.close()


def _mask(events: int) -> int:
    reads, writes = events & READ, events & WRITE
    return (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if writes else 0)


def make_poll() -> Poll:
    """Make what waits best here."""
    return select.epoll() if sys.platform == "linux" else Selector()


@define(slots=True, eq=False)
class Timer:
    """A call that is made later, unless it is cancelled."""

    call: Callable[[], None] | None

    def cancel(self) -> None:
        """Do not make it, and let go of what it holds."""
        self.call = None


@define(eq=False)
class SocketLoop:
    """Sockets, calls and timers of the thread that is in ``run``.

    Everything but ``call_soon`` and ``stop`` is used on that thread, or before it runs. Whatever a
    handler or call raises is told to the log and ends nothing else.
    """

    _poll: Poll = field(init=False)
    _handlers: dict[int, Handler] = field(factory=dict, init=False)
    _calls: deque[Callable[[], None]] = field(factory=deque, init=False)
    _late: list[Callable[[], None]] = field(factory=list, init=False)
    _timers: list[tuple[int, int, Timer]] = field(factory=list, init=False)
    _numbers: Iterator[int] = field(factory=count, init=False)
    _thread_id: int = field(default=0, init=False)
    _is_woken: bool = field(default=False, init=False)
    _is_over: bool = field(default=False, init=False)
    _is_closed: bool = field(default=False, init=False)
    _wakes: tuple[socket.socket, socket.socket] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._wakes = receiver, sender = socket.socketpair()
        try:
            self._poll = make_poll()
        except OSError:
            receiver.close()
            sender.close()
            raise
        receiver.setblocking(False)
        sender.setblocking(False)
        self.watch(receiver.fileno(), READ, self._swallow_wake_ups)

    # -- on its thread ----------------------------------------------------------------------

    def watch(self, fd: int, events: int, handler: Handler) -> None:
        """Tell ``handler`` whenever a socket is ready for any of ``events``, from now on."""
        if fd in self._handlers:
            self._poll.modify(fd, events)
        else:
            self._poll.register(fd, events)
        self._handlers[fd] = handler

    def forget(self, fd: int) -> None:
        """Tell nobody any more, not even of what was seen already; idempotent."""
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Make a call in so many seconds."""
        timer = Timer(call)
        due_ns = monotonic_ns() + int(seconds * 1e9)
        heappush(self._timers, (due_ns, next(self._numbers), timer))
        return timer

    def after_this(self, call: Callable[[], None]) -> None:
        """Make a call right behind the handler or call that is going on."""
        self._late.append(call)

    def run(self) -> None:
        """Serve until ``stop``."""
        self._thread_id = get_ident()
        calls, timers, handlers, poll = self._calls, self._timers, self._handlers, self._poll.poll
        while not self._is_over:
            timeout = 0 if calls else None if not timers else self._wait_s()
            for fd, events in poll(timeout):
                handler = handlers.get(fd)
                if handler is not None:
                    try:
                        handler(events)
                    except BaseException:
                        logger.exception("a socket's work failed: %r", handler)
                    if self._late:
                        self._make_late_calls()
            if timers:
                self._collect_due()
            # What they ask for in turn is done after another look at the sockets.
            for _ in range(len(calls)):
                self._make_first_call()

    def close(self) -> None:
        """Make the calls that still wait, and give back what it has of the system."""
        self._is_closed = True
        while self._calls:
            self._make_first_call()
        self._poll.close()
        for one in self._wakes:
            one.close()

    def _make_first_call(self) -> None:
        self._late.append(self._calls.popleft())
        self._make_late_calls()

    def _make_late_calls(self) -> None:
        while self._late:
            calls, self._late = self._late, []
            for call in calls:
                try:
                    call()
                except BaseException:
                    logger.exception("a call failed: %r", call)

    def _wait_s(self) -> float:
        return max(0, self._timers[0][0] - monotonic_ns()) / 1e9

    def _collect_due(self) -> None:
        timers, now_ns = self._timers, monotonic_ns()
        while timers and timers[0][0] <= now_ns:
            call = heappop(timers)[2].call
            if call is not None:
                self._calls.append(call)

    def _swallow_wake_ups(self, _: int) -> None:
        self._wakes[0].recv(WAKE_UPS_READ)
        # After that, or a call that comes now would wait; before the calls are looked at.
        self._is_woken = False

    # -- on any thread ----------------------------------------------------------------------

    def call_soon(self, call: Callable[[], None]) -> bool:
        """Make a call on the thread of the loop, after those that wait already.

        False: the loop is closed, and the call may not be made any more.
        """
        self._calls.append(call)
        if self._is_closed:
            return False
        # Its own thread is awake: two system calls less.
        if self._thread_id == get_ident() or self._is_woken:
            return True
        self._is_woken = True
        try:
            self._wakes[1].send(b"\0")
        except OSError:
            logger.debug("the loop is awake, or closed")
        return True

    def stop(self) -> None:
        """Return from ``run`` once the calls that wait already are made."""
        self.call_soon(self._note_stop)

    def _note_stop(self) -> None:
        self._is_over = True
