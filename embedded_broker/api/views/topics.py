"""``broker.topics``: the topics of a broker and how much is in them.

Answers: what a test sees of topics, and how it makes one. Must not know: messages. Every look
enters the door and holds it for at most a few milliseconds. Read on:
``embedded_broker/tables/topics/table.py`` for the table behind, ``messages.py`` for what is in a
topic.
"""

from collections.abc import Iterator

from embedded_broker.api.views.lookup import PartsSource, View, find_topic, told
from embedded_broker.lifecycle.arguments import MessageType, QueueType, TopicSpec
from embedded_broker.lifecycle.parts import BrokerParts


class TopicView(View):
    """One topic: its queues and how much is in them."""

    def __init__(self, parts: PartsSource, name: str) -> None:
        super().__init__(parts)
        self.name = name

    def __repr__(self) -> str:
        return told(
            f"topic {self.name}", lambda: f": {self.queues} queues, {self.count()} messages"
        )

    @property
    def queues(self) -> int:
        """How many queues a producer may write to."""
        with self._look() as parts:
            return find_topic(parts, self.name).write_queue_nums

    def max_offset(self, queue: int = 0) -> int:
        """Return the offset that the next message of a queue gets."""
        with self._look() as parts:
            find_topic(parts, self.name)
            return parts.store.max_offset(self.name, queue)

    def count(self) -> int:
        """Count the messages that became visible in the topic since it was created."""
        with self._look() as parts:
            return delivered(parts, self.name)


class TopicsView(View):
    """``broker.topics``: create, look up and list topics."""

    def __repr__(self) -> str:
        return told("topics", lambda: f" {', '.join(self.names()) or 'none'}")

    def __getitem__(self, name: str) -> TopicView:
        with self._look() as parts:
            find_topic(parts, name)
        return TopicView(self._parts, name)

    def __contains__(self, name: object) -> bool:
        with self._look() as parts:
            return name in parts.tables.topics

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def create(
        self,
        name: str,
        *,
        queues: int = 4,
        message_type: MessageType | None = None,
        queue_type: QueueType | None = None,
    ) -> TopicView:
        """Create a topic, or change an existing one. When this returns, clients find it."""
        parts = self._parts()
        spec = TopicSpec(name, queues, message_type, queue_type)
        spec.check(parts.profile, parts.config)
        with parts.door:
            spec.create(parts.administration.settings)
        return TopicView(self._parts, name)

    def names(self) -> list[str]:
        """Return the topics that were created, in that order, without those of every broker."""
        with self._look() as parts:
            return parts.tables.topics.created()


def delivered(parts: BrokerParts, topic: str) -> int:
    """Count what became visible in a topic since its creation; 0 when unknown. Under the door."""
    config = parts.tables.topics.get(topic)
    if config is None:
        return 0
    queues = max(config.read_queue_nums, config.write_queue_nums)
    return sum(parts.store.max_offset(topic, queue_id) for queue_id in range(queues))
