"""Bodies of queue locks."""

from __future__ import annotations

from rocketmq_py.protocol.bodies.locks import LockBatchRequest, LockBatchResponse
from rocketmq_py.protocol.bodies.topics import MessageQueueKey

QUEUE = MessageQueueKey("T", "b", 3)


def test_the_answer_has_the_original_capitals() -> None:
    expected = b'{"lockOKMQSet":[{"brokerName":"b","queueId":3,"topic":"T"}]}'

    assert LockBatchResponse([QUEUE]).encode() == expected
    assert LockBatchResponse.decode(expected) == LockBatchResponse([QUEUE])


def test_a_request_without_only_this_broker_means_false() -> None:
    request = LockBatchRequest.decode(b'{"clientId":"c","consumerGroup":"g","mqSet":[]}')

    assert request == LockBatchRequest("g", "c")
