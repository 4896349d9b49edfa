"""What brokers tell tools about who reads what, and how far.

Answers to 221, 223, 300, 303, 307, 308, 309, 315, 317, 321, 328 and 345. Sources:
`GetConsumerStatusBody`, `ConsumerRunningInfo`, `ConsumeMessageDirectlyResult`,
`GroupList`, `QueryConsumeTimeSpanBody`, `QueryCorrectionOffsetBody`, `BrokerStatsData`,
`ConsumeStatsList`, `QueryConsumeQueueResponseBody`, `ProducerTableInfo`,
`QuerySubscriptionResponseBody`.
"""

from attrs import define, field

from rocketmq_py.protocol.bodies.document import Document, MessageQueueKey, wire
from rocketmq_py.protocol.bodies.groups import ConsumeStats
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData


@define
class ConsumerStatus(Document):
    """The offsets of one client (221), or of all clients of a group (223)."""

    message_queue_table: dict[MessageQueueKey, int] | None = None
    consumer_table: dict[str, dict[MessageQueueKey, int]] | None = None


@define
class GroupList(Document):
    """Names of groups."""

    group_list: list[str] = field(factory=list)


@define
class SubscriptionView(Document):
    """How a group subscribes to a topic; without a subscription nobody of it does."""

    subscription_data: SubscriptionData | None = None
    group: str = ""
    topic: str = ""


@define
class QueueTimeSpan(Document):
    """Store times of a queue: of the first, the last and the last consumed message.

    `delay_time` is the age of the first message that is still to be consumed.
    """

    message_queue: MessageQueueKey
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0


@define
class ConsumeTimeSpans(Document):
    """The times of all queues of a topic."""

    consume_time_span_set: list[QueueTimeSpan] = field(factory=list)


@define
class CorrectionOffsets(Document):
    """The least offset of each queue."""

    correction_offsets: dict[int, int] = field(factory=dict)


@define
class BrokerStatsItem(Document):
    """A figure over some time: its sum, per second, and for each call."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


@define
class BrokerStatsData(Document):
    """A figure over the last minute, hour and day."""

    stats_minute: BrokerStatsItem = field(factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(factory=BrokerStatsItem)


@define
class ConsumeStatsList(Document):
    """How far every group is in each of its topics."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(factory=list)
    broker_addr: str = ""
    total_diff: int = 0
    total_inflight_diff: int | None = None  # 5.x


@define
class ConsumeQueueEntry(Document):
    """One entry of a queue."""

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    is_match: bool = field(default=False, metadata=wire("eval"))
    msg: str | None = None


@define
class ConsumeQueueView(Document):
    """Some entries of a queue, its bounds, and how a group subscribes to its topic."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueEntry] | None = None
    max_queue_index: int = 0
    min_queue_index: int = 0


@define
class ProducerInfo(Document):
    """One client of a producer group."""

    client_id: str = ""
    remote_ip: str = field(default="", metadata=wire("remoteIP"))
    language: str | None = None
    version: int = 0
    last_update_timestamp: int = 0


@define
class ProducerTable(Document):
    """Who is online in which producer group."""

    data: dict[str, list[ProducerInfo]] = field(factory=dict)


@define
class ProcessQueueInfo(Document):
    """What a consumer has of one queue, and when it pulled last; `droped` is Java's spelling."""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mi_b: int = field(default=0, metadata=wire("cachedMsgSizeInMiB"))
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


@define
class PopProcessQueueInfo(Document):
    """What a consumer has of one assignment that it pops, and when it popped last."""

    wait_ack_count: int = 0
    droped: bool = False
    last_pop_timestamp: int = 0


@define
class ConsumerRunningInfo(Document):
    """How a consumer is: the answer to 307."""

    properties: dict[str, str] = field(factory=dict)
    subscription_set: list[SubscriptionData] = field(factory=list)
    mq_table: dict[MessageQueueKey, ProcessQueueInfo] = field(factory=dict)
    mq_pop_table: dict[MessageQueueKey, PopProcessQueueInfo] = field(factory=dict)
    status_table: dict[str, dict[str, float]] = field(factory=dict)
    user_consumer_info: dict[str, str] = field(factory=dict)
    jstack: str | None = None


@define
class ConsumeDirectlyResult(Document):
    """What came of a message that was to be consumed at once: the answer to 309."""

    order: bool = False
    auto_commit: bool = True
    consume_result: str = "CR_SUCCESS"
    remark: str | None = None
    spent_time_mills: int = 0
