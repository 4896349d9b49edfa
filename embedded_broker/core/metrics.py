"""What is read off a broker when somebody looks at its metrics.

Answers: which of RocketMQ's metrics a broker has (those of its `BrokerMetricsConstant` and
`DefaultStoreMetricsConstant`) and where each number stands. Must not know: who looks, and in which
format. Of what goes in, RocketMQ counts bytes by topic; here there is the growth of the log alone.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from embedded_broker.core.administration.offsets import GroupOffset, GroupOffsets
from embedded_broker.core.statistics import Kind, Registry, Totals
from embedded_broker.core.transactions.service import TransactionalMessageService
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.message_store import MessageStore
from embedded_broker.tables.consumers.groups import GroupTable
from embedded_broker.tables.consumers.registry import ConsumerRegistry, ProducerRegistry
from embedded_broker.tables.topics.table import TopicTable
from embedded_broker.timer.interface import TimerEngine
from rocketmq_py.clock import Clock
from rocketmq_py.protocol.names import DLQ_PREFIX, is_dlq_topic, is_retry_topic

__all__ = ["read_broker", "read_clients", "read_groups", "read_store", "read_timers", "totals"]

Labels = tuple[str, ...]


def totals(store: MessageStore, topics: TopicTable, timers: TimerEngine) -> Totals:
    """Give what lies in the queues; pulls are counted elsewhere."""
    put = by_users = 0
    for (topic, _), queue in store.queues.items():
        put += queue.max_offset
        if not topics.is_system(topic):
            by_users += queue.max_offset
    entered = store.max_offset(timers.topic, 0)
    return Totals(
        put=put,
        put_by_users=by_users,
        timers_in=entered,
        timers_out=max(0, entered - timers.count()),
    )


def _one(read: Callable[[], float]) -> Callable[[], Mapping[Labels, float]]:
    """Let a single number be read."""
    return lambda: {(): read()}


def read_broker(
    registry: Registry,
    config: BrokerConfig,
    topics: TopicTable,
    groups: GroupTable,
    transactions: TransactionalMessageService,
) -> None:
    """Let settings and open transactions be read."""
    registry.reads(
        "rocketmq_finish_message_latency",
        "Seconds from a half message to the word of its producer.",
        lambda: transactions.finished,
        kind=Kind.HISTOGRAM,
    )
    for name, meaning, read in (
        ("broker_permission", "brokerPermission.", lambda: config.int("brokerPermission")),
        ("topic_number", "Topics, those of the system too.", lambda: len(topics)),
        ("consumer_group_number", "Groups with settings.", lambda: sum(1 for _ in groups)),
        ("half_messages", "Open transactions.", transactions.count),
    ):
        registry.reads(f"rocketmq_{name}", meaning, _one(read))


def read_clients(
    registry: Registry, consumers: ConsumerRegistry, producers: ProducerRegistry
) -> None:
    """Let be read who is connected."""

    def of_consumers() -> Mapping[Labels, float]:
        return Counter(
            (name, member.language_name)
            for name in consumers.groups()
            if (group := consumers.get(name)) is not None
            for member in group.members.values()
        )

    def of_producers() -> Mapping[Labels, float]:
        members = {member.connection: member for member in producers.all_members()}
        return Counter((member.language_name,) for member in members.values())

    registry.reads(
        "rocketmq_consumer_connections", "Consumers.", of_consumers, "consumer_group", "language"
    )
    registry.reads("rocketmq_producer_connections", "Producers.", of_producers, "language")


def read_groups(registry: Registry, offsets: GroupOffsets) -> None:
    """Let be read how far groups are."""

    def sums(number: Callable[[GroupOffset], int]) -> Callable[[], Mapping[Labels, float]]:
        return lambda: {
            (group, topic, str(is_retry_topic(topic)).lower()): sum(
                number(offsets.place(group, topic, queue_id)) for queue_id in offsets.queues(topic)
            )
            for group in offsets.group_names()
            for topic in offsets.topics_of(group)
        }

    for name, meaning, number in (
        ("lag", "Messages behind the committed offsets.", lambda place: place.lag),
        ("ready", "Messages not handed out.", _unread),
        (
            "inflight",
            "Messages handed out, not committed.",
            _inflight,
        ),
    ):
        registry.reads(
            f"rocketmq_consumer_{name}_messages",
            meaning,
            sums(number),
            "consumer_group",
            "topic",
            "is_retry",
        )


def _unread(place: GroupOffset) -> int:
    return max(place.max_offset - place.next_offset, 0)


def _inflight(place: GroupOffset) -> int:
    return max(place.lag - _unread(place), 0)


def read_store(registry: Registry, store: MessageStore, topics: TopicTable, clock: Clock) -> None:
    """Let be read what came in and lies in the store."""

    def came_in() -> Counter[Labels]:
        found: Counter[Labels] = Counter()
        for (topic, _), queue in store.queues.items():
            if not topics.is_system(topic):
                found[topic,] += queue.max_offset
        return found

    def dead_letters() -> Mapping[Labels, float]:
        return {
            (topic.removeprefix(DLQ_PREFIX),): number
            for (topic,), number in came_in().items()
            if is_dlq_topic(topic)
        }

    def reserve_time() -> int:
        oldest = store.log.store_timestamp(store.log.min_offset)
        return clock.now_ms - oldest if oldest > 0 else 0

    log, counter = store.log, Kind.COUNTER
    registry.reads("rocketmq_messages_in_total", "Messages stored.", came_in, "topic", kind=counter)
    registry.reads(
        "rocketmq_throughput_in_total",
        "Bytes of the log.",
        _one(lambda: log.max_offset),
        kind=counter,
    )
    registry.reads(
        "rocketmq_send_to_dlq_messages_total",
        "Dead letters.",
        dead_letters,
        "consumer_group",
        kind=counter,
    )
    for name, meaning, read in (
        ("size", "Bytes of the log that are kept.", lambda: log.max_offset - log.min_offset),
        ("flush_behind_bytes", "Bytes not synced.", lambda: log.max_offset - store.flushed_offset),
        ("dispatch_behind_bytes", "Queues follow the log at once.", lambda: 0),
        ("message_reserve_time", "Age of the oldest message, in ms.", reserve_time),
    ):
        registry.reads(f"rocketmq_storage_{name}", meaning, _one(read))


def read_timers(registry: Registry, store: MessageStore, timers: TimerEngine) -> None:
    """Let be read what waits for its time."""

    def waiting() -> Mapping[Labels, float]:
        return {(topic,): timers.metrics.count(topic) for topic in timers.metrics.topics}

    def entered() -> int:
        return store.max_offset(timers.topic, 0)

    def enqueue_lag() -> int:
        return next(iter(timers.stages.values())).queue_depth

    registry.reads("rocketmq_timing_messages", "Timers that wait.", waiting, "topic")
    for name, meaning, read, kind in (
        ("enqueue_total", "Timers accepted, hops too.", entered, Kind.COUNTER),
        ("dequeue_total", "Timers through.", lambda: entered() - timers.count(), Kind.COUNTER),
        ("enqueue_lag", "Timers that the engine has not read.", enqueue_lag, Kind.GAUGE),
        ("dequeue_lag", "Timers that wait.", timers.count, Kind.GAUGE),
    ):
        registry.reads(f"rocketmq_timer_{name}", meaning, _one(read), kind=kind)
