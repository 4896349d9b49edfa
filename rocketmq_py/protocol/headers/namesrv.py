"""What administration says to a name server in its headers.

Requests 100, 101, 102 and 219 (key-values), 103, 104, 322, 901 and 904 (brokers), 205 and 327
(write permission of a broker), 216 and 217 (topics of routes), 224 (topics of a cluster). Route
questions of clients are in `client`.
"""

from __future__ import annotations

from rocketmq_py.protocol.headers import Flag, Header, Int32, Int64, Text, optional, required


class PutKVConfigRequestHeader(Header):
    """100: set a value."""

    namespace: Text = required("namespace")
    key: Text = required("key")
    value: Text = required("value")


class GetKVConfigRequestHeader(Header):
    """101 and 102: ask for a value, or delete it."""

    namespace: Text = required("namespace")
    key: Text = required("key")


class GetKVConfigResponseHeader(Header):
    """Answer to 101."""

    value: Text | None = optional("value")


class GetKVListByNamespaceRequestHeader(Header):
    """219: all values of a namespace."""

    namespace: Text = required("namespace")


class WritePermOfBrokerRequestHeader(Header):
    """205 and 327: take the write permission from all topics of a broker, or give it back."""

    broker_name: Text = required("brokerName")


class WipeWritePermOfBrokerResponseHeader(Header):
    """Answer to 205: how many topics the broker has."""

    wipe_topic_count: Int32 = required("wipeTopicCount")


class AddWritePermOfBrokerResponseHeader(Header):
    """Answer to 327: how many topics the broker has."""

    add_topic_count: Int32 = required("addTopicCount")


class DeleteTopicFromNamesrvRequestHeader(Header):
    """216: forget a topic's route, of all brokers or of those of a cluster."""

    topic: Text = required("topic")
    cluster_name: Text | None = optional("clusterName")


class RegisterTopicRequestHeader(Header):
    """217: make a route known; the queues are in the body."""

    topic: Text = required("topic")


class GetTopicsByClusterRequestHeader(Header):
    """224: the topics of a cluster."""

    cluster: Text = required("cluster")


class RegisterBrokerRequestHeader(Header):
    """103: a broker announces itself; its topics are in the body."""

    broker_name: Text = required("brokerName")
    broker_addr: Text = required("brokerAddr")
    cluster_name: Text = required("clusterName")
    ha_server_addr: Text = required("haServerAddr")
    broker_id: Int64 = required("brokerId")
    heartbeat_timeout_millis: Int64 | None = optional("heartbeatTimeoutMillis")
    enable_acting_master: Flag | None = optional("enableActingMaster")
    compressed: Flag = optional("compressed", default=False)
    body_crc32: Int32 = optional("bodyCrc32", default=0)


class RegisterBrokerResponseHeader(Header):
    """Answer to 103: where a slave's master is, for HA transfer and for requests."""

    ha_server_addr: Text | None = optional("haServerAddr")
    master_addr: Text | None = optional("masterAddr")


class UnRegisterBrokerRequestHeader(Header):
    """104: a broker says goodbye."""

    broker_name: Text = required("brokerName")
    broker_addr: Text = required("brokerAddr")
    cluster_name: Text = required("clusterName")
    broker_id: Int64 = required("brokerId")


class QueryDataVersionRequestHeader(Header):
    """322: whether a broker's topics, of the version in the body, are known."""

    broker_name: Text = required("brokerName")
    broker_addr: Text = required("brokerAddr")
    cluster_name: Text = required("clusterName")
    broker_id: Int64 = required("brokerId")


class QueryDataVersionResponseHeader(Header):
    """Answer to 322."""

    changed: Flag = required("changed")


class BrokerHeartbeatRequestHeader(Header):
    """904: a broker is there."""

    cluster_name: Text = required("clusterName")
    broker_addr: Text = required("brokerAddr")
    broker_name: Text = required("brokerName")


class GetBrokerMemberGroupRequestHeader(Header):
    """901: who has a broker's name."""

    cluster_name: Text = required("clusterName")
    broker_name: Text = required("brokerName")
