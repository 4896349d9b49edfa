"""Registries of clients: members and subscriptions of groups, and who has locked which queue.

State of RocketMQ's ConsumerManager, ConsumerGroupInfo, ProducerManager and RebalanceLockManager.
Members are keyed by connection, as in the original: two sockets with one client id are two members.
Subscriptions belong to the group, not to the member; the last heartbeat decides which topics there
are, the largest subVersion which expression counts. What each member said is kept beside, to tell
of members that disagree. Locks survive the owner's socket. This module
notifies nobody: it says what changed, and `core/administration/clients.py` acts.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, Generic, NamedTuple, Self, TypeVar

from attrs import define, field

from embedded_broker.tables.peer import Peer
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.heartbeat import BROADCASTING, ConsumerData, SubscriptionData
from rocketmq_py.protocol.codes import LanguageCode

logger = get_logger(__name__)

_Live = TypeVar("_Live")

LOCK_LEASE_MS: Final = 60_000
"""How long a lock lives without renewal (rocketmq.broker.rebalance.lockMaxLiveTime)."""
_SWEEP_EVERY_MS: Final = 1000
LOCKS_MAX: Final = 100_000
"""So many queues are locked at once, of all groups; what nobody renews makes room."""


@define(slots=True, eq=False)
class Member:
    """One live client of a group; `last_seen_ms` is session time of its last heartbeat."""

    connection: Peer
    client_id: str
    language: int
    version: int
    last_seen_ms: int
    account: str | None = None
    """Who has signed its heartbeat."""
    may_publish: Callable[[str], bool] = field(default=lambda _topic: True)
    """Whether that account may send to a topic."""

    @property
    def address(self) -> str:
        """Its `host:port`."""
        return "{}:{}".format(*self.connection.remote[:2])

    @property
    def is_cpp(self) -> bool:
        """Say whether it is a C++ client, which reads some bodies in a form of its own."""
        return self.language == LanguageCode.CPP

    @property
    def language_name(self) -> str:
        """The name of its language; OTHER for a number that has none."""
        known = self.language in LanguageCode.__members__.values()
        return LanguageCode(self.language if known else LanguageCode.OTHER).name


@define(slots=True, eq=False)
class ConsumerGroup:
    """The live side of a consumer group: who is connected and what they subscribe to."""

    name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    members: dict[Peer, Member] = field(factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(factory=dict)
    said: dict[Peer, dict[str, str]] = field(factory=dict)
    """The topics of each member's last heartbeat, with its expressions."""
    fingerprint: int = 0
    """Of the subscriptions, as the last heartbeat gave it; 0 where clients give none."""

    @property
    def is_broadcasting(self) -> bool:
        """Say whether every member gets every message."""
        return self.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        """Give the members' client ids, in order of arrival."""
        return [member.client_id for member in self.members.values()]

    def enter(self, member: Member) -> bool:
        """Add or renew a member; true when its socket was not in the group yet."""
        known = self.members.get(member.connection)
        if known is not None and known.client_id == member.client_id:
            known.last_seen_ms = member.last_seen_ms
            return False
        self.members[member.connection] = member
        return known is None

    def subscribe(self, wanted: Iterable[SubscriptionData]) -> bool:
        """Take over a heartbeat's subscriptions; true when a topic came or went."""
        topics = set()
        changed = False
        for data in wanted:
            topics.add(data.topic)
            known = self.subscriptions.get(data.topic)
            if known is None or data.sub_version > known.sub_version:
                self.subscriptions[data.topic] = data
                changed = changed or known is None
        for topic in [topic for topic in self.subscriptions if topic not in topics]:
            del self.subscriptions[topic]
            changed = True
        return changed

    def is_outdated(self, fingerprint: int) -> bool:
        """Take the fingerprint of a heartbeat; say whether these may be others' subscriptions."""
        known, self.fingerprint = self.fingerprint, fingerprint
        return not self.subscriptions or known not in {0, fingerprint}

    def wanted_topics(self) -> list[str]:
        """Name the topics that any member subscribes to, also one that another does not."""
        every = dict.fromkeys(self.subscriptions)
        return list(every | dict.fromkeys(one for said in self.said.values() for one in said))

    def disagreement(self) -> str | None:
        """Say which members subscribe to what when they are not all of one mind."""
        wanted: dict[str, list[str]] = {}
        for peer, member in self.members.items():
            topics = sorted(self.said.get(peer, {}).items())
            told = ", ".join(f"{topic} ({expression})" for topic, expression in topics)
            wanted.setdefault(told or "nothing", []).append(member.client_id)
        if len(wanted) < 2:
            return None
        return "; ".join(f"{', '.join(ids)} to {told}" for told, ids in wanted.items())


class _Registry(Generic[_Live]):
    """Group name to its live side, and the groups of each connection. Used under the door."""

    def __init__(self) -> None:
        self._groups: dict[str, _Live] = {}
        self._of_peer: dict[Peer, dict[str, None]] = {}

    def groups(self) -> list[str]:
        """Name the groups with a live member."""
        return list(self._groups)

    def of_peer(self, connection: Peer) -> Collection[str]:
        """Name the groups that a connection is in."""
        return self._of_peer.get(connection, ())

    def take_over(self, other: Self) -> None:
        """Go on with the members of another registry, which is not used any more."""
        self._groups = other._groups
        self._of_peer = other._of_peer

    def _forget(self, connection: Peer, group: str) -> None:
        groups = self._of_peer[connection]
        del groups[group]
        if not groups:
            del self._of_peer[connection]


class ConsumerRegistry(_Registry[ConsumerGroup]):
    """The groups of consumers. A group without members is gone."""

    def get(self, group: str) -> ConsumerGroup | None:
        """Give the live side of a group, or None when nobody is connected."""
        return self._groups.get(group)

    def register(self, data: ConsumerData, member: Member, *, keep: bool = False) -> bool:
        """Do what one consumer entry of a heartbeat says; `keep` the subscriptions if it has none.

        True when the members or the subscribed topics changed, so that the group must be told;
        a new subVersion alone is no change: Java clients raise it several times in their start.
        """
        group = self._groups.get(data.group_name)
        if group is None:
            group = self._groups[data.group_name] = ConsumerGroup(
                data.group_name, data.consume_type, data.message_model, data.consume_from_where
            )
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        entered = group.enter(member)
        self._of_peer.setdefault(member.connection, {})[data.group_name] = None
        if keep:
            return entered
        group.said[member.connection] = {
            one.topic: one.sub_string or "*" for one in data.subscription_data_set
        }
        return group.subscribe(data.subscription_data_set) or entered

    def unregister(self, group: str, connection: Peer) -> ConsumerGroup | None:
        """Remove a member; give the group that lost it, or None when it was no member."""
        live = self._groups.get(group)
        if live is None or live.members.pop(connection, None) is None:
            return None
        live.said.pop(connection, None)
        if not live.members:
            del self._groups[group]
        self._forget(connection, group)
        return live

    def drop(self, connection: Peer) -> list[ConsumerGroup]:
        """Remove a connection from every group; give the groups that lost it."""
        groups = list(self._of_peer.get(connection, ()))
        lost = [self.unregister(group, connection) for group in groups]
        return [group for group in lost if group is not None]

    def all_members(self) -> Iterator[Member]:
        """Give every live membership; a connection in two groups comes twice."""
        for group in self._groups.values():
            yield from group.members.values()


class ProducerRegistry(_Registry[dict[Peer, Member]]):
    """The groups of producers: their members by connection."""

    def __init__(self) -> None:
        super().__init__()
        self._of_client: dict[str, Member] = {}

    def take_over(self, other: Self) -> None:
        """Go on with the members of another registry, which is not used any more."""
        super().take_over(other)
        self._of_client = other._of_client

    def find(self, client_id: str) -> Peer | None:
        """Give the connection on which a client was heard of last as a producer."""
        member = self._of_client.get(client_id)
        return None if member is None else member.connection

    def register(self, group: str, member: Member) -> None:
        """Add a producer or renew it.

        While a client is there, nobody else gets what is for it by taking its name.
        """
        known = self._of_client.get(member.client_id)
        if known is None or known.connection.closed or known.account == member.account:
            self._of_client[member.client_id] = member
        self._groups.setdefault(group, {})[member.connection] = member
        self._of_peer.setdefault(member.connection, {})[group] = None

    def unregister(self, group: str, connection: Peer) -> None:
        """Remove a producer from one group; an unknown one is no error."""
        members = self._groups.get(group)
        member = None if members is None else members.pop(connection, None)
        if members is None or member is None:
            return
        if not members:
            del self._groups[group]
        self._forget(connection, group)
        is_last = connection not in self._of_peer
        if is_last and self.find(member.client_id) is connection:
            del self._of_client[member.client_id]

    def drop(self, connection: Peer) -> None:
        """Remove a connection from every group."""
        for group in list(self._of_peer.get(connection, ())):
            self.unregister(group, connection)

    def members(self, group: str) -> list[Member]:
        """Give the live producers of a group, oldest first."""
        return list(self._groups.get(group, {}).values())

    def all_members(self) -> Iterator[Member]:
        """Give every live membership; a connection in two groups comes twice."""
        for members in self._groups.values():
            yield from members.values()


class Lease(NamedTuple):
    """Who holds a queue and since when (session milliseconds) it was last renewed."""

    client_id: str
    renewed_ms: int


class QueueLocks:
    """Leases by group and queue. Calls name the session time, so no clock is read here."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueueKey, Lease]] = {}
        self._count = 0
        self._swept_ms = 0

    def lock(
        self,
        group: str,
        queues: Iterable[MessageQueueKey],
        client_id: str,
        *,
        now_ms: int,
    ) -> list[MessageQueueKey]:
        """Lock what is free or already the caller's; give the queues that it holds now.

        While `LOCKS_MAX` queues are locked, no other one can be.
        """
        leases = self._groups.setdefault(group, {})
        held = []
        for queue in queues:
            lease = leases.get(queue)
            if lease is None:
                if self._count >= LOCKS_MAX and not self._make_room(now_ms):
                    continue
                self._count += 1
            if (
                lease is None
                or lease.client_id == client_id
                or now_ms - lease.renewed_ms >= LOCK_LEASE_MS
            ):
                leases[queue] = Lease(client_id, now_ms)
                held.append(queue)
        if not leases:
            del self._groups[group]
        return held

    def unlock(self, group: str, queues: Iterable[MessageQueueKey], client_id: str) -> None:
        """Free the queues that the caller holds; another's lock is left alone."""
        leases = self._groups.get(group, {})
        for queue in queues:
            lease = leases.get(queue)
            if lease is not None and lease.client_id == client_id:
                del leases[queue]
                self._count -= 1
        if not leases:
            self._groups.pop(group, None)

    def _make_room(self, now_ms: int) -> bool:
        """Forget leases that have run out, at most once a second; say whether there is room."""
        if now_ms - self._swept_ms >= _SWEEP_EVERY_MS:
            self._swept_ms = now_ms
            for leases in self._groups.values():
                old = [
                    queue
                    for queue, lease in leases.items()
                    if now_ms - lease.renewed_ms >= LOCK_LEASE_MS
                ]
                for queue in old:
                    del leases[queue]
            self._count = sum(map(len, self._groups.values()))
            if self._count >= LOCKS_MAX:
                logger.warning("%d queues are locked: no other one can be now", self._count)
        return self._count < LOCKS_MAX

    def any_held(self, group: str, *, now_ms: int) -> bool:
        """Say whether the group holds an unexpired lock, which marks it as an orderly one."""
        return any(
            now_ms - lease.renewed_ms < LOCK_LEASE_MS
            for lease in self._groups.get(group, {}).values()
        )
