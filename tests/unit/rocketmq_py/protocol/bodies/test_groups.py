"""Bodies of groups."""

from __future__ import annotations

import pytest

from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.groups import (
    ClientConfigCheck,
    Connection,
    ConsumerConnection,
    ConsumerList,
    ConsumeStats,
    LockBatchRequest,
    LockBatchResponse,
    OffsetWrapper,
    ResetOffsetBody,
    SubscriptionGroupConfig,
)
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData

QUEUE = MessageQueueKey("T", "b", 3)


def test_a_group_has_the_defaults_of_the_original() -> None:
    group = SubscriptionGroupConfig("g")

    assert (group.retry_queue_nums, group.retry_max_times) == (1, 16)
    assert group.group_retry_policy == {"type": "CUSTOMIZED"}
    assert SubscriptionGroupConfig.decode(group.encode()) == group


def test_what_mqadmin_does_not_send_is_taken_as_default() -> None:
    group = SubscriptionGroupConfig.decode(b'{"groupName":"g","consumeBroadcastEnable":false}')

    assert group == SubscriptionGroupConfig("g", consume_broadcast_enable=False)


@pytest.mark.case("W24")
def test_consume_statistics_read_the_same_with_object_and_with_quoted_keys() -> None:
    stats = ConsumeStats({MessageQueueKey("T", "b", 0): OffsetWrapper(9, 4, 4, 17)}, 1.5)

    assert stats == ConsumeStats.decode(stats.encode())
    assert stats == ConsumeStats.decode(stats.encode(standard=True))


def test_connections_members_and_checks_read_back() -> None:
    subscription = SubscriptionData.parse("T", "a", 5)
    online = ConsumerConnection([Connection("c", "1.2.3.4:5", "JAVA", 401)], {"T": subscription})
    check = ClientConfigCheck("c", "g", None, subscription)

    assert ConsumerConnection.decode(online.encode()) == online
    assert ConsumerList.decode(ConsumerList(["a", "b"]).encode()) == ConsumerList(["a", "b"])
    assert ClientConfigCheck.decode(check.encode()) == check


def test_offsets_to_go_to_are_a_table_with_queues_as_keys() -> None:
    body = ResetOffsetBody({MessageQueueKey("T", "b", 1): 10})

    assert body.encode() == b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:10}}'
    assert ResetOffsetBody.decode(body.encode()) == body
    assert ResetOffsetBody.decode(body.encode(standard=True)) == body


def test_the_answer_has_the_original_capitals() -> None:
    expected = b'{"lockOKMQSet":[{"brokerName":"b","queueId":3,"topic":"T"}]}'

    assert LockBatchResponse([QUEUE]).encode() == expected
    assert LockBatchResponse.decode(expected) == LockBatchResponse([QUEUE])


def test_a_request_without_only_this_broker_means_false() -> None:
    request = LockBatchRequest.decode(b'{"clientId":"c","consumerGroup":"g","mqSet":[]}')

    assert request == LockBatchRequest("g", "c")
