"""Waits of tests, each with its bound: for an act that must end, and for what must come true."""

from __future__ import annotations

import threading
from collections.abc import Callable

LOOK_EVERY_S = 0.01
HANG_S = 240
"""Of a wait for another program, which ends by what it waits for: a JVM that starts beside five
others on two processors has taken a minute. No figure is told by it."""


def within(seconds: float, act: Callable[[], object]) -> None:
    """Do something that must end by then."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"{act} was not over after {seconds} s"
    if failed:
        raise failed[0]


def until(holds: Callable[[], object], seconds: float = 10.0) -> None:
    """Return when it holds; looks about a hundred times a second."""
    pause = threading.Event()
    for _ in range(round(seconds / LOOK_EVERY_S)):
        if holds():
            return
        pause.wait(LOOK_EVERY_S)
    raise AssertionError(f"it did not come true within {seconds} s")
