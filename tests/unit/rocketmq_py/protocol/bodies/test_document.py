"""Attrs classes and JSON documents."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, field

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.document import Document, MessageQueueKey, _reader, wire


@define
class Part(Document):
    some_name: str = "default"


@define
class Whole(Document):
    text: str = ""
    number: int = 0
    fraction: float = 0.0
    flag: bool = False
    maybe: int | None = None
    odd_one: str = field(default="", metadata=wire("oddONE"))
    names: frozenset[str] = frozenset()
    parts: list[Part] = field(factory=list)
    by_id: dict[int, Part] = field(factory=dict)
    by_queue: dict[MessageQueueKey, int] = field(factory=dict)
    queues: list[MessageQueueKey] = field(factory=list)
    anything: dict[str, Any] = field(factory=dict)


QUEUE = MessageQueueKey("T", "b", 3)
FULL = Whole(
    "t",
    -5,
    1.5,
    True,
    7,
    "odd",
    frozenset({"b", "a"}),
    [Part("p")],
    {2: Part(), 10: Part("q")},
    {QUEUE: 9},
    [QUEUE],
    {"deep": [{"x": 1}]},
)


def test_a_body_reads_back_what_it_writes_in_both_dialects() -> None:
    assert Whole.decode(FULL.encode()) == FULL
    assert Whole.decode(FULL.encode(standard=True)) == FULL


def test_names_follow_the_fields_and_none_is_left_out() -> None:
    assert Whole(maybe=None, odd_one="x").to_document()["oddONE"] == "x"
    assert b"maybe" not in Whole().encode()
    assert Part().encode() == b'{"someName":"default"}'


def test_what_is_missing_null_or_unknown_leaves_the_defaults() -> None:
    assert Whole.decode(b'{"text":null,"unknown":[1,2],"parts":null}') == Whole()


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (b'{"number":"12"}', "number", 12),
        (b'{"number":12.0}', "number", 12),
        (b'{"number":true}', "number", 1),
        (b'{"text":12}', "text", "12"),
        (b'{"text":true}', "text", "true"),
        (b'{"text":false}', "text", "false"),
        (b'{"flag":"TRUE"}', "flag", True),
        (b'{"flag":1}', "flag", True),
        (b'{"flag":"0"}', "flag", False),
        (b'{"fraction":"2.5"}', "fraction", 2.5),
        (b'{"byQueue":{{"topic":"T","brokerName":"b","queueId":3}:9}}', "by_queue", {QUEUE: 9}),
    ],
)
def test_values_of_a_neighbouring_kind_are_taken(text: bytes, name: str, expected: object) -> None:
    assert getattr(Whole.decode(text), name) == expected


@pytest.mark.parametrize(
    ("text", "field_name"),
    [
        (b'{"number":"x"}', "number"),
        (b'{"number":1.5}', "number"),
        (b'{"number":[]}', "number"),
        (b'{"text":{}}', "text"),
        (b'{"flag":[]}', "flag"),
        (b'{"fraction":{}}', "fraction"),
        (b'{"fraction":"x"}', "fraction"),
        (b'{"names":"x"}', "names"),
        (b'{"parts":[1]}', "parts"),
        (b'{"parts":[{"someName":[]}]}', "someName"),
        (b'{"byId":[]}', "byId"),
        (b'{"byId":{"x":{}}}', "byId"),
        (b'{"byId":{{"a":1}:{}}}', "byId"),
        (b'{"byQueue":{"nonsense":1}}', "byQueue"),
        (b'{"byQueue":{"5":1}}', "byQueue"),
        (b'{"queues":[7]}', "queues"),
    ],
)
def test_a_value_of_another_kind_is_named(text: bytes, field_name: str) -> None:
    with pytest.raises(BodyError, match=field_name) as caught:
        Whole.decode(text)

    assert caught.value.body == "Whole"


@pytest.mark.parametrize("text", [b"", b"[]", b"7", b"{", b"\xff"])
def test_a_body_that_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(BodyError):
        Whole.decode(text)


def test_an_annotation_without_a_reader_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="no reader"):
        _reader(bytes)
