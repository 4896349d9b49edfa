"""Messages, queues and results with Java's names."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Self

import pytest

import rocketmq_py
from compat.java import Message, MessageBatch, MessageExt, MessageQueue, QueryResult, SendResult
from compat.java.results import TransactionSendResult
from rocketmq_py import LocalTransactionState, SendStatus


@pytest.mark.parametrize(
    ("given", "tags", "keys", "flag"),
    [
        (("T", b"x"), None, None, 0),
        (("T", "TagA", b"x"), "TagA", None, 0),
        (("T", None, b"x"), None, None, 0),
        (("T", "TagA", "k1 k2", b"x"), "TagA", "k1 k2", 0),
        (("T", "", "", b"x"), None, None, 0),
        (("T", "TagA", "k", 7, b"x", False), "TagA", "k", 7),
    ],
)
def test_a_message_is_made_of_every_order_of_arguments_that_java_has(
    given: Any, tags: str | None, keys: str | None, flag: int
) -> None:
    message = Message(*given)
    assert (message.getTopic(), message.getBody()) == ("T", b"x")
    assert (message.getTags(), message.getKeys(), message.getFlag()) == (tags, keys, flag)
    assert message.isWaitStoreMsgOK() is (len(given) < 6)


def test_an_empty_message_is_filled_by_setters() -> None:
    message = Message().setTopic("T").setBody(b"x").setTags("TagA").setKeys(["a", "b"]).setFlag(1)
    message.setWaitStoreMsgOK(False).setBuyerId("me").setTransactionId("tx")
    assert (message.topic, message.body, message.tags) == ("T", b"x", "TagA")
    assert (message.getKeys(), message.keys) == ("a b", ["a", "b"])
    assert (message.getBuyerId(), message.getTransactionId()) == ("me", "tx")
    assert message.hasProperty("TAGS")
    assert message.getProperty("WAIT") == "false"
    assert message.getProperties() is message.properties


def test_a_wrong_number_of_arguments_names_the_orders() -> None:
    with pytest.raises(TypeError, match=r"Message takes one of \(\), \(topic\), \(topic, body\), "):
        Message("T", "TagA", "key", 0, b"x")  # type: ignore[call-overload]


def test_what_is_given_twice_is_refused() -> None:
    with pytest.raises(TypeError, match="Message got tags twice: by place and by name"):
        Message("T", "TagA", b"x", tags="TagB")  # type: ignore[call-overload]


def test_a_body_of_text_is_refused_with_the_remedy() -> None:
    with pytest.raises(TypeError, match=r"bytes, not str: encode the text"):
        Message("T", "TagA", "text")  # type: ignore[call-overload]


@pytest.mark.case("T39")
def test_a_java_setter_honours_an_override_of_the_python_one() -> None:
    class Hurried(Message):
        def set_delay_time_sec(self, seconds: int) -> Self:
            return super().set_delay_time_sec(seconds // 2)

    assert Hurried("T", b"x").setDelayTimeSec(10).getDelayTimeSec() == 5
    message = Message("T", b"x").setDelayTimeMs(7).setDeliverTimeMs(2_000_000_000_000)
    assert (message.get_delay_time_ms(), message.getDelayTimeMs()) == (7, 7)
    assert message.getDeliverTimeMs() == message.get_deliver_time_ms() == 2_000_000_000_000


def test_copies_and_forwarded_messages_keep_java_names() -> None:
    message = copy.copy(Message("T", "TagA", b"x"))
    assert message.getTags() == "TagA"
    assert pickle.loads(pickle.dumps(message)).getBody() == b"x"  # noqa: S301
    forwarded = Message.from_ext(rocketmq_py.MessageExt("T", b"x", properties={"TAGS": "TagA"}))
    assert forwarded.getTags() == "TagA"


def test_a_message_that_arrived_has_all_getters_and_setters() -> None:
    message = MessageExt.of(
        rocketmq_py.MessageExt(
            "T",
            b"x",
            properties={"UNIQ_KEY": "id", "KEYS": "a b"},
            born_host_bytes=bytes([127, 0, 0, 1, 0, 0, 0x26, 0x94]),
            queue_id=3,
        )
    )
    assert isinstance(message, Message)
    assert (message.getMsgId(), message.getKeys(), message.getQueueId()) == ("id", "a b", 3)
    assert (message.getBornHost(), message.getBornHostString()) == ("127.0.0.1:9876", "127.0.0.1")
    assert len(message.getBornHostBytes()) == 8
    assert (message.getStoreHost(), message.getStoreHostBytes()) == ("", b"")
    message.setMsgId("other").setReconsumeTimes(2).setBodyCRC(5)
    assert (message.getMsgId(), message.getReconsumeTimes(), message.body_crc) == ("other", 2, 5)
    assert MessageExt.of(message) is message


def test_a_queue_equals_the_one_of_the_sdk_and_has_an_order() -> None:
    plain = rocketmq_py.MessageQueue("T", "broker-a", 1)
    queue = MessageQueue.of(plain)
    assert queue == plain
    assert plain == queue
    assert hash(queue) == hash(plain)
    assert {plain: 1}[queue] == 1
    assert queue.equals(MessageQueue("T", "broker-a", 1))
    assert queue != rocketmq_py.MessageQueue("T", "broker-a", 2)
    assert queue != "T"
    assert pickle.loads(pickle.dumps(queue)) == queue  # noqa: S301 - made here
    assert (queue.getTopic(), queue.getBrokerName(), queue.getQueueId()) == ("T", "broker-a", 1)
    other = MessageQueue("T", "broker-b", 0)
    assert (queue.compareTo(other), other.compareTo(queue), queue.compareTo(queue)) == (-1, 1, 0)


def test_results_have_all_getters() -> None:
    queue = rocketmq_py.MessageQueue("T", "broker-a", 1)
    result = rocketmq_py.TransactionSendResult(
        send_status=SendStatus.SEND_OK,
        msg_id="id",
        offset_msg_id="place",
        message_queue=queue,
        queue_offset=7,
        transaction_id="tx",
        recall_handle="handle",
        local_transaction_state=LocalTransactionState.UNKNOW,
    )
    sent = TransactionSendResult.of(result)
    assert isinstance(sent, SendResult)
    assert sent.getLocalTransactionState() is LocalTransactionState.UNKNOW
    assert (sent.getSendStatus(), sent.getMsgId()) == (SendStatus.SEND_OK, "id")
    assert (sent.getOffsetMsgId(), sent.getQueueOffset()) == ("place", 7)
    assert (sent.getTransactionId(), sent.getRecallHandle()) == ("tx", "handle")
    assert (sent.getRegionId(), sent.isTraceOn()) == ("DefaultRegion", True)
    assert sent.getMessageQueue().getQueueId() == 1
    assert "msg_id='id'" in sent.toString()


def test_a_query_gives_messages_with_java_names() -> None:
    found = QueryResult.of(rocketmq_py.QueryResult(9, (rocketmq_py.MessageExt("T", b"x"),)))
    assert found.getIndexLastUpdateTimestamp() == 9
    assert [message.getBody() for message in found.getMessageList()] == [b"x"]


def test_a_batch_is_made_of_a_list() -> None:
    batch = MessageBatch.generateFromList([Message("T", b"1"), Message("T", b"2")])
    assert [message.body for message in batch.iterator()] == [b"1", b"2"]
