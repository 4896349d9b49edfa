"""Waits of a test: limited by wall time, and woken by every change of the broker.

Answers: how a test waits without sleeping, and what it is told when nothing came. Must not know:
what is waited for. Read on: ``embedded_broker/api/broker.py`` (``wait_for``, ``wait_delivered``).
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from threading import Event

from embedded_broker.door import Door
from embedded_broker.errors import BrokerStateError, WaitTimeoutError
from rocketmq_py.clock import monotonic

__all__ = ["LOOK_AGAIN_S", "describe", "looks", "refuse_in_event_loop", "wait_until"]

LOOK_AGAIN_S = 0.01
"""A condition over the test's own variables is looked at this often at least."""


def wait_until(
    condition: Callable[[], object],
    *,
    door: Door,
    timeout_s: float,
    expected: Callable[[], str],
    seen: Callable[[], str],
) -> None:
    """Return once ``condition()`` is true; ``WaitTimeoutError`` after ``timeout_s``, not before.

    ``condition`` runs on the calling thread outside the door.
    """
    refuse_in_event_loop("broker.wait_for(...)", "await broker.aio.wait_for(...)")
    changed = Event()
    door.watch(changed)
    try:
        for wait_s in looks(condition, timeout_s=timeout_s, expected=expected, seen=seen):
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
) -> Iterator[float]:
    """Look whether ``condition()`` is true; give how many seconds to wait before the next look.

    A ``LookupError`` from it counts as not yet true: the topic it asks for may still come. Raises
    ``WaitTimeoutError`` after ``timeout_s``.
    """
    deadline = monotonic() + timeout_s
    while True:
        trouble = ""
        try:
            if condition():
                return
        except LookupError as error:
            trouble = f"\nthe condition raised {error!r}"
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
