"""Decompression of the messages that one call returns, within the bounds of its client.

Queries and views give whole messages at once, and a few compressed bytes can be gigabytes. Must not
know what was asked. Read on: ``queries.py`` and ``queue_access.py``, which ask, and
``../consumer/bodies.py`` for consumers, where messages wait instead.
"""

from rocketmq_py.config import ClientConfig
from rocketmq_py.errors import BodyTooLargeError
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.frame import FRAME_SIZE_MAX
from rocketmq_py.protocol.inner_batch import added_size, is_wrapped, unwrap
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.sysflag import COMPRESSED

TOTAL = "decompressed_total_max_bytes for all messages of one call (ask for fewer, or raise it)"


class CallBodies:
    """Makes the messages of one call."""

    def __init__(self, config: ClientConfig) -> None:
        self._body_max = config.decompressed_body_max_bytes
        self._total = self._left = config.decompressed_total_max_bytes

    def message(self, record: MessageRecord, broker_name: str = "") -> MessageExt:
        """Make the message of a record; raises BodyError, which names the setting of a limit."""
        size_max = min(self._body_max, self._left)
        try:
            message = MessageExt.from_record(record, broker_name, body_size_max=size_max)
        except BodyTooLargeError as error:
            if size_max == self._body_max:
                raise
            raise self._too_large(record) from error
        if record.sys_flag & COMPRESSED:
            self._left -= len(message.body)
        return message

    def messages(self, record: MessageRecord, broker_name: str = "") -> list[MessageExt]:
        """Make the messages of a record, which are several where it is a batch (BatchCQ topics).

        Those of a compressed batch count with all that they take: a few bytes can be many.
        """
        size_max = min(FRAME_SIZE_MAX, self._left)
        try:
            parts = unwrap(record, size_max)
        except BodyTooLargeError as error:
            if size_max == FRAME_SIZE_MAX:
                raise
            raise self._too_large(record) from error
        if is_wrapped(record) and record.sys_flag & COMPRESSED:
            self._left -= added_size(record, parts)
            if self._left < 0:
                raise self._too_large(record)
        return [self.message(part, broker_name) for part in parts]

    def _too_large(self, record: MessageRecord) -> BodyTooLargeError:
        return BodyTooLargeError("message", len(record.body), self._total, TOTAL)
