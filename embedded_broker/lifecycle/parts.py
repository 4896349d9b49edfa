"""The parts of one running broker, by name.

Answers: what a view, a snapshot or a reset finds of a broker. Must not know: what any part does.
Read on: ``assembly.py``, which makes the parts and hands each class those that it needs. Nothing
below this room sees all of them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from embedded_broker.clocks.session import Session
from embedded_broker.clocks.timeline import DeadlineSource
from embedded_broker.core.calls import Calls
from embedded_broker.core.durability import Durability
from embedded_broker.core.guards import Guards
from embedded_broker.door import Door
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.journal import Journal
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import LIMITS, Limits, Profile
from rocketmq_py.clock import Clock

if TYPE_CHECKING:
    from random import Random

    from embedded_broker.core.administration import Administration
    from embedded_broker.core.consume import Consume
    from embedded_broker.core.produce import Produce
    from embedded_broker.core.queries import Queries
    from embedded_broker.core.statistics import Statistics
    from embedded_broker.core.transactions.service import TransactionalMessageService
    from embedded_broker.store.message_store import MessageStore
    from embedded_broker.tables.consumers.groups import GroupTable
    from embedded_broker.tables.consumers.registry import (
        ConsumerRegistry,
        ProducerRegistry,
        QueueLocks,
    )
    from embedded_broker.tables.files import TableFiles
    from embedded_broker.tables.offsets.deliveries import DeliveryLog
    from embedded_broker.tables.offsets.table import OffsetTable
    from embedded_broker.tables.topics.table import TopicTable
    from embedded_broker.timer.interface import TimerEngine
    from embedded_broker.timer.levels.service import ScheduleMessageService

__all__ = ["BrokerParts"]


class BrokerParts:
    """One broker. ``assembly.install`` adds the parts that are declared here."""

    topics: "TopicTable"
    groups: "GroupTable"
    consumers: "ConsumerRegistry"
    producers: "ProducerRegistry"
    offsets: "OffsetTable"
    deliveries: "DeliveryLog"
    locks: "QueueLocks"
    produce: "Produce"
    consume: "Consume"
    queries: "Queries"
    transactions: "TransactionalMessageService"
    statistics: "Statistics"
    acts: "Administration"
    table_files: "TableFiles"

    def __init__(
        self,
        *,
        door: Door,
        clock: Clock,
        session_clock: Clock,
        config: BrokerConfig,
        profile: Profile,
        limits: Limits = LIMITS["broker"],
        store: "MessageStore",
        timers: "TimerEngine",
        levels: "ScheduleMessageService",
        journal: Journal,
        random: "Random",
        cluster_name: str,
        broker_name: str,
        address: str,
    ) -> None:
        self.door = door
        self.clock = clock
        self.session = Session(session_clock)
        self.durability = Durability(config, store, self.session)
        self.guards = Guards()
        self.calls = Calls(self.session)
        self.config = config
        self.profile = profile
        self.limits = limits
        self.store = store
        self.timers = timers
        self.levels = levels
        self.journal = journal
        self.random = random
        self.cluster_name = cluster_name
        self.broker_name = broker_name
        self.address = address
        """The advertised ``host:port``."""
        self.sources: list[DeadlineSource] = [timers, levels]
        """What fires on the message clock."""
        self.housekeeping: list[Callable[[], None]] = []
        """Called under the door at the end of every clock jump: expiry, saves, metrics."""
        self.on_close: list[Callable[[], None]] = []
        """Called under the door before the store closes: last saves."""
        self.before_crash: list[Callable[[], Callable[[], None]]] = []
        """Called under the door when a crash is played; what they return is run outside of it."""
        self.on_leave: list[Callable[[], None]] = []
        """Called under the door when this state stops acting, saved or not: unhook."""
        self.endpoint = Endpoint(
            broker_name,
            door=door,
            clock=clock,
            session=self.session,
            journal=journal,
            profile=profile,
            guards=self.guards,
            durability=self.durability,
            calls=self.calls,
        )
        self.flush_everything: Callable[[], None] = _nothing
        """Flushes now, for work that was given to ``in_background``; may raise ``StoreError``."""
        self.in_background: Callable[[Callable[[], None]], None] = door.after
        """Does slow work, such as writing a table's file, outside the door on another thread."""


def _nothing() -> None:
    """Flush nothing: no flusher runs."""
