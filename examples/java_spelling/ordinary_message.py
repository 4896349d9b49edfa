"""One message, sent and waited for: the first Java program of a page about sending, ported.

.venv/bin/python examples/java_spelling/ordinary_message.py
"""

from compat.java import DefaultMQProducer, Message

NAMESRV_ADDR = "localhost:9876"


def main() -> None:
    producer = DefaultMQProducer("arch-rocketmq")
    producer.setNamesrvAddr(NAMESRV_ADDR)
    producer.start()
    try:
        msg = Message("mq-test4", "*", "Hello RocketMQ".encode("utf-8"))  # noqa: UP012
        send_result = producer.send(msg)
        print(send_result)
    finally:
        producer.shutdown()


if __name__ == "__main__":
    main()
