"""``broker.messages``: what is stored.

Answers: which messages became visible in a topic, and which one has an id or a key. Must not
know: connections; every look enters the door and holds it for at most a few milliseconds. Read on:
``embedded_broker/core/queries.py`` for how messages are found, ``trace.py`` for the life of a
message, ``timers.py`` for what still waits.
"""

from collections.abc import Iterable
from datetime import datetime

from attrs import field, frozen

from embedded_broker.api.views.bodies import Bodies
from embedded_broker.api.views.lookup import (
    HasMessageId,
    View,
    born_at,
    check_topic,
    find_topic,
    id_of,
    not_found,
    shown,
    told,
)
from embedded_broker.api.views.topics import TopicsView
from embedded_broker.api.views.trace import MessageTrace, trace, trace_journeys
from embedded_broker.clocks.instants import instant
from embedded_broker.errors import MessageNotFound
from embedded_broker.lifecycle.parts import BrokerParts
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.properties import Prop


@frozen(kw_only=True)
class StoredMessage:
    """One message in a topic, as a consumer would get it.

    Both times are those of the broker's clock. What a client wrote is wall time; with a
    ``VirtualClock``, ``born_at`` is what this clock showed then. A time that no calendar has is
    shown as the first or the last time that can be shown, of the years 1 and 9999.
    """

    topic: str
    queue_id: int
    offset: int
    body: bytes = field(repr=shown)
    tags: str | None
    keys: tuple[str, ...]
    properties: dict[str, str] = field(repr=False)
    msg_id: str
    born_at: datetime
    stored_at: datetime


@frozen(kw_only=True)
class MessagePage:
    """How many messages there are to see, and a page of them in the order of their storing."""

    count: int
    messages: tuple[StoredMessage, ...]


class MessagesView(View):
    """``broker.messages``: what is stored."""

    def __repr__(self) -> str:
        return told("messages", lambda: f": {self._counts()}")

    def _counts(self) -> str:
        """Say how many became visible in each topic that somebody created."""
        topics = TopicsView(self._parts)
        return ", ".join(f"{name} {topics[name].count()}" for name in topics) or "none"

    def in_topic(self, topic: str, *, bodies: Bodies | None = None) -> list[StoredMessage]:
        """Return the visible messages of a topic in the order in which they were stored.

        ``bodies`` is how much the compressed ones may become: the broker's option
        ``decompressedTotalMaxBytes`` if nothing is given. Raises ``BodyTooLargeError`` beyond that;
        ``page`` gives some of the messages.
        """
        return self._in_topic(topic, 0, None, bodies)[1]

    def page(
        self,
        topic: str,
        *,
        key: str | None = None,
        skip: int = 0,
        limit: int = 100,
        bodies: Bodies | None = None,
    ) -> MessagePage:
        """Count the visible messages of a topic, or those with a key, and return some of them.

        Of those in the order in which they were stored, ``skip`` are left out, and at most
        ``limit`` are returned. Only their bodies are decompressed. ``bodies`` as for ``in_topic``.
        """
        if key is None:
            count, messages = self._in_topic(topic, skip, skip + limit, bodies)
        else:
            count, messages = self._with_key(topic, key, skip, skip + limit, bodies)
        return MessagePage(count=count, messages=tuple(messages))

    def _in_topic(
        self, topic: str, begin: int, end: int | None, bodies: Bodies | None
    ) -> tuple[int, list[StoredMessage]]:
        with self._look() as parts:
            config = find_topic(parts, topic)
            queues = max(config.read_queue_nums, config.write_queue_nums)
        count, records = parts.queries.of_topic(topic, queues, begin, end)
        return count, _stored(parts, records, bodies)

    def _with_key(
        self, topic: str, key: str, begin: int, end: int | None, bodies: Bodies | None
    ) -> tuple[int, list[StoredMessage]]:
        with self._look() as parts:
            find_topic(parts, topic)
        records = parts.queries.with_key(topic, key)
        return len(records), _stored(parts, records[begin:end], bodies)

    def by_id(
        self,
        message: str | HasMessageId,
        *,
        topic: str | None = None,
        bodies: Bodies | None = None,
    ) -> StoredMessage:
        """Return the message with an id: a unique id, an offset id, or anything with ``msg_id``.

        An offset id names one record, which is returned as it is stored. A unique id stays the same
        from the send to the last redelivery: then the message in its topic is returned, or the
        newest one if the id was sent twice. While the message waits for its time, the waiting
        record is returned, in the topic of timers or levels. ``topic`` chooses between messages
        with the same id. Raises ``MessageNotFound``, ``KeyError`` for an unknown topic. ``bodies``
        as for ``in_topic``.
        """
        parts, key = self._parts(), id_of(message)
        bodies = bodies or Bodies.of_broker(parts)
        named = parts.queries.named(key)
        if named is not None:
            return _stored_message(parts, named, bodies)
        _, copies, _ = trace_journeys(parts, key)
        journeys = [one for one in copies.sent or copies.again if topic in {None, one.topic}]
        arrived = [one for one in journeys if one.arrived is not None] or journeys
        if arrived:
            return _stored_message(parts, arrived[-1].newest, bodies)
        if copies.half is not None and topic is None:
            return _stored_message(parts, copies.half, bodies)
        check_topic(parts, topic)
        raise not_found(key, topic=topic)

    def by_key(self, topic: str, key: str) -> list[StoredMessage]:
        """Return the visible messages of a topic that have ``key`` as a key or as unique id.

        They come in the order in which they were stored. A message that still waits for its time is
        not found, because it is not in its topic yet; see ``broker.timers.pending``. Raises
        ``BodyTooLargeError`` as ``in_topic`` does.
        """
        return self._with_key(topic, key, 0, None, None)[1]

    def trace(self, message: str | HasMessageId, *, topic: str | None = None) -> MessageTrace:
        """Tell the life of a message: its state and its times, in general and for each group.

        Found by a unique id, an offset id, or anything with ``msg_id``; ``topic`` chooses between
        messages with the same id. It works for timers, levels and retries that wait, and for
        delivered messages. A message that retention has removed has the state DELETED, as long as
        the index knows it. Raises ``MessageNotFound``, ``KeyError`` for an unknown topic.
        """
        parts = self._parts()
        try:
            return trace(parts, id_of(message), topic)
        except MessageNotFound:
            check_topic(parts, topic)
            raise


def _stored(
    parts: BrokerParts, records: Iterable[MessageRecord], bodies: Bodies | None
) -> list[StoredMessage]:
    bodies = bodies or Bodies.of_broker(parts)
    return [_stored_message(parts, record, bodies) for record in records]


def _stored_message(parts: BrokerParts, record: MessageRecord, bodies: Bodies) -> StoredMessage:
    """Return what a test sees of a stored record."""
    properties = dict(record.properties)
    return StoredMessage(
        topic=record.topic,
        queue_id=record.queue_id,
        offset=record.queue_offset,
        body=bodies.unpack(record),
        tags=properties.get(Prop.TAGS),
        keys=tuple(properties.get(Prop.KEYS, "").split()),
        properties=properties,
        msg_id=record.msg_id,
        born_at=born_at(parts, record),
        stored_at=instant(record.store_timestamp),
    )
