"""Where a message went: the queue, and what the broker said about storing it.

Plain values, exported through `rocketmq_py.message` and `rocketmq_py`: also what became of a
transaction. This module must not know how a send is done; that is `rocketmq_py.producer`.
"""

from enum import Enum

from attrs import field, frozen

from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.names import DEFAULT_REGION
from rocketmq_py.spelling import Spelled


@frozen(order=True, cache_hash=True)
class MessageQueue(Spelled):
    """One queue of a topic on one broker. Ordered by topic, broker name and id, as Java's.

    >>> MessageQueue("T", "broker-a", 0) < MessageQueue("T", "broker-a", 1)
    True
    """

    topic: str
    broker_name: str
    queue_id: int


class SendStatus(Enum):
    """How safely a message that was accepted is stored."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"

    @classmethod
    def from_code(cls, code: int) -> "SendStatus | None":
        """Give the status of a response code; None for the codes of messages not stored."""
        return _STATUS_OF_CODE.get(code)


_STATUS_OF_CODE: dict[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


@frozen(kw_only=True)
class SendResult(Spelled):
    """What came back for one send.

    `msg_id` is the message's own id (UNIQ_KEY), the same when it is consumed; of a batch, all ids
    joined by commas. `offset_msg_id` says where this copy lies: a delayed message is stored again
    when it is due, so the delivered copy has another one, and another `queue_offset`.
    `recall_handle` is the text that `recall_message` takes; only accepted timers that were sent
    singly have one.
    """

    send_status: SendStatus
    msg_id: str
    offset_msg_id: str
    message_queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region_id: str = DEFAULT_REGION
    trace_on: bool = True
    recall_handle: str | None = field(default=None)

    @property
    def recall(self) -> RecallHandle | None:
        """The recall handle taken apart, or None."""
        return RecallHandle.decode(self.recall_handle) if self.recall_handle else None


class LocalTransactionState(Enum):
    """What became of the sender's own work; the names are Java's.

    `UNKNOW` means that it is not decided yet: the broker will ask.
    """

    COMMIT_MESSAGE = "COMMIT_MESSAGE"
    ROLLBACK_MESSAGE = "ROLLBACK_MESSAGE"
    UNKNOW = "UNKNOW"


@frozen(kw_only=True)
class TransactionSendResult(SendResult):
    """What came back for the half message, and what became of the local work."""

    local_transaction_state: LocalTransactionState = field()
