"""A message that waits for delay level 3, ten seconds: the Java program about levels, ported.

.venv/bin/python examples/java_spelling/delay_level.py
"""

from compat.java import DefaultMQProducer, Message

NAMESRV_ADDR = "localhost:9876"


def main() -> None:
    producer = DefaultMQProducer("arch-rocketmq")
    producer.setNamesrvAddr(NAMESRV_ADDR)
    producer.start()
    try:
        msg = Message("mq-test4", "*", b"Hello RocketMQ")
        msg.setDelayTimeLevel(3)  # ten seconds
        send_result = producer.send(msg)
        print(send_result)
    finally:
        producer.shutdown()


if __name__ == "__main__":
    main()
