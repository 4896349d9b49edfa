from __future__ import annotations

import copy
from typing import Any, cast

import pytest

from compat.ons import Message
from compat.ons.message import from_core, to_core
from rocketmq_py import MessageExt, ReservedPropertyError


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


def test_nothing_as_key_or_value_of_a_user_property_changes_nothing() -> None:
    message = Message("T", "a", b"b")
    message.put_user_properties(None, "x")
    message.put_user_properties("x", None)
    assert message.user_properties == {}


@pytest.mark.parametrize("name", ["KEYS", "TAGS", "WAIT", "DELAY", "UNIQ_KEY", "MIN_OFFSET"])
def test_a_reserved_name_is_refused_where_it_is_put(name: str) -> None:
    with pytest.raises(ReservedPropertyError):
        Message("T", "a", b"b").putUserProperties(name, "x")


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
