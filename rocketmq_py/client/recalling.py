"""How a timer message is asked back: the request of a recall handle, and what its answer says.

Client side of request 370 (``RecallMessageProcessor``). Must not know who waits for the answer.
Callers: ``producer/engine.py`` for one message, ``queue_access.py`` for many at once.
"""

from rocketmq_py.client.answers import broker_error
from rocketmq_py.errors import MQClientException, RecallNotSupportedError, RemotingCommandException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.headers.send import (
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
)


def parse_handle(topic: str, handle: str | RecallHandle | None) -> RecallHandle:
    """Take a handle apart; raises `MQClientException` for a text that cannot be one."""
    if handle is not None and not isinstance(handle, (str, RecallHandle)):
        raise MQClientException(
            f"a recall handle is a str, not {type(handle).__name__} {handle!r}", topic=topic
        )
    if not handle:
        raise MQClientException(
            "the recall handle is empty: a message without a delay has none, nor has one with a "
            "delay level",
            topic=topic,
        )
    try:
        return handle if isinstance(handle, RecallHandle) else RecallHandle.decode(handle)
    except RemotingCommandException as error:
        raise MQClientException(str(error), topic=topic) from error


def recall_request(
    topic: str, handle: str | RecallHandle, *, broker_name: str, producer_group: str
) -> RemotingCommand:
    """Make the request for the broker that the handle names."""
    header = RecallMessageRequestHeader(
        topic=topic,
        recall_handle=handle if isinstance(handle, str) else handle.encode(),
        producer_group=producer_group,
        broker_name=broker_name,
    )
    return RemotingCommand(RequestCode.RECALL_MESSAGE, ext_fields=header.to_ext())


def recalled_id(answer: RemotingCommand, address: str, topic: str) -> str:
    """Return the id of the message that was taken back, or raise what the broker says.

    `RecallNotSupportedError` when it does not offer this, else `MQBrokerException`.
    """
    if answer.code == ResponseCode.SUCCESS:
        return RecallMessageResponseHeader.from_ext(answer.ext_fields).msg_id
    if answer.code in {ResponseCode.NO_PERMISSION, ResponseCode.REQUEST_CODE_NOT_SUPPORTED}:
        raise RecallNotSupportedError(
            answer.code,
            answer.remark,
            address,
            topic=topic,
            advice="Switch on recallMessageEnable at the broker (5.3.2 or later)",
        )
    raise broker_error(answer, address, topic=topic)
