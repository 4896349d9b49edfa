"""What the tests of 5.0 clients share: an embedded broker with a clock, and clients on it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from compat.v5 import (
    ClientConfiguration,
    FilterExpression,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
)
from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.codes import RequestCode

GROUP = "GID-v5"


class Bench:
    """A broker and what is started on it."""

    def __init__(self, ends: ExitStack) -> None:
        self._ends = ends
        self.broker = ends.enter_context(
            EmbeddedBroker(
                clock=VirtualClock(), topics=["T", "U"], config={"recallMessageEnable": True}
            )
        )
        self.configuration = ClientConfiguration(self.broker.namesrv_addr)

    def producer(self, *topics: str, **more: Any) -> Producer:
        return self._ends.enter_context(Producer(self.configuration, topics, **more))

    def simple(self, *topics: str, await_duration: float = 0, **more: Any) -> SimpleConsumer:
        subscription = dict.fromkeys(topics, FilterExpression.SUB_ALL)
        made = SimpleConsumer(self.configuration, GROUP, subscription, await_duration, **more)
        return self._ends.enter_context(made)

    def push(self, listener: MessageListener, *topics: str, **more: Any) -> PushConsumer:
        subscription = dict.fromkeys(topics or ("T",), FilterExpression.SUB_ALL)
        made = PushConsumer(self.configuration, GROUP, listener, subscription, **more)
        return self._ends.enter_context(made)

    def requests(self, code: RequestCode) -> int:
        return len(self.broker.journal.requests(code=code))
