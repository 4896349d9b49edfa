"""What consumer offsets and queue bounds say in their headers: requests 14, 15, 29 to 32."""

from __future__ import annotations

from rocketmq_py.protocol.headers import Flag, Header, Int32, Int64, Text, optional, required


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
