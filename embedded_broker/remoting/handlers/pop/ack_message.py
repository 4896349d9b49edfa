"""Acks and longer invisible times: requests 200051, 200053 and 200151.

RocketMQ's AckMessageProcessor and ChangeInvisibleTimeProcessor as far as headers, bodies and
handles go. Read on: `embedded_broker/core/pop/acks.py`.
"""

from functools import partial

from attrs import define

from embedded_broker.core.pop.acks import Acks, Hidden
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.long_requests import Work
from embedded_broker.remoting.requests import Request
from rocketmq_py.protocol.bodies.pop import BatchAck, BatchAckRequest
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
)
from rocketmq_py.protocol.pop_handles import PopHandle, real_topic


@define(eq=False)
class AckMessageProcessor:
    """Takes acks, and new invisible times."""

    _acks: Acks

    def register(self, endpoint: Endpoint) -> None:
        """Take over the requests of this module."""
        endpoint.register(RequestCode.ACK_MESSAGE, self.ack)
        endpoint.register_long(RequestCode.BATCH_ACK_MESSAGE, self.ack_batch)
        endpoint.register(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, self.hide_longer)

    def ack(self, request: Request) -> RemotingCommand:
        """200051: a message is done; an offset outside its queue is 208, a wrong handle 1."""
        header = AckMessageRequestHeader.from_ext(request.command.ext_fields)
        self._acks.ack(_hidden(request, header))
        return request.command.answer(ResponseCode.SUCCESS)

    def ack_batch(self, request: Request) -> Work:
        """200151: messages of several pops are done; none at all is 208."""
        command = request.command
        asked = BatchAckRequest()
        if command.body:
            asked = yield partial(BatchAckRequest.decode, command.body)
        if not asked.acks:
            return command.answer(ResponseCode.NO_MESSAGE)
        for one in asked.acks:
            self._acks.ack_batch(
                _hidden_together(request, one, asked.broker_name), [*one.offsets()]
            )
            yield None
        return command.answer(ResponseCode.SUCCESS)

    def hide_longer(self, request: Request) -> RemotingCommand:
        """200053: a message comes back later than it would; the answer makes its new handle."""
        command = request.command
        header = ChangeInvisibleTimeRequestHeader.from_ext(command.ext_fields)
        nothing = ChangeInvisibleTimeResponseHeader(pop_time=0, invisible_time=0, revive_qid=0)
        until = self._acks.hide_longer(_hidden(request, header), header.invisible_time)
        if until is not None:
            nothing = ChangeInvisibleTimeResponseHeader(
                pop_time=until.pop_time_ms,
                invisible_time=until.invisible_ms,
                revive_qid=until.revive_queue,
            )
        return command.answer(ResponseCode.SUCCESS, ext_fields=nothing.to_ext())


def _hidden(
    request: Request, header: AckMessageRequestHeader | ChangeInvisibleTimeRequestHeader
) -> Hidden:
    try:
        handle = PopHandle.parse(header.extra_info)
    except ValueError as error:
        raise Refused(
            Reason.FAILED, f"extraInfo[{header.extra_info[:200]}] is no handle: {error}"
        ) from None
    return Hidden(
        request.connection,
        header.consumer_group,
        header.topic,
        header.queue_id,
        header.offset,
        handle,
    )


def _hidden_together(request: Request, one: BatchAck, broker_name: str) -> Hidden:
    try:
        topic = real_topic(one.topic, one.group, one.retry)
    except ValueError as error:
        raise Refused(Reason.FAILED, f"the batch ack is wrong: {error}") from None
    handle = PopHandle(
        one.start_offset,
        one.pop_time_ms,
        one.invisible_ms,
        one.revive_queue,
        one.retry,
        broker_name,
    )
    return Hidden(request.connection, one.group, topic, one.queue_id, one.start_offset, handle)
