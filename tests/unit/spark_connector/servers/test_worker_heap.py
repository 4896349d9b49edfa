"""When the objects of a worker are frozen, and that a user's own process never is."""

import copy
import gc
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

import pytest

from spark_connector.servers import worker_heap
from spark_connector.servers.versions import Shipped
from spark_connector.servers.worker_heap import WorkerHeap, settle
from spark_connector.source import RocketMQDataSource


@pytest.fixture(autouse=True)
def _thawed_again() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.fixture
def _in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Spark's daemon had forked this process and no task ran: each call is one then."""
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("pyspark.daemon", None))
    monkeypatch.setattr(worker_heap, "_heap", WorkerHeap())


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


@pytest.mark.usefixtures("_in_a_worker")
def test_a_worker_that_only_writes_is_settled_too() -> None:
    writer = Shipped()
    copy.copy(writer)  # by its state, as pickling does
    assert gc.get_freeze_count() == 0
    copy.copy(writer)
    assert gc.get_freeze_count() > 10_000


@pytest.mark.usefixtures("_in_a_worker")
def test_a_process_that_plans_is_settled_by_the_source_it_makes() -> None:
    RocketMQDataSource({})
    assert gc.get_freeze_count() == 0
    RocketMQDataSource({})
    assert gc.get_freeze_count() > 10_000
