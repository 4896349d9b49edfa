"""What topics are, where they are, and how far their queues reach.

Bodies of 18, 21, 103, 202, 206, 219 and ``topics.json`` (`TopicConfig`, `TopicList`,
`TopicStatsTable`, `DataVersion`), answers to 105 and 106 (`TopicRouteData`, `QueueData`,
`BrokerData`, `ClusterInfo`).
Integer keys are bare in Java's dialect; a name server quotes them for requests of version 401 and
later.
"""

import re
from typing import Any, Final, Self

from attrs import define, field

from rocketmq_py.protocol.bodies.document import Document, MessageQueueKey
from rocketmq_py.protocol.codes import PERM_READ, PERM_WRITE

MASTER_ID = 0
"""Broker id of a master; others are slaves."""

_TEXT: Final = r'"([^"\\\x00-\x1f]*)"'
_WHOLE: Final = r"(-?(?:0|[1-9]\d{0,17}))"
_ENTRY: Final = re.compile(
    rf'\{{"brokerName":{_TEXT},"queueId":{_WHOLE},"topic":{_TEXT}\}}:'
    rf'\{{"lastUpdateTimestamp":{_WHOLE},"maxOffset":{_WHOLE},"minOffset":{_WHOLE}\}}'
    r"(?:,(?=\{)|(?=\}))",
    re.ASCII,
)
"""An entry of `TopicStatsTable` as servers write it."""
_TABLE_BEGIN: Final = '{"offsetTable":{'
_TABLE_END: Final = re.compile(r'\}(?:,"topicPutTps":((?:0|[1-9]\d*)\.\d+))?\}', re.ASCII)


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
class TopicConfigs(Document):
    """Body of 18: topics to create or change."""

    topic_config_list: list[TopicConfig] = field(factory=list)


@define
class TopicConfigTable(Document):
    """Answer to 21: every topic of a broker; the last two are of 5.x, which has static topics."""

    data_version: DataVersion = field(factory=DataVersion)
    topic_config_table: dict[str, TopicConfig] = field(factory=dict)
    mapping_data_version: DataVersion | None = None
    topic_queue_mapping_detail_map: dict[str, Any] | None = None
    topic_queue_mapping_info_map: dict[str, Any] | None = None


@define
class RegisterBrokerBody(Document):
    """Body of 103: every topic of the broker that registers, or one that has changed."""

    topic_config_serialize_wrapper: TopicConfigTable = field(factory=TopicConfigTable)
    filter_server_list: list[str] = field(factory=list)


@define
class KVTable(Document):
    """Texts by name: the answer to 219."""

    table: dict[str, str] = field(factory=dict)


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

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Read a body; one that is as servers write it, in a tenth of the time that others take.

        Topics have thousands of queues, and some programs ask for them once a second.
        """
        text = body.decode(errors="replace")
        table: dict[MessageQueueKey, TopicOffset] = {}
        at = len(_TABLE_BEGIN) if text.startswith(_TABLE_BEGIN) else len(text)
        entry = _ENTRY.match
        while found := entry(text, at):
            broker, queue, topic, stored_at, past, least = found.groups()
            key = MessageQueueKey(topic, broker, int(queue))
            table[key] = TopicOffset(int(least), int(past), int(stored_at))
            at = found.end()
        end = _TABLE_END.fullmatch(text, at)
        if end is None or "\N{REPLACEMENT CHARACTER}" in text:
            return super().decode(body)
        return cls(table, float(end[1] or 0.0))


@define
class QueueData(Document):
    """How many queues of a topic one broker has; `perm` as in `codes.PERM_READ` and others."""

    broker_name: str = ""
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


@define
class BrokerData(Document):
    """The addresses (``host:port`` by broker id) of one broker name.

    `zone_name` and `enable_acting_master` (5.x) are left out as long as they are None; 5.x servers
    always write the second, which readers that evaluate the text as Python cannot take.
    """

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = field(factory=dict)
    zone_name: str | None = None
    enable_acting_master: bool | None = None


@define
class TopicRouteData(Document):
    """The route of one topic.

    >>> route = TopicRouteData(broker_datas=[BrokerData("c", "b", {0: "127.0.0.1:10911"})])
    >>> TopicRouteData.decode(route.encode()) == TopicRouteData.decode(route.encode(standard=True))
    True
    """

    queue_datas: list[QueueData] = field(factory=list)
    broker_datas: list[BrokerData] = field(factory=list)
    order_topic_conf: str | None = None
    filter_server_table: dict[str, list[str]] = field(factory=dict)


@define
class ClusterInfo(Document):
    """All brokers by name, and the broker names of each cluster."""

    broker_addr_table: dict[str, BrokerData] = field(factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(factory=dict)
