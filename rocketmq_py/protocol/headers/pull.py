"""What pulling says in its headers: requests 11 and 361.

The bits of `sys_flag` are `codes.PullSysFlag`. Sources: `PullMessageRequestHeader` and
`PullMessageResponseHeader`.
"""

from __future__ import annotations

from rocketmq_py.protocol.headers import Header, Int32, Int64, Text, optional, required


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
