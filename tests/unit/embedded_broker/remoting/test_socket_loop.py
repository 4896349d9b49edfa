"""The loop of the sockets: in which order calls are made, and that none is missed or too much."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from embedded_broker.remoting.server import listen
from embedded_broker.remoting.socket_loop import SocketLoop

GUARD_S = 20.0

pytestmark = pytest.mark.usefixtures("either_loop")


class Odd(BaseException):
    """As a test's own skip or fail is, which a hook of a broker may raise."""


@pytest.fixture
def loop(either_loop: str) -> Iterator[SocketLoop]:
    loop = SocketLoop()
    yield loop
    loop.close()


def test_the_loop_is_that_of_uvloop_where_it_is_installed(
    loop: SocketLoop, either_loop: str
) -> None:
    assert isinstance(loop._loop, asyncio.SelectorEventLoop) == (either_loop == "asyncio")
    assert (sys.modules["uvloop"] is None) == (either_loop == "asyncio")


def test_calls_are_made_in_their_order_and_stop_comes_behind_those_that_wait(
    loop: SocketLoop,
) -> None:
    made: list[int] = []
    loop.call_soon(lambda: made.append(1))
    loop.stop()
    loop.call_soon(lambda: made.append(2))
    loop.run()
    assert made == [1, 2]


def test_what_a_call_asks_for_is_done_after_those_that_wait(loop: SocketLoop) -> None:
    made: list[str] = []

    def first() -> None:
        made.append("first")
        loop.call_soon(third)

    def third() -> None:
        made.append("third")
        loop.stop()

    loop.call_soon(first)
    loop.call_soon(lambda: made.append("second"))
    loop.run()
    assert made == ["first", "second", "third"]


def test_a_call_behind_others_is_made_after_what_transports_do_because_of_them(
    loop: SocketLoop,
) -> None:
    made: list[str] = []

    def end() -> None:  # as a transport tells of its end
        loop._loop.call_soon(made.append, "lost")

    loop.call_soon(end)
    loop.call_behind(lambda: made.append("behind"))
    loop.call_behind(loop.stop)
    loop.run()
    assert made == ["lost", "behind"]


def test_what_is_to_be_done_behind_something_is_done_before_anything_else(
    loop: SocketLoop,
) -> None:
    done: list[str] = []

    def act(name: str) -> None:
        done.append(name)
        loop.after_this(lambda: done.append(f"behind {name}"))

    loop.call_later(0, lambda: act("timer"))
    loop.call_soon(lambda: act("one"))
    loop.call_soon(lambda: act("other"))
    loop.call_later(0.01, loop.stop)
    loop.run()
    assert sorted(done[::2]) == ["one", "other", "timer"]
    assert done[1::2] == [f"behind {name}" for name in done[::2]]


def test_timers_come_in_the_order_of_their_time_and_cancelled_ones_do_not(loop: SocketLoop) -> None:
    done: list[int] = []
    loop.call_later(0.02, loop.stop)
    loop.call_later(0.01, lambda: done.append(2))
    loop.call_later(0, lambda: done.append(1))
    never = loop.call_later(0, lambda: done.append(3))
    never.cancel()
    loop.run()
    assert done == [1, 2]


def test_a_call_that_fails_is_logged_and_the_loop_goes_on(
    loop: SocketLoop, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(what: str) -> None:
        raise Odd(what)

    def fail_twice() -> None:
        loop.after_this(lambda: fail("behind"))
        fail("before")

    loop.call_soon(fail_twice)
    loop.call_later(0, lambda: fail("timer"))
    loop.call_later(0.01, loop.stop)
    loop.run()
    told = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert sorted(told) == ["before", "behind", "timer"]


def test_a_listener_is_watched_until_it_is_forgotten(loop: SocketLoop) -> None:
    called: list[int] = []
    with listen("127.0.0.1", 0) as listener:

        def call() -> None:
            called.append(1)
            loop.forget(listener)
            loop.forget(listener)
            loop.call_behind(loop.stop)

        loop.watch(listener, call)
        with socket.create_connection(listener.getsockname(), GUARD_S):
            loop.run()
    loop.forget(listener)
    assert called == [1]


def test_a_socket_that_the_loop_cannot_serve_is_closed_and_the_log_says_so(
    loop: SocketLoop, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as odd:
        odd.setblocking(False)
        loop.connect(odd, asyncio.Protocol())
        loop.call_behind(loop.stop)
        loop.run()
        assert odd.fileno() == -1
    assert "cannot serve it" in caplog.text


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


@pytest.mark.parametrize("has_run", [False, True])
def test_calls_that_wait_at_the_end_are_made_and_later_ones_are_refused(*, has_run: bool) -> None:
    loop, made = SocketLoop(), list[str]()

    def end() -> None:
        made.append("end")
        loop.call_soon(lambda: made.append("asked for at the end"))

    if has_run:
        loop.stop()
        loop.run()
    assert loop.call_soon(end)
    loop.close()
    assert made == ["end", "asked for at the end"]
    assert not loop.call_soon(lambda: None)
    loop.stop()


def test_a_loop_that_never_ran_closes_where_another_one_runs() -> None:
    loop = SocketLoop()

    async def close() -> None:
        loop.close()

    asyncio.run(close())
    assert not loop.call_soon(lambda: None)
