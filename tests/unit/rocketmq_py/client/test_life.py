"""Who may start a client, and what ends with it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rocketmq_py.client.background import WorkerPool
from rocketmq_py.client.life import Client, Life, checked_patience
from rocketmq_py.errors import (
    ClientClosedError,
    ConfigError,
    ForkedClientError,
    MQClientException,
    NotStartedError,
)

WAIT_S = 10.0
PROGRAM = "tests.unit.rocketmq_py.client.interrupted_program"


def life() -> Life:
    return Life(lambda: "the client")


def start(client: Life, *doing: Callable[[], object]) -> None:
    with client.starting():
        for one in doing:
            one()


def fail() -> None:
    raise ZeroDivisionError


# --- as programs meet it ----------------------------------------------------------------------


def outcome_of(kind: str, moment: str) -> str:
    """Run the program; one that hangs fails here, after its time."""
    done = subprocess.run(
        [sys.executable, "-m", PROGRAM, kind, moment],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("kind", ["producer", "transactions", "consumer", "ons_consumer"])
def test_a_signal_handler_may_shut_down_a_client_that_is_starting(kind: str) -> None:
    error = "ONSClientException" if kind.startswith("ons") else "ClientClosedError"
    assert outcome_of(kind, "start") == f"{error}, signalled\n0 running, threads []\nleft\n"


@pytest.mark.parametrize(
    "kind", ["producer", "transactions", "consumer", "ons_producer", "ons_consumer"]
)
def test_a_signal_handler_may_shut_down_a_client_that_is_ending(kind: str) -> None:
    assert outcome_of(kind, "shutdown") == "returned, signalled\n0 running, threads []\nleft\n"


@pytest.mark.parametrize(
    "kind", ["producer", "transactions", "consumer", "ons_producer", "ons_consumer"]
)
def test_a_second_shutdown_completes_one_that_ctrl_c_has_interrupted(kind: str) -> None:
    expected = "KeyboardInterrupt, returned\n0 running, threads []\nleft\n"
    assert outcome_of(kind, "ctrl-c") == expected


# --- by itself --------------------------------------------------------------------------------


def test_what_was_named_last_is_undone_first_and_a_failure_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: list[str] = []

    def fails(_: float) -> None:
        done.append("second")
        raise ValueError("a step")

    ended = life()
    ended.at_end(lambda _: done.append("first"))
    ended.at_end(fails)
    start(ended)
    states = [ended.state]
    ended.end(WAIT_S)
    ended.end(WAIT_S)
    assert done == ["second", "first"]
    assert [*states, ended.state] == ["running", "closed"]
    assert "ValueError: a step" in caplog.text


def test_a_start_that_fails_is_undone_and_is_final() -> None:
    done: list[str] = []
    failed = life()
    with pytest.raises(ZeroDivisionError):
        start(failed, partial(failed.at_end, lambda _: done.append("undone")), fail)
    assert (failed.state, done) == ("failed", ["undone"])
    with pytest.raises(MQClientException, match="it is failed"):
        start(failed)


def test_a_start_that_has_done_nothing_yet_may_be_tried_again() -> None:
    tried = life()
    with pytest.raises(ZeroDivisionError):
        start(tried, fail)
    states: list[str] = []
    start(tried, lambda: states.append(tried.state))
    assert [*states, tried.state] == ["starting", "running"]
    with pytest.raises(MQClientException, match="starts once"):
        start(tried)


def test_an_end_during_the_start_undoes_what_there_is_and_then_what_comes() -> None:
    done: list[str] = []
    ended = life()

    def doing() -> None:
        ended.at_end(lambda _: done.append("first"))
        ended.end(WAIT_S)
        assert done == ["first"]
        ended.at_end(lambda _: done.append("later"))

    with pytest.raises(ClientClosedError, match="while it was starting"):
        start(ended, doing)
    assert done == ["first", "later"]
    with pytest.raises(ClientClosedError, match="make a new one"):
        start(ended)


def test_an_error_of_a_start_that_was_ended_says_that_it_was_ended() -> None:
    ended = life()

    def fails() -> None:
        raise MQClientException("no connection: the client is shut down")

    with pytest.raises(ClientClosedError, match="while it was starting") as caught:
        start(ended, partial(ended.end, 0), fails)
    assert isinstance(caught.value.__cause__, MQClientException)


def test_an_end_returns_although_a_step_hangs_and_the_next_one_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release, done = threading.Event(), threading.Event()

    def step(_: float) -> None:
        release.wait(WAIT_S)
        done.set()

    stuck = life()
    stuck.at_end(step)
    with caplog.at_level(logging.WARNING):
        stuck.end(0)
    assert "the client is still ending after 0.0 s" in caplog.text
    assert not done.is_set()
    release.set()
    stuck.end(WAIT_S)
    assert done.is_set()


def test_steps_learn_how_much_time_is_left() -> None:
    left: list[float] = []
    timed = life()
    timed.at_end(left.append)
    timed.end(5)
    assert 0 < left[0] <= 5


def test_a_callback_that_a_step_runs_may_call_the_end_again() -> None:
    ended = life()
    ended.at_end(lambda _: ended.end(WAIT_S))
    ended.end(WAIT_S)
    assert ended.state == "closed"


def test_a_callback_that_a_step_runs_may_end_another_client() -> None:
    done: list[str] = []
    first, second = life(), life()
    second.at_end(lambda _: done.append("second"))
    first.at_end(lambda _: second.end(WAIT_S))
    first.end(WAIT_S)
    assert done == ["second"]


def test_a_thread_of_the_client_that_ends_it_is_not_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool, ended, returned = WorkerPool("mine", 1), life(), threading.Event()
    ended.at_end(pool.close)

    def end() -> None:
        ended.end(WAIT_S)
        returned.set()

    pool.submit(end)
    assert returned.wait(WAIT_S)
    assert "busy" not in caplog.text


def test_a_thread_is_not_waited_for_by_what_its_client_ends_in_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool, client, shared, returned = WorkerPool("mine", 1), life(), life(), threading.Event()
    shared.at_end(pool.close)
    shared.at_end(lambda _: client.end(WAIT_S))  # a callback: it is ending already
    client.at_end(shared.end)

    def end() -> None:
        client.end(WAIT_S)
        returned.set()

    pool.submit(end)
    assert returned.wait(WAIT_S)
    assert "busy" not in caplog.text
    assert "still ending" not in caplog.text


def test_what_many_use_starts_once_and_the_others_find_it_started() -> None:
    shared = life()
    assert [shared.start_once(), shared.start_once()] == [True, False]
    shared.check_running()
    shared.end(WAIT_S)
    with pytest.raises(ClientClosedError):
        shared.start_once()


def test_who_needs_a_client_that_does_not_run_is_told_why() -> None:
    client = life()
    with pytest.raises(NotStartedError, match="not started"):
        client.check_running()
    with pytest.raises(ZeroDivisionError):
        start(client, partial(client.at_end, lambda _: None), fail)
    with pytest.raises(NotStartedError, match="has failed"):
        client.check_running()
    client.end(WAIT_S)
    with pytest.raises(ClientClosedError, match="shut down"):
        client.check_running()


def test_an_interpreter_that_starts_no_more_threads_ends_on_the_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    threads: list[threading.Thread] = []
    ended = life()
    ended.at_end(lambda _: threads.append(threading.current_thread()))
    ended.at_end(lambda _: ended.end(WAIT_S))  # a callback again
    ended.end(WAIT_S)
    assert threads == [threading.current_thread()]


def test_a_forked_child_undoes_nothing_of_its_parents() -> None:
    parents = life()
    parents.at_end(lambda _: os._exit(1))
    child = os.fork()
    if child == 0:
        parents.end(WAIT_S)
        try:
            start(parents)
        except ForkedClientError:
            os._exit(0)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("timeout", "error"),
    [(-1, ConfigError), (float("nan"), ConfigError), ("3", TypeError), (True, TypeError)],
)
def test_the_patience_of_a_shutdown_is_seconds(timeout: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="seconds"):
        checked_patience(timeout)
    assert checked_patience(0.5) == 0.5


def test_an_endless_patience_is_possible() -> None:
    ended = life()
    ended.at_end(lambda _: None)
    ended.end(checked_patience(float("inf")))
    assert ended.state == "closed"


def test_a_client_that_does_not_say_how_it_starts_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="start"):
        Client()  # type: ignore[abstract]
