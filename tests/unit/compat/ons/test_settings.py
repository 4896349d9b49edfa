from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from compat.ons import (
    ONSClientException,
    ONSFactory,
    Properties,
    PropertyKeyConst,
    TransactionProducer,
    TransactionStatus,
)
from compat.ons.access import Access
from compat.ons.properties import KNOWN
from compat.ons.settings import KINDS, PRODUCER, REFUSED, ClientKind, check, settings_of
from rocketmq_py import MessageModel
from rocketmq_py.errors import ConfigError

READ_ELSEWHERE = {
    *("AccessKey", "SecretKey", "SecurityToken", "OnsChannel"),
    *("ProducerId", "ConsumerId", "CheckImmunityTimeInSeconds"),
}
GROUP = {"GROUP_ID": "GID_x"}


Make = Callable[[Mapping[str, object]], Any]


def transaction_producer(properties: Mapping[str, object]) -> TransactionProducer:
    return ONSFactory.create_transaction_producer(properties, lambda _: TransactionStatus.Unknow)


MAKERS: dict[str, Make] = {
    "a producer": ONSFactory.create_producer,
    "an order producer": ONSFactory.create_order_producer,
    "a transaction producer": transaction_producer,
    "a consumer": ONSFactory.create_consumer,
    "a batch consumer": ONSFactory.create_batch_consumer,
    "an order consumer": ONSFactory.create_ordered_consumer,
    "a pull consumer": ONSFactory.create_pull_consumer,
}


def test_every_name_has_an_effect_or_is_refused() -> None:
    with_rows = {row.key for kind in KINDS for row in kind.rows}
    refused = REFUSED.keys() | {key for kind in KINDS for key in kind.refused}
    assert KNOWN - with_rows - refused - READ_ELSEWHERE == set()
    assert with_rows & REFUSED.keys() == set()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_row_of_a_kind_is_a_setting_of_its_client(kind: ClientKind) -> None:
    made = MAKERS[kind.name](GROUP)
    for row in kind.rows:
        assert hasattr(made.core, row.setting)


SET = {
    "NAMESRV_ADDR": ("http://127.0.0.1:9876", "namesrv_addr", "http://127.0.0.1:9876"),
    "ONSAddr": ("http://mq.example/a", "namesrv_domain", "http://mq.example/a"),
    "INSTANCE_ID": ("MQ_INST_1_x", "namespace", "MQ_INST_1_x"),
    "InstanceName": ("shop", "instance_name", "shop"),
    "isVipChannelEnabled": ("true", "vip_channel_enabled", True),
    "MsgTraceSwitch": ("false", "enable_trace", False),
}
SET_FOR_PRODUCERS = SET | {
    "GROUP_ID": ("GID_y", "producer_group", "GID_y"),
    "SendMsgTimeoutMillis": ("700", "send_msg_timeout", 700),
    "MaxDelayDays": (7, "max_delay", timedelta(days=7)),
}
SET_FOR_CONSUMERS = SET | {
    "GROUP_ID": ("GID_y", "consumer_group", "GID_y"),
    "maxBatchMessageCount": (7, "pull_batch_size", 7),
    "PostSubscriptionWhenPull": ("true", "post_subscription_when_pull", True),
}
SET_FOR_PUSH = SET_FOR_CONSUMERS | {
    "ConsumeThreadNums": (4, "consume_thread_max", 4),
    "maxReconsumeTimes": ("3", "max_reconsume_times", 3),
    "consumeTimeout": (2, "consume_timeout", 2),
    "maxCachedMessageAmount": (10, "pull_threshold_for_topic", 100),
    "maxCachedMessageSizeInMiB": (9999, "pull_threshold_size_for_topic", 2048),
}
BROADCASTING = {"MessageModel": ("BROADCASTING", "message_model", MessageModel.BROADCASTING)}
EFFECTS = {
    "a producer": SET_FOR_PRODUCERS,
    "an order producer": SET_FOR_PRODUCERS,
    "a transaction producer": SET_FOR_PRODUCERS,
    "a consumer": SET_FOR_PUSH | BROADCASTING,
    "a batch consumer": SET_FOR_PUSH
    | BROADCASTING
    | {
        "ConsumeMessageBatchMaxSize": (32, "consume_message_batch_max_size", 32),
        "batchConsumeMaxAwaitDurationInSeconds": (10, "consume_message_batch_max_wait", 10_000),
    },
    "an order consumer": SET_FOR_PUSH
    | {
        "suspendTimeMillis": (500, "suspend_current_queue_time_millis", 500),
        "MessageModel": ("CLUSTERING", "message_model", MessageModel.CLUSTERING),
    },
    "a pull consumer": SET_FOR_CONSUMERS
    | BROADCASTING
    | {
        "maxCachedMessageAmount": (99_999, "pull_threshold_for_all", 50_000),
        "maxCachedMessageSizeInMiB": (2048, "pull_threshold_size_for_queue", 1024),
        "autoCommit": ("false", "auto_commit", False),
        "pollTimeoutMillis": (100, "poll_timeout_millis", 100),
    },
}


@pytest.mark.case("T91")
@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, effects in EFFECTS.items() for key in effects]
)
def test_a_property_becomes_a_setting(name: str, key: str) -> None:
    value, setting, expected = EFFECTS[name][key]
    made = MAKERS[name](GROUP | {key: value})
    assert getattr(made.core, setting) == expected


def test_the_effects_above_are_those_of_all_rows() -> None:
    for kind in KINDS:
        assert {row.key for row in kind.rows} == EFFECTS[kind.name].keys()


@pytest.mark.parametrize(
    ("name", "setting", "expected"),
    [
        ("a producer", "send_msg_timeout", 5000),
        ("an order producer", "send_msg_timeout", 3000),
        ("a transaction producer", "send_msg_timeout", 3000),
        ("a producer", "max_delay", timedelta(days=40)),
        ("a producer", "enable_trace", True),
        ("a consumer", "max_reconsume_times", 16),
        ("a consumer", "consume_thread_min", 20),
        ("a consumer", "consume_timeout", 15),
        ("a consumer", "pull_threshold_for_topic", 5000),
        ("a consumer", "pull_threshold_size_for_topic", 512),
        ("a batch consumer", "consume_message_batch_max_size", 1),
        ("a batch consumer", "consume_message_batch_max_wait", 0),
        ("an order consumer", "max_reconsume_times", -1),
        ("an order consumer", "suspend_current_queue_time_millis", 1000),
        ("a pull consumer", "auto_commit", True),
        ("a pull consumer", "pull_threshold_size_for_queue", 512),
    ],
)
def test_without_a_property_its_default_is_that_of_ons(
    name: str, setting: str, expected: object
) -> None:
    made = MAKERS[name](GROUP)
    assert getattr(made.core, setting) == expected


@pytest.mark.case("T91")
@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("SendMsgTimeoutMilis", "did you mean SendMsgTimeoutMillis"),
        ("MaxReconsumeTimes", "did you mean maxReconsumeTimes"),
        ("colour", "PropertyKeyConst has all names"),
    ],
)
def test_a_name_that_is_not_known_is_refused_with_the_nearest_one(key: str, hint: str) -> None:
    with pytest.raises(ONSClientException, match=f"property '{key}' is not known: {hint}"):
        ONSFactory.create_producer({key: "3"})


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("exactlyOnceDelivery", "true", "exactly-once"),
        ("RamRoleName", "role", "update_credential"),
        ("languageIdentifier", "3", "Python"),
        ("MQType", "NOTIFY", "METAQ"),
        ("autoCommitIntervalMillis", "5000", "each poll commits"),
    ],
)
def test_what_is_not_offered_is_refused_by_name(key: str, value: str, told: str) -> None:
    for kind in KINDS:
        with pytest.raises(ONSClientException, match=f"property {key} = '{value}' of .*{told}"):
            MAKERS[kind.name](GROUP | {key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("exactlyOnceDelivery", "false"), ("MQType", "METAQ"), ("RamRoleName", " ")),
    ],
)
def test_what_asks_nothing_is_not_refused(key: str, value: str) -> None:
    check(PRODUCER, Properties({key: value}))


def test_a_property_of_another_kind_of_client_is_left_to_that_one() -> None:
    shared = GROUP | {"SendMsgTimeoutMillis": "700", "ConsumeThreadNums": "4"}
    assert ONSFactory.create_producer(shared).core.send_msg_timeout == 700
    assert ONSFactory.create_consumer(shared).core.consume_thread_max == 4


def test_what_java_takes_and_one_kind_does_not_do_is_refused_for_it() -> None:
    with pytest.raises(ONSClientException, match="ConsumeThreadNums = '4' of a pull consumer"):
        ONSFactory.create_pull_consumer(GROUP | {"ConsumeThreadNums": "4"})
    with pytest.raises(ONSClientException, match="BROADCASTING' of an order consumer"):
        ONSFactory.create_ordered_consumer(GROUP | {"MessageModel": "BROADCASTING"})


@pytest.mark.parametrize(
    ("key", "value", "limit"),
    [
        ("ConsumeThreadNums", "1001", "consume_thread_min = 1001 is not possible: must be 1 to"),
        ("ConsumeMessageBatchMaxSize", "1025", "must be 1 to 1024"),
        ("batchConsumeMaxAwaitDurationInSeconds", "451", "must be 0 to 450000 milliseconds"),
        ("ONSAddr", "not an address", "namesrv_domain = 'not an address'"),
    ],
)
def test_a_value_out_of_range_is_told_with_the_property(key: str, value: str, limit: str) -> None:
    with pytest.raises(ONSClientException, match=f"property {key} of .*{limit}") as raised:
        ONSFactory.create_batch_consumer(GROUP | {key: value})
    assert isinstance(raised.value.__cause__, ConfigError)


def test_a_model_that_there_is_not_and_a_group_that_is_missing_are_refused() -> None:
    with pytest.raises(ValueError, match="MessageModel = 'BOTH' must be CLUSTERING or"):
        ONSFactory.create_consumer(GROUP | {"MessageModel": "BOTH"})
    for kind in KINDS:
        if kind.name.endswith("consumer"):
            with pytest.raises(ONSClientException, match="GROUP_ID"):
                MAKERS[kind.name]({})


def test_the_old_names_of_a_group_count_where_the_new_one_is_not_set() -> None:
    assert ONSFactory.create_producer({"ProducerId": "PID"}).core.producer_group == "PID"
    assert ONSFactory.create_consumer({"ConsumerId": "CID"}).core.consumer_group == "CID"
    both = {"ProducerId": "PID", "GROUP_ID": "GID"}
    assert ONSFactory.create_producer(both).core.producer_group == "GID"


def test_days_of_delay_are_at_least_one() -> None:
    with pytest.raises(ONSClientException, match="MaxDelayDays = 0 must be 1 or more"):
        ONSFactory.create_producer({PropertyKeyConst.MaxDelayDays: 0})


def test_keys_and_channel_become_settings_too() -> None:
    keys = {"AccessKey": "id", "SecretKey": "hidden", "OnsChannel": "CLOUD"}
    properties = Properties(keys)
    settings = settings_of(PRODUCER, properties, Access.of(properties))
    assert settings["access_channel"] == "CLOUD"
    assert len(settings["rpc_hooks"]) == 1
    assert settings["credentials"]().access_key == "id"
