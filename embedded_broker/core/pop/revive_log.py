"""Revive log: check points, acks and revived messages in the store, one function for each.

RocketMQ's PopMessageProcessor.buildCkMsg, AckMessageProcessor.appendAck and
PopReviveService.reviveRetry: a check point lies in ``rmq_sys_REVIVE_LOG_<cluster>`` and gets there
by timer, a second before its messages come back; its acks get there at that time. Until then they
wait in the timer topic as any timer does. Pure: must not know clocks, who waits, what is open.

Read on: `revive.py`.
"""

from typing import Final, NamedTuple

from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.store.put_values import InnerMessage
from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.pop import Ack, CheckPoint
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import REVIVE_TOPIC_PREFIX, is_retry_topic
from rocketmq_py.protocol.pop_handles import pop_retry_topic
from rocketmq_py.protocol.properties import Prop

CHECK_POINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
AHEAD_MS: Final = 1000
"""So long before its messages come back a check point is in the revive topic."""
MESSAGES_MAX: Final = 127
"""Most messages of a check point: their number is a byte. Anybody may have written it."""


class PopKey(NamedTuple):
    """What names the check point of a pop of one queue; its acks name it, too."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time_ms: int
    broker_name: str


def key_of(entry: CheckPoint | Ack) -> PopKey:
    """Give the key of a check point, or of the one that an ack belongs to."""
    return PopKey(
        entry.topic,
        entry.group,
        entry.queue_id,
        entry.start_offset,
        entry.pop_time_ms,
        entry.broker_name,
    )


def revive_topic(cluster_name: str) -> str:
    """Name the topic in which the pops of a cluster's brokers lie."""
    return REVIVE_TOPIC_PREFIX + cluster_name


def check_point_message(
    point: CheckPoint, topic: str, queue_id: int, now_ms: int, host: bytes
) -> InnerMessage:
    """Make the message that keeps a check point."""
    name = (
        f"{point.topic}@{point.queue_id}@{point.start_offset}@{point.group}@{point.pop_time_ms}"
        f"@{point.broker_name}@{CHECK_POINT_TAG}"
    )
    properties = {
        Prop.TAGS: CHECK_POINT_TAG,
        Prop.TIMER_DELIVER_MS: str(point.revive_ms - AHEAD_MS),
        Prop.UNIQ_KEY: name,
    }
    body = point.encode(standard=True)
    return InnerMessage(topic, queue_id, body, properties, born_timestamp=now_ms, born_host=host)


def ack_message(
    ack: Ack, revive_ms: int, topic: str, queue_id: int, now_ms: int, host: bytes
) -> InnerMessage:
    """Make the message that keeps an ack; ``revive_ms`` is that of its check point."""
    name = (
        f"{ack.topic}@{ack.queue_id}@{ack.offset}@{ack.group}@{ack.pop_time_ms}"
        f"@{ack.broker_name}@{ACK_TAG}"
    )
    properties = {
        Prop.TAGS: ACK_TAG if ack.offsets is None else BATCH_ACK_TAG,
        Prop.TIMER_DELIVER_MS: str(revive_ms),
        Prop.UNIQ_KEY: name,
    }
    body = ack.encode(standard=True)
    return InnerMessage(topic, queue_id, body, properties, born_timestamp=now_ms, born_host=host)


def read_entry(record: MessageRecord, own_broker: str) -> CheckPoint | Ack | None:
    """Read what lies in the revive topic; None for what is neither check point nor ack.

    An ack that names no broker is one of this.
    """
    tag = record.properties.get(Prop.TAGS)
    try:
        if tag == CHECK_POINT_TAG:
            point = CheckPoint.decode(record.body)
            most = max(point.count, len(point.diffs))
            return point if point.topic and point.group and most <= MESSAGES_MAX else None
        if tag in {ACK_TAG, BATCH_ACK_TAG}:
            ack = Ack.decode(record.body)
            ack.broker_name = ack.broker_name or own_broker
            return ack
    except BodyError:
        return None
    return None


def revived(record: MessageRecord, point: CheckPoint, host: bytes, *, v2: bool) -> InnerMessage:
    """Make the copy of a message that was not acked, for the retry topic of its group.

    What it asked for when it was sent is over: a delay level that it still names is left out.
    """
    topic = record.topic
    if not is_retry_topic(topic):
        topic = pop_retry_topic(topic, point.group, v2=v2)
    properties = dict(record.properties)
    properties.pop(Prop.DELAY, None)
    if not record.reconsume_times or Prop.FIRST_POP_TIME not in properties:
        properties[Prop.FIRST_POP_TIME] = str(point.pop_time_ms)
    copy = InnerMessage.copy_of(record, topic, 0, properties)
    copy.born_host = host
    copy.reconsume_times += 1
    return copy


def check_invisible(invisible_ms: int, pop_time_ms: int) -> None:
    """Refuse a time at which nobody can wait any more."""
    if pop_time_ms + invisible_ms >= 1 << 63:
        raise Refused(
            Reason.INVALID_PARAMETER,
            f"invisibleTime[{invisible_ms}] is illegal: it ends after the last 64-bit millisecond",
        )
