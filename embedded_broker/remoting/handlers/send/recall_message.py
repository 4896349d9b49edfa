"""How a timer message is taken back: request 370.

RocketMQ's RecallMessageProcessor: its checks in its order, one row each as far
as they concern the broker, those of the handle in `timer/recall.py`; then a delete mark is stored,
a timer message of the victim's slot that removes it. Success means that the mark was accepted:
recalling twice, or an unknown id, succeeds as well.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.endpoint import Request, RequestError
from embedded_broker.remoting.handlers.send.put_status import STORED
from embedded_broker.timer.recall import check_handle, delete_message
from rocketmq_py.errors import RemotingCommandException
from rocketmq_py.protocol.codes import PERM_WRITE, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.headers.send import RecallMessageRequestHeader
from rocketmq_py.protocol.properties import Prop


class Check(NamedTuple):
    """One reason to refuse: `fails` gives what is wrong, or None."""

    code: ResponseCode
    fails: Callable[[BrokerCore, RecallMessageRequestHeader], str | None]


def _is_forbidden(core: BrokerCore, _header: RecallMessageRequestHeader) -> str | None:
    if core.config.flag("recallMessageEnable"):
        return None
    return "operation is forbidden: recallMessageEnable=false"


def _is_slave(core: BrokerCore, _header: RecallMessageRequestHeader) -> str | None:
    role = core.config.text("brokerRole")
    return f"broker service not available: brokerRole={role}" if role == "SLAVE" else None


def _is_closed(core: BrokerCore, _header: RecallMessageRequestHeader) -> str | None:
    """Refuse while the store does not take messages: starting or shutting down."""
    return None if core.store.is_open else "broker service not available: it is not running"


def _is_read_only(core: BrokerCore, _header: RecallMessageRequestHeader) -> str | None:
    perm = core.config.int("brokerPermission")
    if perm & PERM_WRITE or core.config.flag("allowRecallWhenBrokerNotWriteable"):
        return None
    return (
        f"broker service not available: brokerPermission={perm} has no write bit (2) and "
        "allowRecallWhenBrokerNotWriteable=false"
    )


def _has_no_topic(core: BrokerCore, header: RecallMessageRequestHeader) -> str | None:
    return None if header.topic in core.topics else f"the topic[{header.topic}] not exist"


BEFORE_THE_HANDLE: Final = (
    Check(ResponseCode.NO_PERMISSION, _is_forbidden),
    Check(ResponseCode.SLAVE_NOT_AVAILABLE, _is_slave),
    Check(ResponseCode.SERVICE_NOT_AVAILABLE, _is_closed),
    Check(ResponseCode.SERVICE_NOT_AVAILABLE, _is_read_only),
    Check(ResponseCode.TOPIC_NOT_EXIST, _has_no_topic),
)


class RecallMessageProcessor:
    """Stores delete marks for pending timers."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core

    def register(self) -> None:
        """Take over the request of this module."""
        self._core.endpoint.register(RequestCode.RECALL_MESSAGE, self.recall)

    def recall(self, request: Request) -> RemotingCommand | None:
        """370: the first check that fails decides; then a mark is stored.

        The answer's msgId is the UNIQ_KEY of the recalled message, and like every answer about
        messages it carries MSG_REGION.
        """
        core = self._core
        header = RecallMessageRequestHeader.from_ext(request.command.ext_fields)
        for check in BEFORE_THE_HANDLE:
            reason = check.fails(core, header)
            if reason is not None:
                raise self._refusal(check.code, reason)
        handle = self._handle(header)
        result = core.store.put(
            delete_message(
                handle,
                producer_group=header.producer_group,
                now_ms=core.clock.now_ms,
                born_host=request.connection.packed_remote,
            )
        )
        if result.status not in STORED:
            raise self._refusal(
                ResponseCode.SYSTEM_ERROR,
                f"execute error: {result.status.name} {result.remark or ''}".rstrip(),
            )
        response = request.command.answer(
            ResponseCode.SUCCESS, ext_fields=self._region() | {"msgId": handle.uniq_key}
        )
        log_end = result.commit_log_offset + result.size
        return core.endpoint.answer_when_durable(request, response, log_end)

    def _handle(self, header: RecallMessageRequestHeader) -> RecallHandle:
        """Read the handle and refuse (604) what is not of this topic, broker and time."""
        core = self._core
        try:
            handle = RecallHandle.decode(header.recall_handle)
        except RemotingCommandException as error:
            raise self._refusal(ResponseCode.ILLEGAL_OPERATION, f"{error}") from error
        refusal = check_handle(
            handle,
            topic=header.topic,
            broker_name=core.broker_name,
            now_ms=core.clock.now_ms,
            max_delay_sec=core.config.int("timerMaxDelaySec"),
        )
        if refusal is not None:
            raise RequestError(refusal.code, refusal.remark, self._region())
        return handle

    def _region(self) -> dict[str, str]:
        return {Prop.MSG_REGION: self._core.config.text("regionId")}

    def _refusal(self, code: int, reason: str) -> RequestError:
        return RequestError(code, f"recall failed, {reason}", self._region())
