"""What topics are and how far their queues reach: bodies of 202, 206 and of ``topics.json``.

Sources: `TopicConfig`, `TopicList`, `TopicStatsTable`, `DataVersion`.
"""

from attrs import define, field

from rocketmq_py.protocol.bodies.document import Document, MessageQueueKey
from rocketmq_py.protocol.codes import PERM_READ, PERM_WRITE


@define
class DataVersion(Document):
    """How often a table has changed; 4.9 has no `state_version`."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0


@define
class TopicConfig(Document):
    """One topic of a broker.

    Producers use queues below `write_queue_nums`, consumers those below `read_queue_nums`.
    """

    topic_name: str = ""
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ | PERM_WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = field(factory=dict)


@define
class TopicList(Document):
    """Names of topics; `broker_addr` is set in a list of system topics only."""

    topic_list: list[str] = field(factory=list)
    broker_addr: str | None = None


@define
class TopicOffset(Document):
    """Bounds of one queue and the store time (ms) of its last record, 0 when empty."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


@define
class TopicStatsTable(Document):
    """Bounds of all queues of a topic on one broker; 4.9 has no `topic_put_tps`."""

    offset_table: dict[MessageQueueKey, TopicOffset] = field(factory=dict)
    topic_put_tps: float | None = 0.0
