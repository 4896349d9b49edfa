"""The two Aliyun example programs of a document about delayed messages, ported line by line.

Only the address, the clock and where lines are printed are arguments, so that a test can run them.
"""

from __future__ import annotations

from collections.abc import Callable

from compat.ons import (
    Action,
    ConsumeContext,
    Consumer,
    Message,
    MessageListener,
    OnExceptionContext,
    ONSFactory,
    Properties,
    PropertyKeyConst,
    SendCallback,
    SendResult,
)

Print = Callable[[str], object]
Now = Callable[[], int]


def timer_producer(namesrv_addr: str, current_time_millis: Now, println: Print) -> None:
    properties = Properties()
    properties.put(PropertyKeyConst.AccessKey, "XXX")
    properties.put(PropertyKeyConst.SecretKey, "XXX")
    properties.setProperty(PropertyKeyConst.SendMsgTimeoutMillis, "3000")
    properties.put(PropertyKeyConst.NAMESRV_ADDR, namesrv_addr)

    producer = ONSFactory.createProducer(properties)
    producer.start()

    msg = Message("TopicTestMQ", "TagA", b"Hello MQ")
    msg.setKey("ORDERID_100")
    msg.setStartDeliverTime(current_time_millis() + 10_000)

    class Callback(SendCallback):
        def onSuccess(self, sendResult: SendResult) -> None:  # noqa: N802, N803
            println(
                "send message success. topic="
                + sendResult.getTopic()
                + ", msgId="
                + sendResult.getMessageId()
            )

        def onException(self, context: OnExceptionContext) -> None:  # noqa: N802
            println(
                "send message failed. topic="
                + context.getTopic()
                + ", msgId="
                + str(context.getMessageId())
            )

    producer.sendAsync(msg, Callback())

    println("send message async. topic=" + msg.getTopic() + ", msgId=" + str(msg.getMsgID()))

    producer.shutdown()


def consumer(namesrv_addr: str, current_time_millis: Now, println: Print) -> Consumer:
    properties = Properties()
    properties.put(PropertyKeyConst.GROUP_ID, "XXX")
    properties.put(PropertyKeyConst.AccessKey, "XXX")
    properties.put(PropertyKeyConst.SecretKey, "XXX")
    properties.put(PropertyKeyConst.NAMESRV_ADDR, namesrv_addr)

    consumer = ONSFactory.createConsumer(properties)

    class TagListener(MessageListener):
        def consume(self, message: Message, context: ConsumeContext) -> Action:
            println("Receive: " + str(message))
            println(
                f"Receive message[msgId={message.getMsgID()} "
                f"{current_time_millis() - message.getBornTimestamp()}  ms later]"
            )
            return Action.CommitMessage

    class OtherListener(MessageListener):
        def consume(self, message: Message, context: ConsumeContext) -> Action:
            println("Receive: " + str(message))
            return Action.CommitMessage

    consumer.subscribe("TopicTestMQ", "TagA||TagB", TagListener())
    consumer.subscribe("TopicTestMQ-Other", "*", OtherListener())
    consumer.start()
    println("Consumer Started")
    return consumer
