"""Messages of the 5.0 API: what is checked when it is set, and what arrives."""

from __future__ import annotations

import copy
import doctest
from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

import rocketmq_py
from compat.v5 import (
    EpochMilliseconds,
    IllegalArgumentException,
    Message,
    MessageBuilder,
    MessageView,
    PayloadEmptyError,
    TopicMessageType,
    UnsupportedError,
    consumer,
    fifo,
    message,
    timestamps,
)
from compat.v5.message import to_core
from rocketmq_py import MessageExt

S = 1_800_000_000


def test_the_official_properties_and_the_builder_make_the_same_message() -> None:
    assigned = Message()
    assigned.topic, assigned.body, assigned.tag = "T", b"x", "a"
    assigned.keys = "k1"
    assigned.keys = ["k2", "k1"]
    assigned.delivery_timestamp = S
    assigned.add_property("colour", "red")
    built = (
        MessageBuilder()
        .set_topic("T")
        .set_body(bytearray(b"x"))
        .set_tag("a")
        .set_keys("gone")
        .set_keys("k1", "k2")
        .set_delivery_timestamp(S * 1000)
        .add_property("colour", "red")
        .build()
    )
    assert repr(assigned) == repr(built)
    assert built.keys == {"k1", "k2"}
    assert built.properties == {"colour": "red"}
    assert built.message_type is TopicMessageType.DELAY
    core = to_core(built)
    assert core == to_core(assigned)
    assert (core.tags, core.keys, core.get_deliver_time_ms()) == ("a", ["k1", "k2"], S * 1000)
    assert core.properties["colour"] == "red"


def test_what_is_not_set_is_none_and_a_misspelt_name_is_refused() -> None:
    message: Any = Message()
    assert [message.tag, message.message_group, message.delivery_timestamp] == [None] * 3
    assert [message.message_id, message.lite_topic, message.priority] == [None] * 3
    assert message.message_type is TopicMessageType.NORMAL
    with pytest.raises(AttributeError):
        message.delivery_time = S
    with pytest.raises(TypeError):
        message.properties["colour"] = "red"


@pytest.mark.case("T92")
def test_a_group_and_a_delivery_time_exclude_each_other_where_the_second_is_set() -> None:
    builder = MessageBuilder().set_message_group("g1")
    with pytest.raises(ValueError, match="delivery_timestamp cannot be set, since message_group"):
        builder.set_delivery_timestamp(S * 1000)
    message = Message()
    message.delivery_timestamp = datetime(2027, 1, 15, 8, tzinfo=UTC)
    assert message.delivery_timestamp == EpochMilliseconds(S * 1000)
    with pytest.raises(ValueError, match="message_group cannot be set, since delivery_timestamp"):
        message.message_group = "g1"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: setattr(m, "topic", "a b"), "topic 'a b' is not possible"),
        (lambda m: setattr(m, "topic", ""), "topic '' is not possible"),
        (lambda m: setattr(m, "topic", "t" * 128), "1 to 127"),
        (lambda m: setattr(m, "tag", " "), "must not be blank"),
        (lambda m: setattr(m, "tag", "a|b"), "hold no |"),
        (lambda m: setattr(m, "tag", "a\x01"), "TAGS"),
        (lambda m: setattr(m, "keys", "two words"), "must be one word"),
        (lambda m: setattr(m, "keys", ""), "must be one word"),
        (lambda m: setattr(m, "message_group", " "), "must not be blank"),
        (lambda m: setattr(m, "delivery_timestamp", S * 1000), "looks like milliseconds"),
        (lambda m: m.add_property("", "x"), "key of a property must not be blank"),
        (lambda m: m.add_property("x", " "), "value of a property must not be blank"),
        (lambda m: m.add_property("TAGS", "x"), "TAGS"),
        (lambda m: m.add_property("TIMER_DELAY_SEC", "5"), "TIMER_DELAY_SEC"),
        (lambda m: m.add_property("__SHARDINGKEY", "g"), "is set by message_group"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_set(
    call: Callable[[Message], object], words: str
) -> None:
    message = Message()
    with pytest.raises(IllegalArgumentException, match=words.replace("|", r"\|")):
        call(message)
    assert repr(message) == "Message(, 0 bytes)"


def test_bodies_are_bytes_with_at_least_one() -> None:
    message: Any = Message()
    with pytest.raises(TypeError, match="encode the text"):
        message.body = "text"
    with pytest.raises(PayloadEmptyError):
        message.body = b""
    for name in ("tag", "message_group", "keys"):
        for wrong in (7, None):
            with pytest.raises(TypeError, match=f"^{name} (is|are) a str.* not .*{wrong}"):
                setattr(message, name, wrong)
    with pytest.raises(TypeError, match="a key is a str"):
        message.keys = [1]
    with pytest.raises(TypeError, match="is a str"):
        message.add_property(1, "x")


def test_what_only_a_proxy_has_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="only a proxy has it"):
        MessageBuilder().set_lite_topic("lite")
    with pytest.raises(UnsupportedError, match="only a proxy has it"):
        MessageBuilder().set_priority(1)


def test_a_builder_needs_topic_and_body_and_gives_each_message_for_itself() -> None:
    builder = MessageBuilder()
    with pytest.raises(IllegalArgumentException, match="topic has not been set"):
        builder.build()
    builder.set_topic("T")
    with pytest.raises(PayloadEmptyError, match="body has not been set"):
        builder.build()
    first = builder.set_body(b"1").build()
    second = builder.set_body(b"2").add_property("n", "2").build()
    assert (first.body, first.properties, second.body) == (b"1", {}, b"2")
    wrong: Any = rocketmq_py.Message("T", b"x")
    with pytest.raises(TypeError, match=r"Message of compat\.v5"):
        to_core(wrong)


@pytest.mark.parametrize(
    ("properties", "due"),
    [
        ({"TIMER_DELIVER_MS": f"{S}500", "TIMER_OUT_MS": f"{S}000"}, S * 1000 + 500),
        ({"__STARTDELIVERTIME": f"{S}500", "TIMER_OUT_MS": f"{S}000"}, S * 1000 + 500),
        ({"TIMER_DELAY_SEC": "5", "TIMER_OUT_MS": f"{S}000"}, S * 1000),
        ({"DELAY": "3"}, None),
        ({"TIMER_DELIVER_MS": "nonsense"}, None),
        ({}, None),
    ],
)
def test_a_received_message_tells_when_it_was_to_be_delivered(
    properties: dict[str, str], due: int | None
) -> None:
    assert MessageView(MessageExt("T", b"x", properties=properties)).delivery_timestamp == due


def test_a_received_message_has_what_its_sender_set_and_can_be_sent_on() -> None:
    sent = MessageBuilder().set_topic("T").set_body(b"x").set_tag("a").set_keys("k")
    core = to_core(sent.set_message_group("g1").add_property("colour", "red").build())
    received = MessageExt(
        "T",
        b"x",
        properties=core.properties | {"UNIQ_KEY": "id", "POP_CK": "receipt", "MIN_OFFSET": "0"},
        reconsume_times=2,
        born_timestamp=S * 1000,
    )
    view = MessageView(received)
    assert (view.topic, view.body, view.tag, view.keys) == ("T", b"x", "a", frozenset({"k"}))
    assert (view.message_group, view.message_id, view.delivery_attempt) == ("g1", "id", 3)
    assert view.properties == {"colour": "red"}
    assert (view.receipt_handle, view.born_timestamp) == ("receipt", S * 1000)
    assert (view.namespace, view.corrupted, view.core) == ("", False, received)
    assert to_core(view) == core
    kept = copy.deepcopy(view)
    received.properties["POP_CK"] = "newer"
    assert (kept.receipt_handle, view.receipt_handle) == ("receipt", "newer")
    assert MessageView(MessageExt("T", b"x", sys_flag=1)).corrupted


@pytest.mark.parametrize(
    ("module", "examples"), [(fifo, 2), (timestamps, 2), (consumer, 1), (message, 6)]
)
def test_examples_in_texts_are_true(module: ModuleType, examples: int) -> None:
    assert doctest.testmod(module) == (0, examples)
