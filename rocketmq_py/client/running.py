"""How a program stays alive for a client that receives: until a signal ends it.

The threads of the SDK are daemons, so a program whose main thread ends takes its consumer with it.
`Foreground.run` keeps the main thread until SIGINT or SIGTERM, `Foreground.keep_alive` the program
until a shutdown or a Ctrl-C. Must not know what is received.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

from rocketmq_py.client.life import WITH_BLOCK, Client
from rocketmq_py.errors import ClientClosedError, IllegalStateError, MQClientException
from rocketmq_py.signals import LOOK_S, wait_until_told

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_kept_alive: set[threading.Event] = set()
"""What lets programs end that are kept alive; one for each client."""


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
        told: SimpleQueue[None] = SimpleQueue()
        with _handled(told):
            try:
                if not self.is_running and not self._started():
                    return
                self._life.at_end(lambda _: told.put(None))
                # The client may have been shut down before `at_end` was called.
                wait_until_told(told, lambda: self.is_running)
            finally:
                self.shutdown()

    def keep_alive(self) -> None:
        """Let the program go on when its main thread ends, until this client is shut down.

        Returns at once. Programs that were ported from Java expect it: there the threads of a
        consumer keep the program alive. A Ctrl-C that comes after the main thread, or has ended
        that by its `KeyboardInterrupt`, shuts the client down: for that a call in the main thread
        sets a handler of SIGINT, unless the program has one or ignores the signal. Raises what
        `check_running` raises, and `MQClientException` when the system starts no thread.
        """
        self.check_running()
        ended = threading.Event()
        keeper = threading.Thread(
            target=self._stay, args=(ended,), name="rocketmq-keep-alive", daemon=False
        )
        try:
            keeper.start()
        except RuntimeError as error:
            raise MQClientException(f"the program cannot be kept alive: {error}") from error
        self._life.at_end(lambda _: ended.set())
        self._life.remedy = WITH_BLOCK  # to stay alive it needs nothing else
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupted)
        if not self.is_running:  # it was shut down before that was named
            ended.set()

    def _stay(self, ended: threading.Event) -> None:
        _kept_alive.add(ended)
        try:
            while threading.main_thread().is_alive() and not ended.wait(LOOK_S):
                pass
            if not isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
                ended.wait()
            self.shutdown()  # waits for the one that has begun
        finally:
            _kept_alive.discard(ended)

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


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Let a program end that is only kept alive; else raise KeyboardInterrupt, as is usual."""
    if threading.main_thread().is_alive() or not _kept_alive:
        signal.default_int_handler(number, frame)
    for ended in list(_kept_alive):
        ended.set()


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
