"""Tasks are about equal in bytes, cover every offset once, and keep to what users say of them."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.planning.task_plan import (
    QUEUE_BYTES,
    SLACK,
    TASK_BYTES,
    TASK_BYTES_MOST,
    Task,
    TaskBounds,
    plan,
)


def queues(*sizes: int, topic: str = "T") -> list[QueueRange]:
    return [QueueRange(topic, "b", n, 10, 10 + size) for n, size in enumerate(sizes)]


def lengths(tasks: list[Task]) -> list[list[int]]:
    return [[len(one) for one in task] for task in tasks]


_limit = st.one_of(st.none(), st.integers(1, 40))


@pytest.mark.case("SP15")
@given(st.lists(st.integers(0, 500), max_size=8), _limit, _limit, _limit, st.integers(1, 64))
def test_tasks_cover_every_offset_once_and_keep_to_their_bounds(
    sizes: list[int], least: int | None, most: int | None, records: int | None, cores: int
) -> None:
    if least is not None and most is not None and least > most:
        least, most = most, least
    ranges = queues(*sizes)
    tasks = plan(ranges, TaskBounds(cores, least, most, records), {"T": 500.0})
    covered = [(r.queue_id, n) for task in tasks for r in task for n in range(r.start, r.until)]
    assert covered == [(one.queue_id, n) for one in ranges for n in range(one.start, one.until)]
    assert all(task and all(len(one) for one in task) for task in tasks)
    for task in tasks:  # what belongs together is asked for together
        ids = [key for key, _ in groupby(task, attrgetter("queue_id"))]
        assert len(ids) == len(task)
    if records is not None:
        assert all(sum(map(len, task)) <= records for task in tasks)
    elif most is not None:
        assert len(tasks) <= most


@pytest.mark.case("SP15")
def test_many_small_queues_share_a_few_tasks() -> None:
    tasks = plan(queues(*[1] * 1_600), TaskBounds(cores=2), {"T": 300.0})
    assert len(tasks) == 2  # by what it takes to ask each queue
    assert len(plan(queues(*[1] * 1_600), TaskBounds(2, tasks_least=4, tasks_most=4), {})) == 4
    assert len(plan(queues(*[1] * 1_600), TaskBounds(2, tasks_least=4), {})) == 4
    assert len(plan(queues(*[1] * 1_600), TaskBounds(2, records_most=200), {})) == 8
    assert {sum(map(len, task)) for task in tasks} <= {799, 800, 801}


@pytest.mark.case("SP15")
def test_equal_large_queues_are_not_cut() -> None:
    tasks = plan(queues(*[125_000] * 8), TaskBounds(cores=2), {"T": 450.0})
    assert lengths(tasks) == [[125_000]] * 8
    nearly = [125_000 + (-1) ** n * 2_000 for n in range(8)]
    assert all(len(task) == 1 for task in plan(queues(*nearly), TaskBounds(cores=2), {"T": 450.0}))


@pytest.mark.case("SP15")
def test_one_large_queue_is_cut_and_small_ones_go_along() -> None:
    tasks = plan(queues(5, 1_000_000, 5, 5), TaskBounds(cores=2), {"T": 450.0})
    assert len(tasks) == 8
    sizes = [sum(map(len, task)) for task in tasks]
    assert max(sizes) <= min(sizes) * (1 + 3 * SLACK)
    assert sum(map(len, tasks)) <= 8 + 3


@pytest.mark.case("SP15")
def test_little_is_one_task_and_very_much_is_more_than_the_cores_ask_for() -> None:
    assert len(plan(queues(1_000, 1_000), TaskBounds(cores=64), {})) == 1
    message = 1 << 20
    huge = 8 * TASK_BYTES_MOST // message
    sizes = {"T": float(message)}
    assert len(plan(queues(3 * huge), TaskBounds(cores=1), sizes)) in {24, 25}
    # Whoever says how many tasks there may be is heard.
    assert len(plan(queues(3 * huge), TaskBounds(cores=1, tasks_most=2), sizes)) == 2
    assert len(plan(queues(huge), TaskBounds(cores=1, records_most=1), sizes)) == huge


@pytest.mark.parametrize(
    ("tasks_of_8_mib", "count"), [(1, 1), (2, 2), (15, 2), (17, 4), (25, 6), (33, 8), (100, 8)]
)
def test_cores_get_more_than_one_task_when_each_is_large(tasks_of_8_mib: int, count: int) -> None:
    sizes = {"T": TASK_BYTES / 1_000}
    tasks = plan(queues(1_000 * tasks_of_8_mib - 10), TaskBounds(cores=2), sizes)
    assert len(tasks) == count


def test_the_bytes_of_each_topic_count() -> None:
    ranges = [*queues(10_000, topic="Large"), *queues(10_000, topic="Small")]
    sizes = {"Large": 100_000.0, "Small": 100.0}
    tasks = plan(ranges, TaskBounds(cores=2), sizes)
    assert len(tasks) == 8
    assert [one.topic for one in tasks[-1]] == ["Large", "Small"]


def test_what_it_takes_to_ask_a_queue_counts_for_each() -> None:
    few = plan(queues(*[1] * 10), TaskBounds(cores=64), {"T": 1.0})
    many = plan(queues(*[1] * (4 * TASK_BYTES // QUEUE_BYTES)), TaskBounds(cores=64), {"T": 1.0})
    assert (len(few), len(many)) == (1, 5)
