"""Client instances without a consumer or producer, and a group member that does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.pool import acquire_instance
from rocketmq_py.config import ClientConfig
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.transport.inproc import SubscribedRoute


@contextmanager
def started_instance(namesrv_addr: str, **settings: object) -> Iterator[ClientInstance]:
    """Start an instance with these settings, and give it back."""
    config = ClientConfig(namesrv_addr=namesrv_addr, **cast("Any", settings))
    instance = acquire_instance(config)
    instance.start()
    try:
        yield instance
    finally:
        instance.shutdown()


class IdleMember:
    """A member of a group for `ClientInstance.register_consumer`, which only sends heartbeats."""

    consume_type = "CONSUME_POP"
    message_model = "CLUSTERING"
    consume_from_where = "CONSUME_FROM_LAST_OFFSET"

    def __init__(self, group: str, subscription: SubscriptionData) -> None:
        self.group = group
        self._subscription = subscription

    def subscriptions(self) -> list[SubscriptionData]:
        return [self._subscription]

    def subscribes(self, topic: str) -> bool:
        return topic == self._subscription.topic

    def rebalance(self) -> None:
        pass

    def connection_lost(self, address: str) -> None:
        pass

    def persist_offsets(self) -> None:
        pass

    def handle_broker_request(self, command: RemotingCommand) -> RemotingCommand | None:
        del command
        return None

    def told(self) -> str | None:
        return None

    def hasten(self) -> None:
        pass


class AskedClient:
    """A client of this process as a broker asks it; ``busy`` and ``routes`` are what it says."""

    def __init__(self) -> None:
        self.busy: str | None = None
        self.routes: list[SubscribedRoute] = []
        self.hastened = 0
        self.looked = 0

    def told(self) -> str | None:
        return self.busy

    def hasten(self) -> None:
        self.hastened += 1

    def subscribed_routes(self) -> list[SubscribedRoute]:
        return self.routes

    def look_at_routes(self) -> None:
        self.looked += 1
