"""What consumer groups are, who is in them, how far they are and which queues one holds alone.

Bodies of 38, 41, 42, 43, 46, 200, 201, 203, 208, 220 and 225. Sources: `SubscriptionGroupConfig`,
`GetConsumerListByGroupResponseBody`, `ConsumerConnection`, `ConsumeStats`,
`CheckClientRequestBody`, `ResetOffsetBody`, `ResetOffsetBodyForC`, `LockBatchRequestBody`,
`LockBatchResponseBody`, `UnlockBatchRequestBody`.
"""

from collections.abc import Mapping
from typing import Any, Self

from attrs import define, field

from rocketmq_py.protocol.bodies.document import Document, MessageQueueKey, wire
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.bodies.topics import DataVersion


@define
class SubscriptionGroupConfig(Document):
    """Settings of one group; None is left out (4.9 lacks the fields marked 5.x)."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool | None = False  # 5.x
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    # Any: policies of 5.x have their own shapes, which nobody here interprets.
    group_retry_policy: dict[str, Any] | None = field(factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int | None = 15  # 5.x
    subscription_data_set: list[dict[str, Any]] | None = None  # 5.x
    attributes: dict[str, str] | None = field(factory=dict)  # 5.x


@define
class SubscriptionGroupConfigs(Document):
    """Body of 225: groups to create or change."""

    group_config_list: list[SubscriptionGroupConfig] = field(factory=list)


@define
class SubscriptionGroupTable(Document):
    """Answer to 201: every group of a broker, and which topics which group may not read."""

    data_version: DataVersion = field(factory=DataVersion)
    forbidden_table: dict[str, dict[str, int]] = field(factory=dict)
    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(factory=dict)


@define
class GroupForbidden(Document):
    """Answer to 353: whether a group may read a topic."""

    group: str = ""
    topic: str = ""
    readable: bool = True


@define
class ConsumerOffsets(Document):
    """Answer to 43: the next offset to consume, by `topic@group` and queue."""

    data_version: DataVersion | None = None
    offset_table: dict[str, dict[int, int]] = field(factory=dict)


@define
class ConsumerList(Document):
    """The client ids of a group."""

    consumer_id_list: list[str] = field(factory=list)


@define
class Connection(Document):
    """One client of a group; `language` is a name of `codes.LanguageCode`."""

    client_id: str = ""
    client_addr: str = ""
    language: str | None = None
    version: int = 0


@define
class ConsumerConnection(Document):
    """Who is online in a group and what it subscribes, by topic."""

    connection_set: list[Connection] = field(factory=list)
    subscription_table: dict[str, SubscriptionData] = field(factory=dict)
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


@define
class ProducerConnection(Document):
    """Who is online in a producer group."""

    connection_set: list[Connection] = field(factory=list)


@define
class OffsetWrapper(Document):
    """Progress of a group in one queue; `last_timestamp` is the store time of the last consumed."""

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int | None = 0  # 5.x
    last_timestamp: int = 0


@define
class ConsumeStats(Document):
    """Progress of a group in all queues of one broker."""

    offset_table: dict[MessageQueueKey, OffsetWrapper] = field(factory=dict)
    consume_tps: float = 0.0


@define
class ClientConfigCheck(Document):
    """Body of 46: can the broker serve this subscription."""

    client_id: str = ""
    group: str = ""
    namespace: str | None = None
    subscription_data: SubscriptionData = field(factory=SubscriptionData)


@define
class ResetOffsetBody(Document):
    """Where a group continues: the body of 220, and of the answer to 222."""

    offset_table: dict[MessageQueueKey, int] = field(factory=dict)


@define
class MessageQueueForC(Document):
    """A queue and the offset at which it is continued."""

    broker_name: str = ""
    offset: int = 0
    queue_id: int = 0
    topic: str = ""


@define
class ResetOffsetBodyForC(Document):
    """The body of 220 for C++ clients, which read no table with queues as keys."""

    offset_table: list[MessageQueueForC] = field(factory=list)

    @classmethod
    def of(cls, offsets: Mapping[MessageQueueKey, int]) -> Self:
        """List the queues of a table."""
        return cls(
            [
                MessageQueueForC(queue.broker_name, offset, queue.queue_id, queue.topic)
                for queue, offset in offsets.items()
            ]
        )


@define
class LockBatchRequest(Document):
    """Queues to lock or unlock for one client of a group."""

    consumer_group: str = ""
    client_id: str = ""
    only_this_broker: bool = False
    mq_set: list[MessageQueueKey] = field(factory=list)


@define
class LockBatchResponse(Document):
    """The queues that the caller holds now."""

    lock_ok_mq_set: list[MessageQueueKey] = field(factory=list, metadata=wire("lockOKMQSet"))
