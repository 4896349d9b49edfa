"""What Java's own classes write is what we read and, but for listed differences, what we write."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.protocol.bodies import groups, heartbeat, topics
from rocketmq_py.protocol.bodies.document import Document
from rocketmq_py.protocol.codes import LanguageCode, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.protocol.headers import Header
from rocketmq_py.protocol.headers.client import GetRouteInfoRequestHeader
from rocketmq_py.protocol.headers.consume import PullMessageRequestHeader
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader, SendMessageResponseHeader
from rocketmq_py.protocol.lenient_json import dumps_fastjson, loads_lenient

VERSIONS = ("4.9.4", "5.3.3")

SEND = SendMessageRequestHeader(
    producer_group="PG",
    topic="TopicTest",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=2,
    sys_flag=0,
    born_timestamp=1_700_000_000_123,
    flag=0,
    properties="KEYS\1k1\2TAGS\1标签\2",
    reconsume_times=0,
    unit_mode=False,
    max_reconsume_times=16,
    batch=False,
)

FRAMES: dict[str, tuple[int, int, Header, bytes]] = {
    "route_request": (105, 7, GetRouteInfoRequestHeader(topic="T"), b""),
    "send": (RequestCode.SEND_MESSAGE, 9, SEND, b"hello"),
    "send_v2": (RequestCode.SEND_MESSAGE_V2, 8, SEND, b"hello"),
    "send_response": (
        0,
        8,
        SendMessageResponseHeader(
            msg_id="7F00000100002A9F00000000000000ED", queue_id=1, queue_offset=17
        ),
        b"",
    ),
    "pull": (
        RequestCode.PULL_MESSAGE,
        10,
        PullMessageRequestHeader(
            consumer_group="CG",
            topic="T",
            queue_id=3,
            queue_offset=99,
            max_msg_nums=32,
            sys_flag=3,
            commit_offset=98,
            suspend_timeout_millis=15000,
            sub_version=1_700_000_000_000,
            expression_type="TAG",
        ),
        b"",
    ),
}

BODIES: dict[str, type[Document]] = {
    "route_fastjson": topics.TopicRouteData,
    "route_standard": topics.TopicRouteData,
    "cluster_info": topics.ClusterInfo,
    "topic_stats": topics.TopicStatsTable,
    "consume_stats": groups.ConsumeStats,
    "heartbeat": heartbeat.HeartbeatData,
    "group_config": groups.SubscriptionGroupConfig,
    "topic_config": topics.TopicConfig,
    "lock_request": groups.LockBatchRequest,
    "lock_response": groups.LockBatchResponse,
    "topic_list": topics.TopicList,
    "consumer_connection": groups.ConsumerConnection,
    "consumer_list": groups.ConsumerList,
    "client_check": groups.ClientConfigCheck,
}


# Any: the file holds texts by name and one list of notes.
@cache
def recorded() -> Any:
    return json.loads(Path(__file__).with_name("wire.json").read_text())


def canonical(text: bytes) -> bytes:
    """Order code sets, which Java writes in the order of its hash table."""

    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: sorted(item) if key == "codeSet" else ordered(item)
                for key, item in value.items()
            }
        return [ordered(item) for item in value] if isinstance(value, list) else value

    return dumps_fastjson(ordered(loads_lenient(text)))


@pytest.mark.case("W1")
@pytest.mark.case("W2")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
@pytest.mark.parametrize("name", FRAMES)
def test_a_recorded_frame_reads_as_the_header_that_wrote_it(
    version: str, form: str, name: str
) -> None:
    code, opaque, header, body = FRAMES[name]
    (frame,) = FrameDecoder().feed(bytes.fromhex(recorded()[version][f"frame_{name}_{form}"]))

    command = RemotingCommand.decode(frame)

    assert (command.code, command.opaque, command.body) == (code, opaque, body)
    assert (command.language, command.version) == (LanguageCode.JAVA, 401)
    assert command.is_response == (name == "send_response")
    if name == "send_v2":
        assert SendMessageRequestHeader.from_ext_v2(command.ext_fields) == header
        assert isinstance(header, SendMessageRequestHeader)
        assert header.to_ext_v2() == command.ext_fields
    else:
        assert type(header).from_ext(command.ext_fields) == header
        assert header.to_ext() == command.ext_fields


@pytest.mark.case("W2")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FRAMES)
def test_a_recorded_binary_frame_is_written_again_byte_for_byte(version: str, name: str) -> None:
    data = bytes.fromhex(recorded()[version][f"frame_{name}_ROCKETMQ"])
    (frame,) = FrameDecoder().feed(data)

    assert RemotingCommand.decode(frame).encode() == data


@pytest.mark.case("W24")
@pytest.mark.parametrize("name", BODIES)
def test_a_recorded_body_of_5x_is_written_again_byte_for_byte(name: str) -> None:
    data = recorded()["5.3.3"][name].encode()

    written = BODIES[name].decode(data).encode(standard=name == "route_standard")

    if b"codeSet" in data:
        assert canonical(written) == canonical(data)
    else:
        assert written == data


@pytest.mark.case("W24")
@pytest.mark.parametrize("name", BODIES)
def test_a_recorded_body_of_4_9_reads_completely(name: str) -> None:
    data = recorded()["4.9.4"][name].encode()

    written = loads_lenient(BODIES[name].decode(data).encode())

    def holds(ours: Any, javas: Any) -> None:
        if isinstance(javas, dict):
            for key, value in javas.items():
                holds(ours[key], value)
        elif isinstance(javas, list):
            if javas and isinstance(javas[0], int):
                javas = sorted(javas)
            assert len(javas) == len(ours)
            for our_item, java_item in zip(ours, javas, strict=True):
                holds(our_item, java_item)
        else:
            assert javas == ours

    holds(written, loads_lenient(data))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_pretty_form_of_configuration_files_is_javas_byte_for_byte(version: str) -> None:
    data = recorded()[version]["pretty_offsets"].encode()

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {int(key) if key.isdigit() else key: bare(item) for key, item in value.items()}
        return value

    assert dumps_fastjson(bare(loads_lenient(data)), pretty=True) == data
