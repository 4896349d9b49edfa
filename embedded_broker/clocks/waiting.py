"""Waits of a test: limited by wall time, and woken by every change of the broker.

Answers: how a test waits without sleeping, and what it is told when nothing came. Must not know:
what is waited for. Read on: ``embedded_broker/api/broker.py`` (``wait_for``, ``wait_delivered``).
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Event

from embedded_broker.door import Door
from embedded_broker.errors import BrokerStateError, WaitTimeoutError
from rocketmq_py.clock import monotonic

LOOK_AGAIN_S = 0.01
"""A condition over the test's own variables is looked at this often at least."""


class Look:
    """One wait under way: ``turn`` is the last question of ``Onlookers`` that it has answered."""

    def __init__(self, wake: Event | None) -> None:
        self.wake = wake
        self.turn = 0
        self.is_over = False


class Onlookers:
    """The waits of tests under way, for who moves time meanwhile.

    Time must not run past the instant at which a wait is over. So before every jump all waits look
    at their conditions once more, each on its own thread. When one was over and the body of the
    test has not begun another, time stands: the body is doing something.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._looks: list[Look] = []
        self._turn = 0
        self._stands = False
        self.begun = 0
        """How many waits have begun so far."""

    @contextmanager
    def watching(self, wake: Event | None) -> Iterator[Look]:
        """Be asked before every jump, by ``wake`` (else within 10 ms). Time may go on."""
        look = Look(wake)
        with self._changed:
            self._stands = False
            self.begun += 1
            self._looks.append(look)
            self._changed.notify_all()
        try:
            yield look
        finally:
            with self._changed:
                self._looks.remove(look)
                self._stands = look.is_over and not self._looks
                self._changed.notify_all()

    @property
    def turn(self) -> int:
        """The number of the last question; a look that begins after it answers it."""
        return self._turn

    def answer(self, look: Look, turn: int) -> None:
        """Note that a condition did not hold when it was looked at after question ``turn``."""
        if look.turn != turn:
            with self._changed:
                look.turn = turn
                self._changed.notify_all()

    def begin(self) -> None:
        """Forget what was waited for before time began to go by itself."""
        with self._changed:
            self._stands = False

    def may_jump(self, stop: Event, begun: int) -> bool:
        """Let every wait look once more; True when none is over. Returns soon after ``stop``.

        False, too, when more than ``begun`` waits have begun: the body did something meanwhile.
        """
        with self._changed:
            self._turn += 1
            for look in self._looks:
                if look.wake is not None:
                    look.wake.set()
            while not stop.is_set():
                if self._stands or self.begun != begun:
                    return False
                if all(look.turn == self._turn for look in self._looks):
                    return True
                self._changed.wait(LOOK_AGAIN_S)
        return False


def wait_until(
    condition: Callable[[], object],
    *,
    door: Door,
    timeout_s: float,
    expected: Callable[[], str],
    seen: Callable[[], str],
    onlookers: Onlookers,
) -> None:
    """Return once ``condition()`` is true; ``WaitTimeoutError`` after ``timeout_s``, not before.

    ``condition`` runs on the calling thread outside the door.
    """
    refuse_in_event_loop("broker.wait_for(...)", "await broker.aio.wait_for(...)")
    changed = Event()
    door.watch(changed)
    try:
        with onlookers.watching(changed) as look:
            for wait_s in looks(
                condition,
                timeout_s=timeout_s,
                expected=expected,
                seen=seen,
                look=look,
                onlookers=onlookers,
            ):
                changed.wait(wait_s)
                changed.clear()
    finally:
        door.unwatch(changed)


def looks(
    condition: Callable[[], object],
    *,
    timeout_s: float,
    expected: Callable[[], str],
    seen: Callable[[], str],
    look: Look,
    onlookers: Onlookers,
) -> Iterator[float]:
    """Look whether ``condition()`` is true; give how many seconds to wait before the next look.

    A ``LookupError`` from it counts as not yet true: the topic it asks for may still come. Raises
    ``WaitTimeoutError`` after ``timeout_s``.
    """
    deadline = monotonic() + timeout_s
    while True:
        trouble = ""
        turn = onlookers.turn
        try:
            if condition():
                look.is_over = True
                return
        except LookupError as error:
            trouble = f"\nthe condition raised {error!r}"
        onlookers.answer(look, turn)
        left_s = deadline - monotonic()
        if left_s <= 0:
            text = f"waited {timeout_s:g} s for {expected()}\nseen: {seen()}{trouble}"
            raise WaitTimeoutError(text)
        yield min(left_s, LOOK_AGAIN_S)


def refuse_in_event_loop(call: str, instead: str) -> None:
    """Raise ``BrokerStateError`` on the thread of a running event loop: nothing there would run.

    The module is only looked up: a program without asyncio does not load it by waiting.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise BrokerStateError(
        f"{call} would block the event loop of this thread, and with it the clients that run "
        f"there: {instead}, or call it on another thread"
    )


def describe(condition: Callable[..., object]) -> str:
    """Return a condition in words: its source code if there is any, else its name."""
    try:
        lines, _ = inspect.getsourcelines(condition)
    except (OSError, TypeError):
        return repr(condition)
    return " ".join(line.strip() for line in lines[:5])
