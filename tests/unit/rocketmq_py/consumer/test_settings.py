from __future__ import annotations

import inspect
import pickle
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from attrs import fields

from rocketmq_py.config import ClientConfig
from rocketmq_py.consumer.allocate import AllocateMessageQueueAveragely
from rocketmq_py.consumer.listener import MessageModel
from rocketmq_py.consumer.push import DefaultMQPushConsumer
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import ConfigError


def test_the_defaults_are_those_of_the_original() -> None:
    config = PushConsumerConfig()
    assert (config.consume_thread_min, config.consume_thread_max) == (20, 20)
    assert config.consume_message_batch_max_size == 1
    assert config.consume_concurrently_max_span == 2000
    assert (config.pull_threshold_for_queue, config.pull_threshold_size_for_queue) == (1000, 100)
    assert (config.pull_threshold_for_topic, config.pull_threshold_size_for_topic) == (-1, -1)
    assert (config.pull_interval, config.pull_batch_size) == (0, 32)
    assert config.pull_batch_size_in_bytes == 256 * 1024
    assert (config.max_reconsume_times, config.reconsume_times_max) == (-1, 16)
    assert config.consume_timeout == 15
    assert config.await_termination_millis_when_shutdown == 3000
    assert config.allocate_strategy.name == "AVG"


RANGES = [
    ("consume_thread_min", 1, 1000),
    ("consume_thread_max", 1, 1000),
    ("consume_message_batch_max_size", 1, 1024),
    ("consume_concurrently_max_span", 1, 65_535),
    ("pull_threshold_for_queue", 1, 65_535),
    ("pull_threshold_size_for_queue", 1, 1024),
    ("pull_interval", 0, 65_535),
    ("pull_batch_size", 1, 1024),
]


@pytest.mark.parametrize(("name", "low", "high"), RANGES)
def test_every_range_ends_where_the_original_ends_it(name: str, low: int, high: int) -> None:
    config = PushConsumerConfig()
    for good in (low, high):
        setattr(config, name, good)
    for bad in (low - 1, high + 1, True, 1.5, "3"):
        with pytest.raises(ConfigError, match=name):
            setattr(config, name, bad)


@pytest.mark.parametrize(
    ("name", "high"),
    [("pull_threshold_for_topic", 6_553_500), ("pull_threshold_size_for_topic", 102_400)],
)
def test_a_topic_limit_may_be_minus_one(name: str, high: int) -> None:
    config = PushConsumerConfig()
    for good in (-1, 1, high):
        setattr(config, name, good)
    for bad in (0, -2, high + 1):
        with pytest.raises(ConfigError, match=name):
            setattr(config, name, bad)


def test_a_model_is_a_member_of_its_enum() -> None:
    assert PushConsumerConfig(message_model=MessageModel.BROADCASTING).message_model
    wrong: Any = "BROADCASTING"
    with pytest.raises(ConfigError, match="MessageModel"):
        PushConsumerConfig(message_model=wrong)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("consume_from_where", "LAST"),
        ("consume_timestamp", "20240102"),
        ("consume_timestamp", "2024-01-02 03:04"),
        ("consume_timestamp", "20241302030405"),
        ("consume_timestamp", 20240102030405),
        ("consume_timestamp", datetime(2024, 1, 2)),  # noqa: DTZ001 - naive is the point
        ("allocate_strategy", AllocateMessageQueueAveragely),
        ("allocate_strategy", "AVG"),
        ("message_model", "CLUSTERING"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(name: str, bad: object) -> None:
    values: Any = {name: bad}
    with pytest.raises(ConfigError, match=name):
        PushConsumerConfig(**values)


def test_settings_begin_with_those_of_any_client() -> None:
    base = ClientConfig(namesrv_addr="127.0.0.1:9876", heartbeat_broker_interval=5000)
    config = PushConsumerConfig.of(base, pull_batch_size=8)
    assert config.namesrv_addr == "127.0.0.1:9876"
    assert config.heartbeat_broker_interval == 5000
    assert config.pull_batch_size == 8


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(TypeError, match="pull_batch_size"):
        PushConsumerConfig(pull_batchsize=8)  # type: ignore[call-arg] # the mistake


def test_settings_pickle() -> None:
    config = PushConsumerConfig(pull_batch_size=8)
    assert pickle.loads(pickle.dumps(config)).pull_batch_size == 8  # noqa: S301 - our own bytes


def test_every_setting_is_an_argument_and_an_attribute_and_explained() -> None:
    consumer = DefaultMQPushConsumer("G")
    arguments = inspect.signature(DefaultMQPushConsumer).parameters
    text = inspect.getdoc(DefaultMQPushConsumer) or ""
    for setting in fields(PushConsumerConfig):
        assert hasattr(consumer, setting.name)
        assert arguments[setting.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert re.search(rf"^(\w+, )*{setting.name}(, \w+)*$", text, re.MULTILINE), setting.name


def test_a_listener_may_take_a_timedelta_of_whole_minutes() -> None:
    config = PushConsumerConfig(consume_timeout=timedelta(hours=1), pull_interval=timedelta())
    assert (config.consume_timeout, config.pull_interval) == (60, 0)
    with pytest.raises(ConfigError, match=r"minutes .or a timedelta of them"):
        PushConsumerConfig(consume_timeout=timedelta(seconds=90))


def test_a_consumer_is_not_pickled_but_its_settings_are() -> None:
    consumer = DefaultMQPushConsumer("G", pull_batch_size=7)
    with pytest.raises(TypeError, match=r"PushConsumerConfig\.of"):
        pickle.dumps(consumer)
    assert PushConsumerConfig.of(consumer).pull_batch_size == 7
