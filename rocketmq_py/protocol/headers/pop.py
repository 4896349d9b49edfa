"""What POP consumers say in their headers.

Requests 200050 (pop), 200051 (ack), 200052 (peek), 200053 (change the invisible time), 200054
(notification) and 200055 (polling info). What 200151, 400 and 401 say is in `bodies.pop`, how a
handle reads in `pop_handles`.
"""

from __future__ import annotations

from rocketmq_py.protocol.headers import Flag, Header, Int32, Int64, Text, optional, required


class PopMessageRequestHeader(Header):
    """200050: take messages of a queue (-1: of any) and hide them for `invisible_time` ms."""

    consumer_group: Text = required("consumerGroup")
    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    max_msg_nums: Int32 = required("maxMsgNums")
    invisible_time: Int64 = required("invisibleTime")
    poll_time: Int64 = required("pollTime")
    # Brokers fill in the present time when it is missing or 0.
    born_time: Int64 = optional("bornTime", default=0)
    init_mode: Int32 = required("initMode")
    exp_type: Text | None = optional("expType")
    exp: Text | None = optional("exp")
    order: Flag | None = optional("order")
    attempt_id: Text | None = optional("attemptId")
    broker_name: Text | None = optional("bname")


class PopMessageResponseHeader(Header):
    """Answer to 200050 and 200052; Java reads the first four whatever the code is."""

    pop_time: Int64 = required("popTime")
    invisible_time: Int64 = required("invisibleTime")
    revive_qid: Int32 = required("reviveQid")
    rest_num: Int64 = required("restNum")
    start_offset_info: Text | None = optional("startOffsetInfo")
    msg_offset_info: Text | None = optional("msgOffsetInfo")
    order_count_info: Text | None = optional("orderCountInfo")


class AckMessageRequestHeader(Header):
    """200051: a message of `extra_info` (its handle) is done; `topic` is the one it lies in."""

    consumer_group: Text = required("consumerGroup")
    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    extra_info: Text = required("extraInfo")
    offset: Int64 = required("offset")
    broker_name: Text | None = optional("bname")


class ChangeInvisibleTimeRequestHeader(Header):
    """200053: hide a popped message for `invisible_time` ms from now."""

    consumer_group: Text = required("consumerGroup")
    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    extra_info: Text = required("extraInfo")
    offset: Int64 = required("offset")
    invisible_time: Int64 = required("invisibleTime")
    broker_name: Text | None = optional("bname")


class ChangeInvisibleTimeResponseHeader(Header):
    """Answer to 200053: what the new handle is made of."""

    pop_time: Int64 = required("popTime")
    invisible_time: Int64 = required("invisibleTime")
    revive_qid: Int32 = required("reviveQid")


class PeekMessageRequestHeader(Header):
    """200052: look at the next messages without taking them."""

    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    max_msg_nums: Int32 = required("maxMsgNums")
    consumer_group: Text = required("consumerGroup")
    broker_name: Text | None = optional("bname")


class NotificationRequestHeader(Header):
    """200054: say when a pop would find something."""

    consumer_group: Text = required("consumerGroup")
    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    poll_time: Int64 = required("pollTime")
    born_time: Int64 = optional("bornTime", default=0)
    order: Flag | None = optional("order")
    attempt_id: Text | None = optional("attemptId")
    broker_name: Text | None = optional("bname")


class NotificationResponseHeader(Header):
    """Answer to 200054."""

    has_msg: Flag = required("hasMsg")
    polling_full: Flag = required("pollingFull")


class PollingInfoRequestHeader(Header):
    """200055: how many pops wait."""

    consumer_group: Text = required("consumerGroup")
    topic: Text = required("topic")
    queue_id: Int32 = required("queueId")
    broker_name: Text | None = optional("bname")


class PollingInfoResponseHeader(Header):
    """Answer to 200055."""

    polling_num: Int32 = required("pollingNum")
