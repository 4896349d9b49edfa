"""Remoting requests that carry the broker's calls to its clients, and how answers are read.

Answers: code, header and body of each call. What need not be answered is oneway on the wire, as the
original sends it; a client that answers all the same is heard. Must not know: who is called, who
waits. Read on: ``embedded_broker/core/client_calls.py``.
"""

from typing import assert_never

from embedded_broker.core.client_calls import (
    Answer,
    Call,
    CheckTransaction,
    ConsumeDirectly,
    GroupChanged,
    PushReply,
    ResetOffsets,
    TellOffsets,
    TellRunningInfo,
)
from rocketmq_py.protocol.bodies.groups import ResetOffsetBody, ResetOffsetBodyForC
from rocketmq_py.protocol.codes import FLAG_ONEWAY, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers import Header
from rocketmq_py.protocol.headers.admin import ResetOffsetRequestHeader
from rocketmq_py.protocol.headers.client import NotifyConsumerIdsChangedRequestHeader
from rocketmq_py.protocol.headers.groups import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)
from rocketmq_py.protocol.headers.send import (
    CheckTransactionStateRequestHeader,
    PushReplyMessageRequestHeader,
)


def request_for(call: Call) -> RemotingCommand:
    """Give the request 39, 40, 220, 221, 307, 309 or 326 that says it."""
    body, flag = b"", FLAG_ONEWAY
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
            body = _offsets_body(call)
        case PushReply():
            code, flag = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, 0
            header, body = _reply_header(call), call.message.body
        case TellRunningInfo():
            code, flag = RequestCode.GET_CONSUMER_RUNNING_INFO, 0
            header = GetConsumerRunningInfoRequestHeader(
                consumer_group=call.group, client_id=call.client_id, jstack_enable=call.with_stacks
            )
        case TellOffsets():
            code, flag = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, 0
            header = GetConsumerStatusRequestHeader(topic=call.topic, group=call.group)
        case ConsumeDirectly():
            code, flag = RequestCode.CONSUME_MESSAGE_DIRECTLY, 0
            header, body = _direct_header(call), call.record
        case _:
            assert_never(call)
    return RemotingCommand(code, flag=flag, ext_fields=header.to_ext(), body=body)


def _offsets_body(call: ResetOffsets) -> bytes:
    if call.as_list:
        return ResetOffsetBodyForC.of(call.offsets).encode()
    return ResetOffsetBody(dict(call.offsets)).encode()


def _direct_header(call: ConsumeDirectly) -> Header:
    return ConsumeMessageDirectlyResultRequestHeader(
        consumer_group=call.group,
        client_id=call.client_id,
        msg_id=call.msg_id,
        broker_name=call.broker_name,
        topic=call.topic,
        topic_sys_flag=call.topic_sys_flag,
        group_sys_flag=call.group_sys_flag,
    )


def _reply_header(call: PushReply) -> Header:
    message, terms = call.message, call.message.terms
    return PushReplyMessageRequestHeader(
        producer_group=call.producer_group,
        topic=message.topic,
        default_topic=terms.template,
        default_topic_queue_nums=terms.template_queues,
        queue_id=terms.queue_id,
        sys_flag=terms.sys_flag,
        born_timestamp=message.born_timestamp,
        flag=terms.flag,
        properties=message.properties,
        reconsume_times=terms.reconsume_times,
        unit_mode=terms.is_unit,
        born_host=call.born_host,
        store_host=call.store_host,
        store_timestamp=call.stored_ms,
    )


def answer_of(command: RemotingCommand) -> Answer:
    """Read what a client answered."""
    accepted = command.code == ResponseCode.SUCCESS
    return Answer(accepted, command.remark, bytes(command.body))
