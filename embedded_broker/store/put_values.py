"""Values of a put: the message that goes into the store, the result, and what a put hook is.

Values only. Must not know: files or clocks. ``InnerMessage`` is ``MessageExtBrokerInner``,
``PutStatus`` is ``PutMessageStatus``. Read on: ``message_store.py``.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol, Self

from attrs import define, field

from rocketmq_py.protocol.message_codec import MessageRecord


@define(slots=True, eq=False)
class InnerMessage:
    """A message on its way into the store.

    ``born_host`` is packed: 4 or 16 address bytes and a 4-byte port. Put hooks may change every
    field. ``properties_bytes`` is the encoded form that is stored: code that changes ``properties``
    after it was set must reset it to None.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str] = field(factory=dict)
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x00\x00"
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    properties_bytes: bytes | None = None

    @classmethod
    def copy_of(
        cls,
        record: MessageRecord,
        topic: str,
        queue_id: int,
        properties: dict[str, str],
        properties_bytes: bytes | None = None,
    ) -> Self:
        """Make a message that says what a stored one does, with another place and properties."""
        return cls(
            topic,
            queue_id,
            record.body,
            properties,
            record.flag,
            record.sys_flag,
            record.born_timestamp,
            record.born_host,
            record.reconsume_times,
            properties_bytes=properties_bytes,
        )


class PutStatus(Enum):
    """How a put ended. The names are those of RocketMQ's ``PutMessageStatus``."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    IN_SYNC_REPLICAS_NOT_ENOUGH = "IN_SYNC_REPLICAS_NOT_ENOUGH"
    PUT_TO_REMOTE_BROKER_FAIL = "PUT_TO_REMOTE_BROKER_FAIL"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    WHEEL_TIMER_FLOW_CONTROL = "WHEEL_TIMER_FLOW_CONTROL"
    WHEEL_TIMER_MSG_ILLEGAL = "WHEEL_TIMER_MSG_ILLEGAL"
    WHEEL_TIMER_NOT_ENABLE = "WHEEL_TIMER_NOT_ENABLE"

    @property
    def is_stored(self) -> bool:
        """Whether the message lies in the log, so that putting it again would double it."""
        return self in _STORED


_STORED = frozenset(
    {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)


class PutResult(NamedTuple):
    """Where messages that were put together lie, or why they were refused (then it is all -1).

    The place is that of the first, ``size`` that of all; ``offsets`` says where each lies in the
    commit log. ``remark`` names value, limit and setting of a refusal; None when they were stored.
    """

    status: PutStatus
    commit_log_offset: int = -1
    queue_offset: int = -1
    size: int = -1
    store_timestamp: int = -1
    remark: str | None = None
    offsets: Sequence[int] = ()

    @property
    def ok(self) -> bool:
        """Whether the message is stored."""
        return self.status is PutStatus.PUT_OK


class PutRefusal(NamedTuple):
    """What a put hook returns to refuse a message."""

    status: PutStatus
    remark: str | None = None


class PutHook(Protocol):
    """A step before every put: it may change the message, or refuse it.

    It is called with the store time that the message will get, so a delay counted from "now" agrees
    with the stored timestamp to the millisecond. It runs inside the broker's lock: it must not
    wait, and it must not put a message. The first answer that is not None ends the put.

    A hook may have three more attributes, which save calls. ``ignores_plain = True`` promises that
    it lets every message pass unchanged whose properties ask for nothing; it is then not called for
    those of a ``MessageRun``. The method ``ignores_timers(now_ms, *, instants)`` says whether it
    now lets all delayed messages pass; ``instants`` tells whether some of them name an absolute
    time. With ``ignores_copies = True`` it is not called for messages that the timer releases.
    """

    @property
    def name(self) -> str:
        """The name of the hook in logs (``hookName`` in RocketMQ)."""

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutResult | PutRefusal | None:
        """Look at the message, change it, or refuse it."""
