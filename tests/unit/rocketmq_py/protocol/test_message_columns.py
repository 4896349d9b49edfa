"""Messages of one size are written many at a time, with the bytes of one by one."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Sequence
from importlib import reload
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_broker.store.message_run import MessageRun, tags_codes
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol import checksum, message_codec, message_columns
from rocketmq_py.protocol.handles import pack_host
from rocketmq_py.protocol.message_codec import encode_neighbours
from rocketmq_py.protocol.message_columns import EvenProperties, MessageColumns
from rocketmq_py.protocol.tag_hash import tags_code

V4 = pack_host("127.0.0.1", 10911)
V6 = pack_host("fd00::1", 10911)


def columns(
    count: int, body: int, properties: Sequence[bytes], flags: Sequence[int] = ()
) -> MessageColumns:
    """So many messages with bodies of one size."""
    bodies = [(b"%d" % number).rjust(body, b"x")[:body] for number in range(count)]
    return MessageColumns(
        flags or [3] * count, 17, bodies, properties, [number - 4 for number in range(count)]
    )


def encoded(
    messages: MessageColumns, topic: str = "T", born_host: bytes = V4, at: int = 237
) -> tuple[bytes, list[tuple[int, int, int]]]:
    run = MessageRun(topic, 3, messages, 1, born_host, 2)
    return encode_neighbours(messages, run, 5, at, 1_700_000_000_005, V4)


def one_by_one(
    messages: MessageColumns, topic: str, born_host: bytes
) -> tuple[bytes, list[tuple[int, int, int]]]:
    """What comes of them when nobody knows that they are of one size."""
    run = MessageRun(topic, 3, messages, 1, born_host, 2)
    return encode_neighbours([*messages], run, 5, 237, 1_700_000_000_005, V4)


@given(
    st.integers(1, 200),
    st.integers(0, 40),
    st.sampled_from(["T", "t" * 200, "Thema für alle"]),
    st.sampled_from([V4, V6]),
    st.booleans(),
)
def test_messages_of_one_size_have_the_bytes_of_messages_of_any_size(
    count: int, body: int, topic: str, born_host: bytes, are_properties_even: bool
) -> None:
    keys = [b"%03d" % number for number in range(count)]
    texts: Sequence[bytes] = EvenProperties(b"A\0011\2UNIQ_KEY\1", keys, b"\2B\0012\2")
    if not are_properties_even:
        texts = [*texts]
    messages = columns(count, body, texts)
    assert encoded(messages, topic, born_host) == one_by_one(messages, topic, born_host)


def uneven() -> Iterator[MessageColumns]:
    even = EvenProperties(b"UNIQ_KEY\1", [b"%d" % number for number in range(9)], b"\2")
    yield columns(9, 4, even, [0] * 8 + [1])
    yield columns(9, 4, [*[*even][:-1], b""])
    longer = columns(9, 4, even)
    longer.bodies = [*longer.bodies[:-1], b"a longer one"]
    yield longer


@pytest.mark.parametrize("messages", [*uneven()], ids=["flags", "properties", "bodies"])
def test_messages_that_differ_in_more_are_written_one_by_one(messages: MessageColumns) -> None:
    assert not messages.is_even
    assert encoded(messages) == one_by_one(messages, "T", V4)


def test_messages_of_one_size_are_not_written_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def write(around: Any, messages: MessageColumns, *places: Any) -> bytes:
        written.append(len(messages))
        return message_columns.write_even_records(around, messages, *places)

    monkeypatch.setattr(message_codec, "write_even_records", write)
    encoded(columns(100, 5, EvenProperties(b"UNIQ_KEY\1", [b"a"] * 100, b"\2")))
    assert written == [100]


def test_an_offset_beyond_its_field_is_refused_in_the_middle_of_many() -> None:
    messages = columns(100, 5, [b""] * 100)
    with pytest.raises(RecordError, match="head"):
        encoded(messages, at=(1 << 63) - 200)


def test_properties_that_cannot_be_stored_are_refused_for_many() -> None:
    with pytest.raises(RecordError, match="properties length"):
        encoded(columns(5, 5, [b"a" * 32_768] * 5))


def test_even_properties_are_texts() -> None:
    texts = EvenProperties(b"<", [b"1", b"2"], b">")
    assert (len(texts), [*texts], texts[-1]) == (2, [b"<1>", b"<2>"], b"<2>")


def test_even_properties_have_one_tags_code() -> None:
    texts = EvenProperties(b"TAGS\1red\2UNIQ_KEY\1", [b"1", b"2"], b"\2")
    assert tags_codes(texts) == tags_codes([*texts]) == [tags_code("red")] * 2


def test_without_the_extra_fast_the_checksum_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "zlib_ng", None)
        patch.setitem(sys.modules, "zlib_ng.zlib_ng", None)
        assert reload(checksum).crc32 is zlib.crc32
    assert reload(checksum).crc32(b"123456789") == zlib.crc32(b"123456789") == 0xCBF4_3926
