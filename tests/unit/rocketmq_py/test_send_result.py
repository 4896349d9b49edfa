"""Queues and send results as values."""

from __future__ import annotations

import pickle

import pytest
from attrs.exceptions import FrozenInstanceError

from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.send_result import MessageQueue, SendResult, SendStatus


def test_queues_are_ordered_by_topic_broker_and_number_and_serve_as_keys() -> None:
    queues = [
        MessageQueue("U", "a", 0),
        MessageQueue("T", "b", 0),
        MessageQueue("T", "a", 10),
        MessageQueue("T", "a", 9),
    ]
    assert queues[::-1] == sorted(queues)
    assert {MessageQueue("T", "a", 9): 1}[queues[3]] == 1
    assert queues[0] == pickle.loads(pickle.dumps(queues[0]))  # noqa: S301 - our own bytes


def test_a_queue_cannot_be_changed() -> None:
    queue = MessageQueue("T", "a", 0)
    with pytest.raises(FrozenInstanceError):
        setattr(queue, "queue_id", 1)  # noqa: B010 - a type checker refuses the assignment


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, SendStatus.SEND_OK),
        (10, SendStatus.FLUSH_DISK_TIMEOUT),
        (11, SendStatus.SLAVE_NOT_AVAILABLE),
        (12, SendStatus.FLUSH_SLAVE_TIMEOUT),
        (13, None),
        (1, None),
    ],
)
def test_a_response_code_says_how_safely_a_message_is_stored(
    code: int, status: SendStatus | None
) -> None:
    assert status is SendStatus.from_code(code)


def test_a_result_takes_its_recall_handle_apart() -> None:
    handle = RecallHandle("T", "a", 5, "AB")
    result = SendResult(
        send_status=SendStatus.SEND_OK,
        msg_id="AB",
        offset_msg_id="CD",
        message_queue=MessageQueue("T", "a", 0),
        queue_offset=7,
        recall_handle=handle.encode(),
    )
    assert handle == result.recall
    assert (
        result.region_id,
        result.trace_on,
        result.transaction_id,
    ) == ("DefaultRegion", True, None)
    without = SendResult(
        send_status=SendStatus.SEND_OK,
        msg_id="AB",
        offset_msg_id="CD",
        message_queue=MessageQueue("T", "a", 0),
        queue_offset=7,
    )
    assert without.recall is None
