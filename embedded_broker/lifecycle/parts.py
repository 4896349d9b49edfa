"""Parts of one running broker, by name, for views, snapshots and resets.

Answers: what a view, a snapshot or a reset finds of a broker. Must not know: what any part does.
Read on: ``assembly.py``, which makes the parts and hands each class those that it needs. Nothing
below this room sees all of them.
"""

from collections.abc import Callable

from attrs import define, field

from embedded_broker.clocks.timeline import DeadlineSource
from embedded_broker.clocks.wall_time_hint import WallTimeHint
from embedded_broker.core.access.retry_owners import RetryOwners
from embedded_broker.core.administration import Administration
from embedded_broker.core.client_calls import ClientCalls
from embedded_broker.core.consume import Consume
from embedded_broker.core.durability import Durability
from embedded_broker.core.environment import Environment
from embedded_broker.core.guards import Guards
from embedded_broker.core.pop.services import PopServices
from embedded_broker.core.queries import Queries
from embedded_broker.core.replication import Replication
from embedded_broker.core.send_services import SendServices
from embedded_broker.core.transactions.service import TransactionalMessageService
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.idle_connections import most_idle_ms
from embedded_broker.remoting.journal import Journal
from embedded_broker.tables.accounts.plain import PlainAccounts
from embedded_broker.tables.accounts.users import UserAcl
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.files import TableFiles
from embedded_broker.timer.interface import TimerEngine
from embedded_broker.timer.levels.service import ScheduleMessageService
from rocketmq_py.protocol.bodies.document import MessageQueueKey


@define(eq=False, kw_only=True)
class BrokerParts(Environment):
    """One broker. ``assembly.install`` adds the parts that its arguments do not give."""

    timers: TimerEngine
    levels: ScheduleMessageService
    journal: Journal
    new_topic_type: str = ""
    """The ``message.type`` of topics that the owner creates and says nothing of it."""
    accounts: PlainAccounts | None = None
    """The accounts of ACL 1, when it is on."""
    first_users: UserAcl = field(factory=UserAcl)
    """Users of ACL 2 that are there from the start."""

    wall_time_hint: WallTimeHint = field(init=False)
    tables: Tables = field(init=False)
    send: SendServices = field(init=False)
    consume: Consume = field(init=False)
    pop: PopServices = field(init=False)
    retry_owners: RetryOwners = field(init=False)
    queries: Queries = field(init=False)
    transactions: TransactionalMessageService = field(init=False)
    administration: Administration = field(init=False)
    table_files: TableFiles = field(init=False)

    guards: Guards = field(init=False, factory=Guards)
    calls: ClientCalls = field(init=False)
    durability: Durability = field(init=False)
    endpoint: Endpoint = field(init=False)
    sources: list[DeadlineSource] = field(init=False)
    """What fires on the message clock."""
    on_leave: list[Callable[[], None]] = field(init=False, factory=list)
    """Called under the door when this state stops acting, saved or not: unhook."""
    sync_log: Callable[[], None] = field(init=False, default=lambda: None)
    """Flushes the message log now; may raise ``StoreError``. Outside the door, in background."""
    flush_everything: Callable[[], None] = field(init=False)
    """Flushes now and returns afterwards; may raise ``StoreError``. Outside the door."""
    queues_of: Callable[[str], list[MessageQueueKey] | None] = field(init=False)
    """Gives the readable queues of a topic on all brokers of the cluster; None without any."""
    in_background: Callable[[Callable[[], None]], None] = field(init=False)
    """Does slow work, such as writing a table's file, outside the door on another thread."""

    let_old_go: Callable[[], None] = field(init=False)
    """Lets everything go that is old now, whatever the hour."""

    def __attrs_post_init__(self) -> None:
        self.calls = ClientCalls(self.session)
        self.durability = Durability(
            self.config, self.store, self.session, Replication(self.config, self.profile)
        )
        self.sources = [self.timers, self.levels]
        self.in_background = self.door.after
        self.let_old_go = _nothing
        self.endpoint = Endpoint(
            name=self.broker_name,
            door=self.door,
            clock=self.clock,
            session=self.session,
            journal=self.journal,
            profile=self.profile,
            guards=self.guards,
            durability=self.durability,
            calls=self.calls,
            most_idle_ms=most_idle_ms(self.config),
        )

    def save_all(self) -> None:
        """Save what is not saved yet, before the store closes. Under the door."""
        self.pop.revive.save_last_progress()  # an offset, as the next one: tables come last
        self.transactions.save_last_progress()
        self.table_files.save()


def _nothing() -> None:
    """Let nothing go: nobody has said yet what is old."""
