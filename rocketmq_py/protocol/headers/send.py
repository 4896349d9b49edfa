"""What sending, sending back and recalling a message and ending a transaction say in headers.

Requests 10, 310, 320, 324, 325 (`SendMessageRequestHeader`, `...V2`), 326, 36, 370, 37 and 39. What
the fields mean to the broker is told in `embedded_broker.remoting.handlers`; the properties text
is in `properties`.
"""

from __future__ import annotations

from typing import Any, Final

from rocketmq_py.protocol.headers import (
    Flag,
    Header,
    Int32,
    Int64,
    ShortNamedHeader,
    Text,
    optional,
    required,
)
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC

PROPERTIES_SHORT: Final = "i"
"""Under what name the short form of a send has the properties."""


class SendMessageRequestHeader(ShortNamedHeader):
    """10 and 324 under the long names, 310, 320 and 325 under the short ones."""

    producer_group: Text = required("producerGroup", short="a")
    topic: Text = required("topic", short="b")
    default_topic: Text = required("defaultTopic", short="c")
    default_topic_queue_nums: Int32 = required("defaultTopicQueueNums", short="d")
    queue_id: Int32 = required("queueId", short="e")
    sys_flag: Int32 = required("sysFlag", short="f")
    born_timestamp: Int64 = required("bornTimestamp", short="g")
    flag: Int32 = required("flag", short="h")
    properties: Text | None = optional("properties", short=PROPERTIES_SHORT)
    reconsume_times: Int32 | None = optional("reconsumeTimes", short="j")
    unit_mode: Flag | None = optional("unitMode", short="k")
    max_reconsume_times: Int32 | None = optional("maxReconsumeTimes", short="l")
    batch: Flag | None = optional("batch", short="m")
    broker_name: Text | None = optional("bname", short="n")


_NEW_MESSAGE: Final[dict[str, Any]] = {  # Any: each field of a header has a type of its own
    "default_topic": AUTO_CREATE_TOPIC,
    "default_topic_queue_nums": 4,
    "queue_id": 0,
    "sys_flag": 0,
    "born_timestamp": 0,
    "flag": 0,
    "reconsume_times": 0,
    "unit_mode": False,
    "batch": False,
}


def send_fields(group: str, topic: str, **fields: Any) -> dict[str, str]:
    """Write the header of a send of ours; ``fields`` are what a plain new message does not say."""
    values = {**_NEW_MESSAGE, "producer_group": group, "topic": topic, **fields}
    return SendMessageRequestHeader(**values).to_ext_v2()


class SendMessageResponseHeader(Header):
    """Answer to every kind of send; `msg_id` is the offset id, comma-joined for a batch."""

    msg_id: Text = required("msgId")
    queue_id: Int32 = required("queueId")
    queue_offset: Int64 = required("queueOffset")
    transaction_id: Text | None = optional("transactionId")
    batch_uniq_id: Text | None = optional("batchUniqId")
    recall_handle: Text | None = optional("recallHandle")


class PushReplyMessageRequestHeader(Header):
    """326, broker to client: the reply to a request of that client; hosts are ``ip:port``."""

    producer_group: Text = required("producerGroup")
    topic: Text = required("topic")
    default_topic: Text = required("defaultTopic")
    default_topic_queue_nums: Int32 = required("defaultTopicQueueNums")
    queue_id: Int32 = required("queueId")
    sys_flag: Int32 = required("sysFlag")
    born_timestamp: Int64 = required("bornTimestamp")
    flag: Int32 = required("flag")
    properties: Text | None = optional("properties")
    reconsume_times: Int32 | None = optional("reconsumeTimes")
    unit_mode: Flag | None = optional("unitMode")
    born_host: Text = required("bornHost")
    store_host: Text = required("storeHost")
    store_timestamp: Int64 = required("storeTimestamp")


class ConsumerSendMsgBackRequestHeader(Header):
    """36: the consumer could not handle the record at commit log offset `offset`."""

    offset: Int64 = required("offset")
    group: Text = required("group")
    delay_level: Int32 = required("delayLevel")
    origin_msg_id: Text | None = optional("originMsgId")
    origin_topic: Text | None = optional("originTopic")
    unit_mode: Flag | None = optional("unitMode")
    max_reconsume_times: Int32 | None = optional("maxReconsumeTimes")
    broker_name: Text | None = optional("bname")


class RecallMessageRequestHeader(Header):
    """370: take back a timer message that is not due yet."""

    topic: Text = required("topic")
    recall_handle: Text = required("recallHandle")
    producer_group: Text | None = optional("producerGroup")
    broker_name: Text | None = optional("bname")


class RecallMessageResponseHeader(Header):
    """Answer to 370: the UNIQ_KEY of what was taken back."""

    msg_id: Text = required("msgId")


class EndTransactionRequestHeader(Header):
    """37: a producer ends its transaction, by itself or because a broker asked.

    `tran_state_table_offset` is the half message's queue offset, `commit_or_rollback` one of the
    ``TRANSACTION_`` numbers of `sysflag`: 8 commit, 12 rollback, 0 still unknown.
    """

    producer_group: Text = required("producerGroup")
    tran_state_table_offset: Int64 = required("tranStateTableOffset")
    commit_log_offset: Int64 = required("commitLogOffset")
    commit_or_rollback: Int32 = required("commitOrRollback")
    from_transaction_check: Flag = optional("fromTransactionCheck", default=False)
    msg_id: Text = required("msgId")
    transaction_id: Text | None = optional("transactionId")
    topic: Text | None = optional("topic")
    broker_name: Text | None = optional("bname")


class ResumeCheckHalfMessageRequestHeader(Header):
    """323: ask again about a half message that was given up; `msg_id` is its offset id."""

    topic: Text | None = optional("topic")
    msg_id: Text | None = optional("msgId")


class CheckTransactionStateRequestHeader(Header):
    """39, broker to producer: say what became of the transaction; its half message is the body."""

    tran_state_table_offset: Int64 = required("tranStateTableOffset")
    commit_log_offset: Int64 = required("commitLogOffset")
    msg_id: Text | None = optional("msgId")
    transaction_id: Text | None = optional("transactionId")
    offset_msg_id: Text | None = optional("offsetMsgId")
    topic: Text | None = optional("topic")
    broker_name: Text | None = optional("bname")
