"""Whole commands."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rocketmq_py.errors import FrameError, HeaderError
from rocketmq_py.protocol.codes import LanguageCode, MQVersion, RequestCode, SerializeType
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FRAME_SIZE_MAX, Frame, FrameDecoder


def decoded(data: bytes) -> RemotingCommand:
    (frame,) = FrameDecoder().feed(data)
    return RemotingCommand.decode(frame)


def route_request(serialize_type: int = SerializeType.JSON) -> RemotingCommand:
    return RemotingCommand(
        code=RequestCode.GET_ROUTEINFO_BY_TOPIC,
        opaque=7,
        language=LanguageCode.JAVA,
        version=MQVersion.V4_9_4,
        ext_fields={"topic": "T"},
        serialize_type=serialize_type,
    )


@pytest.mark.case("W1")
def test_the_worked_json_example_reads_back_equal() -> None:
    header = (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":401}'
    )
    frame = bytes.fromhex("0000007f0000007b") + header

    assert decoded(frame) == route_request()
    assert decoded(route_request().encode()) == route_request()


@pytest.mark.case("W1")
def test_our_json_header_is_javas_without_its_noise() -> None:
    data = route_request().encode()

    assert data[8:] == (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,"version":401}'
    )
    assert data[:8] == (len(data) - 4).to_bytes(4, "big") + (len(data) - 8).to_bytes(4, "big")


@pytest.mark.case("W2")
def test_the_worked_binary_example_is_written_byte_for_byte() -> None:
    expected = bytes.fromhex(
        "00000025 01000021 0069 00 0191 00000007 00000000 00000000 0000000c"
        "0005 746f706963 00000001 54"
    )

    assert route_request(SerializeType.ROCKETMQ).encode() == expected
    assert decoded(expected) == route_request(SerializeType.ROCKETMQ)


@pytest.mark.case("W13")
@pytest.mark.parametrize("serialize_type", list(SerializeType))
def test_an_answer_keeps_the_form_and_the_opaque_of_its_request(serialize_type: int) -> None:
    request = decoded(route_request(serialize_type).encode())

    answer = decoded(request.answer(17, "no route").encode())

    assert answer.serialize_type == serialize_type
    assert (answer.opaque, answer.code, answer.remark) == (7, 17, "no route")
    assert answer.is_response
    assert not answer.is_oneway


@pytest.mark.case("W13")
def test_one_decoder_takes_both_forms_from_one_connection() -> None:
    decoder = FrameDecoder()
    frames = decoder.feed(
        route_request(SerializeType.JSON).encode() + route_request(SerializeType.ROCKETMQ).encode()
    )

    first, second = (RemotingCommand.decode(frame) for frame in frames)

    assert (first.serialize_type, second.serialize_type) == (0, 1)
    assert first.ext_fields == second.ext_fields


@pytest.mark.case("W14")
def test_a_pop_request_cannot_be_written_with_a_binary_header() -> None:
    pop = RemotingCommand(RequestCode.POP_MESSAGE, serialize_type=SerializeType.ROCKETMQ)

    with pytest.raises(HeaderError, match="200050"):
        pop.encode()

    pop.serialize_type = SerializeType.JSON
    assert decoded(pop.encode()).code == 200_050


@pytest.mark.case("W5")
@pytest.mark.parametrize("frame", [Frame(0, b"{broken", b""), Frame(1, b"\0" * 20, b"")])
def test_an_undecodable_header_raises_a_header_error(frame: Frame) -> None:
    with pytest.raises(HeaderError):
        RemotingCommand.decode(frame)


def test_flag_bits_tell_requests_oneways_and_responses_apart() -> None:
    assert not RemotingCommand(1).is_response
    assert RemotingCommand(1, flag=2).is_oneway
    assert RemotingCommand(1, flag=1).is_response
    assert RemotingCommand(1, flag=3).answer(0).flag == 1


def test_two_commands_never_share_their_extra_fields() -> None:
    RemotingCommand(1).ext_fields["x"] = "y"

    assert RemotingCommand(1).ext_fields == {}


def test_body_parts_follow_the_body() -> None:
    command = RemotingCommand(0, body=b"ab", body_parts=[memoryview(b"cd"), b"ef"])

    assert decoded(command.encode()).body == b"abcdef"


def test_a_body_beyond_the_frame_limit_is_refused() -> None:
    with pytest.raises(FrameError):
        RemotingCommand(0, body=bytes(FRAME_SIZE_MAX)).encode()


def test_importing_commands_loads_no_header_no_body_and_no_ssl() -> None:
    program = (
        "import sys, rocketmq_py.protocol.command\n"
        "rooms = ['rocketmq_py.protocol.' + name for name in ('headers', 'bodies')]\n"
        "print([name for name in [*rooms, 'asyncio', 'ssl'] if name in sys.modules])"
    )

    seen = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )

    assert seen.stdout.strip() == "[]"


@pytest.mark.parametrize("serialize_type", [SerializeType.JSON, SerializeType.ROCKETMQ])
def test_a_head_and_its_body_are_the_frame(serialize_type: SerializeType) -> None:
    body = b"x" * 1000
    command = RemotingCommand(11, 7, ext_fields={"topic": "T"}, serialize_type=serialize_type)
    head = command.encode_head(len(body))
    command.body = body
    assert head + body == command.encode()

    command.body = b""
    with pytest.raises(FrameError, match=str(FRAME_SIZE_MAX - 4)):
        command.encode_head(FRAME_SIZE_MAX - 8)
