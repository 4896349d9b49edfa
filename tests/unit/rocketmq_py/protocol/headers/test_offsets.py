"""Headers of offsets."""

from __future__ import annotations

from rocketmq_py.protocol.headers.offsets import (
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
)


def test_set_zero_if_not_found_is_three_valued() -> None:
    ext = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
    read = QueryConsumerOffsetRequestHeader.from_ext

    assert read(ext).set_zero_if_not_found is None
    assert read(ext | {"setZeroIfNotFound": "false"}).set_zero_if_not_found is False


def test_a_search_of_5x_says_its_boundary() -> None:
    ext = {"topic": "T", "queueId": "0", "timestamp": "24", "boundaryType": "LOWER"}

    assert SearchOffsetRequestHeader.from_ext(ext).boundary_type == "LOWER"
