"""What a broker answers: one module per request family, named after the original processors.

====================  ===================================================
module                requests
====================  ===================================================
send_message          310, 10, 320 (what is accepted: core/produce)
follow_ups            36, 37, 370 (half messages and 39: the room `core/transactions/`)
pull_message          11, 361 (what a pull gets: core/consume)
client_manage         34, 35, 46, 38, 14, 15
query_message         12, 33
admin_broker          17, 200, 25, 26, 202, 203, 208, 29 to 32, 222, 41, 42
inspection            28, 45, 60, 61
====================  ===================================================

The name server's 105, 106 and 206 are in `namesrv/name_server.py`. A handler gets a `Request` under
the door and returns an answer, raises `RequestError`, or returns None for a parked one. Codes that
no module takes are answered 3 by `remoting/endpoint.py`. `put_status` is a table
that several modules read. To add a request: the module of its family, one line in `register`, one
in this table.
"""

from functools import partial
from typing import Final

from embedded_broker.core import metrics
from embedded_broker.core.administration import Administration, Clients, GroupOffsets, Settings
from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.core.consume import Consume
from embedded_broker.core.produce import Produce
from embedded_broker.core.queries import Queries
from embedded_broker.core.recalls import Recalls
from embedded_broker.core.retries import Retries
from embedded_broker.core.send_gate import SendGate
from embedded_broker.core.send_shapes import SendShapes
from embedded_broker.core.stamps import Stamps
from embedded_broker.core.statistics import SAMPLE_EVERY_MS, Statistics
from embedded_broker.core.transactions import TransactionalMessageService
from embedded_broker.core.transactions.ending import EndTransactions
from embedded_broker.core.waiters import Waiters
from embedded_broker.remoting.handlers.admin.admin_broker import AdminBrokerProcessor
from embedded_broker.remoting.handlers.admin.client_manage import ClientManageProcessor
from embedded_broker.remoting.handlers.admin.inspection import InspectionProcessor
from embedded_broker.remoting.handlers.consume.pull_message import PullMessageProcessor
from embedded_broker.remoting.handlers.consume.query_message import QueryMessageProcessor
from embedded_broker.remoting.handlers.send.follow_ups import FollowUpProcessor
from embedded_broker.remoting.handlers.send.send_message import SendMessageProcessor
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
from rocketmq_py.protocol.handles import UniqIdGenerator

__all__ = ["install"]

_DAY_MS: Final = 86_400_000


def install(core: BrokerCore) -> None:
    """Give a broker its tables, what it can do, and its handlers. Under the door.

    The store must be loaded; afterwards the broker answers every request of the table above.
    """
    core.topics = TopicTable(
        core.config,
        core.profile,
        core.clock,
        cluster_name=core.cluster_name,
        broker_name=core.broker_name,
    )
    core.groups = GroupTable(core.config, core.profile, core.clock)
    core.offsets = OffsetTable()
    core.deliveries = DeliveryLog(lambda: core.clock.now_ms)
    core.offsets.on_moved = core.deliveries.committed
    core.consumers = ConsumerRegistry()
    core.producers = ProducerRegistry()
    core.locks = QueueLocks()
    core.table_files = _keep_tables(core)
    core.transactions = transactions = transactions_of(core)
    transactions.load()
    core.housekeeping.append(transactions.end_jump)
    # Before the offsets are written to their file for the last time.
    core.on_close.insert(0, transactions.save_last_progress)
    core.sources.append(core.transactions)

    core.statistics = _statistics_of(core)
    waiters = Waiters(core.session)
    core.consume = Consume(
        address=core.address,
        config=core.config,
        store=core.store,
        topics=core.topics,
        groups=core.groups,
        consumers=core.consumers,
        offsets=core.offsets,
        deliveries=core.deliveries,
        statistics=core.statistics,
        waiters=waiters,
    )
    core.queries = Queries(
        door=core.door, store=core.store, topics=core.topics, timer_topic=core.timers.topic
    )
    core.store.on_arrival.append(waiters.on_arrival)
    core.door.before_release(waiters.run_woken)
    core.on_leave.append(lambda: core.door.forget(waiters.run_woken))
    core.acts = acts = administration_of(core)
    core.endpoint.on_disconnected.append(acts.clients.has_left)
    sources = metrics.Sources(
        config=core.config,
        clock=core.clock,
        store=core.store,
        topics=core.topics,
        groups=core.groups,
        consumers=core.consumers,
        producers=core.producers,
        offsets=acts.offsets,
        transactions=core.transactions,
        timers=core.timers,
    )
    metrics.register(core.statistics.registry, sources)
    _take_messages(core)
    _register(core)


def _register(core: BrokerCore) -> None:
    """Let the broker's address answer the other requests of the table above."""
    PullMessageProcessor(core.endpoint, core.consume).register()
    QueryMessageProcessor(core.queries).register(core.endpoint)
    ClientManageProcessor(core.acts, core.consume.filters).register(core.endpoint)
    InspectionProcessor(
        profile=core.profile,
        config=core.config,
        clock=core.clock,
        store=core.store,
        timers=core.timers,
        levels=core.levels,
        statistics=core.statistics,
    ).register(core.endpoint)
    AdminBrokerProcessor(core.acts, core.store, core.locks, core.session).register(core.endpoint)


def transactions_of(core: BrokerCore) -> TransactionalMessageService:
    """Make what knows the open transactions of a broker that has its tables."""
    return TransactionalMessageService(
        broker_name=core.broker_name,
        profile=core.profile,
        config=core.config,
        clock=core.clock,
        session=core.session,
        store=core.store,
        topics=core.topics,
        offsets=core.offsets,
        producers=core.producers,
        calls=core.calls,
    )


def _take_messages(core: BrokerCore) -> None:
    """Make what accepts messages, and answer the requests that bring them or follow them up."""
    config, profile, store, topics = core.config, core.profile, core.store, core.topics
    gate = SendGate(
        address=core.address,
        config=config,
        profile=profile,
        limits=core.limits,
        topics=topics,
        random=core.random,
    )
    new_key = UniqIdGenerator(store.store_host[:-4], now_ms=lambda: core.clock.now_ms).next
    stamps = Stamps(config, profile, core.cluster_name, new_key)
    retries = Retries(
        profile=profile,
        gate=gate,
        store=store,
        topics=topics,
        groups=core.groups,
        locks=core.locks,
        session=core.session,
        random=core.random,
    )
    core.produce = produce = Produce(
        broker_name=core.broker_name,
        config=config,
        profile=profile,
        store=store,
        timer_topic=core.timers.topic,
        durability=core.durability,
        gate=gate,
        stamps=stamps,
        retries=retries,
        shapes=SendShapes(
            gate=gate,
            stamps=stamps,
            config=config,
            store=store,
            topics=topics,
            runs=core.timers.runs,
            timer_topic=core.timers.topic,
            broker_name=core.broker_name,
        ),
    )
    endpoint = core.endpoint
    SendMessageProcessor(
        endpoint, produce, config=config, profile=profile, store_host=store.store_host
    ).register()
    FollowUpProcessor(
        endpoint,
        config=config,
        profile=profile,
        produce=produce,
        retries=retries,
        endings=EndTransactions(
            config=config, clock=core.clock, transactions=core.transactions, produce=produce
        ),
        recalls=Recalls(broker_name=core.broker_name, config=config, store=store, topics=topics),
    ).register()


def _statistics_of(core: BrokerCore) -> Statistics:
    """Make the counters of a broker's messages; they sample themselves."""
    statistics = Statistics(
        lambda: metrics.totals(core.store, core.topics, core.timers),
        now_ms=lambda: core.session.now_ms,
        day=lambda: core.clock.now_ms // _DAY_MS,
    )
    statistics.start()
    core.session.every(SAMPLE_EVERY_MS, statistics.sample, "statistics")
    return statistics


def _keep_tables(core: BrokerCore) -> TableFiles:
    """Load the broker's tables from their files and save them from now on."""
    files = TableFiles(core.store.fs, core.session, core.in_background)
    for table, path in (
        (core.topics, "config/topics.json"),
        (core.groups, "config/subscriptionGroup.json"),
    ):
        files.keep(table, path)
        # The original writes these two before it answers who caused the change.
        core.before_crash.append(partial(files.begin_save, path))
    offsets_ms = core.config.int("flushConsumerOffsetInterval")
    files.keep(core.offsets, "config/consumerOffset.json", offsets_ms)
    core.on_close.append(files.save)
    used = [key for key, queue in core.store.queues.items() if queue.max_offset > 0]
    core.topics.restore([*used, *((name, 0) for name in core.timers.metrics.topics)])
    return files


def administration_of(core: BrokerCore) -> Administration:
    """Make the acts on a broker that has its tables and its waiting pulls."""
    host, _, port = core.address.rpartition(":")
    arguments = {
        "brokerClusterName": core.cluster_name,
        "brokerName": core.broker_name,
        "brokerIP1": host,
        "listenPort": port,
    }
    return Administration(
        Settings(
            config=core.config,
            profile=core.profile,
            clock=core.clock,
            topics=core.topics,
            groups=core.groups,
            arguments=arguments,
        ),
        GroupOffsets(
            broker_name=core.broker_name,
            profile=core.profile,
            store=core.store,
            topics=core.topics,
            groups=core.groups,
            consumers=core.consumers,
            offsets=core.offsets,
            deliveries=core.deliveries,
            calls=core.calls,
            wake=core.consume.waiters.wake,
        ),
        Clients(
            door=core.door,
            session=core.session,
            config=core.config,
            profile=core.profile,
            topics=core.topics,
            groups=core.groups,
            consumers=core.consumers,
            producers=core.producers,
            calls=core.calls,
            forget=[core.consume.waiters.forget, core.calls.forget],
        ),
    )
