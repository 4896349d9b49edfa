"""Of which type a message is, and which topic takes it."""

from __future__ import annotations

import pytest

from embedded_broker.tables.topics.message_types import message_type, type_problem
from rocketmq_py.protocol.bodies.topics import TopicConfig


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({}, "NORMAL"),
        ({"TAGS": "a"}, "NORMAL"),
        ({"__SHARDINGKEY": "k"}, "FIFO"),
        ({"DELAY": "0"}, "DELAY"),
        ({"TIMER_DELAY_SEC": "x", "__SHARDINGKEY": "k"}, "DELAY"),
        ({"TIMER_DELAY_MS": "1"}, "DELAY"),
        ({"TIMER_DELIVER_MS": "1"}, "DELAY"),
        ({"TRAN_MSG": "true", "DELAY": "3"}, "TRANSACTION"),
        ({"TRAN_MSG": "false"}, "NORMAL"),
        ({"__STARTDELIVERTIME": "1"}, "DELAY"),
    ],
)
def test_the_type_of_a_message_is_read_from_its_properties(
    properties: dict[str, str], found: str
) -> None:
    assert message_type(properties, start_deliver=True) == found


def test_without_the_alias_aliyuns_property_is_a_users() -> None:
    assert message_type({"__STARTDELIVERTIME": "1"}, start_deliver=False) == "NORMAL"


@pytest.mark.parametrize(
    ("topic", "attributes", "properties", "taken"),
    [
        ("T", None, {}, True),
        ("T", {}, {"DELAY": "1"}, False),
        ("T", {"message.type": "DELAY"}, {"DELAY": "1"}, True),
        ("T", {"message.type": "DELAY"}, {}, False),
        ("T", {"message.type": "FIFO"}, {"__SHARDINGKEY": "k"}, True),
        ("T", {"message.type": "TRANSACTION"}, {"TRAN_MSG": "true"}, True),
        ("T", {"message.type": "MIXED"}, {"DELAY": "1"}, True),
        ("T", {"message.type": "UNSPECIFIED"}, {}, False),
        ("%RETRY%G", None, {"DELAY": "1"}, True),
        ("%DLQ%G", None, {"DELAY": "1"}, True),
        ("T", None, {"DELAY": "1", "TRANSFER_FLAG": "x"}, True),
    ],
)
def test_a_topic_takes_messages_of_its_type(
    topic: str, attributes: dict[str, str] | None, properties: dict[str, str], taken: bool
) -> None:
    config = TopicConfig(
        topic_name=topic, read_queue_nums=1, write_queue_nums=1, attributes=attributes or {}
    )
    problem = type_problem(config, properties, start_deliver=True)
    assert (problem is None) is taken
    if problem is not None:
        assert "message.type" in problem
