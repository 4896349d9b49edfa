"""Messages that are seen when the sender's own work succeeded: the Java program, ported.

    NAMESRV_ADDR=127.0.0.1:9876 .venv/bin/python examples/java_spelling/transaction_messages.py

The listener, which the Java page leaves out, decides by the number of the message: committed,
rolled back, or asked for later. A producer must be alive when the broker asks.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import rocketmq_py
from compat.java import (
    LocalTransactionState,
    Message,
    MessageExt,
    MQClientException,
    TransactionListener,
    TransactionMQProducer,
)


class TransactionListenerImpl(TransactionListener):
    def __init__(self) -> None:
        self.transaction_index = 0

    def executeLocalTransaction(self, msg: rocketmq_py.Message, arg: Any) -> LocalTransactionState:
        self.transaction_index += 1
        states = [
            LocalTransactionState.UNKNOW,
            LocalTransactionState.COMMIT_MESSAGE,
            LocalTransactionState.ROLLBACK_MESSAGE,
        ]
        return states[self.transaction_index % 3]

    def checkLocalTransaction(self, msg: MessageExt) -> LocalTransactionState:
        print(f"asked about {msg.getKeys()}")
        return LocalTransactionState.COMMIT_MESSAGE


def main() -> TransactionMQProducer:
    transaction_listener = TransactionListenerImpl()
    producer = TransactionMQProducer("my_group_name")
    executor_service = ThreadPoolExecutor(5)
    producer.setExecutorService(executor_service)
    producer.setTransactionListener(transaction_listener)
    producer.start()
    tags = ["TagA", "TagB", "TagC", "TagD", "TagE"]
    for i in range(10):
        try:
            msg = Message(
                "TopicTest1234", tags[i % len(tags)], f"KEY{i}", f"Hello RocketMQ {i}".encode()
            )
            send_result = producer.sendMessageInTransaction(msg, None)
            print(send_result)
        except MQClientException as error:
            print(error)
    return producer


if __name__ == "__main__":
    with main():
        input("Enter ends it; the broker asks about KEY2, KEY5 and KEY8 after a minute\n")
