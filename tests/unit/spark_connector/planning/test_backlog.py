"""Where a stream goes on follows from its offset and the bounds of its queues alone."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra spark)")

from rocketmq_py import MessageQueue, QueueBounds
from spark_connector.planning.backlog import backlog_of
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
