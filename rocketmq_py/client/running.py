"""How a program stays alive for a client that receives: until a signal ends it.

The threads of the SDK are daemons, so a program whose main thread ends takes its consumer with it.
`Foreground.run` keeps the main thread until SIGINT or SIGTERM. Must not know what is received.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue

from rocketmq_py.client.life import Client
from rocketmq_py.errors import ClientClosedError, IllegalStateError

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK_S = 0.5
"""How often it is looked whether a signal has come unnoticed."""


class Foreground(Client):
    """A client that a program may run until a signal ends it."""

    def run(self) -> None:
        """Start unless it runs, wait for SIGINT or SIGTERM, then shut down and return.

        Also returns when another thread, or a listener, has shut it down, even while it was
        starting. SIGINT ends it even where it was ignored before, as in background jobs. While this
        runs, handlers of both signals are its own; those of before are restored at the end. Raises
        `IllegalStateError` in another thread than the main one, which gets no signals, and what
        `start` raises.
        """
        if threading.current_thread() is not threading.main_thread():
            raise IllegalStateError(
                "run() waits for signals, which only the main thread gets: call start() in this "
                "thread, and shutdown() at the end"
            )
        # Its put may be called by a handler at any moment: no lock of Python's is taken.
        told: SimpleQueue[None] = SimpleQueue()
        with _handled(told):
            try:
                if not self.is_running and not self._started():
                    return
                self._life.at_end(lambda _: told.put(None))
                while self.is_running:  # else it was shut down, perhaps before that was named
                    with suppress(Empty):
                        # A signal that comes just before the wait does not end it: its handler
                        # has its turn when the wait is over.
                        told.get(timeout=LOOK_S)
                        break
            finally:
                self.shutdown()

    def _started(self) -> bool:
        """Start; False when it was shut down meanwhile, perhaps by its first message."""
        was_closed = self._life.state == "closed"
        try:
            self.start()
        except ClientClosedError:
            if was_closed:
                raise
            return False
        return True


@contextmanager
def _handled(told: SimpleQueue[None]) -> Iterator[None]:
    """Put into ``told`` at each signal."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        for number, handler in before.items():
            if handler is not None:  # a handler that is not Python's could not be restored
                signal.signal(number, lambda *_: told.put(None))
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
