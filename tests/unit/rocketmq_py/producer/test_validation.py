"""What is refused before anything is sent."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import MQClientException
from rocketmq_py.message import Message
from rocketmq_py.producer.config import ProducerConfig
from rocketmq_py.producer.validation import (
    check_group,
    check_message,
    check_recall_topic,
    check_topic,
    encoded_properties,
)
from rocketmq_py.protocol.names import NOT_SENDABLE_TOPICS


@pytest.mark.parametrize("topic", ["%RETRY%G", "%DLQ%G", "a b", "SELF_TEST_TOPIC"])
def test_only_ordinary_topics_can_be_recalled_from(topic: str) -> None:
    check_recall_topic("T")
    with pytest.raises(MQClientException):
        check_recall_topic(topic)


@pytest.mark.parametrize("topic", sorted(NOT_SENDABLE_TOPICS))
def test_topics_of_the_server_itself_are_forbidden(topic: str) -> None:
    with pytest.raises(MQClientException, match="forbidden"):
        check_topic(topic)


def test_a_good_group_passes() -> None:
    check_group("shop-orders%1")


def test_only_messages_can_be_sent() -> None:
    with pytest.raises(MQClientException, match="not str") as caught:
        check_message("text", ProducerConfig())  # type: ignore[arg-type] # what users do
    assert caught.value.response_code == 13


def test_dispatch_to_several_queues_cannot_hold_a_path_separator() -> None:
    message = Message("T", b"x", properties={"INNER_MULTI_DISPATCH": "a/b"})
    with pytest.raises(MQClientException, match="INNER_MULTI_DISPATCH"):
        check_message(message, ProducerConfig())


def test_properties_that_cannot_be_read_back_are_refused_with_code_13() -> None:
    with pytest.raises(MQClientException) as caught:
        encoded_properties("T", {"a": "b\x02c"})
    assert (caught.value.response_code, caught.value.topic) == (13, "T")
