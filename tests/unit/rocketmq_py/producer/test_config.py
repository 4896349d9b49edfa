"""Settings of a producer: names, defaults, limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rocketmq_py.config import ClientConfig
from rocketmq_py.errors import ConfigError
from rocketmq_py.producer.config import ProducerConfig
from rocketmq_py.protocol.sysflag import CompressionType


def test_defaults_are_those_of_a_5_client() -> None:
    config = ProducerConfig()
    assert config.send_msg_timeout == 3_000
    assert config.max_message_size == 4_194_304
    assert config.compress_msg_body_over_howmuch == 4_096
    assert (config.retry_times_when_send_failed, config.default_topic_queue_nums) == (2, 4)
    assert config.retry_response_codes == {1, 2, 14, 16, 17, 204, 205, 1500}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("send_msg_timeout", 0),
        ("send_msg_timeout", True),
        ("send_msg_timeout", 1.5),
        ("send_msg_max_timeout_per_request", 0),
        ("send_msg_max_timeout_per_request", -2),
        ("compress_level", 23),
        ("compress_type", 3.0),
        ("create_topic_key", None),
        ("fault_table", "V5"),
        ("retry_response_codes", {"2"}),
        ("retry_another_broker_when_not_store_ok", 1),
        ("send_latency_enable", 1),
        ("translate_start_deliver_time", True),
        ("delay_policy", "ignore"),
        ("max_delay", timedelta(0)),
        ("max_delay", 40),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_the_settings_name(name: str, value: Any) -> None:
    config = ProducerConfig()
    with pytest.raises(ConfigError, match=name):
        setattr(config, name, value)
    with pytest.raises(ConfigError, match=name):
        ProducerConfig(**{name: value})


LEVELS = [
    (CompressionType.UNSPECIFIED, 9),
    (CompressionType.ZLIB, 9),
    (CompressionType.LZ4, 16),
    (CompressionType.ZSTD, 22),
]


@pytest.mark.parametrize(("kind", "most"), LEVELS)
def test_a_level_that_a_compression_does_not_have_is_refused(
    kind: CompressionType, most: int
) -> None:
    config = ProducerConfig(compress_type=kind, compress_level=most)
    with pytest.raises(ConfigError, match=f"compress_level.*0 to {most}"):
        config.compress_level = most + 1
    with pytest.raises(ConfigError, match=r"compress_(type|level)"):
        ProducerConfig(compress_type=kind, compress_level=most + 1)


def test_a_compression_that_lacks_the_level_is_refused_until_that_is_lowered() -> None:
    config = ProducerConfig(compress_type=CompressionType.ZSTD, compress_level=19)
    with pytest.raises(ConfigError, match="no compress_level above 9, which is 19: lower that"):
        config.compress_type = CompressionType.ZLIB
    config.compress_level = 9
    config.compress_type = CompressionType.ZLIB


def test_minus_one_lifts_the_limit_per_request() -> None:
    assert ProducerConfig(send_msg_max_timeout_per_request=-1).send_msg_max_timeout_per_request
    assert ProducerConfig(retry_response_codes={2}).retry_response_codes == {2}


def test_settings_of_every_client_become_those_of_a_producer() -> None:
    base = ClientConfig(namesrv_addr="a:1", unit_name="u")
    config = ProducerConfig.of(base, namesrv_addr="b:2")
    assert (config.namesrv_addr, config.unit_name, config.send_msg_timeout) == ("b:2", "u", 3_000)
