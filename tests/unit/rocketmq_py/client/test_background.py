"""The timer thread and the worker threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from rocketmq_py.client import background
from rocketmq_py.client.background import CANCELLED_MAX, Timer, WorkerPool
from rocketmq_py.client.life import Life
from rocketmq_py.clock import monotonic
from tests.waiting import until

PATIENCE = 10.0


@pytest.fixture
def timer() -> Iterator[Timer]:
    made = Timer("test-timer")
    yield made
    made.close(5)


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool("test-worker", 2, 3)
    yield made
    made.close(5)


def test_tasks_run_in_the_order_of_their_time(
    timer: Timer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    done, asked_at = threading.Event(), monotonic()
    with monkeypatch.context() as asking:  # all at one moment, however long it takes
        asking.setattr(background, "monotonic", lambda: asked_at)
        timer.schedule_after(40, done.set)
        timer.schedule_after(20, lambda: ran.append("second"))
        timer.schedule_after(1, lambda: ran.append("first"))
    assert done.wait(30)
    assert ran == ["first", "second"]


def test_a_periodic_task_runs_until_it_is_cancelled(timer: Timer) -> None:
    ran = threading.Semaphore(0)
    handle = timer.schedule_every(0, 1, ran.release)
    for _ in range(3):
        assert ran.acquire(timeout=30)
    handle.cancel()
    handle.cancel()
    assert handle.is_cancelled


def test_a_cancelled_task_never_runs(timer: Timer) -> None:
    done = threading.Event()
    timer.schedule_after(5, lambda: pytest.fail("cancelled")).cancel()
    timer.schedule_after(20, done.set)
    assert done.wait(30)


def test_a_failing_task_is_logged_and_the_timer_goes_on(
    timer: Timer, caplog: pytest.LogCaptureFixture
) -> None:
    done = threading.Event()
    timer.schedule_after(0, lambda: 1 // 0)
    timer.schedule_after(1, done.set)
    assert done.wait(30)
    assert "timer task failed" in caplog.text


def test_many_cancelled_tasks_do_not_pile_up(timer: Timer) -> None:
    for _ in range(3 * CANCELLED_MAX):
        timer.schedule_after(600_000, str).cancel()
    assert len(timer._heap) < 2 * CANCELLED_MAX + 10


def test_a_closed_timer_takes_nothing_and_closes_twice(timer: Timer) -> None:
    timer.schedule_after(0, str)
    timer.close(5)
    timer.close(5)
    timer.schedule_after(0, lambda: pytest.fail("closed"))
    assert timer._heap == []


def test_a_timer_may_be_closed_by_its_own_task() -> None:
    timer = Timer("test-timer")
    done = threading.Event()

    def close() -> None:
        timer.close(5)
        done.set()

    timer.schedule_after(0, close)
    assert done.wait(30)


def test_a_blocked_task_does_not_keep_the_next_one_waiting(pool: WorkerPool) -> None:
    gate, ran = threading.Event(), threading.Event()
    assert pool.submit(gate.wait, 5)
    assert pool.submit(ran.set)
    assert ran.wait(30)
    gate.set()


def test_a_full_pool_refuses(pool: WorkerPool) -> None:
    gate, started = threading.Event(), threading.Semaphore(0)

    def block() -> None:
        started.release()
        gate.wait(5)

    for _ in range(2):
        assert pool.submit(block)
        assert started.acquire(timeout=30)
    assert [pool.submit(str) for _ in range(4)] == [True, True, True, False]
    gate.set()


def test_a_task_that_is_put_off_takes_a_place_until_it_has_run() -> None:
    due: list[Callable[[], object]] = []
    pool = WorkerPool("test-worker", 1, 2, schedule_after=lambda _, task: due.append(task))
    ran = threading.Semaphore(0)
    try:
        assert [pool.submit_after(1, ran.release) for _ in range(3)] == [True, True, False]
        assert not pool.submit(str)
        due.pop()()
        assert ran.acquire(timeout=PATIENCE)
        assert pool.submit_after(0, ran.release)
        assert ran.acquire(timeout=PATIENCE)
    finally:
        assert pool.close(PATIENCE)
    due.pop()()  # too late
    assert not pool.submit_after(1, str)
    assert pool.unfinished == 0


def test_a_pool_without_a_timer_puts_nothing_off(pool: WorkerPool) -> None:
    with pytest.raises(TypeError, match="schedule_after"):
        pool.submit_after(1, str)


def test_a_failing_task_is_logged_and_its_thread_goes_on(
    pool: WorkerPool, caplog: pytest.LogCaptureFixture
) -> None:
    ran = threading.Event()
    pool.submit(lambda: 1 // 0)
    pool.submit(ran.set)
    assert ran.wait(30)
    pool.close(5)
    assert "background task failed" in caplog.text


def test_closing_runs_what_waits_and_refuses_what_comes(pool: WorkerPool) -> None:
    ran: list[int] = []
    for number in range(3):
        pool.submit(ran.append, number)
    pool.close(5)
    pool.close(5)
    assert sorted(ran) == [0, 1, 2]
    assert not pool.submit(str)


def test_threads_that_have_no_task_are_not_waited_for(
    pool: WorkerPool, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()
    pool.submit(ended.set)
    assert ended.wait(30)
    until(lambda: not pool.unfinished)
    assert pool.close(0)
    assert caplog.records == []


def test_tasks_that_end_the_same_at_once_do_not_wait_for_each_other(pool: WorkerPool) -> None:
    life, together, over = Life(lambda: "it"), threading.Barrier(2), threading.Semaphore(0)
    closed: list[bool] = []
    life.at_end(lambda timeout: closed.append(pool.close(timeout)))

    def end() -> None:
        together.wait(20)
        life.end(60)
        over.release()

    for _ in range(2):
        pool.submit(end)
    assert [over.acquire(timeout=20) for _ in range(2)] == [True, True]
    assert closed == [True]


def test_a_task_that_ends_something_else_is_waited_for(pool: WorkerPool) -> None:
    life, other, gate = Life(lambda: "it"), Life(lambda: "other"), threading.Event()
    began, closed = threading.Event(), threading.Semaphore(0)

    def wait(_timeout: float) -> None:
        began.set()
        gate.wait(20)

    other.at_end(wait)
    life.at_end(lambda timeout: closed.release(pool.close(timeout)))
    pool.submit(other.end, 60)
    assert began.wait(20)
    ending = threading.Thread(target=life.end, args=(60,))
    ending.start()
    assert not closed.acquire(timeout=0.05)
    gate.set()
    ending.join(20)
    assert closed.acquire(blocking=False)


def test_a_task_that_does_not_end_is_left_behind_with_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool, gate = WorkerPool("test-worker", 1, 1), threading.Event()
    pool.submit(gate.wait, 5)
    pool.close(0.01)
    assert "still busy" in caplog.text
    gate.set()
    pool.close(5)


def test_threads_are_made_on_demand_and_idle_ones_are_used_again() -> None:
    pool = WorkerPool("t", 20)
    before = threading.active_count()
    for _ in range(5):
        done = threading.Event()
        pool.submit_all([done.set])
        assert done.wait(PATIENCE)
    # A finished task's thread may not be idle again yet when the next comes: two at most.
    assert threading.active_count() - before <= 2
    assert pool.close(PATIENCE, drop=True)


def test_no_more_threads_than_asked_for_work_at_once() -> None:
    pool = WorkerPool("t", 3)
    lock, gate, all_in = threading.Lock(), threading.Event(), threading.Semaphore(0)
    running: list[int] = []
    peaks: list[int] = []

    def task() -> None:
        with lock:
            running.append(1)
            peaks.append(len(running))
        all_in.release()
        gate.wait(PATIENCE)
        with lock:
            running.pop()

    pool.submit_all([task] * 10)
    for _ in range(3):
        assert all_in.acquire(timeout=PATIENCE)
    assert pool.unfinished == 10
    gate.set()
    for _ in range(7):
        assert all_in.acquire(timeout=PATIENCE)
    assert pool.close(PATIENCE, drop=True)
    assert max(peaks) == 3


def test_close_waits_for_running_tasks_and_drops_waiting_ones() -> None:
    pool = WorkerPool("t", 1)
    started, gate = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> None:
        started.set()
        gate.wait(PATIENCE)
        done.append("first")

    pool.submit_all([first, lambda: done.append("second")])
    assert started.wait(PATIENCE)
    assert not pool.close(0.0, drop=True)
    gate.set()
    assert pool.close(PATIENCE, drop=True)
    assert done == ["first"]
    assert not pool.submit_all([started.set])


def test_a_task_may_close_its_own_pool() -> None:
    pool = WorkerPool("t", 1)
    closed = threading.Event()

    def task() -> None:
        pool.close(PATIENCE, drop=True)
        closed.set()

    pool.submit_all([task])
    assert closed.wait(PATIENCE)
    assert pool.close(PATIENCE, drop=True)


@pytest.mark.parametrize("failure", [LookupError("ours"), SystemExit(1)])
def test_a_task_that_fails_keeps_its_thread(
    caplog: pytest.LogCaptureFixture, failure: BaseException
) -> None:
    pool = WorkerPool("t", 1)
    done = threading.Event()

    def fails() -> None:
        raise failure

    with caplog.at_level(logging.ERROR):
        pool.submit_all([fails, done.set])
        assert done.wait(PATIENCE)
    assert pool.close(PATIENCE, drop=True)
    (told,) = caplog.messages
    assert told.startswith("background task failed pool=t")


def test_resizing_adds_threads_for_waiting_tasks_and_ends_surplus_ones() -> None:
    pool = WorkerPool("t", 1)
    gate = threading.Event()
    entered = threading.Semaphore(0)

    def task() -> None:
        entered.release()
        gate.wait(PATIENCE)

    pool.submit_all([task, task])
    assert entered.acquire(timeout=PATIENCE)
    pool.resize(2)
    assert entered.acquire(timeout=PATIENCE)
    pool.resize(1)
    assert pool.size == 1
    gate.set()
    last = threading.Event()
    pool.submit_all([last.set])
    assert last.wait(PATIENCE)
    assert pool.close(PATIENCE, drop=True)


def test_closing_starts_no_thread_that_nobody_joins() -> None:
    pool = WorkerPool("closing", 8)
    gate, began = threading.Event(), threading.Event()
    done = threading.Semaphore(0)

    def first() -> None:
        began.set()
        gate.wait(PATIENCE)

    pool.resize(1)
    pool.submit_all([first, *[done.release] * 5])
    assert began.wait(PATIENCE)
    closing = threading.Thread(target=pool.close, args=(PATIENCE,))
    with pool._lock:
        pool._size = 8  # as a pool that may have more threads, all of which are busy
    closing.start()
    while not pool._closed:
        pass
    gate.set()
    closing.join(PATIENCE)
    assert all(done.acquire(timeout=PATIENCE) for _ in range(5))
    assert not [one for one in threading.enumerate() if one.name.startswith("closing-")]


def test_threads_that_start_before_there_is_work_take_no_room_of_tasks() -> None:
    pool = WorkerPool("early", 2, 1)
    hold = threading.Event()
    pool.start(2)
    try:
        assert sum(one.name.startswith("early-") for one in threading.enumerate()) == 2
        assert pool.unfinished == 0
        assert pool.submit(hold.wait, 20)
    finally:
        hold.set()
        assert pool.close(20)
