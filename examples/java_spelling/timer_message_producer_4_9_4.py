"""Delays by user properties, as clients before 5.0 ask for them: Java's program for 4.9.4, ported.

.venv/bin/python examples/java_spelling/timer_message_producer_4_9_4.py
"""

from time import sleep, time
from traceback import print_exc

from compat.java import DefaultMQProducer, Message

PRODUCER_GROUP = "TimerMessageProducerGroup"
DEFAULT_NAMESRVADDR = "127.0.0.1:9876"
TOPIC = "TimerTopic"


def main(total_messages_to_send: int = 10_000) -> None:
    # Instantiate a producer to send scheduled messages
    producer = DefaultMQProducer(PRODUCER_GROUP)

    # The address of the name servers
    producer.setNamesrvAddr(DEFAULT_NAMESRVADDR)
    producer.setSendMsgTimeout(30000)

    # Launch producer
    start = time()
    producer.start()
    print(f"start the producer :{int((time() - start) * 1000)}")
    for i in range(total_messages_to_send):
        try:
            message = Message(TOPIC, f"Hello scheduled message {i}".encode())

            # The client is an old one, so properties are set:
            # 1. ten seconds later
            # message.putUserProperty("TIMER_DELAY_SEC", "10")
            # 2. 10,000 ms later
            # message.putUserProperty("TIMER_DELAY_MS", "10000")
            # 3. at an instant
            message.putUserProperty("__STARTDELIVERTIME", str(int(time() * 1000) + 10_000))

            # Send the message
            result = producer.send(message)
            print(result)
        except Exception:  # noqa: BLE001 - as the Java program does
            print_exc()
            sleep(1)

    # Shutdown producer after use.
    producer.shutdown()


if __name__ == "__main__":
    main()
