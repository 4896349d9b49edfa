"""Bodies of the messages that one look at the broker gives, as their senders wrote them.

A few compressed bytes can become gigabytes, so all that one call decompresses has a bound. Must not
know: which messages are looked at. Read on: ``messages.py``, ``retries.py``.
"""

from embedded_broker.lifecycle.parts import BrokerParts
from rocketmq_py.errors import BodyTooLargeError
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.sysflag import COMPRESSED

SETTING = "decompressedTotalMaxBytes"


class Bodies:
    """How much the compressed bodies of one call may become, and how much of it is left.

    ``limit`` names the limit in errors. Used outside the door: to decompress may take long.
    """

    def __init__(self, size_max: int, limit: str) -> None:
        self._size_max = self._left = size_max
        self._limit = limit

    @classmethod
    def of_broker(cls, parts: BrokerParts) -> "Bodies":
        """Begin a call that has the broker's limit."""
        return cls(
            parts.config.int(SETTING),
            f"{SETTING} for all messages of one call (ask for fewer, or raise it)",
        )

    def unpack(self, record: MessageRecord) -> bytes:
        """Give the body of a record; raises ``BodyTooLargeError`` when it becomes too much."""
        try:
            body = bytes(record.unpacked_body(self._left, self._limit))
        except BodyTooLargeError as error:
            size = len(record.body)
            raise BodyTooLargeError("message", size, self._size_max, self._limit) from error
        if record.sys_flag & COMPRESSED:
            self._left -= len(body)
        return body
