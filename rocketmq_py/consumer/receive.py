"""What does the body of a pull answer become before a listener sees it.

Records are decoded and decompressed, tags are compared as text (the broker compares hash codes
only), and a retried message gets its original topic back. Pure: bytes in, messages out. Facts:
`PullAPIWrapper.processPullResult`, `DefaultMQPushConsumerImpl.resetRetryAndNamespace`.
"""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from rocketmq_py.client.queue_requests import RawPull
from rocketmq_py.errors import RemotingCommandException
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.inner_batch import iter_messages
from rocketmq_py.protocol.names import retry_topic
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.send_result import MessageQueue


class Received(NamedTuple):
    """Messages for the listener; `stopped_at` is the offset of a record that was not readable."""

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
    gives those before it once more. Decoding stops at a record that cannot be read or
    decompressed: those before it are given, and `stopped_at` is where to ask again. Java drops such
    a record and all behind it.
    """
    messages: list[MessageExt] = []
    next_offset = asked_offset
    min_offset, max_offset = str(answer.min_offset), str(answer.max_offset)
    own_retry_topic = retry_topic(group)
    try:
        for record in iter_messages(answer.records):
            message = MessageExt.from_record(record, queue.broker_name)
            message.queue_id = queue.queue_id
            message.queue_offset += answer.offset_delta
            next_offset = message.queue_offset + 1
            if next_offset <= asked_offset:
                continue  # of a batch that began before
            properties = message.properties
            if tags and properties.get(Prop.TAGS) not in tags:
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
