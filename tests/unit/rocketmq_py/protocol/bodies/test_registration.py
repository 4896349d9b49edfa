"""A compressed registration is read as brokers write it, within a bound."""

from __future__ import annotations

import zlib
from base64 import b64decode

import pytest

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.registration import SIZE_MAX, read_compressed
from rocketmq_py.protocol.bodies.topics import DataVersion, TopicConfig

OF_A_REAL_BROKER = b64decode(
    "eNpjYGBQr1ZKzi/NK0ktUrIy0FEqycxNLS5JzC1QsjI0tzQ1sTA1MTWysDSuZWBg4ABitWBnD1eXUB/X+BD/AE/n+Agg"
    "UDC0ACEzhWBPP3eQjKM7UKW2S2paYmlOiXNOaTHQ9Pgg1wCfSIguBUMgRFOu4pSal5yRm1iUHQJ0gIKhgZEJhEBTp+zv"
    "5hbsGhLv6x/m6hLvGubqF4LNONGi1MQcsIQ5qoR4iFM40FwFCyBEk1IIdvVxiw9xDQ7B7UxFVF8pGJqBEJpBTNGxAJiA"
    "WAM="
)
"""What a broker of 4.9.4 with `compressedRegister=true` has sent."""


def part(text: str) -> bytes:
    return len(text.encode()).to_bytes(4, "big") + text.encode()


def number(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def packed(*parts: bytes) -> bytes:
    return zlib.compress(b"".join(parts))


VERSION = part('{"counter":3,"stateVersion":1,"timestamp":7}')


def test_what_a_broker_of_4_9_sends() -> None:
    body = read_compressed(OF_A_REAL_BROKER)
    table = body.topic_config_serialize_wrapper
    assert table.data_version == DataVersion(counter=0, timestamp=1795485452893)
    assert body.filter_server_list == []
    assert table.topic_config_table["SCHEDULE_TOPIC_XXXX"] == TopicConfig(
        "SCHEDULE_TOPIC_XXXX", 18, 18, perm=6
    )
    assert {name: one.perm for name, one in table.topic_config_table.items()} == {
        "SCHEDULE_TOPIC_XXXX": 6,
        "DefaultCluster_REPLY_TOPIC": 6,
        "BenchmarkTest": 6,
        "OFFSET_MOVED_EVENT": 6,
        "real": 7,
        "TBW102": 7,
        "SELF_TEST_TOPIC": 6,
        "DefaultCluster": 7,
    }


def test_5_x_adds_attributes_and_static_topics() -> None:
    topics = [
        'T 2 3 4 MULTI_TAG {"message.type":"FIFO"}',
        'U 1 1 6 SINGLE_TAG {"a":"with a blank"}',
        "V 1 1 6 SINGLE_TAG {broken",
    ]
    mapping = part('{"topic":"T"}')
    body = read_compressed(
        packed(VERSION, number(3), *map(part, topics), part('["host:1"]'), number(1), mapping)
    )
    table = body.topic_config_serialize_wrapper
    assert table.data_version == DataVersion(counter=3, state_version=1, timestamp=7)
    assert body.filter_server_list == ["host:1"]
    assert list(table.topic_config_table.values()) == [
        TopicConfig("T", 2, 3, 4, "MULTI_TAG", attributes={"message.type": "FIFO"}),
        TopicConfig("U", 1, 1, 6, attributes={"a": "with a blank"}),
        TopicConfig("V", 1, 1, 6),
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{}", "no zlib stream"),
        (OF_A_REAL_BROKER[:-20], "ends too early"),
        (packed(VERSION, number(1)), "ends too early"),
        (packed(VERSION, number(1), number(9), b"T"), "ends too early"),
        (packed(VERSION, number(-1)), "a length is -1"),
        (packed(VERSION, number(2**31 - 1)), "ends too early"),
        (packed(VERSION, number(1), part("T 1 1")), "says nothing of a topic"),
        (packed(VERSION, number(1), part("T 1 one 6 SINGLE_TAG")), "says nothing of a topic"),
        (packed(part("no version"), number(0)), "value expected"),
        (zlib.compress(bytes(SIZE_MAX + 1)), "more than the 16777216 bytes"),
    ],
)
def test_what_is_no_registration_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(BodyError, match=reason):
        read_compressed(body)
