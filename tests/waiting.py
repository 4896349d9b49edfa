"""Waits of tests, each with its bound: for an act that must end, and for what must come true."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import TypedDict

LOOK_EVERY_S = 0.01
HANG_S = 240
"""Of a wait for another program, which ends by what it waits for: a JVM that starts beside five
others on two processors has taken a minute. No figure is told by it."""
GRACE_S = 10.0
"""What a machine that has much to do may add to the time of an act."""


class Timeouts(TypedDict, total=False):
    """Settings of a client: how long it waits for a server, in milliseconds."""

    connect_timeout: int
    mq_client_api_timeout: int


PATIENT = Timeouts(connect_timeout=60_000, mq_client_api_timeout=60_000)
"""Settings of a client that must not wait for what is dead: one that does so is found out."""


def within(seconds: float, act: Callable[[], object]) -> None:
    """Do something that must end by then, or `GRACE_S` later.

    What the act must not wait for has to take longer than both, or the test shows nothing.
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds + GRACE_S)
    assert not thread.is_alive(), f"{act} was not over after {seconds} s and a grace of {GRACE_S} s"
    if failed:
        raise failed[0]


def freeze(pid: int) -> None:
    """Stop a child process by SIGSTOP, and return when all its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def until(holds: Callable[[], object], seconds: float = 10.0) -> None:
    """Return when it holds; looks about a hundred times a second."""
    pause = threading.Event()
    for _ in range(round(seconds / LOOK_EVERY_S)):
        if holds():
            return
        pause.wait(LOOK_EVERY_S)
    raise AssertionError(f"it did not come true within {seconds} s")
