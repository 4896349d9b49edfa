from __future__ import annotations

import logging
import threading

import pytest

from rocketmq_py.consumer.pool import ListenerPool

PATIENCE = 10.0


def test_threads_are_made_on_demand_and_idle_ones_are_used_again() -> None:
    pool = ListenerPool("t", 20)
    before = threading.active_count()
    for _ in range(5):
        done = threading.Event()
        pool.submit_all([done.set])
        assert done.wait(PATIENCE)
    # A finished task's thread may not be idle again yet when the next comes: two at most.
    assert threading.active_count() - before <= 2
    assert pool.close(PATIENCE)


def test_no_more_threads_than_asked_for_work_at_once() -> None:
    pool = ListenerPool("t", 3)
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
    assert pool.busy == 10
    gate.set()
    for _ in range(7):
        assert all_in.acquire(timeout=PATIENCE)
    assert pool.close(PATIENCE)
    assert max(peaks) == 3


def test_close_waits_for_running_tasks_and_drops_waiting_ones() -> None:
    pool = ListenerPool("t", 1)
    started, gate = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> None:
        started.set()
        gate.wait(PATIENCE)
        done.append("first")

    pool.submit_all([first, lambda: done.append("second")])
    assert started.wait(PATIENCE)
    assert not pool.close(0.0)
    gate.set()
    assert pool.close(PATIENCE)
    assert done == ["first"]
    assert not pool.submit_all([started.set])


def test_a_task_may_close_its_own_pool() -> None:
    pool = ListenerPool("t", 1)
    closed = threading.Event()

    def task() -> None:
        pool.close(PATIENCE)
        closed.set()

    pool.submit_all([task])
    assert closed.wait(PATIENCE)
    assert pool.close(PATIENCE)


def test_a_task_that_fails_keeps_its_thread(caplog: pytest.LogCaptureFixture) -> None:
    pool = ListenerPool("t", 1)
    done = threading.Event()

    def fails() -> None:
        raise LookupError("ours")

    with caplog.at_level(logging.ERROR):
        pool.submit_all([fails, done.set])
        assert done.wait(PATIENCE)
    assert pool.close(PATIENCE)
    assert [record.message for record in caplog.records] == ["task of t failed"]


def test_resizing_adds_threads_for_waiting_tasks_and_ends_surplus_ones() -> None:
    pool = ListenerPool("t", 1)
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
    assert pool.close(PATIENCE)
