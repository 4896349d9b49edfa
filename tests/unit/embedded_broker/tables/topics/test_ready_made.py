"""The rows of the table of ready-made topics."""

from __future__ import annotations

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.tables.topics.ready_made import ready_made_topics


def test_names_are_filled_in_and_the_trace_topic_may_be_renamed() -> None:
    config = BrokerConfig({"traceTopicEnable": True, "msgTraceTopicName": "traces"})
    names = [
        topic.topic_name
        for topic in ready_made_topics(config, version=479, cluster_name="C", broker_name="b")
    ]
    assert len(names) == len(set(names))
    assert {"C", "b", "C_REPLY_TOPIC", "traces", "rmq_sys_REVIVE_LOG_C"} <= set(names)
    assert not any("{" in name for name in names)


def test_options_that_hold_numbers_are_read() -> None:
    config = BrokerConfig({"defaultTopicQueueNums": 3})
    topics = {
        topic.topic_name: topic
        for topic in ready_made_topics(config, version=401, cluster_name="C", broker_name="b")
    }
    assert topics["TBW102"].write_queue_nums == 3
