"""Services of one broker that gRPC calls use.

Answers: which parts of a broker the calls reach, and where its messages may go. Must not know:
protobuf. Read on: ``embedded_broker/lifecycle/grpc_serving.py``, which fills it.
"""

from collections.abc import Callable, Iterator

from attrs import define

from embedded_broker.core.access.retry_owners import RetryOwners
from embedded_broker.core.administration import Administration
from embedded_broker.core.client_calls import ClientCalls
from embedded_broker.core.durability import Durability
from embedded_broker.core.environment import Environment
from embedded_broker.core.filters import Filters
from embedded_broker.core.guards import Guards
from embedded_broker.core.pop.services import PopServices
from embedded_broker.core.send_services import SendServices
from embedded_broker.core.transactions.service import TransactionalMessageService
from embedded_broker.tables.broker_tables import Tables
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import PERM_WRITE


@define(eq=False, kw_only=True)
class BrokerServices:
    """One broker, as its gRPC clients reach it. Used under the door."""

    env: Environment
    tables: Tables
    guards: Guards
    filters: Filters
    retry_owners: RetryOwners
    send: SendServices
    pop: PopServices
    transactions: TransactionalMessageService
    administration: Administration
    durability: Durability
    calls: ClientCalls
    do_later: Callable[[Callable[[], None]], None]
    """Does long work on another thread; refuses while too much waits."""

    def writable(self, name: str) -> TopicConfig | None:
        """Give a topic that may be written to here."""
        topic = self.tables.topics.get(name)
        allowed = self.env.config.int("brokerPermission") & PERM_WRITE
        if topic is None or not allowed or not topic.perm & PERM_WRITE:
            return None
        return topic if topic.write_queue_nums else None


class Brokers(dict[str, BrokerServices]):
    """The brokers that run behind one endpoint, by name."""

    @property
    def first(self) -> BrokerServices:
        """The one by whose clocks and guards calls go that are about all."""
        return next(iter(self.values()))

    def with_topic(self, name: str) -> Iterator[BrokerServices]:
        """Give the brokers that have a topic."""
        return (one for one in self.values() if name in one.tables.topics)

    def writable_queues(self, topic: str) -> list[tuple[BrokerServices, int]]:
        """Give the queues that a message may go to, in the order of brokers and numbers."""
        found = []
        for name in sorted(self):
            services = self[name]
            config = services.writable(topic)
            if config is not None:
                found += [(services, queue) for queue in range(config.write_queue_nums)]
        return found
