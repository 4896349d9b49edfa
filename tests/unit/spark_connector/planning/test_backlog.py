"""Where a stream goes on follows from its offset and the bounds of its queues alone."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from rocketmq_py import MessageQueue, QueueBounds
from spark_connector.planning.backlog import Limit, backlog_of, share
from spark_connector.planning.stream_offset import StreamOffset

A, B, C = (MessageQueue("T", "broker-a", number) for number in range(3))


def test_a_queue_without_bounds_keeps_its_offset() -> None:
    found = backlog_of(StreamOffset({A: 5, B: 2}), {B: QueueBounds(0, 9)}, None)
    assert (found.begins, found.sizes) == ({A: 5, B: 2}, {B: 7})
    assert found.after({A: 0, B: 3}) == StreamOffset({A: 5, B: 5})


def test_a_new_queue_is_read_from_its_beginning_which_is_written_down() -> None:
    bounds = {A: QueueBounds(0, 5), B: QueueBounds(3, 9), C: QueueBounds(0, 0)}
    found = backlog_of(StreamOffset({A: 5}), bounds, None)
    assert (found.sizes, found.lower) == ({B: 6}, {B: 3})


def test_the_first_offset_carries_the_lower_bounds_of_all_queues() -> None:
    found = backlog_of(StreamOffset({A: 5}, is_initial=True), {A: QueueBounds(0, 9)}, None)
    assert (found.lower, found.sizes) == ({A: 5}, {A: 4})


def test_a_queue_that_went_back_begins_anew() -> None:
    found = backlog_of(StreamOffset({A: 50}), {A: QueueBounds(1, 4)}, None)
    assert found.went_back == {A: (50, QueueBounds(1, 4))}
    assert (found.reset, found.sizes) == ({A: 1}, {A: 3})
    assert found.after({A: 3}) == StreamOffset({A: 4}, reset={A: 1})


def test_a_run_that_ends_goes_to_its_targets_and_takes_up_no_queue() -> None:
    bounds = {A: QueueBounds(0, 9), B: QueueBounds(0, 9)}
    found = backlog_of(StreamOffset({A: 2}), bounds, {A: 6})
    assert found.sizes == {A: 4}


@pytest.mark.parametrize("limit", [1, 3, 7, 40])
def test_every_queue_is_served_again_and_again_however_small_the_limit(limit: int) -> None:
    random = Random(limit)
    queues = [MessageQueue("T", "b", number) for number in range(20)]
    left = {queue: random.choice((5, 50, 5_000)) for queue in queues}
    served: dict[MessageQueue, int] = {}
    taken_by: Counter[MessageQueue] = Counter()
    rounds = -(-len(queues) // limit)
    for batch in range(1, 10 * rounds + 1):
        for queue in queues:
            left[queue] += random.randrange(3)  # small queues never end
        before = {queue: served.get(queue, 0) for queue in queues}
        taken = share(left, limit, turn=lambda queue: served.get(queue, 0))
        assert sum(taken.values()) == limit
        assert all(taken[queue] <= left[queue] for queue in queues)
        for queue, count in taken.items():
            left[queue] -= count
            if count:
                served[queue] = batch
                taken_by[queue] += 1
        if batch > rounds:
            assert all(batch - served[queue] <= rounds or not left[queue] for queue in queues)
        assert before.keys() == set(queues)
    assert min(taken_by.values()) >= 5


def test_a_limit_of_bytes_counts_what_the_messages_of_each_queue_have() -> None:
    sizes = {A: 100.0, B: 60_000.0, C: 60_000.0}
    limit = Limit(bytes_most=1_000_000)
    taken = limit.admitted({A: 3_000, B: 60, C: 60}, sizes)
    spent = sum(taken[queue] * sizes[queue] for queue in taken)
    assert 900_000 < spent <= 1_000_000
    assert min(taken.values()) > 0
    few = Limit(offsets_most=10, bytes_most=1_000_000).admitted({A: 3_000, B: 60, C: 60}, sizes)
    assert sum(few.values()) == 10
    tight = Limit(bytes_most=50_000)
    assert tight.admitted({B: 9, C: 9}, sizes, lambda queue: queue.queue_id) == {B: 1, C: 0}
    assert tight.admitted({B: 9, C: 9}, sizes, lambda queue: -queue.queue_id) == {B: 0, C: 1}
