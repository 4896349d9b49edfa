"""Status codes of refusals.

Answers: which code tells a reason to refuse, and how a call is refused that no broker needs to see.
Must not know: messages, protobuf. Read on: ``embedded_broker/core/refusals.py`` for the reasons.
"""

from typing import Final

from embedded_broker.core.incoming import Outcome
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.store.inner import PutStatus
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.rpc import RpcStatus

_OF_REASON: Final[dict[Reason, RpcStatus]] = {
    Reason.BUSY: RpcStatus.TOO_MANY_REQUESTS,
    Reason.FLUSH_DISK_TIMEOUT: RpcStatus.MASTER_PERSISTENCE_TIMEOUT,
    Reason.FLUSH_SLAVE_TIMEOUT: RpcStatus.SLAVE_PERSISTENCE_TIMEOUT,
    Reason.SLAVE_NOT_AVAILABLE: RpcStatus.HA_NOT_AVAILABLE,
    Reason.SERVICE_NOT_AVAILABLE: RpcStatus.FORBIDDEN,
    Reason.MESSAGE_ILLEGAL: RpcStatus.MESSAGE_CORRUPTED,
    Reason.INVALID_PARAMETER: RpcStatus.BAD_REQUEST,
    Reason.NO_PERMISSION: RpcStatus.FORBIDDEN,
    Reason.TOPIC_NOT_EXIST: RpcStatus.TOPIC_NOT_FOUND,
    Reason.GROUP_NOT_EXIST: RpcStatus.CONSUMER_GROUP_NOT_FOUND,
    Reason.SUBSCRIPTION_PARSE_FAILED: RpcStatus.ILLEGAL_FILTER_EXPRESSION,
    Reason.NOT_FOUND: RpcStatus.NOT_FOUND,
    Reason.NO_MESSAGE: RpcStatus.INVALID_RECEIPT_HANDLE,
}
"""All others are `INTERNAL_SERVER_ERROR`."""


class Rejected(Exception):  # noqa: N818 - the broker says no; nothing is wrong with it
    """Nothing was done; the text names value and limit."""

    def __init__(self, code: RpcStatus, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Aborted(Exception):  # noqa: N818 - the call ends so
    """The call ends with a status of gRPC itself, by name, such as ``UNAVAILABLE``."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name
        self.text = text


def rejection(error: Exception) -> Rejected:
    """Say by a code what a call was refused for, or failed of."""
    if isinstance(error, Rejected):
        return error
    if isinstance(error, Refused):
        return Rejected(code_for(error.reason), error.remark)
    if isinstance(error, RocketMQError):  # what a client said cannot be written or read
        return Rejected(RpcStatus.BAD_REQUEST, str(error))
    return Rejected(RpcStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")


def code_for(reason: Reason) -> RpcStatus:
    """Give the code of a reason."""
    return _OF_REASON.get(reason, RpcStatus.INTERNAL_SERVER_ERROR)


def outcome_code(outcome: Outcome) -> RpcStatus:
    """Give the code of what became of a message; a delay that is too long has its own."""
    if outcome.reason is None:
        return RpcStatus.OK
    if outcome.status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL:
        return RpcStatus.ILLEGAL_DELIVERY_TIME
    return code_for(outcome.reason)
