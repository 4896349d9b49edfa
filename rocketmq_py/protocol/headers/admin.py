"""What administration of a broker says in its headers.

Requests 17, 215, 351 (topics), 207, 352 (groups), 202, 203, 208, 220 and 222. Requests 200 and 225
(settings of groups) and 18 (of topics) have no header; their bodies are in `bodies.groups` and
`bodies.topics`. What tools ask about groups is in `groups`.
"""

from __future__ import annotations

from rocketmq_py.protocol.headers import Flag, Header, Int32, Int64, Text, optional, required


class CreateTopicRequestHeader(Header):
    """17: create or change a topic. `attributes` is ``+key=value,-key`` or empty."""

    topic: Text = required("topic")
    default_topic: Text = required("defaultTopic")
    read_queue_nums: Int32 = required("readQueueNums")
    write_queue_nums: Int32 = required("writeQueueNums")
    perm: Int32 = required("perm")
    topic_filter_type: Text = required("topicFilterType")
    topic_sys_flag: Int32 | None = optional("topicSysFlag")
    # Required in the original, but with a default there.
    order: Flag = optional("order", default=False)
    attributes: Text | None = optional("attributes")
    force: Flag | None = optional("force")


class GetTopicStatsInfoRequestHeader(Header):
    """202: bounds of every queue of a topic."""

    topic: Text = required("topic")


class GetTopicConfigRequestHeader(Header):
    """351: the settings of a topic; `lo` asks for the mapping of a static topic, too."""

    topic: Text = required("topic")
    lo: Flag | None = optional("lo")


class DeleteTopicRequestHeader(Header):
    """215: delete a topic of this broker."""

    topic: Text = required("topic")


class DeleteSubscriptionGroupRequestHeader(Header):
    """207: delete a group; the switch for its offsets has one name in 4.9 and another in 5.x."""

    group_name: Text = required("groupName")
    remove_offset: Flag = optional("removeOffset", default=False)
    clean_offset: Flag = optional("cleanOffset", default=False)


class GetSubscriptionGroupConfigRequestHeader(Header):
    """352: the settings of a group."""

    group: Text = required("group")


class UpdateGroupForbiddenRequestHeader(Header):
    """353: forbid a group to read a topic or allow it; without `readable` only ask."""

    group: Text = required("group")
    topic: Text = required("topic")
    readable: Flag | None = optional("readable")


class GetConsumerConnectionListRequestHeader(Header):
    """203: who is online in a group, and what it subscribes."""

    consumer_group: Text = required("consumerGroup")


class GetConsumeStatsRequestHeader(Header):
    """208: progress of a group; `topic_list` is joined by semicolons (5.x)."""

    consumer_group: Text = required("consumerGroup")
    topic: Text | None = optional("topic")
    topic_list: Text | None = optional("topicList")


class ResetOffsetRequestHeader(Header):
    """222 to a broker, 220 from a broker to a client: a group continues elsewhere.

    `timestamp` is the store time to go to, -1 for the end. `queue_id` and `offset` (5.3) choose one
    queue and one place in it.
    """

    topic: Text = required("topic")
    group: Text = required("group")
    timestamp: Int64 = required("timestamp")
    is_force: Flag = required("isForce")
    queue_id: Int32 = optional("queueId", default=-1)
    offset: Int64 | None = optional("offset")


class ExchangeHAInfoRequestHeader(Header):
    """906: empty from a slave that asks; a master that comes back says where it is."""

    master_ha_address: Text | None = optional("masterHaAddress")
    master_flush_offset: Int64 | None = optional("masterFlushOffset")
    master_address: Text | None = optional("masterAddress")


class ExchangeHAInfoResponseHeader(Header):
    """Answer to 906: where a master is followed, and how much was durable when it started.

    The last four are ours. A slave tells a master that comes back how far it has released timers
    in its place, or that the last ones are still leaving.
    """

    master_ha_address: Text | None = optional("masterHaAddress")
    master_flush_offset: Int64 | None = optional("masterFlushOffset")
    master_address: Text | None = optional("masterAddress")
    timers_are_leaving: Flag | None = optional("timersAreLeaving")
    timers_until_ms: Int64 | None = optional("timersUntilMs")
    timers_queue_offset: Int64 | None = optional("timersQueueOffset")
    timers_next_root: Int64 | None = optional("timersNextRoot")
