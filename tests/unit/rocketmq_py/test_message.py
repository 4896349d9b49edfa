"""Messages: what they accept, what they write, what they refuse."""

from __future__ import annotations

import copy
import pickle
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rocketmq_py.errors import (
    BodyError,
    DelayConflictError,
    DelayValueError,
    ReservedPropertyError,
    UnsupportedOperationError,
)
from rocketmq_py.message import Message, MessageBatch, MessageExt
from rocketmq_py.protocol.delay import Delay, DelayKind, DelayLevel
from rocketmq_py.protocol.handles import pack_host
from rocketmq_py.protocol.message_codec import decode_batch, decode_record
from rocketmq_py.protocol.properties import decode_properties, encode_properties
from tests.records import encode_record

WHEN = datetime(2030, 1, 1, tzinfo=UTC)
WHEN_MS = 1_893_456_000_000
TEXT = str(WHEN_MS)


# --- copies ---


class Parcel(Message):
    """A program's own message, with an attribute of its own."""

    weight = 0


def test_a_copy_is_equal_and_has_properties_of_its_own() -> None:
    original = Parcel("T", b"x", tags="a", flag=3).put_user_property("TIMER_DELAY_SEC", "5")
    original.weight, original.transaction_id = 7, "id"
    duplicate = copy.copy(original)
    assert (duplicate, type(duplicate), duplicate.weight) == (original, Parcel, 7)
    assert duplicate.legacy_delays == ("TIMER_DELAY_SEC",)
    duplicate.set_tags("b").clear_delay()
    assert (original.tags, original.get_delay_time_sec()) == ("a", 5)


def test_copies_of_a_batch_and_of_what_arrived_are_their_own_too() -> None:
    batch = MessageBatch([Message("T", b"x"), Message("T", b"y")])
    arrived = MessageExt("T", b"x", queue_offset=5, properties={"TAGS": "a"})
    for original in (batch, arrived):
        duplicate = copy.copy(original)
        assert duplicate == original
        duplicate.set_tags("b")
        assert duplicate.tags != original.tags
    assert copy.copy(batch).messages == batch.messages


# --- content ---


def test_a_message_holds_what_it_was_given() -> None:
    given = {"k": "v"}
    message = Message("T", b"body", tags="TagA", keys=["k1", "k2"], flag=5, properties=given)
    assert (message.topic, message.body, message.flag) == ("T", b"body", 5)
    assert message.properties == {"k": "v", "TAGS": "TagA", "KEYS": "k1 k2", "WAIT": "true"}
    assert given == {"k": "v"}
    assert (message.tags, message.keys, message.wait_store_msg_ok) == ("TagA", ["k1", "k2"], True)
    assert message.transaction_id is None


@pytest.mark.case("T11")
def test_a_binary_body_is_kept_as_it_is() -> None:
    body = bytes(range(256)) + b"\x00after nul"
    assert body == Message("T", body).body
    assert body == Message("T", bytearray(body)).body
    assert body == Message("T", memoryview(body)).body
    batch = MessageBatch([Message("T", body)])
    assert body == decode_batch(batch.encode())[0][1]


def test_text_as_body_is_refused_with_the_way_out() -> None:
    text: Any = "hello"
    with pytest.raises(TypeError, match=r"text\.encode\(\)"):
        Message("T", text)
    message = Message("T", b"")
    with pytest.raises(TypeError, match="encode"):
        message.body = text
    number: Any = 5
    with pytest.raises(TypeError, match="not int"):
        Message("T", number)


def test_no_body_is_an_empty_one_which_the_send_refuses() -> None:
    assert b"" == Message("T", None).body == Message("T").body


def test_tags_keys_and_buyer_are_assigned_and_removed() -> None:
    message = Message("T")
    message.tags = "TagB"
    message.keys = "k1 k2"
    message.buyer_id = "7"
    assert (message.tags, message.keys, message.buyer_id) == ("TagB", ["k1", "k2"], "7")
    message.keys = ("k3", "k4")
    assert message.properties["KEYS"] == "k3 k4"
    message.tags, message.keys, message.buyer_id = None, None, None
    assert message.properties == {"WAIT": "true"}
    assert (message.tags, message.keys, message.buyer_id) == (None, [], None)


def test_waiting_for_the_store_is_a_property() -> None:
    message = Message("T", wait_store_msg_ok=False)
    assert message.properties["WAIT"] == "false"
    assert not message.wait_store_msg_ok
    message.wait_store_msg_ok = True
    assert message.properties["WAIT"] == "true"
    message.wait_store_msg_ok = False
    assert not message.wait_store_msg_ok
    assert Message("T", properties={"WAIT": "false"}).properties["WAIT"] == "false"
    del message.properties["WAIT"]
    assert message.wait_store_msg_ok


def test_messages_are_equal_by_content_and_can_be_copied_and_pickled() -> None:
    message = Message("T", b"body", tags="a").set_delay_time_sec(5)
    assert message == Message("T", b"body", tags="a").put_user_property("TIMER_DELAY_SEC", "5")
    assert message != Message("T", b"other", tags="a")
    assert message == copy.deepcopy(message)
    assert message == pickle.loads(pickle.dumps(message))  # noqa: S301 - our own bytes


def test_the_text_of_a_message_shows_no_body() -> None:
    text = repr(Message("T", b"secret", tags="a"))
    assert text == "Message(topic='T', 6 bytes, TAGS='a', WAIT='true')"


# --- user properties ---


def test_a_user_property_is_written_and_read() -> None:
    message = Message("T")
    assert message is message.put_user_property("colour", "blue")
    assert message.get_user_property("colour") == "blue"
    assert message.get_user_property("size") is None


@pytest.mark.case("T32")
@pytest.mark.parametrize("name", ["TAGS", "KEYS", "DELAY", "UNIQ_KEY", "TIMER_OUT_MS"])
def test_a_reserved_name_is_refused(name: str) -> None:
    message = Message("T")
    with pytest.raises(ReservedPropertyError, match=name) as caught:
        message.put_user_property(name, "5")
    assert isinstance(caught.value, ValueError)
    assert name not in message.properties


@pytest.mark.case("W44")
@pytest.mark.parametrize(
    ("name", "value"),
    [("a\x01", "b"), ("a", "b\x01"), ("a", "b\x02"), ("a", "\x00"), ("", "b"), ("a", " ")],
)
def test_a_property_that_cannot_be_stored_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="property"):
        Message("T").put_user_property(name, value)


@pytest.mark.case("W44")
def test_a_tag_or_key_that_cannot_be_stored_is_refused() -> None:
    with pytest.raises(ValueError, match=r"U\+0001"):
        Message("T", tags="a\x01b")
    with pytest.raises(ValueError, match=r"U\+0002"):
        Message("T", keys=["a", "b\x02"])


def test_a_property_that_is_no_text_is_refused() -> None:
    number: Any = 10
    message = Message("T")
    with pytest.raises(TypeError, match="are str, not int 10"):
        message.put_user_property("TIMER_DELAY_SEC", number)
    with pytest.raises(TypeError, match="are str"):
        message.put_user_property(number, "a")
    with pytest.raises(TypeError, match="are str"):
        message.set_tags(number)


LEGACY: list[tuple[str, Callable[[Message], int]]] = [
    ("TIMER_DELAY_SEC", Message.get_delay_time_sec),
    ("TIMER_DELAY_MS", Message.get_delay_time_ms),
    ("TIMER_DELIVER_MS", Message.get_deliver_time_ms),
    ("__STARTDELIVERTIME", Message.get_start_deliver_time),
]


@pytest.mark.case("A15")
@pytest.mark.case("T33")
@pytest.mark.parametrize(("name", "getter"), LEGACY)
def test_an_old_delay_property_is_the_setters_equal(
    name: str, getter: Callable[[Message], int]
) -> None:
    message = Message("T").put_user_property(name, TEXT)
    assert getter(message) == WHEN_MS
    assert message.properties[name] == TEXT
    assert (name,) == message.legacy_delays
    assert DelayKind(name) is getattr(message.effective_delay(), "kind", None)
    assert Message("T").set_delay_time_sec(10).legacy_delays == ()


@pytest.mark.case("A15")
@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_an_old_delay_property_is_refused_where_reserved_names_are_strict(name: str) -> None:
    with pytest.raises(ReservedPropertyError, match=name):
        Message("T").put_user_property(name, TEXT, strict_reserved=True)
    message = Message("T").put_user_property("__STARTDELIVERTIME", TEXT, strict_reserved=True)
    assert message.get_start_deliver_time() == WHEN_MS


@pytest.mark.case("T34")
@pytest.mark.parametrize(("name", "_getter"), LEGACY)
@pytest.mark.parametrize("value", ["ten", "", " ", "1.5", " 5", "9223372036854775808"])
def test_an_old_delay_property_that_is_no_number_is_refused(
    name: str, _getter: object, value: str
) -> None:
    message = Message("T")
    with pytest.raises(ValueError, match=name):
        message.put_user_property(name, value)
    assert message.properties == {"WAIT": "true"}


# --- delay ---

Setter = Callable[[Message, int], Message]
SETTERS: list[tuple[str, Setter, Callable[[Message], int]]] = [
    ("DELAY", Message.set_delay_time_level, Message.get_delay_time_level),
    ("TIMER_DELAY_SEC", Message.set_delay_time_sec, Message.get_delay_time_sec),
    ("TIMER_DELAY_MS", Message.set_delay_time_ms, Message.get_delay_time_ms),
    ("TIMER_DELIVER_MS", Message.set_deliver_time_ms, Message.get_deliver_time_ms),
    ("__STARTDELIVERTIME", Message.set_start_deliver_time, Message.get_start_deliver_time),
    ("TIMER_DELIVER_MS", Message.set_delivery_timestamp, Message.get_deliver_time_ms),
]


@pytest.mark.parametrize(("name", "setter", "getter"), SETTERS)
def test_a_setter_writes_its_property_and_returns_the_message(
    name: str, setter: Setter, getter: Callable[[Message], int]
) -> None:
    message = Message("T")
    assert getter(message) == 0
    value = 7 if name == "DELAY" else WHEN_MS
    assert message is setter(message, value)
    assert message.properties[name] == str(value)
    assert getter(message) == value


@pytest.mark.case("T48")
@pytest.mark.parametrize(("_name", "setter", "_getter"), SETTERS)
@pytest.mark.parametrize("value", [1.5, True, "5", None])
def test_a_setter_takes_only_integers(
    _name: str, setter: Setter, _getter: object, value: Any
) -> None:
    message = Message("T")
    with pytest.raises(TypeError):
        setter(message, value)
    assert message.properties == {"WAIT": "true"}


@pytest.mark.case("T48")
def test_a_datetime_without_zone_is_refused_by_every_setter() -> None:
    naive = WHEN.replace(tzinfo=None)
    message = Message("T")
    for ask in (message.set_deliver_at, message.set_delivery_timestamp):
        with pytest.raises(ValueError, match="no time zone"):
            ask(naive)
    with pytest.raises(ValueError, match="no time zone"):
        message.deliver_at = naive
    span: Any = 5
    with pytest.raises(TypeError, match="timedelta"):
        message.delay = span


@pytest.mark.case("T44")
def test_zero_is_accepted_negative_seconds_are_not_and_a_negative_level_is_none() -> None:
    assert Delay(DelayKind.SEC, 0) == Message("T").set_delay_time_sec(0).effective_delay()
    with pytest.raises(DelayValueError, match="negative"):
        Message("T").set_delay_time_sec(-1)
    message = Message("T").set_delay_time_level(-1)
    assert message.properties["DELAY"] == "-1"
    assert message.effective_delay() is None


@pytest.mark.case("T46")
def test_a_delay_of_two_to_the_62_seconds_is_refused_instead_of_overflowing() -> None:
    with pytest.raises(ValueError, match="largest possible"):
        Message("T").set_delay_time_sec(2**62)


def test_spans_and_instants_are_typed_properties() -> None:
    message = Message("T", delay=timedelta(seconds=1.5))
    assert message.properties["TIMER_DELAY_MS"] == "1500"
    assert timedelta(seconds=1.5) == message.delay
    message.set_delay_time_sec(60)  # wins at the broker, so it is what `delay` tells
    assert timedelta(seconds=60) == message.delay
    message.delay = timedelta(seconds=2)
    assert timedelta(seconds=2) == message.delay
    message.delay = None
    assert message.delay is None
    message.deliver_at = WHEN
    assert (message.deliver_at, message.delivery_timestamp) == (WHEN, WHEN_MS)
    message.deliver_at = None
    assert (message.deliver_at, message.delivery_timestamp) == (None, None)
    assert Message("T", deliver_at=WHEN).deliver_at == WHEN
    assert Message("T").set_delivery_timestamp(WHEN).get_deliver_time_ms() == WHEN_MS


def test_only_one_keyword_for_a_delay_is_accepted() -> None:
    with pytest.raises(DelayConflictError, match="not both"):
        Message("T", delay=timedelta(seconds=1), deliver_at=WHEN)


def test_a_level_can_be_given_by_its_name() -> None:
    assert Message("T").set_delay_time_level(DelayLevel.S10).properties["DELAY"] == "3"


def test_junk_from_another_client_is_reported_by_the_getter() -> None:
    message = MessageExt("T", properties={"TIMER_DELAY_SEC": "x"})
    with pytest.raises(DelayValueError):
        message.get_delay_time_sec()


SECONDS = 1_700_000_000

INSTANTS: list[Callable[[Message], object]] = [
    lambda message: message.set_deliver_time_ms(SECONDS),
    lambda message: message.set_delivery_timestamp(SECONDS),
    lambda message: message.set_start_deliver_time(SECONDS),
    lambda message: message.setDeliverTimeMs(SECONDS),
    lambda message: message.setStartDeliverTime(SECONDS),
    lambda message: message.put_user_property("TIMER_DELIVER_MS", str(SECONDS)),
    lambda message: message.put_user_property("__STARTDELIVERTIME", str(SECONDS)),
]


@pytest.mark.parametrize("ask", INSTANTS)
def test_epoch_seconds_are_refused_and_the_unit_is_named(ask: Callable[[Message], object]) -> None:
    message = Message("T")
    with pytest.raises(DelayValueError, match="milliseconds"):
        ask(message)
    assert message.properties == {"WAIT": "true"}


def test_no_time_and_the_past_are_no_seconds() -> None:
    message = Message("T").set_deliver_time_ms(0).set_start_deliver_time(0)
    assert message.set_deliver_at(datetime(1999, 1, 1, tzinfo=UTC)).delivery_timestamp
    old = MessageExt("T", properties={"TIMER_DELIVER_MS": "5"})  # of a client that is no SDK
    assert old.get_deliver_time_ms() == 5


def test_clearing_removes_every_request_and_the_mark_of_an_earlier_one() -> None:
    message = Message("T", delay=timedelta(seconds=1)).set_delay_time_level(3)
    message.put_user_property("__STARTDELIVERTIME", TEXT)
    message.properties["TIMER_OUT_MS"] = "5"
    assert message is message.clear_delay()
    assert message.properties == {"WAIT": "true"}
    assert message.legacy_delays == ()


# --- Java's spelling ---


class Recording(Message):
    """Overrides the Python setters, to see that Java's spelling goes through them."""

    def set_delay_time_level(self, level: int) -> Recording:
        super().set_delay_time_level(level + 1)
        return self

    def set_delay_time_sec(self, seconds: int) -> Recording:
        super().set_delay_time_sec(seconds + 1)
        return self

    def set_delay_time_ms(self, milliseconds: int) -> Recording:
        super().set_delay_time_ms(milliseconds + 1)
        return self

    def set_deliver_time_ms(self, epoch_ms: int) -> Recording:
        super().set_deliver_time_ms(epoch_ms + 1)
        return self


JAVA_NAMES = [
    ("setDelayTimeLevel", "getDelayTimeLevel", "DELAY"),
    ("setDelayTimeSec", "getDelayTimeSec", "TIMER_DELAY_SEC"),
    ("setDelayTimeMs", "getDelayTimeMs", "TIMER_DELAY_MS"),
    ("setDeliverTimeMs", "getDeliverTimeMs", "TIMER_DELIVER_MS"),
    ("setStartDeliverTime", "getStartDeliverTime", "__STARTDELIVERTIME"),
]


@pytest.mark.case("T39")
@pytest.mark.parametrize(("setter", "getter", "name"), JAVA_NAMES)
def test_javas_spelling_writes_the_same_property(setter: str, getter: str, name: str) -> None:
    message = Message("T")
    assert message is getattr(message, setter)(WHEN_MS // 1000 if name == "DELAY" else WHEN_MS)
    assert int(message.properties[name]) == getattr(message, getter)()


@pytest.mark.case("T39")
@pytest.mark.parametrize(("setter", "_getter", "name"), JAVA_NAMES[:4])
def test_javas_spelling_uses_an_overridden_setter(setter: str, _getter: str, name: str) -> None:
    message = Recording("T")
    value = 5 if name == "DELAY" else WHEN_MS
    assert message is getattr(message, setter)(value)
    assert message.properties[name] == str(value + 1)


@pytest.mark.case("T39")
def test_javas_other_names_write_the_same_properties() -> None:
    message = Message("T").setTags("a").setKeys("k1 k2").putUserProperty("colour", "blue")
    assert (message.tags, message.keys) == ("a", ["k1", "k2"])
    assert message.getUserProperty("colour") == "blue"


# --- messages that arrived ---

HOST = pack_host("127.0.0.1", 10911)


def stored(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "topic": "T",
        "queue_id": 3,
        "flag": 7,
        "queue_offset": 5,
        "commit_log_offset": 237,
        "sys_flag": 0,
        "born_timestamp": 11,
        "born_host": pack_host("fd00::2", 5000),
        "store_timestamp": 12,
        "store_host": HOST,
        "reconsume_times": 2,
        "prepared_transaction_offset": 9,
        "body": b"hello",
        "properties": encode_properties({"TAGS": "a", "UNIQ_KEY": "AB", "colour": "blue"}),
    }
    return encode_record(**(fields | changes))


def test_a_stored_record_becomes_the_message_that_a_listener_sees() -> None:
    data = stored()
    message = MessageExt.from_record(decode_record(data), "broker-a")
    assert (message.topic, message.body, message.flag, message.tags) == ("T", b"hello", 7, "a")
    assert (
        message.broker_name,
        message.queue_id,
        message.queue_offset,
        message.commit_log_offset,
    ) == ("broker-a", 3, 5, 237)
    assert (
        message.born_timestamp,
        message.store_timestamp,
        message.reconsume_times,
        message.prepared_transaction_offset,
    ) == (11, 12, 2, 9)
    assert (message.born_host, message.store_host) == ("[fd00::2]:5000", "127.0.0.1:10911")
    assert (message.msg_id, message.offset_msg_id) == ("AB", "7F00000100002A9F00000000000000ED")
    assert (len(data), 0x3610A686) == (message.store_size, message.body_crc)
    assert "WAIT" not in message.properties


def test_a_message_made_by_hand_needs_no_hosts() -> None:
    message = MessageExt("T", b"x")
    assert (
        message.msg_id,
        message.offset_msg_id,
        message.born_host,
        message.store_host,
    ) == ("", "", "", "")


def test_a_compressed_body_arrives_as_it_was_written() -> None:
    record = decode_record(stored(body=zlib.compress(b"hello" * 100), sys_flag=0x301))
    message = MessageExt.from_record(record)
    assert message.body == b"hello" * 100
    assert message.sys_flag == 0x310
    with pytest.raises(BodyError, match="10 bytes of decompressed_body_max_bytes"):
        MessageExt.from_record(record, body_size_max=10)


def test_a_forwarded_message_forgets_the_history_of_the_old_copy() -> None:
    arrived = MessageExt(
        "T",
        b"body",
        flag=7,
        properties={
            "TAGS": "a",
            "KEYS": "k",
            "colour": "blue",
            "WAIT": "false",
            "__SHARDINGKEY": "s",
            "TIMER_OUT_MS": "5",
            "TIMER_ENQUEUE_MS": "5",
            "TIMER_DEQUEUE_MS": "5",
            "TIMER_ROLL_TIMES": "1",
            "TIMER_DELAY_SEC": "5",
            "TIMER_SRC_OFFSET": "5",
            "__STARTDELIVERTIME": "5",
            "DELAY": "3",
            "REAL_TOPIC": "T",
            "REAL_QID": "1",
            "UNIQ_KEY": "AB",
            "RECONSUME_TIME": "1",
            "RETRY_TOPIC": "T",
            "MIN_OFFSET": "0",
            "MAX_OFFSET": "9",
            "CLUSTER": "c",
            "TRACE_ON": "true",
            "__transactionId__": "AB",
        },
    )
    forwarded = Message.from_ext(arrived)
    assert type(forwarded) is Message
    assert forwarded.properties == {
        "TAGS": "a",
        "KEYS": "k",
        "colour": "blue",
        "WAIT": "false",
        "__SHARDINGKEY": "s",
    }
    assert (forwarded.topic, forwarded.body, forwarded.flag) == ("T", b"body", 7)
    forwarded.set_delay_time_ms(60_000)
    assert Delay(DelayKind.MS, 60_000) == forwarded.effective_delay()
    assert arrived.set_delay_time_level(0).set_delay_time_ms(60_000).effective_delay() is None


# --- batches ---


@pytest.mark.case("W47")
def test_a_batch_carries_flag_body_and_properties_of_each_message() -> None:
    messages = [
        Message("T", bytes([n]), flag=n, properties={"UNIQ_KEY": f"{n:032X}"}) for n in range(3)
    ]
    batch = MessageBatch(messages)
    assert ("T", 3, messages) == (batch.topic, len(batch), list(batch))
    assert [(m.flag, m.body, m.properties) for m in messages] == [
        (flag, body, decode_properties(text)) for flag, body, text in decode_batch(batch.encode())
    ]


@pytest.mark.parametrize(
    ("second", "part"),
    [
        (Message("U"), "topic 'U'"),
        (Message("T", wait_store_msg_ok=False), "wait_store_msg_ok"),
        (Message("T").set_delay_time_level(3), "a delay"),
        (Message("T").set_delay_time_sec(0), "a delay"),
        (Message("T").set_delay_time_ms(5), "a delay"),
        (Message("T").set_deliver_time_ms(WHEN_MS), "a delay"),
        (Message("T").set_start_deliver_time(WHEN_MS), "a delay"),
    ],
)
def test_messages_that_cannot_travel_together_are_refused(second: Message, part: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=f"message 1 of the batch has .*{part}"):
        MessageBatch([Message("T"), second])


def test_a_batch_to_a_retry_topic_or_of_nothing_is_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="retry topic"):
        MessageBatch([Message("%RETRY%group")])
    with pytest.raises(UnsupportedOperationError, match="at least one"):
        MessageBatch([])


@pytest.mark.case("W44")
def test_a_batch_with_a_property_that_cannot_be_stored_is_refused() -> None:
    message = Message("T")
    message.properties["a"] = "b\x01"
    with pytest.raises(BodyError):
        MessageBatch([message]).encode()


# --- what cannot be given ---


@pytest.mark.parametrize("topic", [3, None, b"T"])
def test_a_topic_that_is_no_text_is_refused_when_the_message_is_made(topic: Any) -> None:
    with pytest.raises(TypeError, match="a topic is a str"):
        Message(topic, b"x")


@pytest.mark.parametrize(
    ("properties", "kind", "hint"),
    [
        ({"n": None}, TypeError, "'n': names and values are str"),
        ({"n": 1, "a": "b"}, TypeError, "int 1"),
        ({1: "b"}, TypeError, "names and values"),
        ({"n": ""}, ValueError, "blank"),
        ({"n": "  "}, ValueError, "blank"),
        ({"": "b"}, ValueError, "blank"),
        ({"n": "b\x02"}, ValueError, r"U\+0002"),
        ({"n": "\ud800"}, ValueError, "surrogate"),
        ([("n", "b")], TypeError, "a mapping"),
        ({"REAL_TOPIC": "U"}, ReservedPropertyError, "from_ext"),
        ({"TRAN_MSG": "true"}, ReservedPropertyError, "TRAN_MSG"),
        ({"TAGS": "a", "TIMER_OUT_MS": "1"}, ReservedPropertyError, "TIMER_OUT_MS"),
    ],
)
def test_properties_are_checked_when_the_message_is_made(
    properties: Any, kind: type[Exception], hint: str
) -> None:
    with pytest.raises(kind, match=hint):
        Message("T", b"x", properties=properties)


def test_properties_may_hold_what_setters_write_and_every_storable_text() -> None:
    given = {"TAGS": "a", "KEYS": "k1 k2", "TIMER_DELAY_SEC": "5", "UNIQ_KEY": "A", "n": "ü\n 語"}
    assert Message("T", b"x", properties=given).properties == {**given, "WAIT": "true"}


def test_what_another_sender_wrote_is_forwarded_as_it_is() -> None:
    arrived = MessageExt("T", b"x", properties={"a": "b\x01c", "WAIT": "false", "REAL_TOPIC": "U"})
    assert Message.from_ext(arrived).properties == {"a": "b\x01c", "WAIT": "false"}


@pytest.mark.parametrize("keys", [[1], 5, ["a", None]])
def test_keys_that_are_no_texts_are_refused_by_name(keys: Any) -> None:
    with pytest.raises(TypeError, match="keys are one str or several"):
        Message("T", b"x", keys=keys)


def test_a_batch_is_made_of_any_iterable_of_messages_and_of_nothing_else() -> None:
    assert len(MessageBatch(Message("T", b"x") for _ in range(3))) == 3
    not_one: Any = 3
    with pytest.raises(TypeError, match="not of one int"):
        MessageBatch(not_one)
    with pytest.raises(UnsupportedOperationError, match="item 1 of the batch is no Message: bytes"):
        MessageBatch([Message("T", b"x"), b"y"])  # type: ignore[list-item] # the point of the test


@pytest.mark.parametrize("keys", [["order 1"], ["a", "b\tc"], ("a b",), (one for one in ["a\nb"])])
def test_a_key_that_would_become_two_is_refused(keys: Any) -> None:
    message = Message("T")
    with pytest.raises(ValueError, match="two keys"):
        message.set_keys(keys)
    assert message.keys == []


def test_one_text_of_keys_is_split_and_words_are_kept() -> None:
    assert Message("T", keys="a b").keys == ["a", "b"]
    assert Message("T", keys=["a", "b"]).keys == ["a", "b"]
    assert Message("T", keys=["a", ""]).keys == ["a"]
