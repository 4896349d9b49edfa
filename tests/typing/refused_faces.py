"""Mistakes in code for the shapes of other clients that a type checker must find.

As in `refused.py`: each line that ends with a mark is refused.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from compat import java, ons, v5
from rocketmq_py import (
    DefaultMQProducer,
    DefaultMQPushConsumer,
    LocalTransactionState,
    Message,
    MessageQueue,
    SendResult,
)

P = DefaultMQProducer
C = DefaultMQPushConsumer


def ons_truth(message: ons.Message, context: ons.ConsumeContext) -> bool:
    """Say True to ONS."""
    return bool(message)


def ons_bank(message: ons.Message, arg: object) -> bool:
    """Say True about a transaction."""
    return bool(message) and bool(arg)


class HalfOnsCallback:
    """It could not be told of a failure."""

    def onSuccess(self, sendResult: ons.SendResult) -> None:  # noqa: N803
        """Take a result."""


def ons_messages(message: ons.Message, properties: ons.Properties) -> None:
    """A body is bytes, a time an int, and an attribute has the name that it has."""
    ons.Message("T", "TagA", "text")  # refused
    ons.Message("T", "TagA", "key", "text")  # refused
    ons.Message("T", "TagA", None)  # refused
    ons.Message("T")  # refused
    ons.Message(topic="T", tag="TagA", body=b"x")  # refused
    message.startDeliverTime = 5  # refused
    message.msgID = "id"  # refused
    message.colour = "red"  # refused
    message.body = "text"  # refused
    message.start_deliver_time = None  # refused
    message.setStartDeliverTime(None)  # refused
    message.setStartDeliverTime("5")  # refused
    message.setStartDeliverTime(datetime.now(UTC))  # refused
    message.setBody("text")  # refused
    message.putUserProperties("a", 5)  # refused
    message.setDelayTimeLevel(3)  # refused
    properties.put(ons.PropertyKeyConst.AccessKey, None)  # refused
    properties.put(ons.PropertyKeyConst.SendMsgTimeoutMilis, 3000)  # refused
    properties.setProperty("SendMsgTimeoutMillis", timedelta(seconds=3))  # refused
    properties.put(5, "x")  # refused


def ons_sends(
    producer: ons.Producer,
    ordered: ons.OrderProducer,
    bank: ons.TransactionProducer,
    message: ons.Message,
) -> None:
    """Sends of ONS take messages of ONS, and callbacks with both methods."""
    producer.send("text")  # refused
    producer.send(Message("T", b"x"))  # refused
    producer.send(message, 3000)  # refused
    producer.sendAsync(message)  # refused
    producer.sendAsync(message, lambda result: None)  # refused
    producer.sendAsync(message, HalfOnsCallback())  # refused
    producer.sendAsync(message, ons.SendCallback)  # refused
    producer.setCallbackExecutor(4)  # refused
    ordered.send(message)  # refused
    ordered.send(message, 42)  # refused
    ordered.send(message, None)  # refused
    ordered.sendAsync(message, ons.SendCallback())  # refused
    bank.send(message)  # refused
    bank.send(message, ons_bank)  # refused
    bank.send(message, ons.LocalTransactionChecker())  # refused
    ons.ONSFactory.createProducer("127.0.0.1:9876")  # refused
    ons.ONSFactory.createTransactionProducer({})  # refused
    ons.ONSFactory.createTransactionProducer({}, ons_bank)  # refused
    ons.ONSFactory.createProducerBean({})  # refused
    producer.updateCredential("id", "secret")  # refused
    print(producer.send(message).msg_id)  # refused


def ons_receives(
    consumer: ons.Consumer,
    ordered: ons.OrderConsumer,
    batches: ons.BatchConsumer,
    pulling: ons.PullConsumer,
) -> None:
    """Listeners of ONS return what their consumer understands."""
    consumer.subscribe("T", "*", ons_truth)  # refused
    consumer.subscribe("T", "*", lambda message, context: None)  # refused
    consumer.subscribe("T", "*", lambda message: ons.Action.CommitMessage)  # refused
    consumer.subscribe("T", ons.Action.CommitMessage, ons.MessageListener())  # refused
    consumer.subscribe("T", "*")  # refused
    consumer.subscribe("T", "*", ons.MessageOrderListener())  # refused
    ordered.subscribe("T", "*", lambda message, context: ons.Action.CommitMessage)  # refused
    ordered.subscribe("T", "*", ons.MessageListener())  # refused
    batches.subscribe("T", "*", ons.MessageListener())  # refused
    pulling.assign("T")  # refused
    pulling.assign([MessageQueue("T", "broker-a", 0)])  # refused
    pulling.poll("3000")  # refused
    pulling.poll(timedelta(seconds=3))  # refused
    pulling.seek("T", 0)  # refused
    pulling.subscribe("T", "*")  # refused
    print(ons.Action.Commit)  # refused
    print(ons.OrderAction.CommitMessage)  # refused
    print(ons.TransactionStatus.Unknown)  # refused


def java_names_of_plain_classes(producer: P, consumer: C, message: Message) -> None:
    """What the SDK answers with the Python name is refused before it runs."""
    producer.setNamesrvAddr("127.0.0.1:9876")  # refused
    producer.sendOneway(message)  # refused
    consumer.registerMessageListener(print)  # refused
    print(message.getBody())  # refused
    print(producer.send(message).getMsgId())  # refused
    Message("T", "TagA", b"x")  # refused
    Message("T", b"x", b"y")  # refused
    P("g", None, True)  # refused


class JavaWork(java.TransactionListener):
    """A listener that can be asked nothing later."""

    def executeLocalTransaction(self, msg: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOW


class JavaSilence(java.SendCallback):
    """A callback with Python's names."""

    def on_success(self, result: SendResult) -> None: ...


def java_nothing(msgs: list[java.MessageExt], context: java.ConsumeConcurrentlyContext) -> None: ...


def java_face(
    producer: java.DefaultMQProducer,
    consumer: java.DefaultMQPushConsumer,
    puller: java.DefaultLitePullConsumer,
    queue: java.MessageQueue,
) -> None:
    """Orders of arguments that Java does not have, names that nobody has, values of other kinds."""
    message = java.Message("T", "TagA", b"x")
    java.Message("T", "TagA", "text")  # refused
    java.Message("T", "TagA", "key", 0, b"x")  # refused
    java.DefaultMQProducer("g", 3)  # refused
    java.DefaultMQProducer("g", namesrv_adr="a:1")  # refused
    java.TransactionMQProducer("g").setTransactionListener(JavaWork())  # refused
    java.TransactionMQProducer("g").setTransactionListener(java.TransactionListener)  # refused
    message.setDelayTimeLevel("3")  # refused
    message.setDelayTimeSec(1.5)  # refused
    message.setDelayTimeLevl(3)  # refused
    message.setBody("text")  # refused
    producer.send(message, "3000")  # refused
    producer.send(message, lambda mqs, msg, arg: mqs[0])  # refused
    producer.send(message, queue, queue)  # refused
    producer.send(message, JavaSilence())  # refused
    producer.setNamesrvAdr("127.0.0.1:9876")  # refused
    producer.setSendMsgTimeout("3000")  # refused
    producer.setSocksProxyConfig("{}")  # refused
    producer.namesrvAddr = "127.0.0.1:9876"  # refused
    consumer.registerMessageListener(java_nothing)  # refused
    consumer.setConsumeThreadMin(2.5)  # refused
    consumer.setMessageModel("CLUSTERING")  # refused
    puller.commit({queue: 1}, False)  # refused
    puller.setPullThreadNums(4)  # refused
    java.DefaultMQAdminExt("group")  # refused
    print(java.DefaultMQAdminExt().resetOffsetByTimestamp("T", "G", 0, False))  # refused
    print(java.AccessChannel.REMOTE)  # refused


class SilentV5(v5.MessageListener):
    """A listener of 5.0 that says nothing."""

    def consume(self, message: v5.MessageView) -> None:  # refused
        """Take a message."""


def of_5_0(
    configuration: v5.ClientConfiguration,
    producer: v5.Producer,
    simple: v5.SimpleConsumer,
    message: v5.Message,
    view: v5.MessageView,
) -> None:
    """The 5.0 shape: other units, settings of messages, and what was not received."""
    v5.ClientConfiguration("127.0.0.1:9876", request_timeout="3")  # refused
    v5.ClientConfiguration()  # refused
    v5.Producer("127.0.0.1:9876")  # refused
    v5.Producer(configuration, checker=print)  # refused
    v5.Producer(configuration, fifo_hash="md5")  # refused
    v5.PushConsumer(configuration, "G", print, {"T": v5.FilterExpression()})  # refused
    v5.SimpleConsumer(configuration, "G", {"T": "a || b"})  # refused
    v5.FilterExpression("a", "TAG")  # refused
    message.delivery_timestamp = 1.5  # refused
    message.delivery_timestamp = timedelta(seconds=10)  # refused
    message.delivery_time = 1_800_000_000  # refused
    message.body = "text"  # refused
    message.keys = 42  # refused
    message.properties["colour"] = "red"  # refused
    v5.MessageBuilder().set_delivery_timestamp(timedelta(seconds=10))  # refused
    v5.MessageBuilder().set_body("text")  # refused
    producer.send(Message("T", b"x"))  # refused
    producer.send(message, producer)  # refused
    producer.send_async(message).result().msg_id  # refused
    simple.receive("10", 30)  # refused
    simple.receive(10)  # refused
    simple.receive(10, 30)[0].reconsume_times  # refused
    simple.ack(message)  # refused
    simple.change_invisible_duration(view, "30")  # refused
    print(v5.ConsumeResult.OK)  # refused
    print(v5.TransactionResolution.COMMITTED)  # refused
