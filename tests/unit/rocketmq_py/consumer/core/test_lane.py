from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_py.consumer.core.lane import Lane
from tests.unit.rocketmq_py.consumer.fake_engine import message, queues_of

(QUEUE,) = queues_of("T", 1)


def filled(*offsets: int) -> Lane:
    queue = Lane(QUEUE, 0, fetched_at=0.0)
    queue.put([message(offset) for offset in offsets])
    return queue


@pytest.mark.case("T76")
def test_the_offset_moves_only_after_the_smallest_message_is_finished() -> None:
    queue = filled(1, 2, 3)
    assert queue.remove([message(3)]) == 1
    assert queue.remove([message(2)]) == 1
    assert queue.remove([message(1)]) == 4


@given(st.lists(st.integers(0, 10_000), unique=True, min_size=1, max_size=60), st.randoms())
def test_the_offset_is_always_the_smallest_unfinished_one(
    offsets: list[int], order: random.Random
) -> None:
    queue = filled(*sorted(offsets))
    unfinished = set(offsets)
    finishing = list(offsets)
    order.shuffle(finishing)
    for offset in finishing:
        unfinished.discard(offset)
        expected = min(unfinished) if unfinished else max(offsets) + 1
        assert queue.remove([message(offset)]) == expected
        assert queue.count == len(unfinished)
        assert queue.max_span == (max(unfinished) - min(unfinished) if unfinished else 0)
    assert queue.size == 0


def test_count_and_size_follow_the_messages() -> None:
    queue = Lane(QUEUE, 0, fetched_at=0.0)
    queue.put([message(0, body=b"12345"), message(1, body=b"1234567")])
    assert (queue.count, queue.size) == (2, 12)
    queue.put([message(1, body=b"again")])
    assert (queue.count, queue.size) == (2, 12)
    queue.remove([message(0), message(7)])
    assert (queue.count, queue.size) == (1, 7)


def test_nothing_cached_allows_no_commit() -> None:
    assert Lane(QUEUE, 0, fetched_at=0.0).remove([message(3)]) == -1


def test_the_span_is_that_of_unfinished_messages() -> None:
    queue = filled(10, 11, 400, 2010)
    assert queue.max_span == 2000
    queue.remove([message(2010)])
    assert queue.max_span == 390
    queue.remove([message(10)])
    assert queue.max_span == 389


def test_a_broker_that_answers_below_keeps_the_order() -> None:
    queue = filled(10, 12)
    queue.put([message(4), message(11), message(10)])
    head = queue.head()
    assert head is not None
    assert head.queue_offset == 4
    assert queue.remove([message(4)]) == 10
    assert queue.max_span == 2
    assert queue.remove([message(10), message(11), message(12)]) == 13


def test_the_head_is_the_smallest_unfinished_message() -> None:
    queue = filled(5, 6)
    assert queue.holds(message(6))
    queue.remove([message(5)])
    head = queue.head()
    assert head is not None
    assert head.queue_offset == 6
    queue.remove([message(6)])
    assert queue.head() is None
    assert not queue.holds(message(6))


def test_a_body_that_its_listener_has_replaced_is_not_counted_wrong() -> None:
    queue = Lane(QUEUE, 0, fetched_at=0.0)
    one = message(0, body=bytes(100))
    queue.put([one])
    one.body = bytes(7)
    queue.remove([one])
    assert (queue.count, queue.size) == (0, 0)
