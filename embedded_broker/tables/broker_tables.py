"""The tables of one broker, by name: its topics, groups, offsets and clients.

Must not know: who reads or changes them, in which files they are kept. Read on:
``embedded_broker/lifecycle/assembly.py``, which makes and loads them.
"""

from attrs import define

from embedded_broker.tables.consumers.filters import ConsumerFilterTable
from embedded_broker.tables.consumers.groups import GroupTable
from embedded_broker.tables.consumers.registry import ConsumerRegistry, ProducerRegistry, QueueLocks
from embedded_broker.tables.consumers.request_modes import RequestModeTable
from embedded_broker.tables.offsets.deliveries import DeliveryLog
from embedded_broker.tables.offsets.orders import OrderTable
from embedded_broker.tables.offsets.table import OffsetTable
from embedded_broker.tables.topics.deleted import DeletedTopics
from embedded_broker.tables.topics.table import TopicTable


@define(eq=False, kw_only=True)
class Tables:
    """What a broker knows besides its messages and timers. Used under the door."""

    topics: TopicTable
    deleted_topics: DeletedTopics
    groups: GroupTable
    offsets: OffsetTable
    deliveries: DeliveryLog
    consumers: ConsumerRegistry
    consumer_filters: ConsumerFilterTable
    producers: ProducerRegistry
    locks: QueueLocks
    orders: OrderTable
    request_modes: RequestModeTable
