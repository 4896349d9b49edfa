"""Idleness of clients: whether those of a broker have anything left to do.

Answers: what somebody still works on, in words that name group, message and client. A client of
this process is asked by itself. A consumer group over TCP is judged by what the broker sees: its
pulls are parked and nothing that was handed out is uncommitted. Of every group: no message waits
that it was not handed. A consumer that subscribes to a topic which has just been created is not
here yet, and counts as busy until it is. Must not know: who waits for that. Read on:
``embedded_broker/clocks/settle.py`` for the wait, ``embedded_broker/tables/offsets/deliveries.py``
for what was handed out.
"""

from collections.abc import Iterator, Sequence

from attrs import define, field

from embedded_broker.door import Door
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.namesrv.name_server import NameServer
from embedded_broker.namesrv.seekers import Seeker
from embedded_broker.remoting.inproc import LocalClients
from embedded_broker.tables.consumers.registry import ConsumerGroup
from rocketmq_py.protocol.bodies.heartbeat import CONSUME_PASSIVELY
from rocketmq_py.protocol.codes import PERM_READ
from rocketmq_py.protocol.names import is_group_topic


@define(eq=False)
class Crashed:
    """A broker that crashed and was not started again, as ``settle`` sees it; a ``Resident``."""

    _name: str
    door: Door = field(factory=Door, init=False)
    is_down: bool = field(default=True, init=False)

    def busy(self, groups: frozenset[str] | None) -> Sequence[str]:
        """Say that nobody can be idle here."""
        del groups
        return [f"broker {self._name} crashed: call restart()"]

    def notes(self, groups: frozenset[str] | None) -> Sequence[str]:
        """Say nothing more."""
        del groups
        return ()

    def hasten(self) -> None:
        """Nobody is here."""


@define(eq=False)
class Idleness:
    """One broker as ``settle`` sees it; a ``Resident``. ``clients`` are those of this process."""

    _parts: BrokerParts
    _clients: LocalClients
    _namesrv: NameServer
    is_down: bool = field(default=False, init=False)

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
            names = self._parts.tables.consumers.groups()
            left_out = self._left_out(groups)
        for name in names if groups is None else groups.intersection(names):
            with self._parts.door.quiet:  # one group at a time: there may be many
                live = self._parts.tables.consumers.get(name)
                if live is not None:
                    found += self._of_group(live)
        found += (told for told, exists in self._seekers(groups) if exists)
        return [*found, *self._clients.busy(left_out)]

    def notes(self, groups: frozenset[str] | None) -> Sequence[str]:
        """Say what may be a mistake although nobody is busy with it. Outside the door."""
        found = [told for told, exists in self._seekers(groups) if not exists]
        with self._parts.door.quiet:
            names = self._parts.tables.consumers.groups()
            for name in names if groups is None else groups.intersection(names):
                live = self._parts.tables.consumers.get(name)
                wanted = None if live is None else live.disagreement()
                if wanted is not None:
                    found.append(
                        f"the members of group {name} do not subscribe to the same: {wanted}. "
                        "Each gets its share of the queues of every topic, also of topics that it "
                        "does not read: give them different groups, or the same subscriptions"
                    )
        return found

    def _seekers(self, groups: frozenset[str] | None) -> Iterator[tuple[str, bool]]:
        """Tell of consumers that lack the route of a topic, and whether there is one now."""
        namesrv = self._namesrv
        with self._parts.door.quiet:
            existing = namesrv.routes.holders()
            seekers = list(namesrv.seekers.waiting())
            joined = [one for one in seekers if self._has_joined(one)]
            for one in joined:
                namesrv.seekers.forget(one)
        lacks = [
            (", ".join(sorted(one.groups)), "{}:{}".format(*one.peer.remote[:2]), one.topic)
            for one in seekers
            if one not in joined and (groups is None or one.groups & groups)
        ]
        lacks += [
            (group, name, topic)
            for name, group, topic in self._clients.lacks(existing)
            if groups is None or group in groups
        ]
        for group, client, topic in lacks:
            if topic in existing:
                why = "the topic is new, or a broker came or left"
                yield f"{group}: has no queue of {topic} yet: {why} (client {client})", True
            elif not is_group_topic(topic):  # those come with the first message of theirs
                yield f"{group}: subscribes to {topic}, which does not exist ({client})", False

    def hasten(self) -> None:
        """Let clients of this process do at once what only waits for its time. Outside the door.

        So those ask again for a route that have none, or an old one, of a topic that exists.
        """
        with self._parts.door.quiet:
            existing = self._namesrv.routes.holders()
        self._clients.hasten(existing)

    def _has_joined(self, seeker: Seeker) -> bool:
        """Whether a group of the consumer subscribes to the topic by heartbeat. Under the door."""
        found = (self._parts.tables.consumers.get(group) for group in seeker.groups)
        return any(live is not None and seeker.topic in live.subscriptions for live in found)

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
        for name in () if groups is None else self._parts.tables.consumers.groups():
            live = self._parts.tables.consumers.get(name)
            if live is not None:
                clients = wanted if groups is None or name in groups else left_out
                clients.update(live.client_ids())
        return left_out - wanted

    def _of_group(self, live: ConsumerGroup) -> Iterator[str]:
        remote = any(member.connection.mailbox is None for member in live.members.values())
        steady = any(one.asks_always for one in live.members)
        clients = ", ".join(dict.fromkeys(live.client_ids()))
        popped = self._parts.pop.revive.in_hand(live.name) if remote else ()
        for topic, queue_id, offset in popped:
            message = self._message(topic, queue_id, offset)
            told = f"{message} of {topic} queue {queue_id} is popped but not acked"
            yield f"{live.name}: {told} (client {clients})"
        pushed = remote and live.consume_type == CONSUME_PASSIVELY
        for topic in live.wanted_topics():
            config = self._parts.tables.topics.get(topic)
            if config is None:
                continue
            ends = [
                self._parts.store.max_offset(topic, one) for one in range(config.read_queue_nums)
            ]
            if pushed and config.perm & PERM_READ and not any(ends):
                yield from self._outside(live.name, topic, len(ends), clients)
            for queue_id, end in enumerate(ends):
                if end == 0:
                    continue
                reason = self._unread(live.name, topic, queue_id, end)
                if reason is None and remote and steady and not live.is_broadcasting:
                    reason = self._unfinished(live.name, topic, queue_id)
                if reason is not None:
                    yield f"{live.name}: {reason} (client {clients})"

    def _unread(self, group: str, topic: str, queue_id: int, end: int) -> str | None:
        """Say what the group was not handed yet."""
        reached = self._parts.tables.deliveries.next_offset(group, topic, queue_id)
        if reached is None:
            reached = max(
                self._parts.tables.offsets.query(group, topic, queue_id),
                self._parts.store.min_offset(topic, queue_id),
            )
        if reached >= end:
            return None
        waiters = self._parts.consume.waiters
        if waiters.is_waiting(group, topic, queue_id) and not waiters.is_waking:
            return None  # what the group wants would have woken it: its tags leave the others out
        message = self._message(topic, queue_id, reached)
        return (
            f"{end - reached} of {topic} queue {queue_id} are not handed out yet, first {message}"
        )

    def _outside(self, group: str, topic: str, queues: int, clients: str) -> Iterator[str]:
        """Say that a group has not begun with an empty topic: what comes would find nobody."""
        is_waiting, pulled = self._parts.consume.waiters.is_waiting, self._parts.tables.deliveries
        for queue_id in range(queues):
            if is_waiting(group, topic, queue_id):
                return
            if pulled.next_offset(group, topic, queue_id) is not None:
                return
        yield f"{group}: no pull waits at any queue of {topic} yet (client {clients})"

    def _unfinished(self, group: str, topic: str, queue_id: int) -> str | None:
        """Say what clients that cannot be asked were handed and have not committed."""
        if not self._parts.consume.waiters.is_waiting(group, topic, queue_id):
            return f"no pull waits at {topic} queue {queue_id}"
        handed = self._parts.tables.deliveries.handed_end(group, topic, queue_id)
        committed = max(self._parts.tables.offsets.query(group, topic, queue_id), 0)
        if handed is None or committed >= handed:
            return None
        message = self._message(topic, queue_id, committed)
        return f"{message} of {topic} queue {queue_id} is handed out but not committed"

    def _message(self, topic: str, queue_id: int, offset: int) -> str:
        record = self._parts.store.message(topic, queue_id, offset)
        return f"the message at {offset}" if record is None else f"message {record.msg_id}"
