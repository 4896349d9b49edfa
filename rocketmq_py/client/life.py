"""From new to running to over: who may start a client, and what ends with it.

The one life cycle of all clients (`Client`), and of the instances that they share. A client
collects what must be undone (`Life.at_end`) while it starts, and `Life.end` undoes it on a thread
of its own. So a handler of a signal may shut a client down while the code that it has interrupted
starts or ends it and holds locks, and a Ctrl-C takes only the caller away, never the work. Nothing
here takes a lock on the caller's thread. Must not know what a client does. Read on:
``instance.py``, ``caller.py``, ``../producer/producer.py``, ``../consumer/push.py``.
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Final, Literal, NamedTuple, Self, TypeAlias

from rocketmq_py.client.background import EndingThread, who_waits
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import (
    ClientClosedError,
    ConfigError,
    ForkedClientError,
    IllegalStateError,
    MQClientException,
    NotStartedError,
    RocketMQError,
)
from rocketmq_py.logs import get_logger

_log = get_logger(__name__)

State: TypeAlias = Literal["new", "starting", "running", "failed", "closed"]
Step: TypeAlias = Callable[[float], object]
"""Undoes something within so many seconds."""

PATIENCE_S = 3.0
"""How long the end of a client takes at most, unless its program says otherwise."""
GRACE_S = 0.4
"""How much longer than its ``timeout`` a caller of `Life.end` waits for steps that only end."""
PATIENCE_MAX_S = 1_000_000.0
"""Longer waits would be refused by the interpreter."""


_running: dict["Life", None] = {}
"""The clients of this process that run, in the order of their starts."""


def lives_that_run() -> "list[Life]":
    """Give what runs in this process, the last that was started first."""
    return [life for life in reversed(list(_running)) if not life.is_foreign]


_leave_until: list[float] = []
"""When the time is over that this program has since its main thread has ended."""


def time_to_leave() -> float:
    """Give the seconds that are left of the one time-out that the end of a program has.

    It begins with the first who asks. Other threads may keep the program alive for longer: then
    it begins anew.
    """
    now = monotonic()
    if not _leave_until or now > _leave_until[-1] + GRACE_S:
        _leave_until[:] = [now + PATIENCE_S]
    return max(0.0, _leave_until[-1] - now)


class Remedy(NamedTuple):
    """How a program avoids that its end takes a client with it, in words for a log line."""

    block: str = "a with block"
    to_stay: str = ""
    """What keeps the program alive, if the client is one that receives."""


WITH_BLOCK: Final = Remedy()


class Life:
    """The life of one client. Every call is safe from any thread and from a signal handler.

    ``who`` names it in texts. ``pid`` is the process that has started it, or that made it when
    nobody has.
    """

    def __init__(self, who: Callable[[], str], remedy: Remedy = WITH_BLOCK) -> None:
        self.who = who
        self.remedy = remedy
        self.pid = os.getpid()
        self._may_start = [True]  # taking it is one step for any number of threads
        self._over = False
        self._state: State = "new"
        self._steps: list[Step] = []
        self._in_order = threading.Lock()  # taken by ending threads only: no signal meets it

    @property
    def state(self) -> State:
        """What the client is now; `closed` from the first call of `end` on."""
        return "closed" if self._over else self._state

    @property
    def is_foreign(self) -> bool:
        """Whether this is another process, a forked child."""
        return self.pid != os.getpid()

    def check_process(self) -> None:
        """Raise `ForkedClientError` in a forked child of the process that has started it."""
        if self.is_foreign and self.state != "new":
            raise ForkedClientError(
                f"{self.who()} was started in process {self.pid}, this is its forked child "
                f"{os.getpid()}: make and start a new one here"
            )

    def refusal(self) -> IllegalStateError:
        """Build the error for who needs it to run while it does not."""
        if self.state == "closed":
            return ClientClosedError(f"{self.who()} is shut down: make a new one")
        if self.state == "failed":
            return NotStartedError(f"the start of {self.who()} has failed: make a new one")
        return NotStartedError(
            f"{self.who()} is not started: call start(), or use {self.remedy.block}"
        )

    def check_running(self) -> None:
        """Raise `ForkedClientError`, `ClientClosedError` or `NotStartedError` unless it runs."""
        self.check_process()
        if self.state != "running":
            raise self.refusal()

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Start inside this block; what it raises undoes what `at_end` has collected.

        A start that failed before `at_end` was called may be tried again. Raises
        `ForkedClientError`, `MQClientException` for a second start, and `ClientClosedError` after
        `end` and when it was called meanwhile.
        """
        if not self._take_start("starting"):
            raise MQClientException(
                f"{self.who()} cannot be started, it is {self.state}: a client starts once, make "
                "a new one"
            )
        try:
            yield
            if self.state == "closed":
                raise self._ended_meanwhile()  # noqa: TRY301 - undone as any other failure is
            _running[self] = None
            self._state = "running"
        except ClientClosedError:
            self._undo_start()
            raise
        except BaseException as error:
            self._undo_start()
            if self.state == "closed" and isinstance(error, RocketMQError):
                raise self._ended_meanwhile() from error
            raise

    def start_once(self) -> bool:
        """Start what many use and nothing can fail of; False when somebody has started it.

        Raises `ForkedClientError`, and `ClientClosedError` after `end`.
        """
        return self._take_start("running")

    def _take_start(self, state: State) -> bool:
        """Take the one start there is; False when it is taken."""
        self.check_process()
        if self._over:
            raise self.refusal()
        try:
            self._may_start.pop()
        except IndexError:
            return False
        self.pid = os.getpid()  # what was only made before a fork may be started behind it
        self._state = state
        return True

    def at_end(self, step: Step) -> None:
        """Undo something at the end, before what was named earlier."""
        self._steps.append(step)

    def end(self, timeout: float) -> None:
        """Undo everything within ``timeout`` seconds; what takes longer goes on in background.

        Returns at once when all is undone. Does nothing in a forked child.
        """
        self._over = True
        _running.pop(self, None)
        if not self.is_foreign:
            self._undo(timeout)

    def _undo_start(self) -> None:
        if self._steps:
            self._state = "failed"
            self._undo(0.0)
        elif not self._over:
            self._state = "new"
            self._may_start.append(True)

    def _ended_meanwhile(self) -> ClientClosedError:
        return ClientClosedError(f"{self.who()} was shut down while it was starting")

    def _undo(self, timeout: float) -> None:
        if not self._steps and not self._in_order.locked():
            return
        if any(isinstance(one, EndingThread) and one.owner is self for one in who_waits()):
            return  # a callback that a step has run: the step must not wait for itself
        thread = EndingThread(partial(self._run_steps, monotonic() + timeout), self)
        try:
            thread.start()
        except RuntimeError:  # the interpreter ends and starts no more threads
            if self._in_order.locked():
                return
            thread.run()
        if not thread.wait(timeout + GRACE_S):
            _log.warning("%s is still ending after %.1f s", self.who(), timeout)

    def _run_steps(self, deadline: float) -> None:
        with self._in_order:
            while self._steps:
                step = self._steps.pop()
                try:
                    step(max(0.0, deadline - monotonic()))
                except Exception:  # noqa: BLE001 - the other steps must have their turn
                    _log.exception("%s: a step of its end failed", self.who())


class Living:
    """What `shutdown` means, however a client starts."""

    _life: Life

    def shutdown(self, timeout: float | timedelta = PATIENCE_S) -> None:
        """End it, within little more than ``timeout`` seconds.

        What is not done by then goes on in background. May be called again, by any thread and by
        a handler of a signal: a second call waits for the first one's work. A `start` that is
        under way raises `ClientClosedError`, and so does a later one.
        """
        self._life.end(checked_patience(timeout))

    @property
    def is_running(self) -> bool:
        """Whether it is started and not yet shut down; never in a forked child."""
        return self._life.state == "running" and not self._life.is_foreign

    def check_running(self) -> None:
        """Raise `NotStartedError`, `ClientClosedError` or `ForkedClientError` unless it runs."""
        self._life.check_running()


class Client(Living, ABC):
    """What `start`, `shutdown` and ``with`` mean, whatever a client does.

    It starts once: a second start raises `MQClientException`, one after `shutdown`
    `ClientClosedError`. A forked child can only shut it down, which does nothing there: all else
    raises `ForkedClientError`.
    """

    @abstractmethod
    def start(self) -> None:
        """Get ready to work."""

    def __enter__(self) -> Self:
        """Start, unless it is running already."""
        if not self.is_running:
            self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Shut down."""
        self.shutdown()


def checked_patience(timeout: object) -> float:
    """Return the ``timeout`` of a shutdown, in seconds; `ConfigError` below 0, TypeError for text.

    Other calls take milliseconds, so the unit is named.
    """
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        kind = type(timeout).__name__
        raise TypeError(
            f"timeout of a shutdown is a number of seconds or a timedelta, not {kind} {timeout!r}"
        )
    if not timeout >= 0:  # not a number is none of them
        raise ConfigError("timeout", timeout, "seconds, at least 0")
    return min(timeout, PATIENCE_MAX_S)
