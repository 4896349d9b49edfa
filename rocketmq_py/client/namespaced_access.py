"""How queues are read and written whose topics and groups live in a namespace.

`NamespacedQueueAccess` is a `QueueAccess` for bare names: every topic and group is wrapped on its
way out and comes back bare (``NamespaceUtil`` of the original), as in the instances of vendors'
clouds. Must not know what is asked. The rule is in ``rocketmq_py/protocol/names.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Unpack

from attrs import evolve

from rocketmq_py.client.queries import Boundary
from rocketmq_py.client.queue_access import (
    PreparedMessage,
    QueueAccess,
    QueueBounds,
    RawPull,
    RawSend,
    SendOutcome,
)
from rocketmq_py.config import ClientSettings
from rocketmq_py.message import MessageExt, MessageQueue
from rocketmq_py.protocol.names import TOOLS_CONSUMER_GROUP, with_namespace, without_namespace

__all__ = ["NamespacedQueueAccess"]


class NamespacedQueueAccess(QueueAccess):
    """Reads and writes queues of one namespace. Takes and gives bare names of topics and groups.

    Arguments are ``namespace`` and the settings of `QueueAccess`, whose calls and errors it has.
    Texts of errors and stored records show the names on the wire.

    >>> from embedded_broker import EmbeddedBroker
    >>> with EmbeddedBroker(topics=["shop%T"]) as broker:
    ...     with NamespacedQueueAccess("shop", namesrv_addr=broker.namesrv_addr) as access:
    ...         access.topic_names(), access.read_queues("T")[0].topic
    (['T'], 'T')
    """

    def __init__(self, namespace: str, **settings: Unpack[ClientSettings]) -> None:
        super().__init__(**settings)
        self.namespace = namespace

    # --- topics ----------------------------------------------------------------------------

    def topic_names(self) -> list[str]:
        """Ask a name server for the names of the namespace's topics, sorted."""
        names = super().topic_names()
        bare = ((name, without_namespace(self.namespace, name)) for name in names)
        return sorted(inner for name, inner in bare if inner != name)

    def read_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """As `QueueAccess.read_queues`."""
        return self._bare_queues(super().read_queues(self._wire(topic)))

    def write_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """As `QueueAccess.write_queues`."""
        return self._bare_queues(super().write_queues(self._wire(topic)))

    def broker_names(self, topic: str) -> list[str]:
        """As `QueueAccess.broker_names`."""
        return super().broker_names(self._wire(topic))

    # --- offsets ---------------------------------------------------------------------------

    def bounds_at(self, topic: str, broker_name: str) -> dict[MessageQueue, QueueBounds]:
        """As `QueueAccess.bounds_at`."""
        found = super().bounds_at(self._wire(topic), broker_name)
        return {self._bare_queue(queue): one for queue, one in found.items()}

    def max_offset(self, queue: MessageQueue) -> int:
        """As `QueueAccess.max_offset`."""
        return super().max_offset(self._wire_queue(queue))

    def min_offset(self, queue: MessageQueue) -> int:
        """As `QueueAccess.min_offset`."""
        return super().min_offset(self._wire_queue(queue))

    def search_offset(
        self, queue: MessageQueue, timestamp_ms: int, boundary: Boundary = "LOWER"
    ) -> int:
        """As `QueueAccess.search_offset`."""
        return super().search_offset(self._wire_queue(queue), timestamp_ms, boundary)

    def message_at(self, queue: MessageQueue, offset: int) -> MessageExt | None:
        """As `QueueAccess.message_at`."""
        message = super().message_at(queue, offset)
        if message is not None:
            message.topic = without_namespace(self.namespace, message.topic)
        return message

    def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """As `QueueAccess.group_offset`."""
        return super().group_offset(self._wire(group), self._wire_queue(queue))

    def store_group_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """As `QueueAccess.store_group_offset`."""
        super().store_group_offset(self._wire(group), self._wire_queue(queue), offset)

    # --- messages --------------------------------------------------------------------------

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = 32,
        *,
        group: str = TOOLS_CONSUMER_GROUP,
        expression: str = "*",
        expression_type: str = "TAG",
        broker_id: int = 0,
        address: str | None = None,
        timeout_ms: int = 3_000,
    ) -> Future[RawPull]:
        """As `QueueAccess.pull`."""
        return super().pull(
            self._wire_queue(queue),
            offset,
            max_messages,
            group=self._wire(group),
            expression=expression,
            expression_type=expression_type,
            broker_id=broker_id,
            address=address,
            timeout_ms=timeout_ms,
        )

    def send(
        self,
        queue: MessageQueue,
        body: bytes,
        *,
        properties: str = "",
        flag: int = 0,
        sys_flag: int = 0,
        batch: bool = False,
        timeout_ms: int = 3_000,
    ) -> Future[RawSend]:
        """As `QueueAccess.send`."""
        asked = super().send(
            self._wire_queue(queue),
            body,
            properties=properties,
            flag=flag,
            sys_flag=sys_flag,
            batch=batch,
            timeout_ms=timeout_ms,
        )
        return self._bare_send(asked)

    def send_many(
        self,
        messages: Sequence[PreparedMessage],
        told: Callable[[int, SendOutcome], None],
        *,
        timeout_ms: int = 3_000,
    ) -> None:
        """As `QueueAccess.send_many`."""
        wrapped = [evolve(one, queue=self._wire_queue(one.queue)) for one in messages]

        def told_bare(number: int, outcome: SendOutcome) -> None:
            if outcome.stored is not None:
                queue = self._bare_queue(outcome.stored.queue)
                outcome = evolve(outcome, stored=evolve(outcome.stored, queue=queue))
            told(number, outcome)

        super().send_many(wrapped, told_bare, timeout_ms=timeout_ms)

    def recall(self, topic: str, recall_handle: str, *, timeout_ms: int = 3_000) -> Future[str]:
        """As `QueueAccess.recall`."""
        return super().recall(self._wire(topic), recall_handle, timeout_ms=timeout_ms)

    # --- names -----------------------------------------------------------------------------

    def _wire(self, name: str) -> str:
        return with_namespace(self.namespace, name)

    def _wire_queue(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(self._wire(queue.topic), queue.broker_name, queue.queue_id)

    def _bare_queue(self, queue: MessageQueue) -> MessageQueue:
        topic = without_namespace(self.namespace, queue.topic)
        return MessageQueue(topic, queue.broker_name, queue.queue_id)

    def _bare_queues(self, queues: tuple[MessageQueue, ...]) -> tuple[MessageQueue, ...]:
        return tuple(self._bare_queue(queue) for queue in queues)

    def _bare_send(self, asked: Future[RawSend]) -> Future[RawSend]:
        result: Future[RawSend] = Future()

        def arrived(done: Future[RawSend]) -> None:
            error = done.exception()
            if error is not None:
                result.set_exception(error)
            else:
                sent = done.result()
                result.set_result(evolve(sent, queue=self._bare_queue(sent.queue)))

        asked.add_done_callback(arrived)
        return result
