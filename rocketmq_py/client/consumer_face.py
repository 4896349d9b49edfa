"""What the client instance needs to know about a consumer.

The seam between `ClientInstance` and the consumers' room: heartbeats, rebalance, offsets and broker
requests go through it. Must not know either side's insides.
"""

from typing import Protocol

from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.command import RemotingCommand


class ConsumerFace(Protocol):
    """What the instance needs to know about a consumer. Called from background threads."""

    @property
    def group(self) -> str:
        """Consumer group."""

    @property
    def consume_type(self) -> str:
        """``CONSUME_PASSIVELY`` (push) or ``CONSUME_ACTIVELY`` (pull)."""

    @property
    def message_model(self) -> str:
        """``CLUSTERING`` or ``BROADCASTING``."""

    @property
    def consume_from_where(self) -> str:
        """``CONSUME_FROM_LAST_OFFSET`` and so on."""

    def subscriptions(self) -> list[SubscriptionData]:
        """Return what the group subscribes, retry topic included; goes into every heartbeat."""

    def subscribes(self, topic: str) -> bool:
        """Say whether the group subscribes a topic."""

    def rebalance(self) -> None:
        """Work out the own queues again; may block for remote calls."""

    def connection_lost(self, address: str) -> None:
        """Note that a connection has ended: its broker may have started anew. Must not block."""

    def persist_offsets(self) -> None:
        """Write offsets to the broker; every ``persist_consumer_offset_interval``."""

    def handle_broker_request(self, command: RemotingCommand) -> RemotingCommand | None:
        """Answer a broker's request to this group (220, 221, 307, 309); None: not supported."""

    def told(self) -> str | None:
        """Say what is still being worked on, None when it is idle."""

    def hasten(self) -> None:
        """Do at once, in background, what only waits for its time."""
