"""Headers of administration."""

from __future__ import annotations

from rocketmq_py.protocol.headers.admin import CreateTopicRequestHeader, ResetOffsetRequestHeader


def test_an_order_that_is_not_sent_is_false() -> None:
    ext = {
        "topic": "T",
        "defaultTopic": "TBW102",
        "readQueueNums": "8",
        "writeQueueNums": "8",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
    }

    header = CreateTopicRequestHeader.from_ext(ext)

    assert header.order is False
    assert header.to_ext() == ext | {"order": "false"}


def test_a_reset_without_a_queue_means_all_of_them() -> None:
    ext = {"topic": "T", "group": "G", "timestamp": "-1", "isForce": "true"}

    header = ResetOffsetRequestHeader.from_ext(ext)

    assert (header.queue_id, header.offset, header.is_force) == (-1, None, True)
    assert header.to_ext() == ext | {"queueId": "-1"}
