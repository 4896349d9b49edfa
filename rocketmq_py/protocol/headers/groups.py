"""What tools ask a broker about groups, in headers.

Requests 204 (producers), 300, 343 and 345 (who reads what), 303, 308, 314, 317 and 321 (how far),
315 (figures), and those that a broker hands on to a client: 221 with 223, 307 and 309.
"""

from __future__ import annotations

from rocketmq_py.protocol.headers import Flag, Header, Int32, Int64, Text, optional, required


class GetProducerConnectionListRequestHeader(Header):
    """204: who is online in a producer group."""

    producer_group: Text = required("producerGroup")


class QueryTopicConsumeByWhoRequestHeader(Header):
    """300: the groups that read a topic."""

    topic: Text = required("topic")


class QueryTopicsByConsumerRequestHeader(Header):
    """343: the topics that a group has read."""

    group: Text = required("group")


class QuerySubscriptionByConsumerRequestHeader(Header):
    """345: how a group subscribes to a topic."""

    group: Text = required("group")
    topic: Text = required("topic")


class QueryConsumeTimeSpanRequestHeader(Header):
    """303: of which time the messages are that a group has still to read."""

    topic: Text = required("topic")
    group: Text = required("group")


class QueryCorrectionOffsetHeader(Header):
    """308: the least offsets of all groups but some; `filter_groups` is joined by commas."""

    filter_groups: Text | None = optional("filterGroups")
    compare_group: Text = required("compareGroup")
    topic: Text = required("topic")


class CloneGroupOffsetRequestHeader(Header):
    """314: a group gets the offsets of another one; without a topic those of all its topics."""

    src_group: Text = required("srcGroup")
    dest_group: Text = required("destGroup")
    topic: Text | None = optional("topic")
    offline: Flag = optional("offline", default=False)


class ViewBrokerStatsDataRequestHeader(Header):
    """315: one figure of one thing, such as TOPIC_PUT_NUMS of a topic."""

    stats_name: Text = required("statsName")
    stats_key: Text = required("statsKey")


class GetConsumeStatsInBrokerHeader(Header):
    """317: how far all groups are; in ordered topics only, if that is wanted."""

    is_order: Flag = required("isOrder")


class QueryConsumeQueueRequestHeader(Header):
    """321: entries of a queue, and whether a group wants them."""

    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    index: Int64 = required("index")
    count: Int32 = required("count")
    consumer_group: Text | None = optional("consumerGroup")


class GetConsumerStatusRequestHeader(Header):
    """223 to a broker, 221 from a broker to a client: how far the client itself is."""

    topic: Text = required("topic")
    group: Text = required("group")
    client_addr: Text | None = optional("clientAddr")


class GetConsumerRunningInfoRequestHeader(Header):
    """307, to a broker and from a broker to a client: how a consumer is."""

    consumer_group: Text = required("consumerGroup")
    client_id: Text = required("clientId")
    jstack_enable: Flag = optional("jstackEnable", default=False)


class ConsumeMessageDirectlyResultRequestHeader(Header):
    """309, to a broker and from a broker to a client: consume this message now."""

    consumer_group: Text = required("consumerGroup")
    client_id: Text | None = optional("clientId")
    msg_id: Text | None = optional("msgId")
    broker_name: Text | None = optional("brokerName")
    topic: Text | None = optional("topic")
    topic_sys_flag: Int32 | None = optional("topicSysFlag")
    group_sys_flag: Int32 | None = optional("groupSysFlag")
