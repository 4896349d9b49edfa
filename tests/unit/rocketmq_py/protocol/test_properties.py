"""The properties text: what is written, what is read back, what is refused."""

from __future__ import annotations

import re

import pytest

from rocketmq_py.errors import BodyError, RocketMQError
from rocketmq_py.protocol.properties import (
    RESERVED,
    Prop,
    decode_properties,
    encode_properties,
    encode_user_properties,
    user_text_problem,
)


@pytest.mark.case("W43")
@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a\x01b", {"a": "b"}),
        ("a\x01b\x02", {"a": "b"}),
        ("a\x01b\x02c\x01d", {"a": "b", "c": "d"}),
        ("a\x01b\x02\x02\x02c\x01d\x02\x02", {"a": "b", "c": "d"}),
        ("a\x01\x02c\x01d\x02", {"c": "d"}),
        ("a\x01\x02", {}),
        ("ab\x02c\x01d", {"c": "d"}),
        ("\x01b\x02c\x01d", {"c": "d"}),
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),
        ("a\x01b\x02a\x01c\x02", {"a": "c"}),
        ("", {}),
        ("名\x01值\x02", {"名": "值"}),
    ],
)
def test_a_text_is_read_as_the_original_reads_it(text: str, properties: dict[str, str]) -> None:
    assert properties == decode_properties(text)
    assert properties == decode_properties(text.encode())


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    assert decode_properties(b"a\x01\xff\x02") == {"a": "\ufffd"}


def test_every_item_is_written_with_a_separator_at_its_end() -> None:
    assert encode_properties({}) == b""
    assert encode_properties({"TAGS": "a", "KEYS": "k1 k2"}) == b"TAGS\x01a\x02KEYS\x01k1 k2\x02"


def test_a_separator_inside_a_value_survives_because_readers_split_at_the_first_one() -> None:
    foreign = {"a": "b\x01c"}
    assert foreign == decode_properties(encode_properties(foreign))


@pytest.mark.case("W44")
@pytest.mark.parametrize(
    "properties",
    [{"a\x01": "b"}, {"a\x02": "b"}, {"a": "b\x02"}, {"": "b"}, {"a": "\ud800"}, {"\x01": "\x01"}],
)
def test_what_no_reader_could_get_back_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(BodyError) as caught:
        encode_properties(properties)
    assert isinstance(caught.value, RocketMQError)


@pytest.mark.case("W44")
@pytest.mark.parametrize("properties", [{"a": "b\x01c"}, {"a": "\x00"}, {"\x00": "b"}])
def test_what_a_user_may_not_write_is_refused_when_a_client_encodes(
    properties: dict[str, str],
) -> None:
    with pytest.raises(BodyError, match="cannot be stored"):
        encode_user_properties(properties)


def test_a_client_encodes_ordinary_properties_like_everybody() -> None:
    properties = {"TAGS": "a", "k": "v"}
    assert encode_properties(properties) == encode_user_properties(properties)


@pytest.mark.case("W44")
@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("", "v", "name is blank"),
        (" ", "v", "name is blank"),
        ("n", "", "value is blank"),
        ("n", "\t", "value is blank"),
        ("n\x01", "v", "U\\+0001"),
        ("n", "v\x02", "U\\+0002"),
        ("n", "v\x00", "U\\+0000"),
        ("n", "v\udfff", "surrogate"),
    ],
)
def test_a_user_text_that_cannot_be_stored_is_named(name: str, value: str, part: str) -> None:
    problem = user_text_problem(name, value)
    assert problem is not None
    assert re.search(part, problem)


def test_a_user_text_in_any_script_is_fine() -> None:
    assert user_text_problem("名", "\N{GRINNING FACE} x") is None


def test_the_names_that_java_does_not_reserve_are_free() -> None:
    free = {
        Prop.START_DELIVER_TIME,
        Prop.SHARDING_KEY,
        Prop.CHECK_IMMUNITY_TIME_IN_SECONDS,
        Prop.TRANSACTION_ID,
        Prop.TRACE_CONTEXT,
    }
    assert frozenset() == free & RESERVED
    # 51 of Java's and the four that only our timer writes.
    assert len(RESERVED) == 51 + 4
