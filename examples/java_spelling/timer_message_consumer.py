"""Prints how long after it was sent each message came: Java's TimerMessageConsumer, ported.

    .venv/bin/python examples/java_spelling/timer_message_consumer.py

Run it before a producer. Java's consumer keeps its program alive; here `run` does, until Ctrl-C.
"""

from time import time

from compat.java import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQPushConsumer,
    MessageExt,
    MessageListenerConcurrently,
)

CONSUMER_GROUP = "TimerMessageConsumerGroup"
DEFAULT_NAMESRVADDR = "127.0.0.1:9876"
TOPIC = "TimerTopic"


def consume(
    messages: list[MessageExt], _context: ConsumeConcurrentlyContext
) -> ConsumeConcurrentlyStatus:
    for message in messages:
        # Print approximate delay time period
        later = int(time() * 1000) - message.getBornTimestamp()
        print(f"Receive message[msgId={message.getMsgId()} {later}  ms later]")
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def main() -> DefaultMQPushConsumer:
    # Instantiate message consumer
    consumer = DefaultMQPushConsumer(CONSUMER_GROUP)

    # The address of the name servers
    consumer.setNamesrvAddr(DEFAULT_NAMESRVADDR)

    # Subscribe topics
    consumer.subscribe(TOPIC, "*")
    # Register message listener
    consumer.registerMessageListener(MessageListenerConcurrently(consume))
    # Launch consumer
    consumer.start()
    return consumer


if __name__ == "__main__":
    main().run()
