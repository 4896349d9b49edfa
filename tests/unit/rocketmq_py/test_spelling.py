"""A name of Java, or of the ctypes client, on a class of the SDK is answered with our own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_py import (
    ClientConfig,
    ConsumeConcurrentlyContext,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    MessageQueue,
    SendResult,
    SendStatus,
    TransactionMQProducer,
)

QUEUE = MessageQueue("T", "broker-a", 0)
RESULT = SendResult(
    send_status=SendStatus.SEND_OK,
    msg_id="id",
    offset_msg_id="",
    message_queue=QUEUE,
    queue_offset=0,
)


@pytest.mark.parametrize(
    ("thing", "name", "meant"),
    [
        (DefaultMQProducer("g"), "setNamesrvAddr", "namesrv_addr"),
        (DefaultMQProducer("g"), "sendOneway", "send_oneway"),
        (DefaultMQProducer("g"), "setUseTLS", "use_tls"),
        (DefaultMQProducer("g"), "isVipChannelEnabled", "vip_channel_enabled"),
        (DefaultMQProducer("g"), "setSendLatencyFaultEnable", "send_latency_enable"),
        (TransactionMQProducer("g"), "sendMessageInTransaction", "send_message_in_transaction"),
        (DefaultMQPushConsumer("g"), "registerMessageListener", "register_message_listener"),
        (DefaultMQPushConsumer("g"), "setAllocateMessageQueueStrategy", "allocate_strategy"),
        (DefaultLitePullConsumer("g"), "seekToBegin", "seek_to_begin"),
        (DefaultLitePullConsumer("g"), "commitSync", "commit"),
        (Message("T", b"x"), "getBody", "body"),
        (MessageExt("T", b"x"), "getBodyCRC", "body_crc"),
        (MessageExt("T", b"x"), "getBornHostString", "born_host"),
        (RESULT, "getMsgId", "msg_id"),
        (QUEUE, "getQueueId", "queue_id"),
        (ConsumeConcurrentlyContext(QUEUE), "setAckIndex", "ack_index"),
        (DefaultMQProducer("g"), "set_name_server_address", "namesrv_addr"),
        (DefaultMQProducer("g"), "set_session_credentials", "credentials"),
        (DefaultMQProducer("g"), "set_compress_level", "compress_level"),
        (DefaultMQProducer("g"), "set_timeout", "send_msg_timeout"),
        (DefaultMQProducer("g"), "send_sync", "send"),
        (DefaultMQProducer("g"), "send_orderly_with_sharding_key", "send"),
        (DefaultMQPushConsumer("g"), "set_thread_count", "consume_thread_max"),
        (Message("T", b"x"), "set_body", "body"),
        (Message("T", b"x"), "set_property", "put_user_property"),
        (MessageExt("T", b"x"), "get_property", "get_user_property"),
        (MessageExt("T", b"x"), "id", "msg_id"),
        (RESULT, "status", "send_status"),
        (RESULT, "offset", "queue_offset"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_name_of_another_client_is_answered_with_the_python_one(
    thing: object, name: str, meant: str
) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(thing, name)
    assert str(caught.value) == (
        f"{type(thing).__name__} has no attribute {name!r}; did you mean {meant}?"
    )


def test_what_only_a_constructor_takes_is_named_so() -> None:
    with pytest.raises(AttributeError, match="did you mean topics, an argument of its constr"):
        DefaultMQProducer("g").setTopics(["T"])  # type: ignore[attr-defined]


def test_a_name_that_means_nothing_gets_no_advice() -> None:
    with pytest.raises(AttributeError, match=r"^DefaultMQProducer has no attribute 'setFoo'$"):
        DefaultMQProducer("g").setFoo(1)  # type: ignore[attr-defined]


def test_other_names_are_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match=r"^'Message' object has no attribute 'tag'$"):
        print(Message("T", b"x").tag)  # type: ignore[attr-defined]


def test_an_error_inside_a_property_is_not_hidden() -> None:
    class Broken(Message):
        @property
        def price(self) -> int:
            return len(self.prize)  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="no attribute 'prize'"):
        print(Broken("T", b"x").price)


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        (Message, ("T", "TagA", b"x"), r'keywords, as in Message\("T", body, tags="TagA"\)'),
        (DefaultMQProducer, ("g", None, True), r"takes \(producer_group\) by position, not 3"),
        (DefaultMQPushConsumer, ("g", None), r"takes \(consumer_group\) by position, not 2"),
        (ClientConfig, ("a:1",), "takes nothing by position, not 1 arguments: settings are key"),
    ],
)
def test_a_wrong_number_of_arguments_is_answered_with_the_keywords(
    kind: Callable[..., object], given: tuple[object, ...], told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        kind(*given)
