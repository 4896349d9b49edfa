"""Assembly of a broker: which part is handed to which, once the store is open.

Answers: which part is handed to which. Every class takes the parts that it needs in its
constructor; this is the one place that knows all of them. Must not know: files, threads, addresses.
Read on: ``node.py``, which opens the store before and starts the threads afterwards.
"""

from functools import partial
from typing import Final

from embedded_broker.core import metrics
from embedded_broker.core.access.plain import PlainAccess
from embedded_broker.core.access.retry_owners import RetryOwners
from embedded_broker.core.access.user_administration import UserAdministration
from embedded_broker.core.access.users import UserAccess
from embedded_broker.core.background_filters import BackgroundFilters
from embedded_broker.core.broker_stats import BrokerStats
from embedded_broker.core.consume import Consume
from embedded_broker.core.filters import Filters
from embedded_broker.core.pop.acks import Acks
from embedded_broker.core.pop.assignment import Assignment
from embedded_broker.core.pop.checks import PopChecks
from embedded_broker.core.pop.ordered import OrderedPops
from embedded_broker.core.pop.peeks import Peeks
from embedded_broker.core.pop.queue_order import QueueOrder
from embedded_broker.core.pop.renewals import Renewals
from embedded_broker.core.pop.revive import ReviveService
from embedded_broker.core.pop.service import PopService
from embedded_broker.core.pop.services import PopServices
from embedded_broker.core.produce import Produce
from embedded_broker.core.queries import Queries
from embedded_broker.core.recalls import Recalls
from embedded_broker.core.replies import Replies
from embedded_broker.core.retries import Retries
from embedded_broker.core.send_gate import SendGate
from embedded_broker.core.send_services import SendServices
from embedded_broker.core.send_shapes import SendShapes
from embedded_broker.core.statistics import SAMPLE_EVERY_MS, Statistics
from embedded_broker.core.stored_properties import StoredProperties
from embedded_broker.core.transactions import TransactionalMessageService
from embedded_broker.core.transactions.ending import EndTransactions
from embedded_broker.core.waiters import Waiters
from embedded_broker.errors import StoreError
from embedded_broker.lifecycle.administration import administration_of
from embedded_broker.lifecycle.lost_topics import used_places
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.handlers.admin.admin_broker import AdminBrokerProcessor
from embedded_broker.remoting.handlers.admin.client_manage import ClientManageProcessor
from embedded_broker.remoting.handlers.admin.connections import ConnectionsProcessor
from embedded_broker.remoting.handlers.admin.consumption import ConsumptionProcessor
from embedded_broker.remoting.handlers.admin.inspection import InspectionProcessor
from embedded_broker.remoting.handlers.admin.plain_access import PlainAccessProcessor
from embedded_broker.remoting.handlers.admin.replication import ReplicationProcessor
from embedded_broker.remoting.handlers.admin.topics_and_groups import TopicsAndGroupsProcessor
from embedded_broker.remoting.handlers.admin.users import UserProcessor, saving
from embedded_broker.remoting.handlers.consume.pull_message import PullMessageProcessor
from embedded_broker.remoting.handlers.consume.query_message import QueryMessageProcessor
from embedded_broker.remoting.handlers.pop.ack_message import AckMessageProcessor
from embedded_broker.remoting.handlers.pop.pop_message import PopMessageProcessor
from embedded_broker.remoting.handlers.pop.query_assignment import QueryAssignmentProcessor
from embedded_broker.remoting.handlers.send.follow_ups import FollowUpProcessor
from embedded_broker.remoting.handlers.send.reply_message import ReplyMessageProcessor
from embedded_broker.remoting.handlers.send.send_message import SendMessageProcessor
from embedded_broker.store.config_files import JsonConfigFile
from embedded_broker.store.open_files import SECRETS_FILE
from embedded_broker.tables.accounts.users import UserTable
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.consumers.filters import SAVED_EVERY_MS, ConsumerFilterTable
from embedded_broker.tables.consumers.groups import GroupTable
from embedded_broker.tables.consumers.registry import ConsumerRegistry, ProducerRegistry, QueueLocks
from embedded_broker.tables.consumers.request_modes import RequestModeTable
from embedded_broker.tables.files import TableFiles
from embedded_broker.tables.offsets.deliveries import DeliveryLog
from embedded_broker.tables.offsets.orders import OrderTable
from embedded_broker.tables.offsets.table import OffsetTable
from embedded_broker.tables.topics.deleted import DeletedTopics
from embedded_broker.tables.topics.table import TopicTable
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.handles import UniqIdGenerator

logger = get_logger(__name__)

_DAY_MS: Final = 86_400_000
TOPICS_PATH: Final = "config/topics.json"
USERS_PATH: Final = f"config/{SECRETS_FILE}"


def install(parts: BrokerParts) -> None:
    """Give a broker its tables, what it can do, and its handlers. Under the door.

    The store must be loaded; afterwards the broker answers every request.
    """
    filters = _filters_of(parts)
    parts.tables = tables = _tables_of(parts, filters)
    parts.table_files = _keep_tables(parts)
    parts.transactions = transactions_of(parts)
    parts.transactions.load()
    parts.sources.append(parts.transactions)

    statistics = _statistics_of(parts)
    broker_stats = _broker_stats(parts, statistics)
    waiters = Waiters(parts.session)
    background_filters = _background_filters(parts, waiters, filters)
    parts.consume = Consume(
        env=parts,
        tables=tables,
        statistics=statistics,
        waiters=waiters,
        filters=filters,
        background_filters=background_filters,
    )
    parts.queries = Queries(env=parts, topics=tables.topics, timer_topic=parts.timers.topic)
    parts.store.on_arrival.append(waiters.on_arrival)
    waiters.in_turns = parts.door.in_turns
    parts.door.before_release(waiters.run_woken)
    parts.on_leave.append(lambda: parts.door.forget(waiters.run_woken))
    parts.administration = administration = administration_of(parts, broker_stats)
    parts.endpoint.on_disconnected.append(administration.clients.has_left)
    sources = metrics.Sources(
        env=parts,
        tables=tables,
        offsets=administration.offsets,
        transactions=parts.transactions,
        timers=parts.timers,
    )
    metrics.register(statistics.registry, sources)
    parts.send = _send_services(parts)
    parts.retry_owners = _guard(parts)
    parts.pop = _pop_services(parts, statistics, background_filters)
    _register(parts, statistics, broker_stats)


def _tables_of(parts: BrokerParts, filters: Filters) -> Tables:
    """Make the tables of a broker, empty."""
    config, profile, clock = parts.config, parts.profile, parts.clock
    topics = TopicTable(
        config, profile, clock, cluster_name=parts.cluster_name, broker_name=parts.broker_name
    )
    tables = Tables(
        topics=topics,
        deleted_topics=DeletedTopics(),
        groups=GroupTable(config, profile, clock),
        offsets=OffsetTable(),
        deliveries=DeliveryLog(lambda: clock.now_ms),
        consumers=ConsumerRegistry(),
        consumer_filters=ConsumerFilterTable(config, parts.session, filters.problem),
        producers=ProducerRegistry(),
        locks=QueueLocks(),
        orders=OrderTable(),
        request_modes=RequestModeTable(),
    )
    tables.offsets.on_moved = tables.deliveries.committed
    return tables


def _filters_of(parts: BrokerParts) -> Filters:
    """What consumers may select by, and with which words."""
    return Filters(
        with_sql=partial(parts.config.flag, "enablePropertyFilter"),
        with_searches=parts.profile.searches_by_sql,
    )


def _background_filters(
    parts: BrokerParts, waiters: Waiters, filters: Filters
) -> BackgroundFilters:
    """Bound what filters read in one entry of the door, and let the rest be judged outside."""
    filter_budget = parts.store.filter_budget
    filter_budget.entry_number = lambda: parts.door.entries
    filter_budget.when_over = parts.endpoint.end_entry
    waiters.is_used_up = lambda: filter_budget.is_over
    do = parts.endpoint.long_requests.do
    return BackgroundFilters(door=parts.door, filters=filters, filter_budget=filter_budget, do=do)


def _register(parts: BrokerParts, statistics: Statistics, broker_stats: BrokerStats) -> None:
    """Let the broker's address answer the requests that are not about sends, POP or users."""
    PullMessageProcessor(parts.endpoint, parts.consume, parts.profile).register()
    QueryMessageProcessor(parts.queries, parts.endpoint).register()
    ClientManageProcessor(
        parts.administration,
        parts.consume.filters,
        parts.profile.takes_fingerprints,
        parts.endpoint,
    ).register()
    InspectionProcessor(
        env=parts,
        timers=parts.timers,
        levels=parts.levels,
        statistics=statistics,
        broker_stats=broker_stats,
    ).register(parts.endpoint)
    TopicsAndGroupsProcessor(parts.administration, parts.profile.topic_attributes).register(
        parts.endpoint
    )
    ConsumptionProcessor(parts.administration.consumption, parts.address).register(parts.endpoint)
    ConnectionsProcessor(parts.administration, parts.endpoint).register()
    AdminBrokerProcessor(
        parts.administration, parts.store, parts.tables.locks, parts.session
    ).register(parts.endpoint)
    ReplicationProcessor(parts.durability.replication, parts.store, parts.address).register(
        parts.endpoint
    )
    place = {
        "brokerName": parts.broker_name,
        "brokerAddr": parts.address,
        "clusterName": parts.cluster_name,
    }
    PlainAccessProcessor(parts.accounts, place).register(parts.endpoint)


def _guard(parts: BrokerParts) -> RetryOwners:
    """Let accounts and users be asked for rights; give who knows whose the retry topics are."""
    retry_owners = RetryOwners(
        config=parts.config,
        groups=parts.tables.groups,
        offsets=parts.tables.offsets,
        has_pop=RequestCode.POP_MESSAGE not in parts.profile.unsupported_codes,
    )
    if parts.accounts is not None:
        parts.guards.append(PlainAccess(parts.accounts, retry_owners))
    users = _keep_users(parts)
    if UserAccess.is_on(parts.config):
        access = UserAccess(parts.config, users, parts.cluster_name, retry_owners)
        parts.guards.append(access)
    return retry_owners


def _keep_users(parts: BrokerParts) -> UserTable:
    """Load the users of ACL 2, add the first ones, and answer the requests that change them."""
    users = UserTable()
    file = JsonConfigFile(parts.store.fs, USERS_PATH, key="users")
    users.load_document(file.load(skip_damage=parts.config.text("damagedRecords") == "skip") or {})
    if file.problem is not None:
        parts.store.problems.append(file.problem)
    if users.begin_with(parts.first_users):
        try:
            file.save(users.to_document())
        except StoreError as error:
            logger.warning("users are not saved before they are changed: %s", error)
    save = saving(users.to_document, file.save)
    UserProcessor(UserAdministration(users), save).register(parts.endpoint)
    return users


def transactions_of(parts: BrokerParts) -> TransactionalMessageService:
    """Make what knows the open transactions of a broker that has its tables."""
    return TransactionalMessageService(env=parts, tables=parts.tables, calls=parts.calls)


def _send_services(parts: BrokerParts) -> SendServices:
    """Make what accepts messages, and answer the requests that bring them or follow them up."""
    tables, store_host = parts.tables, parts.store.store_host
    gate = SendGate(env=parts, topics=tables.topics)
    new_key = UniqIdGenerator(store_host[:-4], now_ms=lambda: parts.clock.now_ms).next
    stored_properties = StoredProperties(parts.config, parts.profile, parts.cluster_name, new_key)
    retries = Retries(env=parts, tables=tables, gate=gate)
    produce = Produce(
        env=parts,
        timer_topic=parts.timers.topic,
        durability=parts.durability,
        gate=gate,
        stored_properties=stored_properties,
        retries=retries,
        shapes=SendShapes(
            env=parts,
            topics=tables.topics,
            gate=gate,
            stored_properties=stored_properties,
            runs=parts.timers.runs,
            timer_topic=parts.timers.topic,
        ),
    )
    endpoint = parts.endpoint
    SendMessageProcessor(env=parts, endpoint=endpoint, produce=produce).register()
    _take_replies(parts, gate, produce)
    endings = EndTransactions(env=parts, transactions=parts.transactions, produce=produce)
    recalls = Recalls(env=parts, topics=tables.topics)
    FollowUpProcessor(
        env=parts,
        endpoint=endpoint,
        produce=produce,
        retries=retries,
        endings=endings,
        recalls=recalls,
    ).register()
    return SendServices(produce=produce, retries=retries, endings=endings, recalls=recalls)


def _take_replies(parts: BrokerParts, gate: SendGate, produce: Produce) -> None:
    """Make what hands replies over, and answer the requests that bring them."""
    replies = Replies(
        env=parts,
        producers=parts.tables.producers,
        gate=gate,
        produce=produce,
        calls=parts.calls,
    )
    ReplyMessageProcessor(env=parts, endpoint=parts.endpoint, replies=replies).register()


def _pop_services(
    parts: BrokerParts, statistics: Statistics, background_filters: BackgroundFilters
) -> PopServices:
    """Make what hides messages and lets them come back, and answer the requests of POP."""
    tables, waiters = parts.tables, parts.consume.waiters
    topics, groups = tables.topics, tables.groups
    revive = ReviveService(env=parts, tables=tables)
    tables.orders.is_used = lambda group, topic: topic in topics and group in groups
    ordered = OrderedPops(clock=parts.clock, waiters=waiters, table=tables.orders)
    revive.load()
    ordered.load()
    parts.sources += [revive, ordered]
    checks = PopChecks(env=parts, tables=tables)
    places = QueueOrder(env=parts, topics=topics, waiters=waiters)
    peeks = Peeks(
        env=parts,
        offsets=tables.offsets,
        checks=checks,
        places=places,
        ordered=ordered,
        waiters=waiters,
    )
    service = PopService(
        env=parts,
        tables=tables,
        statistics=statistics,
        checks=checks,
        places=places,
        filters=parts.consume.filters,
        background_filters=background_filters,
        waiters=waiters,
        revive=revive,
        ordered=ordered,
    )
    acks = Acks(env=parts, offsets=tables.offsets, checks=checks, revive=revive, ordered=ordered)
    renewals = Renewals(clock=parts.clock, groups=groups, acks=acks)
    parts.sources.append(renewals)
    assignment = Assignment(
        env=parts, tables=tables, modes=tables.request_modes, queues_of=parts.queues_of
    )
    PopMessageProcessor(
        parts.endpoint, service, peeks, parts.session, parts.retry_owners
    ).register()
    AckMessageProcessor(acks).register(parts.endpoint)
    QueryAssignmentProcessor(assignment).register(parts.endpoint)
    return PopServices(service=service, peeks=peeks, acks=acks, renewals=renewals, revive=revive)


def _broker_stats(parts: BrokerParts, statistics: Statistics) -> BrokerStats:
    """Make the figures of topics and groups; they look at their totals themselves."""
    broker_stats = BrokerStats(
        lambda: metrics.figures(parts.store, statistics, parts.cluster_name),
        now_ms=lambda: parts.session.now_ms,
    )
    parts.session.every(SAMPLE_EVERY_MS, broker_stats.look, "figures of topics and groups")
    return broker_stats


def _statistics_of(parts: BrokerParts) -> Statistics:
    """Make the counters of a broker's messages; they sample themselves."""
    statistics = Statistics(
        lambda: metrics.totals(parts.store, parts.tables.topics, parts.timers),
        now_ms=lambda: parts.session.now_ms,
        day=lambda: parts.clock.now_ms // _DAY_MS,
    )
    statistics.start()
    parts.session.every(SAMPLE_EVERY_MS, statistics.sample, "statistics")
    return statistics


def _keep_tables(parts: BrokerParts) -> TableFiles:
    """Load the broker's tables from their files and save them from now on."""
    store = parts.store
    files = TableFiles(
        store.fs,
        parts.session,
        parts.in_background,
        store.problems.append,
        parts.config.text("damagedRecords") == "skip",
    )
    loaded: list[bool] = []
    for table, path in (
        (parts.tables.topics, TOPICS_PATH),
        (parts.tables.groups, "config/subscriptionGroup.json"),
        (parts.tables.deleted_topics, "config/deletedTopics.json"),
        (parts.tables.request_modes, "config/messageRequestMode.json"),
    ):
        loaded.append(files.keep(table, path))
    _hide_deleted(parts)
    offsets_ms = parts.config.int("flushConsumerOffsetInterval")
    # A group that has popped messages is past them: without their check points they were lost.
    files.keep(parts.tables.offsets, "config/consumerOffset.json", offsets_ms, parts.sync_log)
    files.keep(parts.tables.orders, "config/consumerOrderInfo.json", 2 * offsets_ms)
    files.keep(parts.tables.consumer_filters, "config/consumerFilter.json", SAVED_EVERY_MS)
    is_whole = store.was_clean and loaded[0]
    restored = parts.tables.topics.restore(
        used_places(parts, what_waits=not is_whole),
        batch_topics={topic for (topic, _), queue in store.queues.items() if queue.is_batch},
    )
    store.takes_batches = parts.tables.topics.takes_batches
    if restored and store.was_clean and not store.fs.exists(TOPICS_PATH):
        store.problems.append(
            f"{TOPICS_PATH} is missing: the topics of the messages that are there are made anew, "
            "with the settings of new ones"
        )
    store.problems += restored
    return files


def _hide_deleted(parts: BrokerParts) -> None:
    """Let nobody find what topics held that were deleted."""
    for (name, number), end in parts.tables.deleted_topics.ends():
        queue = parts.store.queues.get((name, number))
        if queue is not None:
            queue.hide(end)
