"""Whose work is next on the thread of the sockets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded_broker.remoting import turns
from embedded_broker.remoting.turns import TURN_NS, Turns


class Loop:
    """A loop that runs a turn when it is told to, and a time that passes with the work."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.calls: list[Callable[[], None]] = []
        self.done: list[str] = []
        self.turns = Turns(self.calls.append)

    def turn(self) -> list[str]:
        """Run what is to be run now; give what was done."""
        calls, self.calls[:] = list(self.calls), []
        for call in calls:
            call()
        done, self.done = self.done, []
        return done

    def wait(self, name: str, took_ns: int, *, again: bool, steps: int = 1) -> None:
        """Let something wait that has so many steps."""

        def step() -> None:
            self.done.append(name)
            self.now_ns += took_ns
            if steps > 1:
                self.wait(name, took_ns, again=True, steps=steps - 1)

        self.turns.wait(step, again=again)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    found = Loop()
    monkeypatch.setattr(turns, "monotonic_ns", lambda: found.now_ns)
    return found


def test_steps_are_done_for_the_time_of_a_turn_and_the_rest_in_the_next(loop: Loop) -> None:
    for name in "abcd":
        loop.wait(name, TURN_NS // 2, again=True)
    assert [loop.turn() for _ in range(3)] == [["a", "b"], ["c", "d"], []]
    assert loop.calls == []


def test_each_has_a_step_before_anybody_has_a_second_one(loop: Loop) -> None:
    for name in "ab":
        loop.wait(name, TURN_NS, again=True, steps=3)
    assert [loop.turn() for _ in range(6)] == [["a"], ["b"], ["a"], ["b"], ["a"], ["b"]]


def test_who_comes_new_goes_first_but_the_others_go_on(loop: Loop) -> None:
    loop.wait("old", TURN_NS, again=True, steps=3)
    for name in "abc":
        loop.wait(name, TURN_NS, again=False)
    assert [loop.turn() for _ in range(3)] == [["a", "old"], ["b", "old"], ["c", "old"]]


def test_a_step_that_fails_holds_up_nobody_else(loop: Loop) -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    loop.turns.use(TURN_NS)
    loop.turns.wait(fail, again=False)
    loop.wait("next", TURN_NS, again=False)
    with pytest.raises(KeyboardInterrupt):
        loop.turn()
    assert not loop.turns.is_over
    assert loop.turn() == ["next"]


def test_a_turn_is_over_when_its_time_is_used_and_the_next_one_is_new(loop: Loop) -> None:
    over = []
    for took_ns in (TURN_NS - 1, 1):
        loop.turns.use(took_ns)
        over.append(loop.turns.is_over)
    assert len(loop.calls) == 1
    loop.turn()
    over.append(loop.turns.is_over)
    assert over == [False, True, False]
    assert loop.calls == []
