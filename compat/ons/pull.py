"""The ONS consumer that is asked for messages: partitions are assigned, and polled.

A thin translator over `rocketmq_py.DefaultLitePullConsumer`. Must not know how messages are
fetched. Names as in ``com.aliyun.openservices.ons.api.PullConsumer``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Protocol, TypeAlias

from compat.ons.client import Client, translated
from compat.ons.message import Message, TopicPartition, from_core, partition_of, queue_of
from compat.ons.settings import PULL_CONSUMER, ClientKind, settings_of
from rocketmq_py import DefaultLitePullConsumer, MessageQueue
from rocketmq_py.errors import ONSClientException


class TopicPartitionChangeListener:
    """Learns which partitions a topic has now: override `on_changed`, or pass a callable.

    ``onChanged`` may be overridden instead.
    """

    _on_changed: Callable[[set[TopicPartition]], object] | None = None

    def __init__(self, on_changed: Callable[[set[TopicPartition]], object] | None = None) -> None:
        self._on_changed = on_changed

    def on_changed(self, topic_partitions: set[TopicPartition]) -> None:
        """Take the partitions that there are now, on a thread of the client."""
        if self._on_changed is not None:
            self._on_changed(topic_partitions)

    def onChanged(self, topicPartitions: set[TopicPartition]) -> None:
        """Java's spelling of `on_changed`."""
        self.on_changed(topicPartitions)


class _ChangeListener(Protocol):
    def on_changed(self, topic_partitions: set[TopicPartition], /) -> object: ...


class _JavaChangeListener(Protocol):
    def onChanged(self, topicPartitions: set[TopicPartition], /) -> object: ...


ChangeListenerLike: TypeAlias = (
    TopicPartitionChangeListener
    | _ChangeListener
    | _JavaChangeListener
    | Callable[[set[TopicPartition]], object]
)
"""Everything that `PullConsumer.register_topic_partition_changed_listener` takes."""


class PullConsumer(Client):
    """Gives messages when it is asked; made by `ONSFactory.create_pull_consumer`.

    `assign` partitions that `topic_partitions` names, then `poll`. With the property autoCommit
    (true) each poll commits what the ones before it returned; without, `commit_sync` does. Nothing
    comes again by itself, and there are no dead letters. Failures are `ONSClientException`.
    """

    _KIND: ClassVar[ClientKind] = PULL_CONSUMER

    def _make(self) -> None:
        settings = settings_of(self._KIND, self.properties, self._access)
        self._consumer = DefaultLitePullConsumer(**settings)
        self._consumer.assign(())  # so that it can be assigned queues after its start
        self._is_assigned = False

    @property
    def core(self) -> DefaultLitePullConsumer:
        """The client of the SDK."""
        return self._consumer

    # --- partitions ---------------------------------------------------------------------------

    def topic_partitions(self, topic: str) -> set[TopicPartition]:
        """Return the partitions of a topic; a name server is asked."""
        with translated(f"find the partitions of {topic}"):
            return set(map(partition_of, self._consumer.fetch_message_queues(topic)))

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no others; a further call replaces them."""
        queues = _queues_of(topic_partitions)
        with translated("assign partitions"):
            self._consumer.assign(queues)
        self._is_assigned = True

    def register_topic_partition_changed_listener(
        self, topic: str, callback: ChangeListenerLike
    ) -> None:
        """Call ``callback`` with the partitions of a topic when they have changed.

        The first call tells which there are; then they are looked at every 30 s.
        """
        tell = _on_changed_of(callback)

        def changed(_topic: str, queues: frozenset[MessageQueue]) -> None:
            tell(set(map(partition_of, queues)))

        with translated(f"watch the partitions of {topic}"):
            self._consumer.register_topic_message_queue_change_listener(topic, changed)

    # --- messages -----------------------------------------------------------------------------

    def poll(self, timeout: int | None = None) -> list[Message]:
        """Return messages of one partition; [] when none came within ``timeout`` ms.

        Default: the property pollTimeoutMillis (5000). ONSClientException before `assign`.
        """
        if not self._is_assigned:
            raise ONSClientException("no partitions are assigned: call assign before poll")
        with translated("poll"):
            return [from_core(one) for one in self._consumer.poll(timeout)]

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Go on at an offset, from the first one to the one behind the last."""
        with translated(f"seek in {topic_partition}"):
            self._consumer.seek(queue_of(topic_partition), offset)

    def seek_to_beginning(self, topic_partition: TopicPartition) -> None:
        """Go on at the first offset that can be read."""
        with translated(f"seek in {topic_partition}"):
            self._consumer.seek_to_begin(queue_of(topic_partition))

    def seek_to_end(self, topic_partition: TopicPartition) -> None:
        """Go on behind the last message."""
        with translated(f"seek in {topic_partition}"):
            self._consumer.seek_to_end(queue_of(topic_partition))

    def pause(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Return nothing of these partitions until `resume`."""
        with translated("pause partitions"):
            self._consumer.pause(_queues_of(topic_partitions))

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Return messages of these partitions again."""
        with translated("resume partitions"):
            self._consumer.resume(_queues_of(topic_partitions))

    # --- offsets ------------------------------------------------------------------------------

    def offset_for_timestamp(self, topic_partition: TopicPartition, timestamp: int) -> int:
        """Return the offset of a store time in epoch ms."""
        with translated(f"find an offset of {topic_partition}"):
            return self._consumer.offset_for_timestamp(queue_of(topic_partition), timestamp)

    def committed(self, topic_partition: TopicPartition) -> int | None:
        """Return the committed offset; None where there is none (Java: -1)."""
        with translated(f"find the committed offset of {topic_partition}"):
            return self._consumer.committed(queue_of(topic_partition))

    def commit_sync(self) -> None:
        """Commit what polls have returned; the brokers are told within a moment."""
        with translated("commit"):
            self._consumer.commit()

    # --- Java's spelling ----------------------------------------------------------------------

    def topicPartitions(self, topic: str) -> set[TopicPartition]:
        """Java's spelling of `topic_partitions`."""
        return self.topic_partitions(topic)

    def registerTopicPartitionChangedListener(
        self, topic: str, callback: ChangeListenerLike
    ) -> None:
        """Java's spelling of `register_topic_partition_changed_listener`."""
        self.register_topic_partition_changed_listener(topic, callback)

    def seekToBeginning(self, topicPartition: TopicPartition) -> None:
        """Java's spelling of `seek_to_beginning`."""
        self.seek_to_beginning(topicPartition)

    def seekToEnd(self, topicPartition: TopicPartition) -> None:
        """Java's spelling of `seek_to_end`."""
        self.seek_to_end(topicPartition)

    def offsetForTimestamp(self, topicPartition: TopicPartition, timestamp: int) -> int:
        """Java's spelling of `offset_for_timestamp`."""
        return self.offset_for_timestamp(topicPartition, timestamp)

    def commitSync(self) -> None:
        """Java's spelling of `commit_sync`."""
        self.commit_sync()


def _queues_of(topic_partitions: Iterable[TopicPartition]) -> list[MessageQueue]:
    return [queue_of(one) for one in topic_partitions]


def _on_changed_of(callback: object) -> Callable[[set[TopicPartition]], object]:
    # A name from a foreign program: what it is, is looked at here.
    methods = (getattr(callback, name, None) for name in ("onChanged", "on_changed"))
    for one in (*methods, callback):
        if callable(one) and not isinstance(callback, type):
            found: Callable[..., object] = one
            return found
    raise ONSClientException(
        f"{callback!r:.80} is no listener: pass a callable, or an object with on_changed"
    )
