"""Whether the clients of a broker have anything left to do.

Answers: what somebody still works on, in words that name group, message and client. A client of
this process is asked by itself. A consumer group over TCP is judged by what the broker sees: its
pulls are parked and nothing that was handed out is uncommitted. Of every group: no message waits
that it was not handed. Must not know: who waits for that. Read on:
``embedded_broker/clocks/settle.py`` for the wait, ``embedded_broker/tables/offsets/deliveries.py``
for what was handed out.
"""

from collections.abc import Iterator, Sequence

from attrs import define

from embedded_broker.door import Door
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.inproc import LocalClients
from embedded_broker.tables.consumers.registry import ConsumerGroup

__all__ = ["Idleness"]


@define(eq=False)
class Idleness:
    """One broker as ``settle`` sees it; a ``Resident``. ``clients`` are those of this process."""

    _parts: BrokerParts
    _clients: LocalClients

    @property
    def door(self) -> Door:
        """Where everything that happens in the broker goes through."""
        return self._parts.door

    def busy(self, groups: frozenset[str] | None) -> Sequence[str]:
        """Say what is still going on, for these consumer groups or all. Outside the door."""
        found: list[str] = []
        with self._parts.door.quiet:
            if self._parts.door.delivering:
                found.append("answers are being handed over")
            if self._parts.door.pause.on:
                found.append(f"broker {self._parts.broker_name} is paused: call resume()")
            found += self._due()
            names = self._parts.consumers.groups()
            left_out = self._left_out(groups)
        for name in names if groups is None else groups.intersection(names):
            with self._parts.door.quiet:  # one group at a time: there may be many
                live = self._parts.consumers.get(name)
                if live is not None:
                    found += self._of_group(live)
        return [*found, *self._clients.busy(left_out)]

    def _due(self) -> Iterator[str]:
        """Tell what should have fired already: the thread that fires it is about to."""
        now_ms = self._parts.clock.now_ms
        for source in self._parts.sources:
            head = source.next_deadline()
            if head is not None and head.due_ms <= now_ms:
                yield f"{head.what} is due"

    def _left_out(self, groups: frozenset[str] | None) -> set[str]:
        """Give the clients of this process that are consumers of other groups only."""
        left_out: set[str] = set()
        wanted: set[str] = set()
        for name in () if groups is None else self._parts.consumers.groups():
            live = self._parts.consumers.get(name)
            if live is not None:
                clients = wanted if groups is None or name in groups else left_out
                clients.update(live.client_ids())
        return left_out - wanted

    def _of_group(self, live: ConsumerGroup) -> Iterator[str]:
        remote = any(member.connection.mailbox is None for member in live.members.values())
        clients = ", ".join(dict.fromkeys(live.client_ids()))
        for topic in live.subscriptions:
            config = self._parts.topics.get(topic)
            for queue_id in range(0 if config is None else config.read_queue_nums):
                end = self._parts.store.max_offset(topic, queue_id)
                if end == 0:
                    continue
                reason = self._unread(live.name, topic, queue_id, end)
                if reason is None and remote and not live.is_broadcasting:
                    reason = self._unfinished(live.name, topic, queue_id)
                if reason is not None:
                    yield f"{live.name}: {reason} (client {clients})"

    def _unread(self, group: str, topic: str, queue_id: int, end: int) -> str | None:
        """Say what the group was not handed yet."""
        reached = self._parts.deliveries.next_offset(group, topic, queue_id)
        if reached is None:
            reached = max(
                self._parts.offsets.query(group, topic, queue_id),
                self._parts.store.min_offset(topic, queue_id),
            )
        if reached >= end:
            return None
        message = self._message(topic, queue_id, reached)
        return (
            f"{end - reached} of {topic} queue {queue_id} are not handed out yet, first {message}"
        )

    def _unfinished(self, group: str, topic: str, queue_id: int) -> str | None:
        """Say what clients that cannot be asked were handed and have not committed."""
        if not self._parts.consume.waiters.is_waiting(group, topic, queue_id):
            return f"no pull waits at {topic} queue {queue_id}"
        handed = self._parts.deliveries.handed_end(group, topic, queue_id)
        committed = max(self._parts.offsets.query(group, topic, queue_id), 0)
        if handed is None or committed >= handed:
            return None
        message = self._message(topic, queue_id, committed)
        return f"{message} of {topic} queue {queue_id} is handed out but not committed"

    def _message(self, topic: str, queue_id: int, offset: int) -> str:
        record = self._parts.store.message(topic, queue_id, offset)
        return f"the message at {offset}" if record is None else f"message {record.msg_id}"
