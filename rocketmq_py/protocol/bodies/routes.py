"""Where topics and brokers are: the answers to 105 and 106.

Sources: `TopicRouteData`, `QueueData`, `BrokerData`, `ClusterInfo`. Integer keys are bare in Java's
dialect; a name server quotes them for requests of version 401 and later.
"""

from attrs import define, field

from rocketmq_py.protocol.bodies.document import Document

MASTER_ID = 0
"""Broker id of a master; others are slaves."""


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
