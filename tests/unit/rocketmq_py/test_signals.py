"""Waits of a main thread for what handlers of signals tell."""

from __future__ import annotations

from queue import Empty, SimpleQueue

from rocketmq_py.signals import LOOK_S, wait_until_told


class Late(SimpleQueue[None]):
    """Gives something at the third look; notes how long it may take each time."""

    def __init__(self) -> None:
        self.waits: list[float | None] = []

    def get(self, block: bool = True, timeout: float | None = None) -> None:
        assert block
        self.waits.append(timeout)
        if len(self.waits) < 3:
            raise Empty


def test_it_looks_again_because_a_wait_may_not_notice_the_signal() -> None:
    told = Late()
    wait_until_told(told)
    assert told.waits == [LOOK_S] * 3


def test_what_was_told_before_is_seen() -> None:
    told: SimpleQueue[None] = SimpleQueue()
    told.put(None)
    wait_until_told(told)
    assert told.empty()


def test_it_ends_when_there_is_no_reason_to_go_on() -> None:
    left = [True, False]
    told = Late()
    wait_until_told(told, lambda: left.pop(0))
    assert (left, told.waits) == ([], [LOOK_S])
