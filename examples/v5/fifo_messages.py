"""Messages of one group are handled one after the other, those of others meanwhile.

python examples/v5/fifo_messages.py 127.0.0.1:9876 Orders OrderGroup
"""

from __future__ import annotations

import sys
import threading

from compat.v5 import (
    ClientConfiguration,
    ConsumeResult,
    FilterExpression,
    Message,
    MessageListener,
    MessageView,
    Producer,
    PushConsumer,
)

STEPS = ("created", "paid", "shipped")
ORDERS = ("order-1", "order-2", "order-3")


class Follower(MessageListener):
    """Notes the steps of each order."""

    def __init__(self) -> None:
        self.steps: dict[str, list[str]] = {order: [] for order in ORDERS}
        self.complete = threading.Event()
        self._lock = threading.Lock()

    def consume(self, message: MessageView) -> ConsumeResult:
        """Note a step; listeners of several orders run at a time."""
        with self._lock:
            self.steps[str(message.message_group)].append(message.body.decode())
            if all(len(steps) == len(STEPS) for steps in self.steps.values()):
                self.complete.set()
        return ConsumeResult.SUCCESS


def main(name_server: str, topic: str, group: str) -> int:
    """Send the steps of three orders, and follow them."""
    configuration, follower = ClientConfiguration(name_server), Follower()
    with Producer(configuration, (topic,)) as producer:
        for step in STEPS:
            for order in ORDERS:
                message = Message()
                message.topic = topic
                message.body = step.encode()
                message.message_group = order
                producer.send(message)
    subscription = {topic: FilterExpression()}
    with PushConsumer(configuration, group, follower, subscription, fifo=True):
        follower.complete.wait()
    for order, steps in follower.steps.items():
        print(f"{order}: {', '.join(steps)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
