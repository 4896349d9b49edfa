"""What the tests of ONS clients share: listeners and callbacks that remember."""

from __future__ import annotations

import threading
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
from embedded_broker import EmbeddedBroker

PATIENCE = 20.0
ONE_QUEUE = "OneQueue"
"""A topic of the broker, whose messages all lie in one queue."""


def consumer_of(broker: EmbeddedBroker, group: str = "GID_test") -> Consumer:
    properties = Properties()
    properties.put(PropertyKeyConst.GROUP_ID, group)
    properties.put(PropertyKeyConst.NAMESRV_ADDR, broker.namesrv_addr)
    return ONSFactory.createConsumer(properties)


class Box(MessageListener):
    def __init__(self, answer: Callable[[Message], Action] | None = None) -> None:
        super().__init__()
        self.answer = answer or (lambda _message: Action.CommitMessage)
        self.messages: list[Message] = []

    def consume(self, message: Message, context: ConsumeContext) -> Action:
        self.messages.append(message)
        return self.answer(message)


class Outcome(SendCallback):
    def __init__(self) -> None:
        super().__init__()
        self.known = threading.Event()
        self.results: list[SendResult] = []
        self.failures: list[OnExceptionContext] = []

    def on_success(self, result: SendResult) -> None:
        self.results.append(result)
        self.known.set()

    def onException(self, context: OnExceptionContext) -> None:  # noqa: N802
        self.failures.append(context)
        self.known.set()
