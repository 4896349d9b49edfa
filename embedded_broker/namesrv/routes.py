"""Routes: which brokers hold a topic, and which slave is named when a master is away.

State of RocketMQ's RouteInfoManager. A broker announces itself with its topics and every change
of them, a slave beside its master; nothing here asks a broker. Every call is made under the door.
Read on in `name_server.py` for the requests.
"""

from collections.abc import Callable, Iterable

from attrs import define, evolve, field

from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.topics import (
    MASTER_ID,
    BrokerData,
    ClusterInfo,
    QueueData,
    TopicConfig,
    TopicRouteData,
)
from rocketmq_py.protocol.codes import PERM_READ, PERM_WRITE


@define(slots=True)
class Registration:
    """One broker as it announced itself; `addresses` is by broker id, 0 is the master."""

    cluster: str
    broker_name: str
    addresses: dict[int, str] = field(factory=dict)
    acting_master: bool = False
    """Whether a slave stands in for a master that is away (enableSlaveActingMaster)."""


class RouteTable:
    """Registered brokers and, per topic, the queues each of them holds.

    `version` grows with every change, so that answers may be kept until it does.
    """

    def __init__(self) -> None:
        self._brokers: dict[str, Registration] = {}
        self._queues: dict[str, dict[str, QueueData]] = {}
        self._perms: dict[str, int] = {}
        self.version = 0

    def register(
        self,
        *,
        cluster: str,
        broker_name: str,
        address: str,
        topics: Iterable[TopicConfig],
        broker_id: int = MASTER_ID,
        has_changed: bool = True,
        acting_master: bool | None = None,
    ) -> None:
        """Add a broker, or renew it with its present address and topics.

        Topics count if it is the master, or, from 5.0 on, while it is the first slave of none;
        `acting_master` is None before 5.0. Unless it `has_changed` only unknown ones are taken.
        """
        known = self._brokers.get(broker_name)
        if known is None or known.cluster != cluster:
            known = self._brokers[broker_name] = Registration(cluster, broker_name)
        addresses = known.addresses
        for other in [one for one, at in addresses.items() if at == address and one != broker_id]:
            del addresses[other]
        has_changed |= broker_id not in addresses
        addresses[broker_id] = address
        known.acting_master = bool(acting_master)
        is_master = broker_id == MASTER_ID
        is_prime_slave = acting_master is not None and broker_id == min(addresses)
        for topic in topics if is_master or is_prime_slave else ():
            if has_changed or broker_name not in self._queues.get(topic.topic_name, {}):
                reads_only = not is_master and known.acting_master
                perm = topic.perm & ~PERM_WRITE if reads_only else topic.perm
                self.put_topic(broker_name, evolve(topic, perm=perm))
        self.version += 1

    def knows(self, broker_name: str, broker_id: int) -> bool:
        """Say whether a broker is registered."""
        return self.address_of(broker_name, broker_id) is not None

    def address_of(self, broker_name: str, broker_id: int) -> str | None:
        """Give the address of a master or slave."""
        return self.addresses_of(broker_name).get(broker_id)

    def addresses_of(self, broker_name: str) -> dict[int, str]:
        """Give the addresses of all brokers of a name, by broker id."""
        broker = self._brokers.get(broker_name)
        return {} if broker is None else dict(broker.addresses)

    def allow(self, broker_name: str, perm: int) -> None:
        """Say what clients may do at a broker, whatever its topics allow: bits of permissions."""
        self._perms[broker_name] = perm
        self.version += 1

    def unregister(self, broker_name: str, address: str) -> None:
        """Forget a broker; with the last one of its name what they held is gone.

        Slaves that stay keep the topics; where one acts as master nobody may write any more.
        """
        broker = self._brokers.get(broker_name)
        if broker is not None:
            left = {one: at for one, at in broker.addresses.items() if at != address}
            broker.addresses = left
            if left:
                if broker.acting_master and MASTER_ID not in left:
                    self.change_perms(broker_name, lambda perm: perm & ~PERM_WRITE)
                self.version += 1
                return
        self._brokers.pop(broker_name, None)
        self._perms.pop(broker_name, None)
        for topic in list(self._queues):
            held = self._queues[topic]
            if held.pop(broker_name, None) is not None and not held:
                del self._queues[topic]
        self.version += 1

    def put_topic(self, broker_name: str, topic: TopicConfig) -> None:
        """Note that a broker holds a topic with these queues, or holds it differently now."""
        self._queues.setdefault(topic.topic_name, {})[broker_name] = QueueData(
            broker_name=broker_name,
            read_queue_nums=topic.read_queue_nums,
            write_queue_nums=topic.write_queue_nums,
            perm=topic.perm,
            topic_sys_flag=topic.topic_sys_flag,
        )
        self.version += 1

    def drop_topic(self, topic: str, brokers: Iterable[str] | None = None) -> None:
        """Forget that these brokers hold a topic, or that any broker does."""
        held = self._queues.get(topic, {})
        for name in list(held if brokers is None else brokers):
            held.pop(name, None)
        if not held:
            self._queues.pop(topic, None)
        self.version += 1

    def put_queues(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Note where a topic is said to be, unless one of the brokers is unknown."""
        given = list(queues)
        if given and all(one.broker_name in self._brokers for one in given):
            self._queues.setdefault(topic, {}).update({one.broker_name: one for one in given})
            self.version += 1

    def change_perms(self, broker_name: str, change: Callable[[int], int]) -> int:
        """Change the permission of every topic of a broker, until it announces the topic anew.

        Gives how many topics these are.
        """
        count = 0
        for held in self._queues.values():
            data = held.get(broker_name)
            if data is not None:
                held[broker_name] = evolve(data, perm=change(data.perm))
                count += 1
        self.version += 1
        return count

    def brokers_of(self, cluster: str) -> list[str]:
        """Name the brokers of a cluster."""
        return [one.broker_name for one in self._brokers.values() if one.cluster == cluster]

    def topics_of(self, brokers: Iterable[str]) -> list[str]:
        """Name the topics that any of these brokers holds."""
        wanted = set(brokers)
        return [topic for topic, held in self._queues.items() if wanted & held.keys()]

    def topics_with(self, is_wanted: Callable[[int], bool]) -> list[str]:
        """Name the topics whose topicSysFlag, at the first broker, is wanted."""
        return [
            topic
            for topic, held in self._queues.items()
            if is_wanted(next(iter(held.values())).topic_sys_flag)
        ]

    def route(self, topic: str, *, with_acting: bool = False) -> TopicRouteData | None:
        """Give where a topic lives; None when no registered broker holds it.

        With ``with_acting`` the first slave stands in the place of a master that is away, where
        slaves act as masters and the topic may not be written (``supportActingMaster``).
        """
        held = self._queues.get(topic)
        if not held:
            return None
        return TopicRouteData(
            queue_datas=[
                evolve(one, perm=one.perm & self._perms.get(name, -1)) for name, one in held.items()
            ],
            broker_datas=[
                BrokerData(
                    cluster=broker.cluster,
                    broker_name=broker.broker_name,
                    broker_addrs=_acting(broker, data) if with_acting else dict(broker.addresses),
                )
                for name, data in held.items()
                if (broker := self._brokers.get(name)) is not None
            ],
        )

    def readable_queues(self, topic: str) -> list[MessageQueueKey] | None:
        """Give every queue of a topic that may be read; None when no broker holds it."""
        route = self.route(topic)
        if route is None:
            return None
        return [
            MessageQueueKey(topic, one.broker_name, queue_id)
            for one in route.queue_datas
            if one.perm & PERM_READ
            for queue_id in range(one.read_queue_nums)
        ]

    def __contains__(self, topic: str) -> bool:
        """Say whether a registered broker holds a topic."""
        return bool(self._queues.get(topic))

    def holders(self) -> dict[str, frozenset[str]]:
        """Give every topic with the names of the brokers that hold it."""
        return {topic: frozenset(held) for topic, held in self._queues.items()}

    def topic_names(self) -> list[str]:
        """Name every topic of every broker, each once."""
        return list(self._queues)

    def clusters(self) -> ClusterInfo:
        """Give the brokers with their addresses, and the clusters with their brokers."""
        clusters: dict[str, list[str]] = {}
        for broker in self._brokers.values():
            clusters.setdefault(broker.cluster, []).append(broker.broker_name)
        return ClusterInfo(
            broker_addr_table={
                name: BrokerData(
                    cluster=broker.cluster,
                    broker_name=name,
                    broker_addrs=dict(broker.addresses),
                )
                for name, broker in self._brokers.items()
            },
            cluster_addr_table=clusters,
        )


def _acting(broker: Registration, data: QueueData) -> dict[int, str]:
    """Give the addresses as clients shall see them while a slave may act as master."""
    addresses = dict(broker.addresses)
    if broker.acting_master and MASTER_ID not in addresses and not data.perm & PERM_WRITE:
        addresses[MASTER_ID] = addresses.pop(min(addresses))
    return addresses
