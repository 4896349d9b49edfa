"""Which of a topic's queues belong to one member of a consumer group.

Pure functions of (all queues, all client ids): every member computes them alone, so the results
must equal Java's to the queue, or two members of different languages would share a queue. This
module must not know who asks or how members are found; `rebalance` calls it. Formulas and class
names: `org.apache.rocketmq.client.consumer.rebalance`.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol

from rocketmq_py.logs import get_logger
from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

_Queues = Sequence[MessageQueue]


class AllocateMessageQueueStrategy(Protocol):
    """How a group shares the queues of a topic; any object with these two members will do."""

    @property
    def name(self) -> str:
        """The strategy's name, the same in every member of the group."""

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        """Queues of `client_id`; `queues` and `client_ids` come sorted and not empty."""


class _ByPlace(ABC):
    """What the formulas share that begin with the place of the member among all."""

    def allocate(
        self, group: str, client_id: str, queues: _Queues, client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Queues of `client_id` as the class says; none while the broker does not list it.

        ValueError when one of the others is empty.
        """
        index = _own_index(group, client_id, queues, client_ids)
        return [] if index is None else self._share(index, queues, client_ids)

    @abstractmethod
    def _share(
        self, index: int, queues: _Queues, client_ids: Sequence[str]
    ) -> list[MessageQueue]: ...


class AllocateMessageQueueAveragely(_ByPlace):
    """AVG, the default: each member gets one contiguous block, the first ones one queue more."""

    name = "AVG"

    def _share(self, index: int, queues: _Queues, client_ids: Sequence[str]) -> list[MessageQueue]:
        """Block of the member; empty if members outnumber queues."""
        share, rest = divmod(len(queues), len(client_ids))
        if len(queues) <= len(client_ids):
            return list(queues[index : index + 1])
        if index < rest:
            start = index * (share + 1)
            return list(queues[start : start + share + 1])
        start = index * share + rest
        return list(queues[start : start + share])


class AllocateMessageQueueAveragelyByCircle(_ByPlace):
    """AVG_BY_CIRCLE: queues are dealt like cards, one to each member in turn."""

    name = "AVG_BY_CIRCLE"

    def _share(self, index: int, queues: _Queues, client_ids: Sequence[str]) -> list[MessageQueue]:
        """Every n-th queue from the member's own index on, n being the number of members."""
        return list(queues[index :: len(client_ids)])


class AllocateMessageQueueByConfig:
    """CONFIG: a list fixed by the program, whoever else is in the group.

    `queues` is that list. Nobody checks that the members' lists are disjoint or complete.
    """

    name = "CONFIG"

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        self._queues = tuple(queues)

    def allocate(
        self,
        group: str,  # noqa: ARG002 - the signature is the strategy's
        client_id: str,  # noqa: ARG002
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],  # noqa: ARG002
    ) -> list[MessageQueue]:
        """Those configured queues that are queues of the topic asked for.

        The original returns the whole list for every topic, its retry topic included, which
        assigns queues of one topic under the name of another; here a topic gets its own ones.
        """
        known = set(queues)
        return [queue for queue in self._queues if queue in known]


class AllocateMessageQueueByMachineRoom(_ByPlace):
    """MACHINE_ROOM: only queues of brokers named ``room@broker`` whose room is allowed.

    `rooms` are the allowed room names, equal in all members.
    """

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Sequence[str] | frozenset[str] | set[str]) -> None:
        self._rooms = frozenset(rooms)

    def _share(self, index: int, queues: _Queues, client_ids: Sequence[str]) -> list[MessageQueue]:
        """Equal blocks of the allowed queues; what is left over goes one by one to the first."""
        allowed = [queue for queue in queues if self._allows(queue)]
        share, rest = divmod(len(allowed), len(client_ids))
        mine = allowed[share * index : share * (index + 1)]
        if index < rest:
            mine.append(allowed[index + share * len(client_ids)])
        return mine

    def _allows(self, queue: MessageQueue) -> bool:
        parts = queue.broker_name.split("@")
        return len(parts) == 2 and parts[0] in self._rooms


class AllocateMessageQueueConsistentHash(_ByPlace):
    """CONSISTENT_HASH: when a member leaves, only its own queues move.

    `virtual_nodes` points per member lie on a ring of 32-bit hashes (first four bytes of the MD5,
    big endian); a queue belongs to the first point at or after its own hash.
    """

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = 10) -> None:
        if virtual_nodes < 0:
            raise ValueError(f"virtual_nodes = {virtual_nodes}: it must be 0 or more")
        self._virtual_nodes = virtual_nodes

    def _share(self, index: int, queues: _Queues, client_ids: Sequence[str]) -> list[MessageQueue]:
        """Queues whose point on the ring belongs to the member."""
        # A later member overwrites an earlier one on the same point, as in Java's TreeMap.
        owners = {
            _ring_hash(f"{member}-{number}"): member
            for member in client_ids
            for number in range(self._virtual_nodes)
        }
        points = sorted(owners)
        if not points:
            return []
        mine = []
        for queue in queues:
            at = bisect_left(points, _ring_hash(_queue_text(queue)))
            if owners[points[at % len(points)]] == client_ids[index]:
                mine.append(queue)
        return mine


class MachineRoomResolver(Protocol):
    """Tells where brokers and members stand; both answers must not be empty."""

    def broker_deploy_in(self, queue: MessageQueue) -> str:
        """Room of the broker that holds `queue`."""

    def consumer_deploy_in(self, client_id: str) -> str:
        """Room of the member `client_id`."""


class AllocateMachineRoomNearby:
    """MACHINE_ROOM_NEARBY-x: rooms with members keep their queues, the others' are shared.

    `inner` divides the queues of each room; `resolver` tells the rooms.
    """

    def __init__(self, inner: AllocateMessageQueueStrategy, resolver: MachineRoomResolver) -> None:
        self._inner = inner
        self._resolver = resolver

    @property
    def name(self) -> str:
        """Name of the inner strategy after ``MACHINE_ROOM_NEARBY-``."""
        return f"MACHINE_ROOM_NEARBY-{self._inner.name}"

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        """Own room's queues divided among its members, then those of rooms without a member."""
        if _own_index(group, client_id, queues, client_ids) is None:
            return []
        rooms: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            room = self._resolver.broker_deploy_in(queue)
            rooms.setdefault(_room(room, queue), []).append(queue)
        members: dict[str, list[str]] = {}
        for member in client_ids:
            members.setdefault(_room(self._resolver.consumer_deploy_in(member), member), []).append(
                member
            )
        own_room = self._resolver.consumer_deploy_in(client_id)
        mine: list[MessageQueue] = []
        if rooms.get(own_room):
            mine += self._inner.allocate(group, client_id, rooms[own_room], members[own_room])
        for room in sorted(rooms):
            if room not in members:
                mine += self._inner.allocate(group, client_id, rooms[room], client_ids)
        return mine


def _own_index(
    group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> int | None:
    """Place of the member among all, None (logged) when the broker does not list it yet."""
    if not client_id or not queues or not client_ids:
        empty = "client_id" if not client_id else "client_ids" if queues else "queues"
        raise ValueError(f"{empty} is empty: a strategy needs a member, queues and members")
    try:
        return client_ids.index(client_id)
    except ValueError:
        logger.info("group %s: member %s is not listed yet", group, client_id)
        return None


def _ring_hash(text: str) -> int:
    from hashlib import md5  # 4 ms of import that only this strategy needs

    digest = md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def _queue_text(queue: MessageQueue) -> str:
    """Java's ``MessageQueue.toString``, which is what its ring hashes."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def _room(name: str, owner: object) -> str:
    if not name:
        raise ValueError(f"the machine room of {owner} is empty: the resolver must name one")
    return name
