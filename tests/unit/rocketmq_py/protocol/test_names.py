"""Names of topics and groups."""

from __future__ import annotations

import pytest

from rocketmq_py.protocol import names
from rocketmq_py.protocol.names import group_problem, topic_problem


@pytest.mark.case("W35")
@pytest.mark.parametrize("topic", ["T", "a-b_C|9%", "x" * 127, "%RETRY%" + "g" * 248])
def test_a_legal_topic_has_no_problem(topic: str) -> None:
    assert topic_problem(topic) is None


@pytest.mark.case("W35")
def test_a_topic_of_128_characters_names_value_and_limit() -> None:
    topic = "x" * 128

    assert topic_problem(topic) == (
        f"The specified topic: {topic}, is longer than topic max length: 127"
    )


@pytest.mark.case("W35")
@pytest.mark.parametrize("topic", ["a b", "a.b", "标签", "a\n", "a\x01b"])
def test_a_topic_with_other_characters_names_what_is_allowed(topic: str) -> None:
    assert topic_problem(topic) == (
        f"The specified topic: {topic}, contains illegal characters, "
        "allowing only ^[%|a-zA-Z0-9_-]+$"
    )


@pytest.mark.case("W35")
@pytest.mark.parametrize("topic", [None, "", "  \t"])
def test_a_blank_topic_is_called_blank(topic: str | None) -> None:
    assert topic_problem(topic) == "The specified topic is blank."


def test_retry_and_dead_letter_topics_may_be_longer_than_others() -> None:
    group = "g" * 200

    assert topic_problem(names.retry_topic(group)) is None
    assert topic_problem(names.dlq_topic(group)) is None
    assert topic_problem(names.dlq_topic(group), retry_length_max=127) is not None


def test_the_length_limit_of_a_group_is_an_argument() -> None:
    group = "g" * 200

    assert group_problem(group) == (
        f"The specified group: {group}, is longer than group max length: 120"
    )
    assert group_problem(group, length_max=names.GROUP_LENGTH_MAX_V4) is None


def test_a_huge_name_is_clipped_in_the_sentence() -> None:
    problem = topic_problem("x" * 100_000)

    assert problem is not None
    assert len(problem) < 300


def test_prefixes_tell_retry_and_dead_letter_topics() -> None:
    assert names.is_retry_topic("%RETRY%g")
    assert names.is_dlq_topic("%DLQ%g")
    assert not names.is_retry_topic("RETRY")


def test_system_names_are_recognised() -> None:
    assert names.is_system_topic("SCHEDULE_TOPIC_XXXX")
    assert names.is_system_topic("rmq_sys_wheel_timer")
    assert not names.is_system_topic("orders")
    assert names.is_system_group("CID_RMQ_SYS_TRANS")
    assert not names.is_system_group("CID_orders")


def test_a_broker_keeps_to_itself_what_waits_and_what_it_notes_but_no_traces() -> None:
    own = (*names.HOLDING_TOPICS, "rmq_sys_REVIVE_LOG_c", "rmq_sys_SYNC_BROKER_MEMBER_b")
    assert [one for one in own if not names.is_broker_topic(one)] == []
    others = ("RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_eu", "TBW102", "c_REPLY_TOPIC", "%DLQ%g")
    assert [one for one in others if names.is_broker_topic(one)] == []


def test_a_client_may_send_to_the_automatic_topic_but_not_to_the_schedule_topic() -> None:
    assert "SCHEDULE_TOPIC_XXXX" in names.NOT_SENDABLE_TOPICS
    assert "TBW102" not in names.NOT_SENDABLE_TOPICS
