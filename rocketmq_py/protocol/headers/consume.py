"""What consuming and looking for messages say in their headers.

Requests 11 and 361 (pull; the bits of `sys_flag` are `codes.PullSysFlag`), 14, 15 and 29 to 32
(consumer offsets and queue bounds), 12 and 33 (queries).
"""

from __future__ import annotations

from rocketmq_py.protocol.headers import Flag, Header, Int32, Int64, Text, optional, required


class PullMessageRequestHeader(Header):
    """Ask for records of one queue from `queue_offset` on."""

    consumer_group: Text = required("consumerGroup")
    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    queue_offset: Int64 = required("queueOffset")
    max_msg_nums: Int32 = required("maxMsgNums")
    sys_flag: Int32 = required("sysFlag")
    commit_offset: Int64 = required("commitOffset")
    suspend_timeout_millis: Int64 = required("suspendTimeoutMillis")
    sub_version: Int64 = required("subVersion")
    subscription: Text | None = optional("subscription")
    expression_type: Text | None = optional("expressionType")
    max_msg_bytes: Int32 | None = optional("maxMsgBytes")
    request_source: Int32 | None = optional("requestSource")
    # The misspelling is the original's name on the wire.
    proxy_forward_client_id: Text | None = optional("proxyFrowardClientId")
    broker_name: Text | None = optional("bname")


class PullMessageResponseHeader(Header):
    """Answer for codes 0, 19, 20 and 21; Java fails without the four required fields."""

    suggest_which_broker_id: Int64 = required("suggestWhichBrokerId")
    next_begin_offset: Int64 = required("nextBeginOffset")
    min_offset: Int64 = required("minOffset")
    max_offset: Int64 = required("maxOffset")
    offset_delta: Int64 | None = optional("offsetDelta")
    topic_sys_flag: Int32 | None = optional("topicSysFlag")
    group_sys_flag: Int32 | None = optional("groupSysFlag")
    forbidden_type: Int32 | None = optional("forbiddenType")


class QueryConsumerOffsetRequestHeader(Header):
    """14: where the group continues in one queue."""

    consumer_group: Text = required("consumerGroup")
    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    set_zero_if_not_found: Flag | None = optional("setZeroIfNotFound")
    broker_name: Text | None = optional("bname")


class UpdateConsumerOffsetRequestHeader(Header):
    """15: the group continues at `commit_offset` in one queue."""

    consumer_group: Text = required("consumerGroup")
    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    commit_offset: Int64 = required("commitOffset")
    broker_name: Text | None = optional("bname")


class SearchOffsetRequestHeader(Header):
    """29: the offset of a store time; `boundary_type` (5.x) is LOWER or UPPER."""

    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    timestamp: Int64 = required("timestamp")
    boundary_type: Text | None = optional("boundaryType")
    broker_name: Text | None = optional("bname")


class GetMaxOffsetRequestHeader(Header):
    """30: the next offset to be written."""

    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    committed: Flag | None = optional("committed")
    broker_name: Text | None = optional("bname")


class GetMinOffsetRequestHeader(Header):
    """31: the first offset that can be read."""

    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    broker_name: Text | None = optional("bname")


class GetEarliestMsgStoretimeRequestHeader(Header):
    """32: the store time of the first record that can be read."""

    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    broker_name: Text | None = optional("bname")


class OffsetResponseHeader(Header):
    """Answer to 14, 29, 30 and 31."""

    offset: Int64 = required("offset")


class TimestampResponseHeader(Header):
    """Answer to 32: milliseconds, -1 for an empty queue."""

    timestamp: Int64 = required("timestamp")


class QueryMessageRequestHeader(Header):
    """12: records of a topic with a key and a store time in the range, both ends included.

    `unique_key_query` is no field of the original's class but an extra field that Java sends with
    every 12; only the value `true` makes `key` a UNIQ_KEY.
    """

    topic: Text = required("topic")
    key: Text = required("key")
    max_num: Int32 = required("maxNum")
    begin_timestamp: Int64 = required("beginTimestamp")
    end_timestamp: Int64 = required("endTimestamp")
    unique_key_query: Flag | None = optional("_UNIQUE_KEY_QUERY")
    broker_name: Text | None = optional("bname")


class QueryMessageResponseHeader(Header):
    """Answer to 12: how far the index has come."""

    index_last_update_timestamp: Int64 = required("indexLastUpdateTimestamp")
    index_last_update_phyoffset: Int64 = required("indexLastUpdatePhyoffset")


class ViewMessageRequestHeader(Header):
    """33: the record at a commit log offset."""

    offset: Int64 = required("offset")
    topic: Text | None = optional("topic")
    broker_name: Text | None = optional("bname")
