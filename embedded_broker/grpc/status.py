"""Status codes of gRPC answers, by refusal.

Answers: which code tells a reason to refuse, and how a call is refused that no broker needs to see.
Must not know: messages, protobuf. Read on: ``embedded_broker/core/refusals.py`` for the reasons.
"""

from typing import Final, NamedTuple

from attrs import frozen

from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.send_values import Outcome
from embedded_broker.store.put_values import PutStatus
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.rpc import RpcStatus


class Finer(NamedTuple):
    """A code that tells more than RocketMQ's proxy 5.3.3 does, and what that answers."""

    ours: RpcStatus
    proxy: RpcStatus


Code = RpcStatus | Finer
_INTERNAL: Final = RpcStatus.INTERNAL_SERVER_ERROR
UNKNOWN_TOPIC: Final = Finer(
    RpcStatus.TOPIC_NOT_FOUND, RpcStatus.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
)
BAD_VALUE: Final = Finer(RpcStatus.BAD_REQUEST, _INTERNAL)
BAD_HANDLE: Final = Finer(RpcStatus.INVALID_RECEIPT_HANDLE, _INTERNAL)
_TOO_FAR: Final = Finer(RpcStatus.ILLEGAL_DELIVERY_TIME, _INTERNAL)
_OF_REASON: Final[dict[Reason, Code]] = {
    Reason.BUSY: RpcStatus.TOO_MANY_REQUESTS,
    Reason.FLUSH_DISK_TIMEOUT: RpcStatus.MASTER_PERSISTENCE_TIMEOUT,
    Reason.FLUSH_SLAVE_TIMEOUT: RpcStatus.SLAVE_PERSISTENCE_TIMEOUT,
    Reason.SLAVE_NOT_AVAILABLE: RpcStatus.HA_NOT_AVAILABLE,
    Reason.SERVICE_NOT_AVAILABLE: Finer(RpcStatus.FORBIDDEN, _INTERNAL),
    Reason.MESSAGE_ILLEGAL: Finer(RpcStatus.MESSAGE_CORRUPTED, _INTERNAL),
    Reason.INVALID_PARAMETER: BAD_VALUE,
    Reason.NO_PERMISSION: Finer(RpcStatus.FORBIDDEN, _INTERNAL),
    Reason.TOPIC_NOT_EXIST: RpcStatus.TOPIC_NOT_FOUND,
    Reason.GROUP_NOT_EXIST: RpcStatus.CONSUMER_GROUP_NOT_FOUND,
    Reason.SUBSCRIPTION_PARSE_FAILED: Finer(RpcStatus.ILLEGAL_FILTER_EXPRESSION, _INTERNAL),
    Reason.NOT_FOUND: Finer(RpcStatus.NOT_FOUND, _INTERNAL),
    Reason.NO_MESSAGE: BAD_HANDLE,
}
"""All others are `INTERNAL_SERVER_ERROR`."""


class Rejected(Exception):  # noqa: N818 - the broker says no; nothing is wrong with it
    """Nothing was done; the text names value and limit."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Aborted(Exception):  # noqa: N818 - the call ends so
    """The call ends with a status of gRPC itself, by name, such as ``UNAVAILABLE``."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name
        self.text = text


@frozen
class Codes:
    """Chooses the codes of answers; ``is_strict``: those of RocketMQ's proxy 5.3.3."""

    is_strict: bool = False

    def told(self, error: Exception) -> tuple[RpcStatus, str]:
        """Say by code and text what a call was refused for, or failed of."""
        if isinstance(error, Rejected):
            return self._chosen(error.code), error.text
        if isinstance(error, Refused):
            return self.of_reason(error.reason), error.remark
        if isinstance(error, RocketMQError):  # what a client said cannot be written or read
            return self._chosen(BAD_VALUE), str(error)
        return _INTERNAL, f"{type(error).__name__}: {error}"

    def of_reason(self, reason: Reason) -> RpcStatus:
        """Give the code of a reason."""
        return self._chosen(_OF_REASON.get(reason, _INTERNAL))

    def of_outcome(self, outcome: Outcome) -> RpcStatus:
        """Give the code of what became of a message; a delay that is too long has its own."""
        if outcome.reason is None:
            return RpcStatus.OK
        if outcome.status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL:
            return self._chosen(_TOO_FAR)
        return self.of_reason(outcome.reason)

    def _chosen(self, code: Code) -> RpcStatus:
        if isinstance(code, Finer):
            return code.proxy if self.is_strict else code.ours
        return code
