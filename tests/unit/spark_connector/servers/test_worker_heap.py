"""When the objects of a worker are frozen, and that a user's own process never is."""

import gc
from collections.abc import Iterator

import pytest

from spark_connector.servers.worker_heap import WorkerHeap, settle


@pytest.fixture(autouse=True)
def _thawed_again() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_the_second_task_freezes_what_the_first_one_loaded() -> None:
    heap = WorkerHeap()
    for _ in range(3):
        heap.settle(7)  # one task may say so more than once
    assert gc.get_freeze_count() == 0
    heap.settle(8)
    assert gc.get_freeze_count() > 10_000


def test_later_tasks_freeze_nothing_more() -> None:
    heap = WorkerHeap()
    heap.settle(7)
    heap.settle(8)
    gc.unfreeze()
    heap.settle(9)
    assert gc.get_freeze_count() == 0


def test_a_process_that_spark_did_not_fork_is_left_as_it_is() -> None:
    settle()
    settle()
    assert gc.get_freeze_count() == 0
