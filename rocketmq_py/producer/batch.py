"""How many messages become one batch, or several of a bounded size.

Rules of ``MessageBatch.generateFromList``; what a batch may hold is checked in ``message.py``. Must
not know how a batch is sent.
"""

from collections.abc import Iterable, Iterator

from rocketmq_py.errors import MQClientException, UnsupportedOperationError
from rocketmq_py.message import Message, MessageBatch
from rocketmq_py.protocol.properties import Prop, encode_properties

ITEM_OVERHEAD = 22
"""Bytes of an item besides body and properties: five numbers and the properties' length."""

UNIQ_KEY_SIZE = len(Prop.UNIQ_KEY) + 2 + 56
"""Bytes that the id takes which a message gets when it is sent."""


class BatchRefusedError(MQClientException, UnsupportedOperationError):
    """These messages cannot travel in one batch; nothing was sent."""


def make_batch(messages: Iterable[Message]) -> MessageBatch:
    """Make a batch; raises `BatchRefusedError` for what cannot be one."""
    if isinstance(messages, MessageBatch):
        return messages
    try:
        return MessageBatch(messages)
    except UnsupportedOperationError as error:
        raise BatchRefusedError(f"failed to initiate the batch: {error}") from error


def split_batch(messages: Iterable[Message], max_bytes: int) -> Iterator[list[Message]]:
    """Cut messages into lists whose batches have at most ``max_bytes``, in order.

    A message that is too long alone gets a list of its own; sending that is refused.

    >>> [len(part) for part in split_batch([Message("T", b"x" * 400)] * 5, 1_000)]
    [2, 2, 1]
    """
    part: list[Message] = []
    size = 0
    for message in messages:
        item_size = _size_of(message)
        if part and size + item_size > max_bytes:
            yield part
            part, size = [], 0
        part.append(message)
        size += item_size
    if part:
        yield part


def _size_of(message: Message) -> int:
    size = ITEM_OVERHEAD + len(message.body) + len(encode_properties(message.properties))
    return size if Prop.UNIQ_KEY in message.properties else size + UNIQ_KEY_SIZE
