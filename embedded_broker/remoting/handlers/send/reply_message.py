"""Replies to requests of clients: requests 324 and 325.

RocketMQ's ReplyMessageProcessor as far as headers and codes go. The answer comes when the client
that waits has got the reply (326), and carries MSG_REGION and TRACE_ON as that of any send. Read
on: `embedded_broker/core/replies.py`.
"""

from collections.abc import Callable, Mapping
from functools import partial

from attrs import define

from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Refused
from embedded_broker.core.replies import Replies
from embedded_broker.core.send_values import Incoming, Outcome
from embedded_broker.remoting.code_meanings import code_for
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.handlers.send.send_header import terms_of
from embedded_broker.remoting.requests import Request, RequestError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader, SendMessageResponseHeader
from rocketmq_py.protocol.properties import Prop

_NOT_STORED = "0"
"""Clients cannot read an answer without an id."""


@define(eq=False, kw_only=True)
class ReplyMessageProcessor:
    """Takes replies."""

    _env: Environment
    _endpoint: Endpoint
    _replies: Replies

    def register(self) -> None:
        """Take over the requests of this module."""
        long, short = SendMessageRequestHeader.from_ext, SendMessageRequestHeader.from_ext_v2
        self._endpoint.register(RequestCode.SEND_REPLY_MESSAGE, partial(self.reply, long))
        self._endpoint.register(RequestCode.SEND_REPLY_MESSAGE_V2, partial(self.reply, short))

    def reply(
        self, read: Callable[[Mapping[str, str]], SendMessageRequestHeader], request: Request
    ) -> None:
        """324 and 325: push a reply to who asked; not taken: 1. Answered later."""
        header = read(request.command.ext_fields)
        message = Incoming(
            header.topic,
            request.command.body,
            header.properties or "",
            header.born_timestamp,
            terms_of(header),
        )
        answer = partial(self._answer, request)
        try:
            self._replies.reply(message, header.producer_group, request.connection, answer)
        except Refused as refused:
            code = code_for(refused.reason, self._env.profile)
            raise RequestError(code, refused.remark, self._marks()) from refused

    def _answer(self, request: Request, outcome: Outcome) -> None:
        fields, code = self._marks(), ResponseCode.SUCCESS
        if outcome.reason is not None:
            code = ResponseCode(code_for(outcome.reason, self._env.profile))
        else:
            fields |= SendMessageResponseHeader(
                msg_id=self._id(outcome.commit_log_offset) if outcome.is_stored else _NOT_STORED,
                queue_id=outcome.queue_id,
                queue_offset=max(0, outcome.queue_offset),
            ).to_ext()
        self._endpoint.answer(request, request.command.answer(code, outcome.remark, fields))

    def _id(self, offset: int) -> str:
        return f"{self._env.store.store_host.hex().upper()}{offset:016X}"

    def _marks(self) -> dict[str, str]:
        return {
            Prop.MSG_REGION: self._env.config.text("regionId"),
            Prop.TRACE_ON: str(self._env.config.flag("traceOn")).lower(),
        }
