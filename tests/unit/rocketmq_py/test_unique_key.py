"""The id of a message that its program keeps: given, checked, and the same in every copy."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultMQProducer, Message, MessageBatch, MessageExt
from rocketmq_py.raw import MessageIds

KEY = "0A0000010001000000000000002A0001"


def test_a_message_has_the_id_that_its_program_gives() -> None:
    message = Message("T", b"x", unique_key=KEY)
    assert message.unique_key == KEY
    assert message.properties["UNIQ_KEY"] == KEY
    assert Message("T").unique_key is None


def test_an_id_can_be_assigned_and_removed() -> None:
    message = Message("T")
    message.unique_key = "order-42"
    assert message.unique_key == "order-42"
    assert message.set_unique_key("order-43") is message
    assert message.unique_key == "order-43"
    message.unique_key = None
    assert "UNIQ_KEY" not in message.properties


def test_copies_keep_the_id_and_forwarded_messages_do_not() -> None:
    message = Message("T", b"x", unique_key=KEY)
    assert copy.copy(message).unique_key == KEY
    assert copy.deepcopy(message).unique_key == KEY
    arrived = MessageExt("T", b"x", properties={"UNIQ_KEY": KEY})
    assert arrived.unique_key == arrived.msg_id == KEY
    assert Message.from_ext(arrived).unique_key is None


@pytest.mark.parametrize(
    "bad", ["", " ", "a b", "a\tb", "a,b", "a\x01b", "a\x02", "a\0", "é", "a" * 256, "\ud800"]
)
def test_an_id_that_cannot_travel_everywhere_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="unique_key"):
        Message("T", unique_key=bad)
    message = Message("T")
    with pytest.raises(ValueError, match="1 to 255"):
        message.unique_key = bad
    with pytest.raises(ValueError, match=r"UNIQ_KEY|unique_key"):
        Message("T", properties={"UNIQ_KEY": bad})


@pytest.mark.parametrize("bad", [42, b"id", ["id"]])
def test_an_id_is_text(bad: Any) -> None:
    with pytest.raises(TypeError, match="str"):
        Message("T", unique_key=bad)


def test_an_id_has_one_place() -> None:
    with pytest.raises(ValueError, match="give it once"):
        Message("T", unique_key="a", properties={"UNIQ_KEY": "b"})
    assert Message("T", unique_key="a", properties={"UNIQ_KEY": "a"}).unique_key == "a"


def test_every_way_of_sending_keeps_the_id() -> None:
    with (
        EmbeddedBroker(topics=["T"], tcp=False) as broker,
        DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        assert producer.send(Message("T", b"1", unique_key="one")).msg_id == "one"
        sent = producer.send_async(Message("T", b"2", unique_key="two")).result(30)
        assert sent.msg_id == "two"
        producer.send_oneway(Message("T", b"3", unique_key="three"))
        batch = [Message("T", b"4", unique_key="four"), Message("T", b"5", unique_key="five")]
        assert producer.send_batch(batch).msg_id == "four,five"
        assert [one.unique_key for one in MessageBatch(batch)] == ["four", "five"]
        again = producer.send(Message("T", b"1", unique_key="one"))
        assert again.msg_id == "one"
        stored = sorted(one.msg_id for one in broker.messages.in_topic("T"))
        assert stored == sorted(["one", "one", "two", "three", "four", "five"])
        assert producer.view_message("T", "two").body == b"2"


def test_a_delayed_message_arrives_with_its_id_and_is_recalled_by_its_handle() -> None:
    from datetime import timedelta

    with (
        EmbeddedBroker(topics=["T"], tcp=False) as broker,
        DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        hour = timedelta(hours=1)
        sent = producer.send(Message("T", b"1", unique_key="order-42/created", delay=hour))
        assert sent.recall_handle is not None
        assert producer.recall_message("T", sent.recall_handle) == "order-42/created"


def test_ids_are_handed_out_one_by_one_too() -> None:
    ids = MessageIds()
    found = [ids.next() for _ in range(1000)]
    prefix, first = ids.block(1)
    assert len({*found, f"{prefix}{first:012X}"}) == 1001
    assert all(Message("T", unique_key=one).unique_key == one for one in found)
