"""Ten messages that are delivered ten seconds later: Java's TimerMessageProducer for 5.0, ported.

    .venv/bin/python examples/java_spelling/timer_message_producer.py

Needs a name server at 127.0.0.1:9876, such as `rocketmq-py serve`. Line by line the Java program.
"""

from time import time

from compat.java import DefaultMQProducer, Message

PRODUCER_GROUP = "TimerMessageProducerGroup"
DEFAULT_NAMESRVADDR = "127.0.0.1:9876"
TOPIC = "TimerTopic"


def main() -> None:
    # Instantiate a producer to send scheduled messages
    producer = DefaultMQProducer(PRODUCER_GROUP)

    # The address of the name servers
    producer.setNamesrvAddr(DEFAULT_NAMESRVADDR)

    # Launch producer
    producer.start()
    total_messages_to_send = 10
    for i in range(total_messages_to_send):
        message = Message(TOPIC, f"Hello scheduled message {i}".encode())
        # The three ways to ask for ten seconds:
        # message.setDelayTimeSec(10)
        # message.setDelayTimeMs(10_000)
        message.setDeliverTimeMs(int(time() * 1000) + 10_000)
        # Send the message
        result = producer.send(message)
        print(result)

    # Shutdown producer after use.
    producer.shutdown()


if __name__ == "__main__":
    main()
