"""Event loop of the TCP server: asyncio's own, or uvloop's where the extra ``fast`` is installed.

Answers: in which order calls of any thread are made on the loop's thread, what is done right behind
them, and that a call that fails ends nothing else. Imported only when a port opens, because asyncio
is slow to import. Must not know: what is read or written. Read on: ``socket_transport.py`` for what
is done with a socket, and ``server.py``, which owns the thread.
"""

import asyncio
import socket
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import Final

from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

LAST_ROUNDS: Final = 3
"""A closing loop goes round so often: transports that were aborted tell it and close."""
SOCKETS_MAX: Final = 480 if sys.platform == "win32" else 1 << 30
"""So many sockets the loop can wait for: Windows' ``select`` takes 512."""
CONNECT_S: Final = 5.0
"""A closing loop waits so long for transports of sockets that were accepted just before."""

Call = Callable[[], None]


def make_event_loop() -> asyncio.AbstractEventLoop:
    """Make the fastest loop there is.

    asyncio's other loop on Windows cannot watch a listening socket; this one can everywhere.
    """
    try:
        import uvloop
    except ImportError:
        return asyncio.SelectorEventLoop()
    return uvloop.new_event_loop()


class SocketLoop:
    """Sockets, calls and timers of the thread that is in ``run``.

    Everything but ``call_soon`` and ``stop`` is used on that thread, or before it runs. Whatever a
    call raises is written to the log and ends nothing else.
    """

    __slots__ = ("_calls", "_is_closed", "_is_woken", "_late", "_loop", "_tasks", "_thread_id")

    def __init__(self) -> None:
        self._loop = make_event_loop()
        self._calls: deque[Call] = deque()
        self._late: list[Call] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread_id = 0
        self._is_woken = self._is_closed = False

    # -- on its thread ----------------------------------------------------------------------

    def run(self) -> None:
        """Serve until ``stop``."""
        self._thread_id = get_ident()
        self._loop.run_forever()

    def do(self, call: Call) -> None:
        """Make a call now, and what it asks for behind it."""
        self._late.append(call)
        self.make_late_calls()

    def after_this(self, call: Call) -> None:
        """Make a call right behind the call that is going on."""
        self._late.append(call)

    def make_late_calls(self) -> None:
        """Make the calls of ``after_this``: the work that asked for them is done."""
        while self._late:
            calls, self._late = self._late, []
            for call in calls:
                try:
                    call()
                except BaseException:
                    logger.exception("a call failed: %r", call)

    def call_later(self, seconds: float, call: Call) -> asyncio.TimerHandle:
        """Make a call in so many seconds, unless it is cancelled."""
        return self._loop.call_later(seconds, self.do, call)

    def watch(self, listener: socket.socket, call: Call) -> None:
        """Make a call whenever somebody waits to be accepted, from now on."""
        self._loop.add_reader(listener.fileno(), self.do, call)

    def forget(self, listener: socket.socket) -> None:
        """Watch a listener no more; idempotent."""
        if listener.fileno() >= 0:
            self._loop.remove_reader(listener.fileno())

    def connect(self, sock: socket.socket, protocol: asyncio.Protocol) -> None:
        """Let a protocol serve an accepted socket, which it owns from now on."""
        task = self._loop.create_task(self._connect(sock, protocol))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, sock: socket.socket, protocol: asyncio.Protocol) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, sock)
        except Exception:
            logger.exception("closing an accepted socket: the loop cannot serve it")
            sock.close()

    def close(self) -> None:
        """Make the calls that still wait, and give back what it has of the system."""
        self._is_closed = True
        try:
            if self._thread_id == get_ident():
                self._loop.run_until_complete(self._end())
        except RuntimeError:
            logger.exception("the loop does not end as it should")
        finally:
            while self._calls:
                self._make_calls()
            self._loop.close()

    async def _end(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CONNECT_S)
        for _ in range(LAST_ROUNDS):
            await asyncio.sleep(0)
            self._make_calls()

    def _make_calls(self) -> None:
        """Make the calls that wait now: what they ask for comes after a look at the sockets."""
        self._is_woken = False
        for _ in range(len(self._calls)):
            self.do(self._calls.popleft())

    # -- on any thread ----------------------------------------------------------------------

    def call_soon(self, call: Call) -> bool:
        """Make a call on the thread of the loop, after those that wait already.

        False: the loop is closed, and the call may not be made any more.
        """
        self._calls.append(call)
        if self._is_closed:
            return False
        if not self._is_woken:
            self._is_woken = True
            is_here = self._thread_id == get_ident()
            # A call that came before the loop was closed has been made when it closes.
            with suppress(RuntimeError):
                # The loop's own thread is awake: two system calls less.
                (self._loop.call_soon if is_here else self._loop.call_soon_threadsafe)(
                    self._make_calls
                )
        return True

    def call_behind(self, call: Call) -> bool:
        """Make a call behind everything that was asked for before, as ``call_soon`` does.

        When it is made, bytes written before are with the system, and ended connections are lost.
        """

        def once_more() -> None:
            self.call_soon(call)

        return self.call_soon(once_more)

    def stop(self) -> None:
        """Return from ``run`` once the calls that wait already are made."""
        self.call_soon(self._stop)

    def _stop(self) -> None:
        if not self._is_closed:
            self._loop.stop()
