from __future__ import annotations

import copy
import re
from typing import Any, cast

import pytest

from compat.ons import Message, ONSClientException, TopicPartition
from compat.ons.message import from_core, partition_of, queue_of, to_core
from rocketmq_py import MessageExt, MessageQueue, ReservedPropertyError


def test_a_message_is_made_with_or_without_a_key() -> None:
    without = Message("T", "TagA", b"body")
    assert (without.topic, without.tag, without.key, without.body) == ("T", "TagA", None, b"body")
    with_key = Message("T", "TagA", "K1", b"body")
    assert (with_key.getKey(), with_key.getBody()) == ("K1", b"body")
    empty = Message()
    assert (empty.getTopic(), empty.getTag(), empty.getBody()) == ("", None, b"")


def test_both_spellings_reach_the_same_value() -> None:
    message = Message().setTopic("T").setTag("a").setKey("k").setBody(b"b").setMsgID("ID")
    message.setShardingKey("s").setStartDeliverTime(5)
    assert (message.topic, message.tag, message.key, message.body) == ("T", "a", "k", b"b")
    assert (message.msg_id, message.getMsgID()) == ("ID", "ID")
    assert (message.sharding_key, message.getShardingKey()) == ("s", "s")
    assert message.start_deliver_time == message.getStartDeliverTime() == 5
    message.putUserProperties("p", "1")
    assert message.get_user_properties("p") == message.getUserProperties("p") == "1"
    assert "msgID=ID" in str(message)


def test_text_as_body_is_refused_with_the_fix() -> None:
    wrong = cast("Any", "Hello MQ")
    with pytest.raises(TypeError, match="encode"):
        Message("T", "TagA", None, b"").setBody(wrong)
    with pytest.raises(TypeError, match="body is str, it must be bytes"):
        Message("T", "TagA", wrong)
    with pytest.raises(TypeError, match="body is str"):
        Message("T", "TagA", "K1", wrong)
    with pytest.raises(TypeError, match="body is NoneType"):
        Message("T", "TagA", cast("Any", None))


def test_other_arguments_are_refused_with_the_forms_that_there_are() -> None:
    make = cast("Any", Message)
    for wrong in (("T",), ("T", "TagA"), ("T", "TagA", "K1", b"x", 5)):
        with pytest.raises(TypeError, match=r"Message\(topic, tag, body\)"):
            make(*wrong)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("startDeliverTime", "did you mean start_deliver_time?"),
        ("msgID", "did you mean msg_id?"),
        ("shardingkey", "did you mean sharding_key?"),
        ("colour", "'colour'"),
    ],
)
def test_an_attribute_that_a_message_does_not_have_is_refused(name: str, hint: str) -> None:
    message = Message("T", "a", b"b")
    with pytest.raises(AttributeError, match=re.escape(hint)):
        setattr(message, name, 5)


def test_a_subclass_may_have_more_attributes_but_none_that_is_misspelt() -> None:
    class Order(Message):
        def __init__(self, number: int) -> None:
            super().__init__("orders", None, b"x")
            self.number = number

    order = Order(42)
    order.tag = "paid"
    assert (order.number, order.getTag()) == (42, "paid")
    with pytest.raises(AttributeError, match="start_deliver_time"):
        setattr(order, "startDeliverTime", 5)  # noqa: B010 - checkers refuse the plain form


@pytest.mark.parametrize("value", [None, "1900000000000", 1.9e12, True], ids=str)
def test_a_delivery_time_that_is_no_int_is_refused_where_it_is_set(value: object) -> None:
    message, wrong = Message("T", "a", b"b"), cast("Any", value)
    with pytest.raises(TypeError, match=r"int of epoch milliseconds"):
        message.setStartDeliverTime(wrong)
    with pytest.raises(TypeError, match="start_deliver_time is"):
        message.start_deliver_time = wrong
    assert message.getStartDeliverTime() == 0


def test_nothing_as_key_or_value_of_a_user_property_changes_nothing() -> None:
    message = Message("T", "a", b"b")
    message.put_user_properties(None, "x")
    message.put_user_properties("x", None)
    assert message.user_properties == {}


@pytest.mark.parametrize("name", ["KEYS", "TAGS", "WAIT", "DELAY", "UNIQ_KEY", "MIN_OFFSET"])
def test_a_reserved_name_is_refused_where_it_is_put(name: str) -> None:
    with pytest.raises(ReservedPropertyError):
        Message("T", "a", b"b").putUserProperties(name, "x")


@pytest.mark.parametrize("name", ["__TAG", "__KEY", "__MSGID", "__BORNHOST", "__BORNTIMESTAMP"])
def test_a_name_that_ons_keeps_is_no_user_property(name: str) -> None:
    with pytest.raises(ReservedPropertyError, match="ONS keeps it"):
        Message("T", "a", b"b").put_user_properties(name, "x")


def test_a_lenient_put_leaves_a_reserved_name_out_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    message = Message("T", "a", b"b")
    message.putUserProperties("TAGS", "x", lenient=True)
    message.put_user_properties("__KEY", "x", lenient=True)
    assert message.user_properties == {}
    assert [record.getMessage().split("'")[1] for record in caplog.records] == ["TAGS", "__KEY"]


def test_user_properties_are_read_and_replaced_as_a_whole() -> None:
    message = Message("T", "a", b"b").setUserProperties({"colour": "red", "size": "5"})
    assert message.getUserProperties() == {"colour": "red", "size": "5"}
    assert message.getUserProperties("size") == "5"
    with pytest.raises(ReservedPropertyError):
        message.user_properties = {"other": "1", "TAGS": "x"}
    assert message.user_properties == {"colour": "red", "size": "5"}


def test_a_partition_names_a_queue() -> None:
    queue = MessageQueue("T", "broker@a", 3)
    partition = partition_of(queue)
    assert (partition.getTopic(), partition.getPartition()) == ("T", "broker@a@3")
    assert queue_of(partition) == queue
    for wrong in (TopicPartition("T", "broker-a"), TopicPartition("T", "a@x"), queue):
        with pytest.raises(ONSClientException):
            queue_of(wrong)


def test_what_only_arrives_can_be_set_by_the_test_of_a_listener() -> None:
    message = Message("T", "a", b"b").setReconsumeTimes(2).setBornTimestamp(5).setBornHost("h:1")
    assert (message.getReconsumeTimes(), message.born_timestamp) == (2, 5)
    assert message.getBornHost() == "h:1"


def test_everything_a_program_sets_goes_along() -> None:
    message = Message("T", "TagA", "K1 K2", b"\x00\xff")
    message.setShardingKey("shard").setStartDeliverTime(1_900_000_000_000)
    message.putUserProperties("color", "red")
    message.putUserProperties("TIMER_DELAY_SEC", "10")
    core = to_core(message)
    assert (core.topic, core.tags, core.keys, core.body) == ("T", "TagA", ["K1", "K2"], b"\x00\xff")
    assert core.get_user_property("color") == "red"
    assert core.get_user_property("__SHARDINGKEY") == "shard"
    assert core.get_start_deliver_time() == 1_900_000_000_000
    assert core.get_delay_time_sec() == 10


def test_a_delivery_time_is_checked_by_the_send_and_not_by_the_setter() -> None:
    message = Message("T", "a", b"b").setStartDeliverTime(-5)
    with pytest.raises(ValueError, match="STARTDELIVERTIME"):
        to_core(message)


@pytest.mark.case("T87")
def test_a_delivered_message_has_system_values_apart_from_user_properties() -> None:
    core = MessageExt(
        "T",
        b"body",
        properties={
            "UNIQ_KEY": "ID",
            "TAGS": "TagA",
            "KEYS": "K1 K2",
            "WAIT": "true",
            "color": "red",
            "__SHARDINGKEY": "shard",
            "__STARTDELIVERTIME": "1900000000000",
            "TIMER_DELIVER_MS": "1900000000000",
            "TIMER_OUT_MS": "1899999999000",
            "MIN_OFFSET": "0",
            "REAL_TOPIC": "T",
        },
        queue_offset=7,
        broker_name="broker-a",
        queue_id=1,
        born_timestamp=5,
        reconsume_times=2,
    )
    message = from_core(core)
    assert message.user_properties == {"color": "red"}
    assert (message.tag, message.key, message.msg_id) == ("TagA", "K1 K2", "ID")
    assert (message.getShardingKey(), message.getOffset()) == ("shard", 7)
    assert (message.getReconsumeTimes(), message.getBornTimestamp()) == (2, 5)
    assert message.getStartDeliverTime() == 1_900_000_000_000
    assert message.getBornHost() == ""
    assert message.getTopicPartition() == TopicPartition("T", "broker-a@1")


@pytest.mark.parametrize("text", ["soon", "", "-", "1.5", "9" * 30])
def test_a_delivery_time_that_another_client_garbled_does_not_hide_the_message(text: str) -> None:
    message = from_core(MessageExt("T", b"x", properties={"__STARTDELIVERTIME": text}))
    assert (message.getBody(), message.getStartDeliverTime()) == (b"x", 0)


def test_a_copy_has_user_properties_of_its_own() -> None:
    original = Message("T", "tag", b"x").setKey("k")
    original.put_user_properties("colour", "blue")
    duplicate = copy.copy(original)
    duplicate.put_user_properties("colour", "red")
    assert (duplicate.key, duplicate.body) == ("k", b"x")
    assert original.get_user_properties("colour") == "blue"


def test_epoch_seconds_are_refused_by_the_send_with_the_unit() -> None:
    message = Message("T", "tag", b"x").set_start_deliver_time(1_700_000_000)
    with pytest.raises(ValueError, match="milliseconds"):
        to_core(message)
