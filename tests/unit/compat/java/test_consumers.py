"""Consumers with Java's names: listeners, contexts and polls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rocketmq_py
from compat.java import (
    AllocateMessageQueueAveragelyByCircle,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    MessageListenerConcurrently,
    MessageListenerOrderly,
    MessageQueue,
    MessageSelector,
    TopicMessageQueueChangeListener,
)
from embedded_broker import EmbeddedBroker
from rocketmq_py import Delivery, IllegalStateError, UnsupportedOperationError

SUCCESS = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER
Start = Callable[[DefaultMQPushConsumer], DefaultMQPushConsumer]


@pytest.fixture
def start(broker: EmbeddedBroker) -> Iterator[Start]:
    made: list[DefaultMQPushConsumer] = []

    def begin(consumer: DefaultMQPushConsumer) -> DefaultMQPushConsumer:
        made.append(consumer)
        consumer.setNamesrvAddr(broker.namesrv_addr)
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer.start()
        return consumer

    yield begin
    for one in made:
        one.shutdown()


class Box(MessageListenerConcurrently):
    def __init__(self) -> None:
        super().__init__()
        self.got: list[MessageExt] = []

    def consumeMessage(
        self, msgs: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        self.got += msgs
        return SUCCESS


def test_a_listener_class_gets_messages_with_java_names(
    broker: EmbeddedBroker, producer: DefaultMQProducer, start: Start
) -> None:
    box = Box()
    consumer = DefaultMQPushConsumer("readers")
    consumer.subscribe("T", "TagA")
    consumer.registerMessageListener(box)
    start(consumer)
    sent = producer.send(Message("T", "TagA", "k", b"x"))
    producer.send(Message("T", "TagB", b"y"))
    broker.wait_for(lambda _: bool(box.got))
    (message,) = box.got
    assert (message.getMsgId(), message.getTags()) == (sent.getMsgId(), "TagA")
    assert message.getReconsumeTimes() == 0
    assert consumer.fetchSubscribeMessageQueues("T") >= {sent.getMessageQueue()}


def test_a_function_a_lambda_and_an_object_are_listeners(
    broker: EmbeddedBroker, producer: DefaultMQProducer, start: Start
) -> None:
    got: list[str] = []

    def listen(
        msgs: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        got.extend(f"{context.getMessageQueue().getTopic()} {one.getKeys()}" for one in msgs)
        return SUCCESS

    class Foreign:
        def consumeMessage(self, msgs: Any, context: Any) -> ConsumeConcurrentlyStatus:
            return listen(msgs, context)

    listeners: list[Any] = [
        listen,
        MessageListenerConcurrently(listen),
        Foreign(),
    ]
    for number, listener in enumerate(listeners):
        consumer = DefaultMQPushConsumer(f"readers-{number}")
        consumer.setInstanceName(f"reader-{number}")
        consumer.subscribe("T", MessageSelector.byTag("*"))
        consumer.setMessageListener(listener)
        start(consumer)
    producer.send(Message("T", "TagA", "key", b"x"))
    broker.wait_for(lambda _: len(got) == 3)
    assert got == ["T key"] * 3


def test_what_a_context_is_told_counts(
    broker: EmbeddedBroker, producer: DefaultMQProducer, start: Start
) -> None:
    attempts: list[int] = []

    def listen(
        msgs: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        attempts.append(msgs[0].getReconsumeTimes())
        context.setDelayLevelWhenNextConsume(1)
        assert context.getDelayLevelWhenNextConsume() == 1
        assert context.getAckIndex() == 2**31 - 1
        context.setAckIndex(-1 if len(attempts) == 1 else 0)
        return SUCCESS

    consumer = DefaultMQPushConsumer("readers")
    consumer.subscribe("T", "*")
    consumer.registerMessageListener(listen)
    start(consumer)
    producer.send(Message("T", b"x"))
    broker.wait_for(lambda _: attempts == [0])
    broker.wait_idle()
    broker.clock.advance(1)  # level 1
    broker.wait_for(lambda _: attempts == [0, 1])


def test_an_orderly_listener_suspends_its_queue(
    broker: EmbeddedBroker, producer: DefaultMQProducer, start: Start
) -> None:
    got: list[bytes] = []

    class InOrder(MessageListenerOrderly):
        def consumeMessage(
            self, msgs: list[MessageExt], context: ConsumeOrderlyContext
        ) -> ConsumeOrderlyStatus:
            got.append(msgs[0].getBody())
            context.setAutoCommit(True)
            assert context.isAutoCommit()
            assert context.getSuspendCurrentQueueTimeMillis() == -1
            context.setSuspendCurrentQueueTimeMillis(10)
            if len(got) == 1:
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
            return ConsumeOrderlyStatus.SUCCESS

    consumer = DefaultMQPushConsumer("readers")
    consumer.subscribe("T", "*")
    consumer.registerMessageListener(InOrder())
    start(consumer)
    queue = producer.fetchPublishMessageQueues("T")[0]
    for body in (b"1", b"2"):
        producer.send(Message("T", body), queue)
    broker.wait_for(lambda _: got == [b"1", b"1", b"2"])


def test_a_listener_of_a_delivery_gets_one(
    broker: EmbeddedBroker, producer: DefaultMQProducer, start: Start
) -> None:
    got: list[bytes] = []

    def settle(delivery: Delivery) -> None:
        got.extend(one.body for one in delivery.messages)
        delivery.ack()

    consumer = DefaultMQPushConsumer("readers")
    consumer.subscribe("T", "*")
    consumer.register_message_listener(settle)
    start(consumer)
    producer.send(Message("T", b"x"))
    broker.wait_for(lambda _: got == [b"x"])


async def awaited(msgs: Any, context: Any) -> Any:
    return SUCCESS


def says_nothing(msgs: Any, context: Any) -> None:
    return None


def takes_three(a: Any, b: Any, c: Any) -> Any:
    return SUCCESS


class Empty(MessageListenerConcurrently):
    pass


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (3, "3 is no listener: pass a function"),
        (Box, "is no listener: pass a function"),
        (Empty(), "Empty has no consumeMessage"),
        (takes_three, r"the listener takes \(a: 'Any', b"),
        (awaited, "it cannot be a coroutine function"),
        (says_nothing, "the listener returns None"),
    ],
    ids=["number", "class", "empty", "arity", "coroutine", "none"],
)
def test_what_could_never_handle_a_message_is_refused_when_it_is_registered(
    wrong: Any, told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        DefaultMQPushConsumer("g").registerMessageListener(wrong)


def test_contexts_can_be_made_for_tests_of_a_listener() -> None:
    queue = MessageQueue("T", "broker-a", 0)
    box = Box()
    context = ConsumeConcurrentlyContext(queue)
    assert box.consumeMessage([MessageExt("T", b"x")], context) is SUCCESS
    assert context.getMessageQueue() == queue
    assert ConsumeOrderlyContext(queue).getMessageQueue() == queue
    with pytest.raises(AttributeError, match="has no attribute 'getFoo'"):
        context.getFoo()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="ackIndex"):
        context.ackIndex = 1  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedOperationError, match="has no consumeMessage"):
        MessageListenerConcurrently().consumeMessage([], context)


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        (("g",), {}),
        (("ns", "g"), {"namespace": "ns"}),
        (("g", True, None), {"enable_trace": True}),
        (("g", None, AllocateMessageQueueAveragelyByCircle()), {}),
        (
            ("ns", "g", None, AllocateMessageQueueAveragelyByCircle(), True, "t"),
            {"trace_topic": "t"},
        ),
    ],
)
def test_every_constructor_of_java_makes_a_push_consumer(
    given: Any, settings: dict[str, object]
) -> None:
    consumer = DefaultMQPushConsumer(*given)
    assert consumer.getConsumerGroup() == "g"
    assert {name: getattr(consumer, name) for name in settings} == settings
    circle = any(isinstance(one, AllocateMessageQueueAveragelyByCircle) for one in given)
    strategy = consumer.getAllocateMessageQueueStrategy()
    assert isinstance(strategy, AllocateMessageQueueAveragelyByCircle) is circle


# --- lite pull -----------------------------------------------------------------------------


@pytest.fixture
def puller(broker: EmbeddedBroker) -> Iterator[DefaultLitePullConsumer]:
    consumer = DefaultLitePullConsumer("pullers")
    consumer.setNamesrvAddr(broker.namesrv_addr)
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    yield consumer
    consumer.shutdown()


def polled(consumer: DefaultLitePullConsumer, count: int) -> list[MessageExt]:
    got: list[MessageExt] = []
    while len(got) < count:
        got += consumer.poll(10_000)
    return got


def test_a_poll_gives_messages_with_java_names(
    producer: DefaultMQProducer, puller: DefaultLitePullConsumer
) -> None:
    puller.subscribe("T", "TagA")
    assert not puller.isRunning()
    puller.start()
    assert puller.isRunning()
    sent = producer.send(Message("T", "TagA", b"x"))
    (message,) = polled(puller, 1)
    assert message.getMsgId() == sent.getMsgId()
    queue = sent.getMessageQueue()
    assert queue in puller.fetchMessageQueues("T")
    puller.commitSync()
    assert puller.committed(queue) == 1
    puller.commitSync({queue: 0}, True)
    assert puller.committed(queue) == 0
    puller.commit({queue: 1}, True)
    with pytest.raises(UnsupportedOperationError, match="persist=False is not possible"):
        puller.commit({queue: 1}, False)  # type: ignore[call-overload]


@pytest.mark.case("T82")
@pytest.mark.case("T84")
def test_assigned_queues_are_sought_paused_and_resumed(
    producer: DefaultMQProducer, puller: DefaultLitePullConsumer
) -> None:
    queue = producer.fetchPublishMessageQueues("T")[0]
    for body in (b"1", b"2"):
        producer.send(Message("T", body), queue)
    puller.setSubExpressionForAssign("T", "*")
    puller.assign([queue])
    with pytest.raises(IllegalStateError, match="exclude each other"):
        puller.subscribe("T")
    puller.start()
    assert [one.getBody() for one in polled(puller, 2)] == [b"1", b"2"]
    assert puller.assignment() == [queue]
    puller.seek(queue, 1)
    assert [one.getBody() for one in polled(puller, 1)] == [b"2"]
    puller.pause([queue])
    puller.seekToBegin(queue)
    assert puller.poll(0) == []
    puller.resume([queue])
    assert [one.getBody() for one in polled(puller, 2)] == [b"1", b"2"]
    puller.seekToEnd(queue)
    assert puller.offsetForTimestamp(queue, 0) == 0


def test_nothing_that_is_committed_is_minus_one(
    puller: DefaultLitePullConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rocketmq_py.DefaultLitePullConsumer, "committed", lambda *_: None)
    assert puller.committed(MessageQueue("T", "broker-a", 0)) == -1


def test_a_listener_learns_the_queues_of_a_topic(
    broker: EmbeddedBroker, puller: DefaultLitePullConsumer
) -> None:
    told: list[set[MessageQueue]] = []

    class Changes(TopicMessageQueueChangeListener):
        def onChanged(self, topic: str, messageQueues: set[MessageQueue]) -> None:
            told.append(messageQueues)

    puller.subscribe("T")
    puller.start()
    puller.registerTopicMessageQueueChangeListener("T", Changes())
    broker.wait_for(lambda _: bool(told))
    assert {queue.getQueueId() for queue in told[0]} == set(range(8))
    with pytest.raises(TypeError, match="is no listener"):
        puller.registerTopicMessageQueueChangeListener("T", 3)  # type: ignore[arg-type]
