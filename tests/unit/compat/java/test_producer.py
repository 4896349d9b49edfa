"""Producers in Java's argument orders, against the embedded broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rocketmq_py
from compat.java import (
    AclClientRPCHook,
    DefaultMQProducer,
    Message,
    MessageExt,
    MessageQueue,
    MessageQueueSelector,
    MessageUtil,
    RequestCallback,
    RequestTimeoutException,
    SelectMessageQueueByHash,
    SelectMessageQueueByRandom,
    SendCallback,
    SendResult,
    SendStatus,
    SessionCredentials,
    TransactionMQProducer,
)
from embedded_broker import EmbeddedBroker
from rocketmq_py import Credentials, MQClientException, ProducerConfig, RemotingCommand
from tests.waiting import until


class Outcomes(SendCallback):
    def __init__(self) -> None:
        self.results: list[SendResult] = []
        self.errors: list[Exception] = []

    def onSuccess(self, sendResult: SendResult) -> None:
        self.results.append(sendResult)

    def onException(self, e: Exception) -> None:
        self.errors.append(e)


class ByNumber(MessageQueueSelector):
    def select(
        self, mqs: list[MessageQueue], msg: rocketmq_py.Message, arg: Any
    ) -> rocketmq_py.MessageQueue:
        number: int = arg
        return mqs[number % len(mqs)]


class Hook:
    def before_request(self, address: str, request: RemotingCommand) -> None: ...

    def after_response(
        self, address: str, request: RemotingCommand, response: RemotingCommand
    ) -> None: ...


def test_every_way_to_send_and_wait_gives_a_result_with_java_names(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    queues = producer.fetchPublishMessageQueues("T")
    third = queues[2]
    results = [
        producer.send(Message("T", b"0")),
        producer.send(Message("T", b"1"), 5000),
        producer.send(Message("T", b"2"), third),
        producer.send(Message("T", b"3"), third, 5000),
        producer.send(Message("T", b"4"), ByNumber(), 10),
        producer.send(Message("T", b"5"), lambda mqs, _msg, arg: mqs[arg], 2, 5000),
        producer.send([Message("T", b"6"), Message("T", b"7")]),
        producer.send([Message("T", b"8")], 5000),
        producer.send([Message("T", b"9")], third),
        producer.send([Message("T", b"10")], third, 5000),
        producer.send(Message("T", b"11"), queue=third, timeout=5000),
    ]
    assert {result.getSendStatus() for result in results} == {SendStatus.SEND_OK}
    assert [result.getMessageQueue() for result in results[2:6]] == [third] * 4
    assert len(results[6].getMsgId().split(",")) == 2
    assert broker.topics["T"].count() == 12


def test_every_way_to_send_with_a_callback_tells_it_a_result_with_java_names(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    third = producer.fetchPublishMessageQueues("T")[2]
    outcomes = Outcomes()
    sends: list[Callable[[], object]] = [
        lambda: producer.send(Message("T", b"0"), outcomes),
        lambda: producer.send(Message("T", b"1"), outcomes, 5000),
        lambda: producer.send(Message("T", b"2"), third, outcomes),
        lambda: producer.send(Message("T", b"3"), third, outcomes, 5000),
        lambda: producer.send(Message("T", b"4"), ByNumber(), 2, outcomes),
        lambda: producer.send(Message("T", b"5"), ByNumber(), 2, outcomes, 5000),
        lambda: producer.send([Message("T", b"6")], outcomes),
        lambda: producer.send([Message("T", b"7")], third, outcomes, 5000),
    ]
    for send in sends:
        assert send() is None
    broker.wait_for(lambda _: len(outcomes.results) == len(sends))
    assert {result.getSendStatus() for result in outcomes.results} == {SendStatus.SEND_OK}
    assert sum(result.getMessageQueue() == third for result in outcomes.results) >= 5


def test_a_failure_is_told_to_the_callback(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    outcomes = Outcomes()
    producer.send(Message("T", b""), outcomes)
    broker.wait_for(lambda _: bool(outcomes.errors))
    assert isinstance(outcomes.errors[0], MQClientException)


def test_arguments_that_no_overload_has_are_refused_with_all_of_them(
    producer: DefaultMQProducer,
) -> None:
    message = Message("T", b"x")
    told = r"send\(message, \.\.\.\) takes one of \(\), \(timeout\), \(callback\)"
    with pytest.raises(TypeError, match=told):
        producer.send(message, print)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=told):
        producer.send(message, "3000")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=told):
        producer.send(message, Outcomes)  # type: ignore[call-overload]


def test_a_callback_or_selector_that_lacks_its_method_cannot_be_made() -> None:
    class Half(SendCallback):
        def onSuccess(self, sendResult: SendResult) -> None: ...

    class Misspelt(MessageQueueSelector):
        def selects(self) -> None: ...

    with pytest.raises(TypeError, match="onException"):
        Half()  # type: ignore[abstract]
    with pytest.raises(TypeError, match="select"):
        Misspelt()  # type: ignore[abstract]


def test_oneway_messages_go_where_they_are_sent(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    third = producer.fetchPublishMessageQueues("T")[2]
    producer.sendOneway(Message("T", b"0"))
    producer.sendOneway(Message("T", b"1"), third)
    producer.sendOneway(Message("T", b"2"), ByNumber(), 2)
    broker.wait_for(lambda _: broker.topics["T"].count() == 3)
    assert producer.maxOffset(third) >= 2


@pytest.mark.case("T23")
def test_the_hash_selector_chooses_as_java_does(producer: DefaultMQProducer) -> None:
    queues = producer.fetchPublishMessageQueues("T")
    result = producer.send(Message("T", b"x"), SelectMessageQueueByHash(), "order-1")
    assert result.getMessageQueue() == queues[6]
    assert producer.send(Message("T", b"x"), SelectMessageQueueByRandom(), None).getMsgId()


def test_questions_have_java_names(producer: DefaultMQProducer) -> None:
    result = producer.send(Message("T", "TagA", "key-1", b"x"))
    queue = result.getMessageQueue()
    assert (producer.minOffset(queue), producer.maxOffset(queue)) == (0, 1)
    assert producer.searchOffset(queue, 0) == 0
    stored_at = producer.earliestMsgStoreTime(queue)
    (found,) = producer.queryMessage("T", "key-1", 4, 0, stored_at + 1).getMessageList()
    assert found.getMsgId() == result.getMsgId()
    assert producer.viewMessage("T", result.getMsgId()).getStoreTimestamp() == stored_at
    producer.createTopic("T", "Other", 2, {})
    producer.createTopic("T", "Third", 2, 0, None)
    producer.createTopic("T", "Fourth", 2)
    assert len(producer.fetchPublishMessageQueues("Other")) == 2


def test_a_timer_is_taken_back(producer: DefaultMQProducer) -> None:
    result = producer.send(Message("T", b"x").setDelayTimeSec(60))
    assert producer.recallMessage("T", result.getRecallHandle()) == result.getMsgId()


class Replies(RequestCallback):
    def __init__(self) -> None:
        self.replies: list[MessageExt] = []
        self.errors: list[Exception] = []

    def onSuccess(self, message: MessageExt) -> None:
        self.replies.append(message)

    def onException(self, e: Exception) -> None:
        self.errors.append(e)


@pytest.mark.case("T61")
def test_a_request_is_answered_or_told_to_its_callback(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    replies = Replies()
    queue = producer.fetchPublishMessageQueues("T")[0]
    producer.request(Message("T", b"?"), replies, 60_000)
    producer.request(Message("T", b"?"), queue, replies, 60_000)
    producer.request(Message("T", b"?"), ByNumber(), 1, replies, 60_000)
    broker.wait_for(lambda _: broker.topics["T"].count() == 3)
    for stored in broker.messages.in_topic("T"):
        asked = MessageExt("T", stored.body, properties=dict(stored.properties))
        reply = MessageUtil.createReplyMessage(asked, b"yes")
        assert MessageUtil.getReplyToClient(reply) == producer.client_id
        assert reply.setTags("answer").getTags() == "answer"
        producer.send(reply, 3_000)
    broker.wait_for(lambda _: len(replies.replies) == 3)
    assert {reply.getProperty("MSG_TYPE") for reply in replies.replies} == {"reply"}


@pytest.mark.case("T61")
def test_a_request_without_a_reply_ends_at_its_timeout(producer: DefaultMQProducer) -> None:
    replies = Replies()
    producer.send(Message("T", b"x"))  # the route is known from now on
    producer.request(Message("T", b"?"), replies, 500)
    with pytest.raises(RequestTimeoutException):
        producer.request(Message("T", b"?"), 500)
    until(lambda: bool(replies.errors))
    assert isinstance(replies.errors[0], RequestTimeoutException)


@pytest.mark.parametrize(
    ("kind", "given", "settings"),
    [
        (DefaultMQProducer, ("g",), {}),
        (DefaultMQProducer, ("ns", "g"), {"namespace": "ns"}),
        (DefaultMQProducer, ("g", True, "traces"), {"enable_trace": True, "trace_topic": "traces"}),
        (DefaultMQProducer, ("g", None, ["T"], True, None), {"enable_trace": True}),
        (TransactionMQProducer, ("g", ["T"]), {}),
        (TransactionMQProducer, ("g", None, True, None), {"enable_trace": True}),
    ],
)
def test_every_constructor_of_java_makes_a_producer(
    kind: Any, given: tuple[object, ...], settings: dict[str, object]
) -> None:
    producer = kind(*given)
    assert producer.getProducerGroup() == "g"
    assert {name: getattr(producer, name) for name in settings} == settings
    assert producer.getTopics() == (["T"] if ["T"] in given else [])


def test_a_hook_signs_or_sees_calls() -> None:
    signed = DefaultMQProducer("g", AclClientRPCHook(SessionCredentials("id", "secret")))
    assert isinstance(signed.credentials, Credentials)
    assert signed.credentials.secret_key == "secret"
    assert "'secret'" not in repr(signed.credentials)
    watched = DefaultMQProducer("g", Hook())
    assert watched.credentials is None
    with pytest.raises(TypeError, match=r"DefaultMQProducer takes one of \(\), \(producerGroup\)"):
        DefaultMQProducer("g", 3)  # type: ignore[call-overload]


def test_settings_of_a_value_begin_a_producer() -> None:
    config = ProducerConfig(namesrv_addr="127.0.0.1:1", send_msg_timeout=7)
    producer = DefaultMQProducer.of(config, "g")
    assert (producer.getProducerGroup(), producer.getSendMsgTimeout()) == ("g", 7)
    assert ProducerConfig.of(producer).send_msg_timeout == 7
    assert DefaultMQProducer.of(config, "ns", "g").getNamespace() == "ns"  # type: ignore[call-arg]


def test_a_program_may_add_attributes_to_its_own_class() -> None:
    class Mine(DefaultMQProducer):
        pass

    producer = Mine("g")
    producer.sent = 7  # type: ignore[attr-defined]
    assert producer.sent == 7  # type: ignore[attr-defined]
