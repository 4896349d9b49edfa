"""Messages of an order go to one queue, by a selector: the Java program about order, ported.

    NAMESRV_ADDR=127.0.0.1:9876 .venv/bin/python examples/java_spelling/ordered_messages.py

The Java program names no name server, so the environment does.
"""

from typing import Any

import rocketmq_py
from compat.java import DefaultMQProducer, Message, MessageQueue, MessageQueueSelector


class ByOrder(MessageQueueSelector):
    def select(self, mqs: list[MessageQueue], msg: rocketmq_py.Message, arg: Any) -> MessageQueue:
        order_id: int = arg
        index = order_id % len(mqs)
        return mqs[index]


def main() -> None:
    producer = DefaultMQProducer("please_rename_unique_group_name")
    producer.start()
    for i in range(100):
        order_id = i % 10
        msg = Message("Topic-test", "*", f"KEY{i}", f"Hello RocketMQ {i}".encode())
        send_result = producer.send(msg, ByOrder(), order_id)
        print(send_result)
    producer.shutdown()


if __name__ == "__main__":
    main()
