"""Pop, peek, notification, polling info: requests 200050, 200052, 200054 and 200055.

RocketMQ's PopMessageProcessor, PeekMessageProcessor, NotificationProcessor and PollingInfoProcessor
as far as headers and codes go. Read on: `embedded_broker/core/pop/service.py`.
"""

from typing import Final

from attrs import define

from embedded_broker.clocks.clock import VirtualClock
from embedded_broker.clocks.session import Session
from embedded_broker.core.access.retry_owners import RetryOwners
from embedded_broker.core.guards import Action
from embedded_broker.core.pop.peeks import Peeks
from embedded_broker.core.pop.pop_values import Notice, Pop, Popped
from embedded_broker.core.pop.service import PopService
from embedded_broker.core.refusals import Refused
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.requests import Request
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.pop import (
    NotificationRequestHeader,
    NotificationResponseHeader,
    PeekMessageRequestHeader,
    PollingInfoRequestHeader,
    PollingInfoResponseHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from rocketmq_py.protocol.pop_handles import (
    message_offsets_text,
    order_counts_text,
    start_offsets_text,
)

FROM_LAST: Final = 1
"""``ConsumeInitMode.MAX``."""
LATE_MS: Final = 500
"""A pop that arrives so long after its client has given it up is not served."""
FOUND: Final = "FOUND"
NOT_FOUND: Final = "NO_MESSAGE_IN_QUEUE"
_NOTHING: Final = PopMessageResponseHeader(
    pop_time=0, invisible_time=0, revive_qid=0, rest_num=0
).to_ext()
"""What answers carry that a Java client would not read without these four."""


@define(eq=False)
class PopMessageProcessor:
    """Answers pops, at once or when a message arrives."""

    _endpoint: Endpoint
    _pops: PopService
    _peeks: Peeks
    _session: Session
    _retry_owners: RetryOwners

    def register(self) -> None:
        """Take over the requests of this module."""
        register = self._endpoint.register
        register(RequestCode.POP_MESSAGE, self.pop)
        register(RequestCode.PEEK_MESSAGE, self.peek)
        register(RequestCode.NOTIFICATION, self.notify)
        register(RequestCode.POLLING_INFO, self.polling_info)

    def pop(self, request: Request) -> RemotingCommand | None:
        """200050: messages that are hidden from now on; None while the pop waits."""
        command = request.command
        header = PopMessageRequestHeader.from_ext(command.ext_fields)
        wait_ms = self._wait_ms(header.born_time, header.poll_time)
        if wait_ms is None:
            remark = "the pop message is timeout too much: its client has given it up by now"
            return command.answer(ResponseCode.POLLING_TIMEOUT, remark, dict(_NOTHING))
        pop = Pop(
            request.connection,
            header.consumer_group,
            header.topic,
            header.queue_id,
            header.max_msg_nums,
            header.invisible_time,
            wait_ms,
            header.init_mode == FROM_LAST,
            header.exp,
            header.exp_type,
            bool(header.order),
            header.attempt_id,
        )

        def reply(outcome: Popped | Refused) -> None:
            self._endpoint.answer(request, self._answer(command, pop, outcome))

        try:
            self._demand(request, pop)
            popped = self._pops.pop(pop, reply)
        except Refused as refused:
            return self._answer(command, pop, refused)
        return None if popped is None else self._answer(command, pop, popped)

    def _demand(self, request: Request, pop: Pop) -> None:
        """Refuse a pop that may get what comes back to others, of whose names it has no right."""
        others = self._retry_owners.beside(pop.group, pop.topic)
        self._endpoint.caller(request).demand_all(Action.SUB, others)

    def _answer(
        self, command: RemotingCommand, pop: Pop, outcome: Popped | Refused
    ) -> RemotingCommand:
        if isinstance(outcome, Refused):
            answer = self._endpoint.refusal(command, outcome)
            answer.ext_fields = dict(_NOTHING)
            return answer
        header = PopMessageResponseHeader(
            pop_time=outcome.pop_time_ms,
            invisible_time=outcome.invisible_ms,
            revive_qid=outcome.revive_queue,
            rest_num=outcome.left,
            start_offset_info=start_offsets_text(outcome.portions),
            msg_offset_info=message_offsets_text(outcome.portions),
            order_count_info=order_counts_text(outcome.order_counts) if pop.is_ordered else None,
        )
        code, remark = ResponseCode.SUCCESS, FOUND
        if not outcome.count:
            full = outcome.is_full
            code = ResponseCode.POLLING_FULL if full else ResponseCode.POLLING_TIMEOUT
            remark = NOT_FOUND
        answer = command.answer(code, remark, header.to_ext())
        answer.body_parts = outcome.buffers
        return answer

    def peek(self, request: Request) -> RemotingCommand:
        """200052: what a pop would get; 19 when there is nothing."""
        command = request.command
        header = PeekMessageRequestHeader.from_ext(command.ext_fields)
        pop = Pop(
            request.connection,
            header.consumer_group,
            header.topic,
            header.queue_id,
            header.max_msg_nums,
            0,
        )
        try:
            self._demand(request, pop)
            peeked = self._peeks.peek(pop)
        except Refused as refused:
            return self._answer(command, pop, refused)
        code = ResponseCode.SUCCESS if peeked.count else ResponseCode.PULL_NOT_FOUND
        answer = command.answer(
            code,
            FOUND if peeked.count else NOT_FOUND,
            _NOTHING | {"restNum": str(peeked.left)},
        )
        answer.body_parts = peeked.buffers
        return answer

    def notify(self, request: Request) -> RemotingCommand | None:
        """200054: whether there is a message; None while there is none and the request waits."""
        command = request.command
        header = NotificationRequestHeader.from_ext(command.ext_fields)
        pop = Pop(
            request.connection,
            header.consumer_group,
            header.topic,
            header.queue_id,
            1,
            0,
            self._wait_ms(header.born_time, header.poll_time) or 0,
            is_ordered=bool(header.order),
            attempt_id=header.attempt_id,
        )

        def reply(outcome: Notice | Refused) -> None:
            if isinstance(outcome, Refused):
                answer = self._endpoint.refusal(command, outcome)
            else:
                answer = _notice(command, outcome)
            self._endpoint.answer(request, answer)

        notice = self._peeks.notify(pop, reply)
        return None if notice is None else _notice(command, notice)

    def polling_info(self, request: Request) -> RemotingCommand:
        """200055: how many pops wait."""
        header = PollingInfoRequestHeader.from_ext(request.command.ext_fields)
        number = self._peeks.waiting(
            header.consumer_group, header.topic, header.queue_id, request.connection
        )
        ext = PollingInfoResponseHeader(polling_num=number).to_ext()
        return request.command.answer(ResponseCode.SUCCESS, ext_fields=ext)

    def _wait_ms(self, born_ms: int, poll_ms: int) -> int | None:
        """Give how long a request may wait; None when its client does not wait any more.

        Its waiting time began when it was born, by the wall time of the client: a session clock
        that a test moves says nothing about that.
        """
        clock = self._session.clock
        if born_ms == 0 or isinstance(clock, VirtualClock):
            return max(poll_ms, 0)
        late_ms = max(clock.now_ms - born_ms, 0)
        if late_ms - poll_ms > LATE_MS:
            return None
        return max(poll_ms - late_ms, 0)


def _notice(command: RemotingCommand, notice: Notice) -> RemotingCommand:
    ext = NotificationResponseHeader(
        has_msg=notice.has_message, polling_full=notice.is_full
    ).to_ext()
    return command.answer(ResponseCode.SUCCESS, ext_fields=ext)
