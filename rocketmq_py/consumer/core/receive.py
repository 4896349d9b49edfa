"""What does the body of a pull answer become before a listener sees it.

Records are decoded, tags are compared as text (the broker compares hash codes only), and a retried
message gets its original topic back. Bodies stay compressed: `bodies` decompresses them when a
listener is called. Pure: bytes in, messages out. Facts: `PullAPIWrapper.processPullResult`,
`DefaultMQPushConsumerImpl.resetRetryAndNamespace`.
"""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from rocketmq_py.client.queue_requests import RawPull
from rocketmq_py.errors import BodyTooLargeError, RemotingCommandException
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.frame import FRAME_SIZE_MAX
from rocketmq_py.protocol.inner_batch import added_size, is_wrapped, unwrap
from rocketmq_py.protocol.message_codec import MessageRecord, iter_records
from rocketmq_py.protocol.names import retry_topic
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.send_result import MessageQueue


class Received(NamedTuple):
    """Messages for the listener; `stopped_at` is the offset to ask for again.

    With a `problem` the record there cannot be read; without one it found no room in this answer.
    """

    messages: list[MessageExt]
    stopped_at: int | None = None
    problem: RemotingCommandException | None = None


def receive(
    answer: RawPull,
    queue: MessageQueue,
    *,
    asked_offset: int,
    tags: AbstractSet[str] = frozenset(),
    group: str,
) -> Received:
    """Make the messages of one answer; empty `tags` let every message pass.

    A batch that is one record (BatchCQ topics) becomes its messages from `asked_offset` on; Java
    gives those before it once more. A few bytes can be many messages, and many bytes where a batch
    is compressed: once those of an answer take as much memory as the largest answer, the next
    batches are left to the next answer. One that cannot be
    taken apart is given as it is, for the listener's side to refuse. Decoding stops at a record
    that cannot be read: those before it are given, and `stopped_at` is where to ask again. Java
    drops such a record and all behind it.
    """
    messages: list[MessageExt] = []
    next_offset = asked_offset
    room = FRAME_SIZE_MAX
    min_offset, max_offset = str(answer.min_offset), str(answer.max_offset)
    own_retry_topic = retry_topic(group)
    try:
        for stored in iter_records(answer.records):
            parts, added = _taken_apart(stored, room) if is_wrapped(stored) else ([stored], 0)
            if not parts:
                return Received(messages, next_offset)
            room -= added
            for record in parts:
                message = MessageExt.as_stored(record, queue.broker_name)
                message.queue_id = queue.queue_id
                message.queue_offset += answer.offset_delta
                next_offset = message.queue_offset + 1
                if next_offset <= asked_offset:
                    continue  # of a batch that began before
                properties = message.properties
                if tags and properties.get(Prop.TAGS) not in tags and not is_wrapped(record):
                    continue
                properties[Prop.MIN_OFFSET] = min_offset
                properties[Prop.MAX_OFFSET] = max_offset
                if message.topic == own_retry_topic:
                    message.topic = properties.get(Prop.RETRY_TOPIC, message.topic)
                if properties.get(Prop.TRAN_MSG, "").lower() == "true":
                    message.transaction_id = properties.get(Prop.UNIQ_KEY)
                messages.append(message)
    except RemotingCommandException as error:
        return Received(messages, next_offset, error)
    return Received(messages)


def _taken_apart(batch: MessageRecord, room: int) -> tuple[list[MessageRecord], int]:
    """Give the messages of a batch and the memory that they added; no messages: no room."""
    if room <= 0:
        return [], 0
    try:
        parts = unwrap(batch, room)
    except BodyTooLargeError:
        return ([batch], 0) if room == FRAME_SIZE_MAX else ([], 0)
    except RemotingCommandException:
        return [batch], 0
    return parts, added_size(batch, parts)
