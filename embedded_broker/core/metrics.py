"""Metrics of a broker: which of RocketMQ's it has, and where each number is read.

Answers: which of RocketMQ's metrics a broker has (`BrokerMetricsConstant`,
`DefaultStoreMetricsConstant`) and where each number stands. Must not know: who looks, and in which
format. Of what goes in, RocketMQ counts bytes by topic; here there is the growth of the log alone.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from attrs import define

from embedded_broker.core.administration.offsets import GroupOffset, GroupOffsets
from embedded_broker.core.broker_stats import (
    BROKER_GET_NUMS,
    BROKER_PUT_NUMS,
    GROUP_GET_NUMS,
    GROUP_GET_SIZE,
    TOPIC_PUT_NUMS,
    Figure,
)
from embedded_broker.core.environment import Environment
from embedded_broker.core.statistics import (
    Labels,
    Metric,
    MetricKind,
    Registry,
    Statistics,
    Totals,
    Values,
)
from embedded_broker.core.transactions.service import TransactionalMessageService
from embedded_broker.store.message_store import MessageStore
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.topics.table import TopicTable
from embedded_broker.timer.interface import TimerEngine
from rocketmq_py.protocol.names import DLQ_PREFIX, is_dlq_topic, is_retry_topic


@define(eq=False, kw_only=True)
class Sources:
    """Where the numbers of one broker stand."""

    env: Environment
    tables: Tables
    offsets: GroupOffsets
    transactions: TransactionalMessageService
    timers: TimerEngine


def register(registry: Registry, sources: Sources) -> None:
    """Let everything that the broker knows of itself be read."""
    for metric, read in METRICS:
        registry.add(metric, partial(read, sources))


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


def _stored(at: Sources) -> Counter[Labels]:
    """Count the messages of each topic of users."""
    found: Counter[Labels] = Counter()
    for (topic, _), queue in at.env.store.queues.items():
        if not at.tables.topics.is_system(topic):
            found[topic,] += queue.max_offset
    return found


def figures(store: MessageStore, statistics: Statistics, cluster: str) -> dict[Figure, int]:
    """Give the totals of request 315: of topics, of groups, and of the whole broker."""
    found: Counter[Figure] = Counter()
    for (topic, _), queue in store.queues.items():
        if queue.max_offset:
            found[TOPIC_PUT_NUMS, topic] += queue.max_offset
            found[BROKER_PUT_NUMS, cluster] += queue.max_offset
    for (topic, group), messages, size in statistics.given_to_groups():
        found[GROUP_GET_NUMS, f"{topic}@{group}"] = messages
        found[GROUP_GET_SIZE, f"{topic}@{group}"] = size
        found[BROKER_GET_NUMS, cluster] += messages
    return found


def _dead_letters(at: Sources) -> Values:
    return {
        (topic.removeprefix(DLQ_PREFIX),): number
        for (topic,), number in _stored(at).items()
        if is_dlq_topic(topic)
    }


def _by_group(number: Callable[[GroupOffset], int], at: Sources) -> Values:
    """Add up a number of every queue of a topic, for each group."""
    return {
        (group, topic, str(is_retry_topic(topic)).lower()): sum(
            number(at.offsets.place(group, topic, queue)) for queue in at.offsets.queues(topic)
        )
        for group in at.offsets.group_names()
        for topic in at.offsets.topics_of(group)
    }


def _unread(place: GroupOffset) -> int:
    return max(place.max_offset - place.next_offset, 0)


def _consumers(at: Sources) -> Values:
    return Counter(
        (name, member.language_name)
        for name in at.tables.consumers.groups()
        if (group := at.tables.consumers.get(name)) is not None
        for member in group.members.values()
    )


def _producers(at: Sources) -> Values:
    members = {member.connection: member for member in at.tables.producers.all_members()}
    return Counter((member.language_name,) for member in members.values())


def _reserve_time_ms(at: Sources) -> int:
    oldest = at.env.store.log.store_timestamp(at.env.store.log.min_offset)
    return at.env.clock.now_ms - oldest if oldest > 0 else 0


def _entered(at: Sources) -> int:
    return at.env.store.max_offset(at.timers.topic, 0)


Read = Callable[[Sources], Values | float]
Row = tuple[Metric, Read]


def _gauge(name: str, meaning: str, read: Read, *labels: str) -> Row:
    return Metric(name, MetricKind.GAUGE, meaning, labels), read


def _counter(name: str, meaning: str, read: Read, *labels: str) -> Row:
    return Metric(name, MetricKind.COUNTER, meaning, labels), read


def _of_groups(name: str, meaning: str, number: Callable[[GroupOffset], int]) -> Row:
    labels = ("consumer_group", "topic", "is_retry")
    return _gauge(name, meaning, partial(_by_group, number), *labels)


METRICS: Final[tuple[Row, ...]] = (
    _gauge(
        "rocketmq_broker_permission",
        "The option brokerPermission.",
        lambda at: at.env.config.int("brokerPermission"),
    ),
    _gauge("rocketmq_topic_number", "Topics, system topics too.", lambda at: len(at.tables.topics)),
    _gauge(
        "rocketmq_consumer_group_number",
        "Groups with settings.",
        lambda at: sum(1 for _ in at.tables.groups),
    ),
    _counter("rocketmq_messages_in_total", "Messages stored.", _stored, "topic"),
    _counter(
        "rocketmq_throughput_in_total", "Bytes of the log.", lambda at: at.env.store.log.max_offset
    ),
    _counter(
        "rocketmq_send_to_dlq_messages_total", "Dead letters.", _dead_letters, "consumer_group"
    ),
    _gauge("rocketmq_consumer_connections", "Consumers.", _consumers, "consumer_group", "language"),
    _gauge("rocketmq_producer_connections", "Producers.", _producers, "language"),
    _of_groups("rocketmq_consumer_lag_messages", "Not committed.", lambda place: place.lag),
    _of_groups("rocketmq_consumer_ready_messages", "Not handed out.", _unread),
    _of_groups(
        "rocketmq_consumer_inflight_messages",
        "Handed out, not committed.",
        lambda place: max(place.lag - _unread(place), 0),
    ),
    _gauge("rocketmq_half_messages", "Open transactions.", lambda at: at.transactions.count()),
    (
        Metric(
            "rocketmq_finish_message_latency",
            MetricKind.HISTOGRAM,
            "Seconds from a half message to the word of its producer.",
        ),
        lambda at: at.transactions.finished,
    ),
    _gauge(
        "rocketmq_storage_size",
        "Bytes of the log that are kept.",
        lambda at: at.env.store.log.max_offset - at.env.store.log.min_offset,
    ),
    _gauge(
        "rocketmq_storage_flush_behind_bytes",
        "Bytes that are not synced.",
        lambda at: at.env.store.log.max_offset - at.env.store.flushed_offset,
    ),
    _gauge("rocketmq_storage_dispatch_behind_bytes", "Queues follow at once.", lambda _: 0),
    _gauge("rocketmq_storage_message_reserve_time", "Age of the oldest, in ms.", _reserve_time_ms),
    _gauge(
        "rocketmq_timing_messages",
        "Timers that wait.",
        lambda at: {(name,): at.timers.metrics.count(name) for name in at.timers.metrics.topics},
        "topic",
    ),
    _counter("rocketmq_timer_enqueue_total", "Timers taken, hops too.", _entered),
    _counter(
        "rocketmq_timer_dequeue_total",
        "Timers that are through.",
        lambda at: _entered(at) - at.timers.count(),
    ),
    _gauge(
        "rocketmq_timer_enqueue_lag",
        "Timers that the engine has not read.",
        lambda at: next(iter(at.timers.stages.values())).queue_depth,
    ),
    _gauge("rocketmq_timer_dequeue_lag", "Timers that wait.", lambda at: at.timers.count()),
)
"""What is read, and how."""
