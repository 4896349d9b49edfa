"""Bodies of heartbeats."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.heartbeat import (
    SQL92,
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)


def test_a_heartbeat_reads_back_what_it_writes() -> None:
    heartbeat = HeartbeatData(
        "127.0.0.1@1#2",
        [ProducerData("PG")],
        [ConsumerData("CG", subscription_data_set=[SubscriptionData.parse("T", "a||标签", 5)])],
    )

    assert HeartbeatData.decode(heartbeat.encode()) == heartbeat
    assert b'"clientID"' in heartbeat.encode()


def test_missing_keys_of_a_heartbeat_have_defaults() -> None:
    consumer = HeartbeatData.decode(b'{"consumerDataSet":[{"groupName":"g"}]}').consumer_data_set[0]

    assert (consumer.consume_type, consumer.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")


def test_cpp_clients_number_what_java_names() -> None:
    body = b'{"consumerDataSet":[{"consumeType":2,"messageModel":0,"consumeFromWhere":5}]}'
    consumer = HeartbeatData.decode(body).consumer_data_set[0]

    assert consumer == ConsumerData("", "CONSUME_POP", "BROADCASTING", "CONSUME_FROM_TIMESTAMP", [])


@pytest.mark.parametrize("number", [-1, 2])
def test_a_number_that_counts_no_name_is_refused(number: int) -> None:
    with pytest.raises(BodyError, match="messageModel"):
        HeartbeatData.decode(b'{"consumerDataSet":[{"messageModel":%d}]}' % number)


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_means_all_tags(expression: str | None) -> None:
    subscription = SubscriptionData.parse("T", expression, 5)

    assert subscription == SubscriptionData("T", "*", sub_version=5)


def test_tags_are_trimmed_and_hashed() -> None:
    subscription = SubscriptionData.parse("T", " TagA ||标签|| ", 5)

    assert subscription.tags_set == {"TagA", "标签"}
    assert subscription.code_set == {2598919, 857175}
    assert subscription.sub_string == " TagA ||标签|| "


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_separators_alone_are_refused(expression: str) -> None:
    with pytest.raises(BodyError, match="names no tag"):
        SubscriptionData.parse("T", expression, 5)


def test_an_sql_expression_is_kept_as_it_is() -> None:
    subscription = SubscriptionData.parse("T", "a > 5 || b", 5, SQL92)

    assert (subscription.sub_string, subscription.tags_set) == ("a > 5 || b", frozenset())
    with pytest.raises(BodyError, match="required"):
        SubscriptionData.parse("T", "", 5, SQL92)
