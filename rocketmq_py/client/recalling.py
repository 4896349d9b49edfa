"""How a timer message is asked back: the request of a recall handle, and what its answer says.

Client side of request 370 (``RecallMessageProcessor``). Only the master of the broker that the
handle names is asked: a slave refuses with 11, any other broker with 604. Must not know who waits
for the answer. Callers: ``producer/engine.py`` for one message, ``queue_access.py`` for many.
"""

from typing import Final

from rocketmq_py.client.asking import Broker, Question
from rocketmq_py.errors import MQClientException, RecallNotSupportedError, RemotingCommandException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.headers.send import (
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
)

_KNOWN_ANSWERS: Final = frozenset(
    {
        int(ResponseCode.SUCCESS),
        int(ResponseCode.NO_PERMISSION),  # recallMessageEnable is off
        int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
    }
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


def recall_question(
    topic: str, handle: str | RecallHandle | None, producer_group: str
) -> Question[str]:
    """Ask for a message to be taken back; the answer is its id.

    Raises `MQClientException` for a handle that cannot be one. The answer is
    `RecallNotSupportedError` when the broker does not offer it.
    """
    parsed = parse_handle(topic, handle)
    header = RecallMessageRequestHeader(
        topic=topic,
        recall_handle=handle if isinstance(handle, str) else parsed.encode(),
        producer_group=producer_group,
        broker_name=parsed.broker_name,
    )

    def read(answer: RemotingCommand, address: str) -> str:
        if answer.code == ResponseCode.SUCCESS:
            return RecallMessageResponseHeader.from_ext(answer.ext_fields).msg_id
        raise RecallNotSupportedError(
            answer.code,
            answer.remark,
            address,
            topic=topic,
            advice="Switch on recallMessageEnable at the broker (5.3.2 or later)",
        )

    master = Broker(topic, parsed.broker_name, only_this=True)
    return Question(
        master, RequestCode.RECALL_MESSAGE, read, header.to_ext(), accepts=_KNOWN_ANSWERS
    )
