"""The loop of the sockets: in which order calls are made, and that none is missed or too much."""

from __future__ import annotations

import errno
import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from threading import Event, Thread

import pytest

from embedded_broker.remoting import socket_loop
from embedded_broker.remoting.socket_loop import READ, WRITE, SocketLoop

GUARD_S = 20.0

pytestmark = pytest.mark.usefixtures("either_wait")


@pytest.fixture
def loop(either_wait: str) -> Iterator[SocketLoop]:
    loop = SocketLoop()
    yield loop
    loop.close()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)
        yield one, other


def test_calls_are_made_in_their_order_and_stop_comes_behind_those_that_wait(
    loop: SocketLoop,
) -> None:
    made: list[int] = []
    loop.call_soon(lambda: made.append(1))
    loop.stop()
    loop.call_soon(lambda: made.append(2))
    loop.run()
    assert made == [1, 2]


def test_what_a_call_asks_for_is_done_after_another_look_at_the_sockets(
    loop: SocketLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    one, other = ends
    done: list[str] = []

    def first() -> None:
        done.append("first")
        other.send(b"x")
        loop.call_soon(second)

    def second() -> None:
        done.append("second")
        loop.stop()

    def read(_: int) -> None:
        done.append(f"read {one.recv(10)!r}")

    loop.watch(one.fileno(), READ, read)
    loop.call_soon(first)
    loop.run()
    assert done == ["first", "read b'x'", "second"]


def test_what_is_to_be_done_behind_something_is_done_before_anything_else(
    loop: SocketLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    done: list[str] = []

    def act(name: str) -> None:
        done.append(name)
        loop.after_this(lambda: done.append(f"behind {name}"))

    def handle(name: str, end: socket.socket) -> None:
        loop.forget(end.fileno())
        act(name)

    for name, end in zip(("one", "other"), ends, strict=True):
        loop.watch(end.fileno(), WRITE, lambda _, name=name, end=end: handle(name, end))  # type: ignore[misc] # bound now
    loop.call_soon(lambda: act("call"))
    loop.stop()
    loop.run()
    assert sorted(done[::2]) == ["call", "one", "other"]
    assert done[1::2] == [f"behind {name}" for name in done[::2]]
    assert done[-1] == "behind call"


def test_timers_come_in_the_order_of_their_time_and_cancelled_ones_do_not(loop: SocketLoop) -> None:
    done: list[int] = []
    loop.call_later(0.02, loop.stop)
    loop.call_later(0.01, lambda: done.append(2))
    loop.call_later(0, lambda: done.append(1))
    never = loop.call_later(0, lambda: done.append(3))
    never.cancel()
    loop.run()
    assert done == [1, 2]
    assert never.call is None


def test_no_timer_comes_before_its_time(loop: SocketLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    now, done = [0], list[int]()
    monkeypatch.setattr(socket_loop, "monotonic_ns", lambda: now[0])

    def go_to(at: int) -> None:
        now[0] = at

    for seconds in (3, 1, 2):
        loop.call_later(seconds, partial(done.append, seconds))
    seen = []
    for at in (999_999_999, 1_000_000_000, 2_999_999_999, 3_000_000_000):
        for call in (partial(go_to, at), lambda: None, lambda: seen.append(done.copy())):
            loop.call_soon(call)
            loop.stop()
            loop._is_over = False
            loop.run()
    assert seen == [[], [1], [1, 2], [1, 2, 3]]


def test_it_sleeps_until_the_first_of_its_timers(
    loop: SocketLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_loop, "monotonic_ns", lambda: 0)
    sleeps: list[float | None] = []

    class Poll:
        def poll(self, timeout: float | None) -> list[tuple[int, int]]:
            sleeps.append(timeout)
            loop._is_over = True
            return []

        def close(self) -> None:
            pass

    loop._poll.close()
    monkeypatch.setattr(loop, "_poll", Poll())
    loop.run()
    for seconds in (1, 3, 2):
        loop._is_over = False
        loop.call_later(seconds, lambda: None)
        loop.run()
    loop._is_over = False
    loop.call_soon(lambda: None)
    loop.run()
    assert sleeps == [None, 1, 1, 1, 0]


def test_what_a_socket_is_ready_for_is_said_and_watched_until_it_is_forgotten(
    loop: SocketLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    one, other = ends
    told: list[int] = []

    def handle(events: int) -> None:
        told.append(events)
        if events == WRITE:
            other.send(b"x")
            loop.watch(one.fileno(), READ | WRITE, handle)
        elif events == READ | WRITE:
            loop.watch(one.fileno(), READ, handle)
        else:
            loop.forget(one.fileno())
            loop.forget(one.fileno())
            loop.stop()

    loop.watch(one.fileno(), WRITE, handle)
    loop.run()
    assert told == [WRITE, READ | WRITE, READ]


def test_who_was_forgotten_hears_nothing_that_was_seen_before(
    loop: SocketLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    told: list[str] = []

    def forget(name: str) -> None:
        told.append(name)
        for one in ends:
            loop.forget(one.fileno())
        loop.stop()

    loop.watch(ends[0].fileno(), WRITE, lambda _: forget("one"))
    loop.watch(ends[1].fileno(), WRITE, lambda _: forget("other"))
    loop.run()
    assert len(told) == 1


def test_a_call_or_handler_that_fails_is_told_and_the_loop_goes_on(
    loop: SocketLoop,
    ends: tuple[socket.socket, socket.socket],
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Odd(BaseException):
        """As a test's own skip or fail is, which a hook of a broker may raise."""

    def fail(what: str) -> None:
        loop.forget(ends[0].fileno())
        loop.call_soon(loop.stop)
        raise Odd(what)

    loop.watch(ends[0].fileno(), WRITE, lambda _: fail("of the handler"))
    loop.call_soon(lambda: fail("of the call"))
    loop.run()
    told = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert told == ["of the handler", "of the call"]


def test_no_call_of_another_thread_is_missed(loop: SocketLoop) -> None:
    rounds = 2000
    running = Thread(target=loop.run)
    running.start()
    others = [Thread(target=call_and_wait, args=(loop, rounds)) for _ in range(3)]
    for other in others:
        other.start()
    for other in others:
        other.join(GUARD_S)
    assert not any(other.is_alive() for other in others)
    loop.stop()
    running.join(GUARD_S)
    assert not running.is_alive()


def call_and_wait(loop: SocketLoop, rounds: int) -> None:
    """Make calls one after the other, each when the loop may just have gone to sleep."""
    for _ in range(rounds):
        done = Event()
        loop.call_soon(done.set)
        if not done.wait(GUARD_S):
            raise AssertionError("a call was not made")


def test_calls_that_wait_at_the_end_are_made_and_later_ones_are_refused() -> None:
    loop, made = SocketLoop(), list[str]()

    def end() -> None:
        made.append("end")
        loop.call_soon(lambda: made.append("asked for at the end"))

    assert loop.call_soon(end)
    loop.close()
    assert made == ["end", "asked for at the end"]
    assert not loop.call_soon(lambda: None)
    loop.stop()


def test_where_few_sockets_can_be_waited_for_one_too_many_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selectors, "DefaultSelector", selectors.SelectSelector)
    monkeypatch.setattr(socket_loop, "SELECT_MAX", 3)
    poll = socket_loop.Selector()
    with ExitStack() as stack:
        ends = [stack.enter_context(one) for _ in range(2) for one in socket.socketpair()]
        for end in ends[:3]:
            poll.register(end.fileno(), WRITE)
        with pytest.raises(OSError, match="3 sockets only") as refused:
            poll.register(ends[3].fileno(), WRITE)
        assert refused.value.errno == errno.EMFILE
        assert sorted(poll.poll(1)) == sorted((end.fileno(), WRITE) for end in ends[:3])
    poll.close()
