"""Half messages and their marks: what a transaction looks like in the store.

RocketMQ's TransactionalMessageBridge, TransactionalMessageUtil and
DefaultTransactionalMessageCheckListener: a half message lies in RMQ_SYS_TRANS_HALF_TOPIC and says
where it wants to go; each check stores it again with a higher count; a mark in
RMQ_SYS_TRANS_OP_HALF_TOPIC says which half messages are done. Differences: a copy keeps the flag
that the original loses, and it names the queue offset of the one it replaces
(``TRAN_SRC_OFFSET``), so that a crash between two saves of the progress asks nothing twice. Pure:
must not know clocks, files or who is connected.

Read on: `service.py`.
"""

from collections.abc import Mapping
from typing import Final

from attrs import evolve

from embedded_broker.store.put_values import InnerMessage
from embedded_broker.store.queue_names import destination
from rocketmq_py.protocol.message_codec import MessageRecord, encode_neighbours
from rocketmq_py.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from rocketmq_py.protocol.properties import Prop, encode_properties
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, with_transaction_type

REMOVED_TAG: Final = "d"
_NUMBER_DIGITS_MAX: Final = 18


def asks_for_transaction(properties: Mapping[str, str], reconsume_times: int) -> bool:
    """Say whether a send is the first half of a transaction.

    A message that a consumer sends to its retry topic may still carry TRAN_MSG (clients before
    4.6.1): with a delay level and a count it is an ordinary one.
    """
    if properties.get(Prop.TRAN_MSG, "").lower() != "true":
        return False
    return not (reconsume_times > 0 and _number(properties.get(Prop.DELAY), 0) > 0)


def into_half(msg: InnerMessage) -> None:
    """Turn a message on its way to the store into a half message (parseHalfMessageInner)."""
    properties = msg.properties
    properties.pop(Prop.TRAN_SRC_OFFSET, None)
    unique_key = properties.get(Prop.UNIQ_KEY)
    if unique_key:
        properties[Prop.TRANSACTION_ID] = unique_key
    properties[Prop.REAL_TOPIC] = msg.topic
    properties[Prop.REAL_QID] = str(msg.queue_id)
    msg.properties_bytes = None
    msg.sys_flag = with_transaction_type(msg.sys_flag, TRANSACTION_NONE)
    msg.topic = HALF_TOPIC
    msg.queue_id = 0


def copy_for_check(half: MessageRecord) -> InnerMessage:
    """Make the half message that is stored when its producer is asked, the count one higher."""
    properties = dict(half.properties)
    properties[Prop.TRANSACTION_CHECK_TIMES] = str(check_times(properties) + 1)
    properties[Prop.TRAN_SRC_OFFSET] = str(half.queue_offset)
    return InnerMessage.copy_of(half, HALF_TOPIC, 0, properties)


def delivery(half: MessageRecord) -> InnerMessage | None:
    """Make the message that a commit delivers; None when the half does not say where to.

    As on a real broker it keeps TRAN_MSG, PGROUP, REAL_TOPIC and REAL_QID; its prepared offset is
    where the half message lies in the commit log.
    """
    where = destination(half.properties)
    if where is None:
        return None
    properties = dict(half.properties)
    properties.pop(Prop.TRAN_SRC_OFFSET, None)
    message = InnerMessage.copy_of(half, *where, properties)
    message.sys_flag = with_transaction_type(half.sys_flag, TRANSACTION_COMMIT)
    message.prepared_transaction_offset = half.commit_log_offset
    return message


def parked(half: MessageRecord) -> InnerMessage:
    """Make the copy of a half message that nobody ended (resolveDiscardMsg)."""
    properties = dict(half.properties)
    properties.pop(Prop.TRAN_SRC_OFFSET, None)
    return InnerMessage.copy_of(half, TRANS_CHECK_MAX_TIME_TOPIC, 0, properties)


def resumed(half: MessageRecord) -> InnerMessage:
    """Make a half message of one that was asked about in vain, as if nobody had been asked."""
    properties = dict(half.properties)
    properties.pop(Prop.TRAN_SRC_OFFSET, None)
    properties[Prop.TRANSACTION_CHECK_TIMES] = "0"
    return InnerMessage.copy_of(half, HALF_TOPIC, 0, properties)


def removal_mark(
    offsets: tuple[int, ...], *, with_separator: bool, now_ms: int, born_host: bytes
) -> InnerMessage:
    """Make the mark that ends half messages; 4.9 writes one bare number, 5.x `off,off,`."""
    body = ",".join(map(str, offsets)) + ("," if with_separator else "")
    properties = {Prop.WAIT: "true", Prop.TAGS: REMOVED_TAG}
    return InnerMessage(
        OP_HALF_TOPIC, 0, body.encode(), properties, born_timestamp=now_ms, born_host=born_host
    )


def removed_offsets(mark: MessageRecord) -> list[int]:
    """Read the queue offsets of the half messages that a mark ends; what is no number is none."""
    if mark.properties.get(Prop.TAGS) != REMOVED_TAG:
        return []
    words = mark.body.decode("ascii", "replace").split(",")
    return [offset for word in words if (offset := _number(word, -1)) >= 0]


def check_body(
    half: InnerMessage, *, queue_offset: int, commit_log_offset: int, at_ms: int, store_host: bytes
) -> bytes:
    """Encode the body of request 39: the stored copy under its real topic and queue."""
    properties = dict(half.properties)
    properties.pop(Prop.TRAN_SRC_OFFSET, None)
    topic, queue_id = destination(properties) or (HALF_TOPIC, 0)
    envelope = evolve(half, topic=topic, queue_id=queue_id)
    item = (half.flag, half.born_timestamp, half.body, encode_properties(properties), 0)
    body, _ = encode_neighbours(
        [item], envelope, queue_offset, commit_log_offset, at_ms, store_host
    )
    return body


def check_times(properties: Mapping[str, str]) -> int:
    """Read how often the producer was asked already."""
    return max(0, _number(properties.get(Prop.TRANSACTION_CHECK_TIMES), 0))


def custom_immunity_ms(properties: Mapping[str, str]) -> int | None:
    """Read for how long the producer asked not to be asked; None unless it is a positive number."""
    seconds = _number(properties.get(Prop.CHECK_IMMUNITY_TIME_IN_SECONDS), 0)
    return seconds * 1000 if seconds > 0 else None


def replaced_offset(properties: Mapping[str, str]) -> int | None:
    """Read the queue offset of the half message that this copy replaces."""
    offset = _number(properties.get(Prop.TRAN_SRC_OFFSET), -1)
    return offset if offset >= 0 else None


def immune_offset(properties: Mapping[str, str]) -> int | None:
    """Read the queue offset by which the producer knows a copy that a real broker put back.

    It does so while a custom immunity lasts (renewImmunityHalfMessageInner).
    """
    offset = _number(properties.get(Prop.TRAN_PREPARED_QUEUE_OFFSET), -1)
    return offset if offset >= 0 else None


def _number(text: str | None, default: int) -> int:
    if text is None or not text.isascii() or not text.isdecimal():
        return default
    return int(text) if len(text) <= _NUMBER_DIGITS_MAX else default
