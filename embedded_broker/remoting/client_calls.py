"""How the broker's calls to its clients look in this protocol, and how their answers read.

Answers: code, header and body of each call. All of them are oneway on the wire, as the original
sends them: a client need not answer, but one that does is heard. Must not know: who is called, who
waits. Read on: ``embedded_broker/core/calls.py``.
"""

from typing import assert_never

from embedded_broker.core.calls import Answer, Call, CheckTransaction, GroupChanged, ResetOffsets
from rocketmq_py.protocol.bodies.groups import ResetOffsetBody
from rocketmq_py.protocol.codes import FLAG_ONEWAY, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers import Header
from rocketmq_py.protocol.headers.admin import ResetOffsetRequestHeader
from rocketmq_py.protocol.headers.client import NotifyConsumerIdsChangedRequestHeader
from rocketmq_py.protocol.headers.send import CheckTransactionStateRequestHeader


def request_for(call: Call) -> RemotingCommand:
    """Give the request 39, 40 or 220 that says it."""
    body = b""
    header: Header
    match call:
        case GroupChanged():
            code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
            header = NotifyConsumerIdsChangedRequestHeader(consumer_group=call.group)
        case CheckTransaction():
            code = RequestCode.CHECK_TRANSACTION_STATE
            header = CheckTransactionStateRequestHeader(
                tran_state_table_offset=call.queue_offset,
                commit_log_offset=call.commit_log_offset,
                msg_id=call.unique_key,
                transaction_id=call.unique_key,
                offset_msg_id=call.offset_id,
                topic=call.topic,
                broker_name=call.broker_name,
            )
            body = call.record
        case ResetOffsets():
            code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
            header = ResetOffsetRequestHeader(
                topic=call.topic, group=call.group, timestamp=call.timestamp, is_force=False
            )
            body = ResetOffsetBody(dict(call.offsets)).encode()
        case _:
            assert_never(call)
    return RemotingCommand(code, flag=FLAG_ONEWAY, ext_fields=header.to_ext(), body=body)


def answer_of(command: RemotingCommand) -> Answer:
    """Read what a client answered."""
    accepted = command.code == ResponseCode.SUCCESS
    return Answer(accepted, command.remark, bytes(command.body))
