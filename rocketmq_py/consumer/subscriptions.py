"""Which topics does a consumer want, and which of their messages.

`SubscriptionTable` is read by heartbeats, pulls and rebalances while a program subscribes, so it
is replaced, never changed. This module must not know queues. Facts: ``FilterAPI``,
``RebalanceImpl.subscriptionInner``.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from attrs import evolve

from rocketmq_py.clock import Clock

if TYPE_CHECKING:
    from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData


class SubscriptionTable:
    """Subscriptions of one consumer by topic; `clock` numbers their versions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_topic: dict[str, SubscriptionData] = {}

    def put(self, topic: str, expression: str | None, expression_type: str = "TAG") -> None:
        """Subscribe, or replace the subscription; of tags None, "" and ``*`` mean all messages.

        Raises BodyError for an expression that names no tag, and for an empty one of another type.
        """
        # Bodies take 10 ms to import, which a program that only defines a consumer saves.
        from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData

        with self._lock:
            version = self._next_version(topic)
            subscription = SubscriptionData.parse(topic, expression, version, expression_type)
            self._by_topic = {**self._by_topic, topic: subscription}

    def remove(self, topic: str) -> None:
        """Unsubscribe; nothing happens when the topic is not subscribed."""
        with self._lock:
            self._by_topic = {t: s for t, s in self._by_topic.items() if t != topic}

    def raise_version(self, topic: str) -> None:
        """Make the broker look at the subscription again: the topic's queues have changed."""
        with self._lock:
            known = self._by_topic.get(topic)
            if known is not None:
                renewed = evolve(known, sub_version=self._next_version(topic))
                self._by_topic = {**self._by_topic, topic: renewed}

    def get(self, topic: str) -> SubscriptionData | None:
        """Return the topic's subscription."""
        return self._by_topic.get(topic)

    def topics(self) -> list[str]:
        """Return the subscribed topics, the retry topic included."""
        return list(self._by_topic)

    def all(self) -> list[SubscriptionData]:
        """Return all subscriptions, as a heartbeat carries them."""
        return list(self._by_topic.values())

    def _next_version(self, topic: str) -> int:
        known = self._by_topic.get(topic)
        now_ms = self._clock.now_ms
        # A clock that stands still (tests) or goes back must not hide a change.
        return now_ms if known is None else max(now_ms, known.sub_version + 1)
