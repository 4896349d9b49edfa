"""``broker.groups``: who consumes, how far each group has come, and what it could not handle.

Answers: members, lag, offsets, retries and dead letters of a consumer group, and moves it to
another place. Must not know: how consumers are told (``core/administration/offsets.py``).
Every look enters the door and holds it for at most a few milliseconds. Read on:
``tables/consumers/registry.py``, ``tables/offsets/`` for the numbers behind.
"""

from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches
from typing import Literal

from attrs import frozen

from embedded_broker.api.views.bodies import Bodies
from embedded_broker.api.views.lookup import PartsSource, View, find_topic, told
from embedded_broker.api.views.messages import MessagesView, StoredMessage
from embedded_broker.api.views.retries import Retry, waiting_retries
from embedded_broker.clocks.instants import epoch_ms
from embedded_broker.clocks.timeline import Budget
from embedded_broker.core.administration.offsets import GroupOffset
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.store.pull import is_wanted
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import dlq_topic


@frozen(kw_only=True)
class GroupMember:
    """One connected consumer; ``language`` and ``version`` are what its heartbeat said."""

    client_id: str
    address: str
    language: str
    version: int


class GroupView(View):
    """One consumer group."""

    def __init__(self, parts: PartsSource, name: str) -> None:
        super().__init__(parts)
        self.name = name

    def __repr__(self) -> str:
        return told(
            f"group {self.name}", lambda: f": {len(self.members)} members, lag {self.lag()}"
        )

    @property
    def members(self) -> tuple[GroupMember, ...]:
        """The connected consumers, in order of arrival."""
        with self._look() as parts:
            _check_group(parts, self.name)
            return members_of(parts, self.name)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it subscribes to, pulls from or has committed, and its retry topic."""
        with self._look() as parts:
            _check_group(parts, self.name)
            return parts.administration.offsets.topics_of(self.name)

    def lag(self, *, topic: str | None = None) -> int:
        """Count the messages that are not committed yet, in all queues or those of one topic.

        This is the maximum offset minus the committed offset, whatever tags the group wants. In a
        queue without a commit it counts from where the group began to pull, or from the oldest
        message. A broadcasting group commits nothing to the broker; use ``unread`` for it.
        """
        return sum(one.lag for one in self.offsets(topic=topic))

    def unread(self, *, topic: str | None = None) -> int:
        """Count the messages that were not handed out yet, in all queues or those of a topic.

        While the group is connected, messages that its tags filter out do not count. After a
        restart of the broker the count begins at the committed offsets.
        """
        parts = self._parts()
        return sum(_count_unread(parts, self.name, one) for one in self.offsets(topic=topic))

    def offsets(self, *, topic: str | None = None) -> list[GroupOffset]:
        """Return the group's place in every queue of its topics, or of one topic."""
        with self._look() as parts:
            _check_group(parts, self.name)
            if topic is not None:
                find_topic(parts, topic)
            topics = (
                parts.administration.offsets.topics_of(self.name) if topic is None else (topic,)
            )
            return [
                parts.administration.offsets.place(self.name, name, queue_id)
                for name in topics
                for queue_id in parts.administration.offsets.queues(name)
            ]

    def reset(
        self,
        *,
        topic: str,
        to: datetime | Literal["earliest", "latest"] | int,
        queue: int | None = None,
    ) -> list[GroupOffset]:
        """Move the group to another place in a topic, and return its new places.

        ``to`` is ``"earliest"``, ``"latest"``, an offset that every queue has, or an aware
        datetime: then the group continues with the first message stored at or after it. ``queue``
        limits it to one queue. A 5.x broker tells members with the answer to their next pull, and
        answers a waiting pull at once. A 4.9 broker sends them request 220. Messages that members
        already have are still handled. Raises ``ConfigError`` for a place that does not exist.
        """
        parts = self._parts()
        with parts.door:
            _check_group(parts, self.name)
            find_topic(parts, topic)
            queues = parts.administration.offsets.queues(topic)
            if queue is not None and queue not in queues:
                raise ConfigError("queue", queue, f"0 to {len(queues) - 1}, the queues of {topic}")
            chosen = queues if queue is None else (queue,)
            targets = {queue_id: _target(parts, topic, queue_id, to) for queue_id in chosen}
            parts.administration.offsets.reset(self.name, topic, targets)
            return [
                parts.administration.offsets.place(self.name, topic, queue_id)
                for queue_id in chosen
            ]

    def dead_letters(self, *, bodies: Bodies | None = None) -> list[StoredMessage]:
        """Return the messages that the group gave up, oldest first.

        ``bodies`` is how much the compressed ones may become: ``decompressedTotalMaxBytes`` if
        nothing is given; else ``BodyTooLargeError``. They are the messages of the topic
        ``%DLQ%group``, of which ``broker.messages.page`` gives some.
        """
        with self._look() as parts:
            _check_group(parts, self.name)
            if parts.tables.topics.get(dlq_topic(self.name)) is None:
                return []
        return MessagesView(self._parts).in_topic(dlq_topic(self.name), bodies=bodies)

    def retries(self, *, bodies: Bodies | None = None) -> list[Retry]:
        """Return the messages that the group will get again, in the order of their times.

        These are the retries that wait for their time, and those in the retry topic that are not
        committed. ``bodies`` is how much the compressed ones may become:
        ``decompressedTotalMaxBytes`` if nothing is given; else ``BodyTooLargeError``.
        """
        with self._look() as parts:
            _check_group(parts, self.name)
        return waiting_retries(parts, self.name, bodies or Bodies.of_broker(parts))


class GroupsView(View):
    """``broker.groups``: look up and list consumer groups."""

    def __repr__(self) -> str:
        return told("groups", lambda: f" {', '.join(self.names()) or 'none'}")

    def __getitem__(self, name: str) -> GroupView:
        with self._look() as parts:
            _check_group(parts, name)
        return GroupView(self._parts, name)

    def __contains__(self, name: object) -> bool:
        with self._look() as parts:
            return name in parts.tables.groups or name in parts.administration.offsets.group_names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def names(self) -> list[str]:
        """Return the groups that were used or created, without those that every broker has."""
        with self._look() as parts:
            return parts.administration.offsets.group_names()


def members_of(parts: BrokerParts, group: str) -> tuple[GroupMember, ...]:
    """Give the connected consumers of a group, none for an unknown one. Under the door."""
    live = parts.tables.consumers.get(group)
    if live is None:
        return ()
    return tuple(
        GroupMember(
            client_id=member.client_id,
            address=member.address,
            language=member.language_name,
            version=member.version,
        )
        for member in live.members.values()
    )


def _check_group(parts: BrokerParts, name: str) -> None:
    """Raise ``KeyError`` naming the nearest when there is no such group. Under the door."""
    if name in parts.tables.groups:
        return
    names = parts.administration.offsets.group_names()
    if name not in names:
        close = get_close_matches(name, names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise KeyError(f"no group {name!r}{hint}")


def _count_unread(parts: BrokerParts, group: str, place: GroupOffset) -> int:
    """Count what a group has not got of one queue; outside the door."""
    with parts.door.quiet:
        wanted = parts.consume.wanted_by(group, place.topic)
    if wanted is None:
        return max(place.max_offset - place.next_offset, 0)
    found, offset = 0, place.next_offset
    while offset < place.max_offset:
        with parts.door.quiet:
            queue = parts.store.consume_queue(place.topic, place.queue_id)
            if queue is None:
                break
            budget = Budget()
            for number, entry in queue.iterate(offset, place.max_offset):
                begin, offset = max(number, offset), queue.end_of(number)
                found += is_wanted(wanted, entry, parts.store.log) * (offset - begin)
                if budget.exhausted():
                    break
            else:
                break
    return found


def _target(
    parts: BrokerParts,
    topic: str,
    queue_id: int,
    to: datetime | Literal["earliest", "latest"] | int,
) -> int:
    """Give the offset in one queue that a reset means. Under the door."""
    low, high = parts.store.min_offset(topic, queue_id), parts.store.max_offset(topic, queue_id)
    if to == "earliest":
        return low
    if to == "latest":
        return high
    if isinstance(to, datetime):
        return parts.store.search_offset(topic, queue_id, epoch_ms(to), "LOWER")
    if not isinstance(to, int) or isinstance(to, bool):
        raise ConfigError("to", to, "a datetime, 'earliest', 'latest' or an offset")
    if not low <= to <= high:
        raise ConfigError(
            "to", to, f"an offset from {low} to {high}, which queue {queue_id} of {topic} holds"
        )
    return to
