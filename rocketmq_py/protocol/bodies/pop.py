"""What POP says in bodies, and what it writes into the revive topic.

Bodies of 200151, 400, 401 and 402; `CheckPoint` and `Ack` are messages of
``rmq_sys_REVIVE_LOG_<cluster>``, as the original's ``PopCheckPoint``, ``AckMsg`` and
``BatchAckMsg`` write them. Sources beside these: `BatchAckMessageRequestBody`,
`QueryAssignmentRequestBody`, `QueryAssignmentResponseBody`, `SetMessageRequestModeRequestBody`.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator
from typing import Any, Final, Self

from attrs import define, field

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.document import Document, MessageQueueKey, wire

BIT_SET_BYTES_MAX: Final = 4096
"""Longest bit set of a batch ack that is read: a pop never spans so many offsets."""
PULL: Final = "PULL"
POP: Final = "POP"
_LONG_NAMES: Final = {
    "c": "consumerGroup",
    "t": "topic",
    "r": "retry",
    "so": "startOffset",
    "q": "queueId",
    "rq": "reviveQueueId",
    "pt": "popTime",
    "it": "invisibleTime",
    "b": "bitSet",
}
"""What a batch ack may be called as well."""


@define
class BatchAck(Document):
    """Messages of one pop that are done; bit i of `bits` is the message at `start_offset` + i."""

    group: str = field(default="", metadata=wire("c"))
    topic: str = field(default="", metadata=wire("t"))
    retry: str = field(default="0", metadata=wire("r"))
    start_offset: int = field(default=0, metadata=wire("so"))
    queue_id: int = field(default=0, metadata=wire("q"))
    revive_queue: int = field(default=0, metadata=wire("rq"))
    pop_time_ms: int = field(default=0, metadata=wire("pt"))
    invisible_ms: int = field(default=0, metadata=wire("it"))
    bits: str = field(default="", metadata=wire("b"))
    """Base64 of a bit set, its lowest byte and lowest bit first."""

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Read it under short or long names."""
        if isinstance(document, dict):
            longs = {short: document.get(name) for short, name in _LONG_NAMES.items()}
            document = {key: value for key, value in longs.items() if value is not None} | document
        return super().from_document(document)

    def add(self, offset: int) -> bool:
        """Add a message; False when it is before the first one, or too far behind it."""
        at = offset - self.start_offset
        if not 0 <= at < 8 * BIT_SET_BYTES_MAX:
            return False
        bits = int.from_bytes(b64decode(self.bits), "little") | 1 << at
        size = (bits.bit_length() + 7) // 8
        self.bits = b64encode(bits.to_bytes(size, "little")).decode()
        return True

    def offsets(self) -> Iterator[int]:
        """Give the queue offsets; raises `BodyError` when the bit set is too long or no Base64."""
        try:
            data = b64decode(self.bits, validate=True)
        except (Base64Error, ValueError) as error:
            raise BodyError("BatchAck", f"field b: {error}") from error
        if len(data) > BIT_SET_BYTES_MAX:
            limit = f"field b has {len(data)} bytes, at most {BIT_SET_BYTES_MAX} are read"
            raise BodyError("BatchAck", limit)
        for at, byte in enumerate(data):
            for bit in range(8):
                if byte >> bit & 1:
                    yield self.start_offset + 8 * at + bit


@define
class BatchAckRequest(Document):
    """200151: acks of several pops of one broker."""

    broker_name: str = ""
    acks: list[BatchAck] = field(factory=list)


@define
class CheckPoint(Document):
    """A pop of one queue: which messages are hidden, and until when.

    The messages are at `start_offset` plus each of `diffs`; without these, which 5.x always writes,
    they are the first `count`.
    """

    bits: int = field(default=0, metadata=wire("bm"))
    broker_name: str = field(default="", metadata=wire("bn"))
    group: str = field(default="", metadata=wire("c"))
    diffs: list[int] = field(factory=list, metadata=wire("d"))
    invisible_ms: int = field(default=0, metadata=wire("it"))
    count: int = field(default=0, metadata=wire("n"))
    pop_time_ms: int = field(default=0, metadata=wire("pt"))
    queue_id: int = field(default=0, metadata=wire("q"))
    revive_offset: int = field(default=0, metadata=wire("ro"))
    put_again: str | None = field(default=None, metadata=wire("rp"))
    start_offset: int = field(default=0, metadata=wire("so"))
    topic: str = field(default="", metadata=wire("t"))

    @property
    def revive_ms(self) -> int:
        """When what was not acked comes back."""
        return self.pop_time_ms + self.invisible_ms

    def to_document(self) -> dict[str, Any]:
        """Give the body with the time that Java writes besides."""
        return super().to_document() | {"reviveTime": self.revive_ms}

    def offsets(self) -> list[int]:
        """Give the queue offsets of the messages."""
        return [self.start_offset + diff for diff in self.diffs or range(self.count)]


@define
class Ack(Document):
    """Messages of a check point that are done: one, or with tag ``bAck`` those of a list."""

    offset: int = field(default=-1, metadata=wire("ao"))
    offsets: list[int] | None = field(default=None, metadata=wire("aol"))
    broker_name: str = field(default="", metadata=wire("bn"))
    group: str = field(default="", metadata=wire("c"))
    pop_time_ms: int = field(default=0, metadata=wire("pt"))
    queue_id: int = field(default=0, metadata=wire("q"))
    start_offset: int = field(default=0, metadata=wire("so"))
    topic: str = field(default="", metadata=wire("t"))


@define
class QueryAssignmentRequest(Document):
    """400: ask for the queues of a client."""

    topic: str = ""
    consumer_group: str = ""
    client_id: str = ""
    strategy_name: str = ""
    message_model: str = "CLUSTERING"


@define
class QueueAssignment(Document):
    """One queue of the answer; queue id -1 means all of a broker."""

    message_queue: MessageQueueKey = field(factory=lambda: MessageQueueKey("", "", 0))
    mode: str = PULL
    attachments: dict[str, str] | None = None


@define
class QueryAssignmentResponse(Document):
    """Answer to 400; None tells the client to keep what it has."""

    message_queue_assignments: list[QueueAssignment] | None = None


@define
class MessageRequestMode(Document):
    """401: how a group gets the messages of a topic; `PULL` or `POP`.

    In POP mode each client pops all queues, unless `pop_share_queue_num` is positive: then its own
    and those of so many clients behind it.
    """

    topic: str = ""
    consumer_group: str = ""
    mode: str = PULL
    pop_share_queue_num: int = 0


@define
class MessageRequestModes(Document):
    """Answer to 402: modes by topic and group."""

    message_request_mode_map: dict[str, dict[str, MessageRequestMode]] = field(factory=dict)
