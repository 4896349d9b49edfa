"""Cutting and building frames."""

from __future__ import annotations

from random import Random

import pytest

from rocketmq_py.errors import FrameError
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import (
    FRAME_SIZE_MAX,
    HEADER_SIZE_MAX,
    Buffer,
    Frame,
    FrameDecoder,
    encode_frame,
)


def one_by_one(decoder: FrameDecoder, data: bytes) -> list[Frame]:
    return [frame for byte in data for frame in decoder.feed(bytes([byte]))]


@pytest.mark.case("W3")
def test_two_frames_in_one_chunk_and_one_byte_by_byte_come_out_in_order() -> None:
    commands = [RemotingCommand(105, opaque, ext_fields={"topic": "T"}) for opaque in (5, 6, 7)]
    first, second, third = (command.encode() for command in commands)
    decoder = FrameDecoder()

    frames = decoder.feed(first + second) + one_by_one(decoder, third)

    assert [RemotingCommand.decode(frame).opaque for frame in frames] == [5, 6, 7]
    assert decoder.buffered == 0


def test_an_incomplete_frame_waits_and_is_counted() -> None:
    decoder = FrameDecoder()
    whole = encode_frame(0, b"{}", b"body")

    assert decoder.feed(whole + whole[:9]) == [Frame(0, b"{}", b"body")]
    assert decoder.buffered == 9
    assert decoder.feed(whole[9:]) == [Frame(0, b"{}", b"body")]


@pytest.mark.parametrize("seed", range(20))
def test_long_frames_come_out_the_same_whatever_the_pieces(seed: int) -> None:
    random = Random(seed)
    wanted = [
        Frame(number % 2, random.randbytes(header), random.randbytes(body))
        for number, (header, body) in enumerate(
            [(10, 900_000), (3, 5), (400_000, 300_000), (0, 262_145), (7, 70_000), (5, 600_000)]
        )
    ]
    data = b"".join(encode_frame(*one) for one in wanted)
    decoder, found, at, most = (
        FrameDecoder(),
        list[Frame](),
        0,
        random.choice((9, 100_000, 400_000)),
    )
    while at < len(data):
        piece = data[at : at + random.randint(1, most * random.choice((1, 1, 500)))]
        at += len(piece)
        found += decoder.feed(piece)
        passed = sum(len(encode_frame(*one)) for one in found)
        assert decoder.buffered == at - passed

    assert found == wanted
    assert all(type(one.header) is type(one.body) is bytes for one in found)
    assert decoder.missing == 4


def test_what_follows_a_long_frame_is_checked_at_its_place() -> None:
    decoder, whole = FrameDecoder(), encode_frame(0, b"h", bytes(500_000))
    assert decoder.feed(whole[:300_000]) == []
    with pytest.raises(FrameError) as caught:
        decoder.feed(whole[300_000:] + b"\xff" * 8)
    assert caught.value.offset == len(whole)
    assert [len(one.body) for one in decoder.salvaged] == [500_000]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_can_be_fed(kind: type[bytes]) -> None:
    assert FrameDecoder().feed(kind(encode_frame(1, b"h", b"b"))) == [Frame(1, b"h", b"b")]


def test_nothing_fed_gives_nothing() -> None:
    assert FrameDecoder().feed(b"") == []


def test_an_empty_header_and_an_empty_body_make_a_frame() -> None:
    assert FrameDecoder().feed(bytes.fromhex("0000000400000000")) == [Frame(0, b"", b"")]


@pytest.mark.case("W4")
def test_a_length_over_the_limit_is_refused_as_soon_as_it_is_known() -> None:
    decoder = FrameDecoder()

    with pytest.raises(FrameError) as caught:
        decoder.feed((16_777_300).to_bytes(4, "big"))

    assert (caught.value.offset, caught.value.field, caught.value.value) == (
        0,
        "length",
        16_777_300,
    )
    assert "16777212" in str(caught.value)


@pytest.mark.case("W4")
def test_a_frame_of_exactly_the_limit_passes() -> None:
    decoder = FrameDecoder(frame_size_max=20)

    assert len(decoder.feed(encode_frame(0, b"", bytes(12)))) == 1
    with pytest.raises(FrameError):
        decoder.feed(encode_frame(0, b"", bytes(13)))
    assert FRAME_SIZE_MAX == 16 * 1024 * 1024


@pytest.mark.case("W5")
def test_a_header_longer_than_its_frame_is_refused() -> None:
    with pytest.raises(FrameError, match="header length") as caught:
        FrameDecoder().feed(bytes.fromhex("0000000a00000007") + bytes(6))

    assert caught.value.offset == 5


@pytest.mark.case("W5")
def test_an_unknown_header_kind_is_refused() -> None:
    with pytest.raises(FrameError, match="serialize type"):
        FrameDecoder().feed(bytes.fromhex("0000000407000000"))


@pytest.mark.case("W5")
@pytest.mark.parametrize("length", [-1, 0, 3])
def test_a_length_without_room_for_the_header_length_is_refused(length: int) -> None:
    with pytest.raises(FrameError, match="length"):
        FrameDecoder().feed(length.to_bytes(4, "big", signed=True))


def test_after_a_failure_the_same_error_comes_again() -> None:
    decoder = FrameDecoder()
    with pytest.raises(FrameError) as first:
        decoder.feed(bytes(4))
    with pytest.raises(FrameError) as second:
        decoder.feed(encode_frame(0, b"{}"))

    assert second.value is first.value


def test_a_failure_says_its_offset_in_the_stream_and_keeps_the_frames_before_it() -> None:
    decoder = FrameDecoder()
    good = encode_frame(0, b"{}", b"x")
    decoder.feed(good)

    with pytest.raises(FrameError) as caught:
        decoder.feed(good + bytes(4))

    assert caught.value.offset == 2 * len(good)
    assert decoder.salvaged == [Frame(0, b"{}", b"x")]


def test_a_body_of_several_buffers_is_joined_into_the_frame() -> None:
    parts: list[Buffer] = [b"ab", bytearray(b"cd"), memoryview(b"xefx")[1:3]]

    assert encode_frame(0, b"{}", parts) == encode_frame(0, b"{}", b"abcdef")
    assert encode_frame(0, b"{}", []) == encode_frame(0, b"{}")


def test_a_frame_that_a_peer_would_refuse_is_not_built() -> None:
    with pytest.raises(FrameError, match="length"):
        encode_frame(0, b"{}", bytes(100), frame_size_max=100)
    with pytest.raises(FrameError, match="header length"):
        encode_frame(0, bytes(HEADER_SIZE_MAX + 1), frame_size_max=2 * FRAME_SIZE_MAX)
