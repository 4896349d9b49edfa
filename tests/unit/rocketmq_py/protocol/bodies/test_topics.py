"""Bodies of topics."""

from __future__ import annotations

import pytest

from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)


def test_a_topic_has_the_defaults_of_the_original() -> None:
    topic = TopicConfig("T")

    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (16, 16, 6)
    assert TopicConfig.decode(topic.encode()) == topic


@pytest.mark.case("W24")
def test_topic_statistics_read_the_same_with_object_and_with_quoted_keys() -> None:
    table = TopicStatsTable({MessageQueueKey("T", "broker-a", 1): TopicOffset(0, 5, 17)})

    assert table == TopicStatsTable.decode(table.encode())
    assert table == TopicStatsTable.decode(table.encode(standard=True))
    assert table.encode().startswith(b'{"offsetTable":{{"brokerName":"broker-a","queueId":1,"t')


def test_a_4_9_broker_leaves_out_the_rate() -> None:
    assert TopicStatsTable(topic_put_tps=None).encode() == b'{"offsetTable":{}}'


def test_lists_and_versions_read_back() -> None:
    assert TopicList.decode(TopicList(["T"]).encode()) == TopicList(["T"])
    assert DataVersion.decode(DataVersion(3, 0, 17).encode()) == DataVersion(3, 0, 17)
