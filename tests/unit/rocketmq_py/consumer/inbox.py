"""A listener that remembers what it got and answers what the test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQPushConsumer,
    MessageExt,
)

DONE = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER

Answer = Callable[[MessageExt], object]


class Inbox:
    def __init__(self, answer: Answer = lambda _message: DONE) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self.messages: list[MessageExt] = []

    def __call__(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        with self._lock:
            self.messages.extend(messages)
        results = [self._answer(message) for message in messages]
        return results[-1]  # type: ignore[return-value] # a test may answer nonsense

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


def consumer(
    group: str, namesrv_addr: str, inbox: Inbox, subscriptions: dict[str, str]
) -> DefaultMQPushConsumer:
    made = DefaultMQPushConsumer(group, namesrv_addr=namesrv_addr)
    for topic, expression in subscriptions.items():
        made.subscribe(topic, expression)
    made.register_message_listener(inbox)
    return made
