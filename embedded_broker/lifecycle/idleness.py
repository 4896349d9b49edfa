"""Whether the clients of a broker have anything left to do.

Answers: what somebody still works on, in words that name group, message and client. A client of
this process is asked by itself. A consumer group over TCP is judged by what the broker sees: its
pulls are parked and nothing that was handed out is uncommitted. Of every group: no message waits
that it was not handed. Must not know: who waits for that. Read on:
``embedded_broker/clocks/settle.py`` for the wait, ``embedded_broker/tables/offsets/deliveries.py``
for what was handed out.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from threading import Event
from typing import Protocol

from attrs import define

from embedded_broker.clocks.timeline import DeadlineSource
from embedded_broker.door import Door
from embedded_broker.store.message_store import MessageStore
from embedded_broker.tables.consumers.registry import ConsumerGroup, ConsumerRegistry
from embedded_broker.tables.offsets.deliveries import DeliveryLog
from embedded_broker.tables.offsets.table import OffsetTable
from embedded_broker.tables.topics.table import TopicTable
from rocketmq_py.clock import Clock

__all__ = ["Idleness"]


class Asked(Protocol):
    """The clients of this process; ``embedded_broker.remoting.inproc.LocalClients`` is them."""

    def busy(self, without: Container[str]) -> list[str]:
        """Ask all but those with these client ids; say who is busy with what."""
        ...


@define(eq=False, kw_only=True)
class Idleness:
    """One broker as ``settle`` sees it; a ``Resident``.

    ``sources`` are what fires on the message clock, ``is_waiting`` says whether a pull of a group
    waits for a queue.
    """

    _broker_name: str
    _door: Door
    _clock: Clock
    _sources: Sequence[DeadlineSource]
    _store: MessageStore
    _topics: TopicTable
    _consumers: ConsumerRegistry
    _offsets: OffsetTable
    _deliveries: DeliveryLog
    _is_waiting: Callable[[str, str, int], bool]
    _clients: Asked

    @property
    def changes(self) -> int:
        """Count what has happened in the broker: nothing did while it stays the same."""
        return self._door.entries

    def watch(self, event: Event) -> None:
        """Set ``event`` after every change, until ``unwatch``."""
        self._door.watch(event)

    def unwatch(self, event: Event) -> None:
        """Undo ``watch``."""
        self._door.unwatch(event)

    def busy(self, groups: frozenset[str] | None) -> Sequence[str]:
        """Say what is still going on, for these consumer groups or all. Outside the door."""
        found: list[str] = []
        with self._door.quiet:
            if self._door.delivering:
                found.append("answers are being handed over")
            if self._door.pause.on:
                found.append(f"broker {self._broker_name} is paused: call resume()")
            found += self._due()
            names = self._consumers.groups()
            left_out = self._left_out(groups)
        for name in names if groups is None else groups.intersection(names):
            with self._door.quiet:  # one group at a time: there may be many
                live = self._consumers.get(name)
                if live is not None:
                    found += self._of_group(live)
        return [*found, *self._clients.busy(left_out)]

    def _due(self) -> Iterator[str]:
        """Tell what should have fired already: the thread that fires it is about to."""
        now_ms = self._clock.now_ms
        for source in self._sources:
            head = source.next_deadline()
            if head is not None and head.due_ms <= now_ms:
                yield f"{head.what} is due"

    def _left_out(self, groups: frozenset[str] | None) -> set[str]:
        """Give the clients of this process that are consumers of other groups only."""
        left_out: set[str] = set()
        wanted: set[str] = set()
        for name in () if groups is None else self._consumers.groups():
            live = self._consumers.get(name)
            if live is not None:
                clients = wanted if groups is None or name in groups else left_out
                clients.update(live.client_ids())
        return left_out - wanted

    def _of_group(self, live: ConsumerGroup) -> Iterator[str]:
        remote = any(member.connection.mailbox is None for member in live.members.values())
        clients = ", ".join(dict.fromkeys(live.client_ids()))
        for topic in live.subscriptions:
            config = self._topics.get(topic)
            for queue_id in range(0 if config is None else config.read_queue_nums):
                end = self._store.max_offset(topic, queue_id)
                if end == 0:
                    continue
                reason = self._unread(live.name, topic, queue_id, end)
                if reason is None and remote and not live.is_broadcasting:
                    reason = self._unfinished(live.name, topic, queue_id)
                if reason is not None:
                    yield f"{live.name}: {reason} (client {clients})"

    def _unread(self, group: str, topic: str, queue_id: int, end: int) -> str | None:
        """Say what the group was not handed yet."""
        reached = self._deliveries.next_offset(group, topic, queue_id)
        if reached is None:
            reached = max(
                self._offsets.query(group, topic, queue_id), self._store.min_offset(topic, queue_id)
            )
        if reached >= end:
            return None
        message = self._message(topic, queue_id, reached)
        return (
            f"{end - reached} of {topic} queue {queue_id} are not handed out yet, first {message}"
        )

    def _unfinished(self, group: str, topic: str, queue_id: int) -> str | None:
        """Say what clients that cannot be asked were handed and have not committed."""
        if not self._is_waiting(group, topic, queue_id):
            return f"no pull waits at {topic} queue {queue_id}"
        handed = self._deliveries.handed_end(group, topic, queue_id)
        committed = max(self._offsets.query(group, topic, queue_id), 0)
        if handed is None or committed >= handed:
            return None
        message = self._message(topic, queue_id, committed)
        return f"{message} of {topic} queue {queue_id} is handed out but not committed"

    def _message(self, topic: str, queue_id: int, offset: int) -> str:
        record = self._store.message(topic, queue_id, offset)
        return f"the message at {offset}" if record is None else f"message {record.msg_id}"
