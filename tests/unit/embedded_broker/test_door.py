"""The door: one owner, and effects only after release."""

import logging
from collections.abc import Callable
from os import getpid, kill
from signal import SIGUSR1, signal
from threading import Event, Lock, Thread

import pytest

from embedded_broker.door import Door
from embedded_broker.errors import DoorReentryError


class Peer:
    def __init__(self, door: Door | None = None) -> None:
        self.door = door
        self.got: list[list[bytes]] = []

    def deliver(self, frames: list[bytes]) -> None:
        if self.door is not None:
            assert not self.door.held
        self.got.append(frames)


class BrokenPeer(Peer):
    def deliver(self, frames: list[bytes]) -> None:
        raise OSError("gone")


def test_frames_are_delivered_in_order_and_only_after_release() -> None:
    door = Door()
    peer = Peer(door)

    with door:
        door.emit(peer, b"1")
        door.emit(peer, b"2")
        assert peer.got == []

    assert peer.got == [[b"1", b"2"]]


def test_entering_twice_on_one_thread_raises_instead_of_waiting_for_ever() -> None:
    door = Door()

    with door, pytest.raises(DoorReentryError, match="already inside"):
        door.__enter__()

    with door:
        assert door.held
    assert not door.held


def test_what_was_collected_before_an_exception_is_still_delivered() -> None:
    door = Door()
    peer = Peer()

    def first_answers_then_fails() -> None:
        with door:
            door.emit(peer, b"answer")
            raise KeyError("later request")

    with pytest.raises(KeyError):
        first_answers_then_fails()

    assert peer.got == [[b"answer"]]


def test_a_peer_that_fails_does_not_keep_others_from_their_frames(
    caplog: pytest.LogCaptureFixture,
) -> None:
    door = Door()
    peer, broken = Peer(), BrokenPeer()

    with door:
        door.emit(broken, b"x")
        door.emit(peer, b"y")

    assert peer.got == [[b"y"]]
    assert "could not hand frames" in caplog.text


def test_later_work_runs_outside_after_the_frames(caplog: pytest.LogCaptureFixture) -> None:
    door = Door()
    peer = Peer()
    seen: list[object] = []

    def fail() -> None:
        raise ValueError("no")

    with door:
        door.emit(peer, b"1")
        door.after(fail)
        door.after(lambda: seen.append((door.held, list(peer.got))))

    assert seen == [(False, [[b"1"]])]
    assert "work after the door failed" in caplog.text
    assert caplog.records[0].levelno == logging.ERROR


def test_hooks_run_inside_at_the_end_of_every_entry_until_forgotten() -> None:
    door = Door()
    seen: list[bool] = []

    def hook() -> None:
        seen.append(door.held)

    door.before_release(hook)
    with door:
        pass
    door.forget(hook)
    with door:
        pass

    assert seen == [True]


def test_a_failing_hook_does_not_keep_the_door_locked() -> None:
    door = Door()

    def hook() -> None:
        raise ValueError("bug")

    door.before_release(hook)
    with pytest.raises(ValueError, match="bug"), door:
        pass
    door.forget(hook)

    with door:
        assert door.held


def test_watchers_hear_of_every_entry_until_they_leave() -> None:
    door = Door()
    changed = Event()
    door.watch(changed)
    changed.clear()

    with door:
        pass
    assert changed.is_set()

    door.unwatch(changed)
    changed.clear()
    with door:
        pass
    assert not changed.is_set()


def test_a_second_thread_waits_until_the_first_is_out_and_is_seen_waiting() -> None:
    door = Door()
    order: list[str] = []

    def second() -> None:
        with door:
            order.append("second")

    thread = Thread(target=second)
    with door:
        thread.start()
        while not door.contended:
            thread.join(0.001)
        order.append("first")
    thread.join()

    assert order == ["first", "second"]
    assert not door.contended


def test_who_has_waited_for_long_comes_before_one_that_was_just_in() -> None:
    door = Door()
    order: list[str] = []

    def second() -> None:
        with door:
            order.append("second")

    for _ in range(20):  # without the line the one who was in nearly always wins
        order.clear()
        thread = Thread(target=second)
        with door:
            thread.start()
            while not door._is_line():
                thread.join(0.001)
        with door:
            order.append("first")
        thread.join()
        assert order == ["second", "first"]


def test_looking_in_quietly_owns_the_state_and_tells_nobody() -> None:
    door = Door()
    changed = Event()
    hooks: list[int] = []
    door.before_release(lambda: hooks.append(1))
    door.watch(changed)
    changed.clear()
    hooks.clear()

    with door.quiet:
        held_inside = door.held

    assert (held_inside, door.held) == (True, False)
    assert not changed.is_set()
    assert hooks == []


def test_what_is_emitted_in_a_quiet_entry_is_still_delivered() -> None:
    door = Door()
    peer = Peer()

    with door.quiet as same:
        same.emit(peer, b"1")

    assert peer.got == [[b"1"]]


class NosyLock:
    """A lock that lets somebody else in at the very moment of its release."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.then: Callable[[], None] | None = None

    def acquire(self, *, blocking: bool = True) -> bool:
        return self.lock.acquire(blocking)

    def release(self) -> None:
        self.lock.release()
        then, self.then = self.then, None
        if then is not None:
            then()


def test_who_leaves_with_nothing_does_not_deliver_what_the_next_one_collects() -> None:
    door, peer, lock = Door(), Peer(), NosyLock()
    door._lock = lock  # type: ignore[assignment]  # a lock to the door
    inside, go_on, calls = Event(), Event(), list[str]()

    def next_one() -> None:
        with door:
            door.emit(peer, b"frame")
            door.after(lambda: calls.append("call"))
            inside.set()
            assert go_on.wait(10)

    thread = Thread(target=next_one)

    def let_in() -> None:
        thread.start()
        assert inside.wait(10)

    lock.then = let_in
    with door:
        pass
    assert (peer.got, calls) == ([], [])

    go_on.set()
    thread.join()
    assert (peer.got, calls) == ([[b"frame"]], ["call"])


def test_a_signal_handler_may_enter_while_its_thread_waits() -> None:
    door = Door()
    order: list[str] = []
    inside, called = Event(), Event()

    def hold() -> None:
        with door:
            inside.set()
            while not door.contended:
                called.wait(0.001)
            kill(getpid(), SIGUSR1)  # comes to the main thread, which waits
            called.wait(30)

    def handle(_number: int, _frame: object) -> None:
        called.set()
        with door:
            order.append("handler")

    before = signal(SIGUSR1, handle)
    thread = Thread(target=hold)
    try:
        thread.start()
        inside.wait()
        with door:
            order.append("main")
    finally:
        thread.join()
        signal(SIGUSR1, before)
    assert order == ["handler", "main"]
    assert not door.contended


def test_work_in_turns_has_an_entry_for_each_step_and_lets_others_in_between() -> None:
    door, seen = Door(), list[object]()

    def step() -> bool:
        seen.append(door.held)
        return len(seen) < 4

    door.before_release(lambda: seen.append(door.entries))
    with door:
        door.in_turns(step)
    assert seen == [0, True, 1, True, 2]
    assert not door.delivering


def test_a_thread_that_has_turns_waits_for_its_turn_before_each_further_step() -> None:
    door, waiting, left = Door(), list[Callable[[], None]](), [3]

    def step() -> bool:
        left[0] -= 1
        return left[0] > 0

    door.use_turns(waiting.append)
    with door:
        door.in_turns(step)
    for rest in (2, 1):
        assert left == [rest]
        assert door.delivering
        waiting.pop()()
    assert left == [0]
    assert (waiting, door.delivering) == ([], False)

    door.use_turns(None)
    left[0] = 3
    with door:
        door.in_turns(step)
    assert left == [0]


def test_a_step_that_fails_ends_its_turns(caplog: pytest.LogCaptureFixture) -> None:
    door = Door()
    with door:
        door.in_turns(lambda: bool(1 / 0))
    assert not door.delivering
    assert "ZeroDivisionError" in caplog.text
