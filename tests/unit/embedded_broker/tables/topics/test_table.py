"""The topic table by itself."""

from __future__ import annotations

import pytest

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import find_profile
from embedded_broker.tables.topics.attributes import TopicAttributeError
from embedded_broker.tables.topics.table import TopicTable
from rocketmq_py.clock import SystemClock
from rocketmq_py.protocol.bodies.topics import TopicConfig


def table(profile: str = "rocketmq-5.x", **config: object) -> TopicTable:
    return TopicTable(
        BrokerConfig(config),
        find_profile(profile),
        SystemClock(),
        cluster_name="C",
        broker_name="b",
    )


def queues(topics: TopicTable, name: str) -> tuple[int, int, int]:
    topic = topics.get(name)
    assert topic is not None
    return topic.read_queue_nums, topic.write_queue_nums, topic.perm


def test_a_fresh_broker_has_the_topics_of_the_original() -> None:
    topics = table()
    shown = {topic.topic_name: (topic.read_queue_nums, topic.perm) for topic in topics}
    assert shown == {
        "TBW102": (8, 7),
        "C": (16, 7),
        "b": (1, 7),
        "SELF_TEST_TOPIC": (1, 6),
        "BenchmarkTest": (1024, 6),
        "OFFSET_MOVED_EVENT": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
        "C_REPLY_TOPIC": (1, 6),
        "rmq_sys_REVIVE_LOG_C": (8, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_b": (1, 1),
        "rmq_sys_wheel_timer": (1, 6),
    }
    assert all(topics.is_system(name) for name in shown)


def test_options_and_the_profile_decide_about_ready_made_topics() -> None:
    names = table(
        autoCreateTopicEnable=False, timerWheelEnable=False, traceTopicEnable=True
    ).names()
    assert "TBW102" not in names
    assert "rmq_sys_wheel_timer" not in names
    assert "RMQ_SYS_TRACE_TOPIC" in names
    assert "rmq_sys_REVIVE_LOG_C" not in table("rocketmq-4.9").names()
    assert queues(table(clusterTopicEnable=False), "C") == (16, 16, 1)


def test_a_topic_made_by_a_send_follows_its_template() -> None:
    topics = table()
    assert topics.create_for_send("T", "TBW102", 4) is not None
    assert queues(topics, "T") == (4, 4, 6)
    topics.create_for_send("U", "TBW102", 99)
    assert queues(topics, "U") == (8, 8, 6)
    topics.create_for_send("V", "TBW102", -1)
    assert queues(topics, "V") == (0, 0, 6)
    assert topics.create_for_send("W", "T", 4) is None
    assert topics.create_for_send("W", "Unknown", 4) is None


def test_a_retry_topic_is_made_once_and_its_order_follows_the_group() -> None:
    topics = table()
    assert topics.ensure("%RETRY%g", 2)[1]
    topic, is_new = topics.ensure("%RETRY%g", 5, order=True)
    assert (topic.read_queue_nums, topic.order, is_new) == (2, True, False)


def test_listeners_hear_of_changes_and_not_of_repetitions() -> None:
    topics = table()
    heard: list[str] = []
    topics.listeners.append(lambda topic: heard.append(topic.topic_name))
    topics.put(TopicConfig("T"))
    topics.put(TopicConfig("T"))
    topics.put(TopicConfig("T", perm=4))
    assert heard == ["T", "T"]


def test_on_changed_is_called_once_until_the_change_is_saved() -> None:
    topics = table()
    calls: list[bool] = []
    topics.on_changed = lambda: calls.append(topics.changed)
    topics.put(TopicConfig("T"))
    topics.put(TopicConfig("U"))
    assert calls == [True]


def test_a_refused_attribute_changes_nothing() -> None:
    topics = table()
    topics.put(TopicConfig("T"))
    with pytest.raises(TopicAttributeError, match="colour"):
        topics.update(TopicConfig("T", perm=4), {"+colour": "red"})
    assert queues(topics, "T")[2] == 6


def test_the_table_comes_back_from_its_document() -> None:
    before, after = table(), table()
    before.update(TopicConfig("T", 3, 2, 4), {"+message.type": "DELAY"})
    after.load_document(before.to_document())
    assert after.get("T") == before.get("T")
    assert after.data_version() == before.data_version()


def test_documents_of_4_9_have_neither_attributes_nor_state_version() -> None:
    document = table("rocketmq-4.9").to_document()
    assert "attributes" not in document["topicConfigTable"]["TBW102"]
    assert "stateVersion" not in document["dataVersion"]
    assert document["dataVersion"]["counter"] == 0
    old = table()
    old.load_document(document)
    assert queues(old, "TBW102") == (8, 8, 7)
