"""Sends: requests 310, 10 and 320.

RocketMQ's SendMessageProcessor as far as headers and codes go. Sends of a connection that follow
each other are stored in one call. Every answer, refusals included, carries MSG_REGION and TRACE_ON.
Read on: ``send_header.py`` for how headers are read, `embedded_broker/core/produce.py` for what
becomes of a message.
"""

from collections.abc import Sequence
from typing import Final

from attrs import define, field

from embedded_broker.core.environment import Environment
from embedded_broker.core.produce import Produce
from embedded_broker.core.send_values import Incoming, Outcome
from embedded_broker.remoting.answer_patterns import AnswerPattern
from embedded_broker.remoting.code_meanings import code_for
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.handlers.send.send_header import SendHeader
from embedded_broker.remoting.requests import Answer, GroupHandler, Request
from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.handles import encode_offset_ids
from rocketmq_py.protocol.properties import Prop

_HEADERS: Final = {
    # Go and C++ clients send the long field names.
    int(RequestCode.SEND_MESSAGE): SendHeader(short=False),
    int(RequestCode.SEND_MESSAGE_V2): SendHeader(short=True),
    int(RequestCode.SEND_BATCH_MESSAGE): SendHeader(short=True),
}
# Values that occur nowhere else in an answer: what is around them is kept.
_SAMPLES: Final = {
    "5A5A5A5A5A5A5A5A": b"%016X",
    "1717171717": b"%d",
    "1818181818181818181": b"%d",
    "0123456789ABCDEFFEDCBA9876543210": b"%b",
    "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=": b"%b",
}


@define(eq=False, kw_only=True)
class SendMessageProcessor(GroupHandler):
    """Reads and answers sends."""

    _env: Environment
    _endpoint: Endpoint
    _produce: Produce
    _marks: dict[str, str] = field(init=False)
    _stored: AnswerPattern = field(init=False)
    _recallable: AnswerPattern = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._read_settings(frozenset())
        self._env.config.on_change(self._read_settings)

    def register(self) -> None:
        """Take over the requests of this module."""
        for code in _HEADERS:
            self._endpoint.register(code, self)

    def take(self, requests: Sequence[Request]) -> Sequence[Answer | None]:
        """310, 320 and 10: store messages and batches, all in one call."""
        read = [_read(request.command) for request in requests]
        messages = [one for one in read if isinstance(one, Incoming)]
        outcomes = iter(self._produce(messages, requests[0].connection))
        return [
            self._answer(next(outcomes), request)
            if isinstance(one, Incoming)
            else self._refusal(request.command, ResponseCode.SYSTEM_ERROR, str(one))
            for one, request in zip(read, requests, strict=True)
        ]

    def _answer(self, outcome: Outcome, request: Request) -> Answer | None:
        """Answer a send; None while the answer waits for a sync."""
        command = request.command
        pattern = self._pattern_for(outcome, command)
        if pattern is not None:
            place = (outcome.commit_log_offset, outcome.queue_id, outcome.queue_offset)
            key, handle = outcome.unique_key or b"", outcome.recall_handle
            own = (key,) if handle is None else (key, handle)
            return pattern.fill((*place, *own, command.opaque))
        code: int = ResponseCode.SUCCESS
        if outcome.reason is not None:
            code = code_for(outcome.reason, self._env.profile)
        if not outcome.is_stored:
            return self._refusal(command, code, outcome.remark or "")
        response = command.answer(code, outcome.remark, self._fields(outcome))
        if outcome.synced_at:
            return self._endpoint.answer_when_durable(request, response, outcome.synced_at)
        return response

    def _pattern_for(self, outcome: Outcome, command: RemotingCommand) -> AnswerPattern | None:
        """Give the template of an answer to one message that is stored and needs no sync."""
        key = outcome.unique_key
        if (
            outcome.reason is not None
            or outcome.synced_at
            or key is None
            or not key.isalnum()
            or outcome.offsets
            or outcome.batch_key is not None
            or not self._endpoint.answers_in_json(command)
        ):
            return None
        return self._stored if outcome.recall_handle is None else self._recallable

    def _fields(self, outcome: Outcome) -> dict[str, str]:
        offsets = tuple(outcome.offsets) or (outcome.commit_log_offset,)
        fields = self._marks | {
            "msgId": encode_offset_ids(self._env.store.store_host, offsets),
            "queueId": str(outcome.queue_id),
            "queueOffset": str(outcome.queue_offset),
        }
        if outcome.unique_key is not None:
            fields["transactionId"] = outcome.unique_key.decode()
        if outcome.batch_key is not None:
            fields["batchUniqId"] = outcome.batch_key.decode()
        if outcome.recall_handle is not None:
            fields["recallHandle"] = outcome.recall_handle.decode()
        return fields

    def _refusal(self, command: RemotingCommand, code: int, remark: str) -> RemotingCommand:
        return command.answer(code, remark, self._marks.copy())

    def _read_settings(self, _changed: frozenset[str]) -> None:
        """Keep what every answer begins with, and templates of the most frequent answers."""
        self._marks = {
            Prop.MSG_REGION: self._env.config.text("regionId"),
            Prop.TRACE_ON: str(self._env.config.flag("traceOn")).lower(),
        }
        offset, queue_id, queue_offset, key, handle = _SAMPLES
        outcome = Outcome(
            None, None, int(offset, 16), int(queue_id), int(queue_offset), key.encode()
        )
        self._stored = self._pattern_of(outcome)
        outcome.recall_handle = handle.encode()
        self._recallable = self._pattern_of(outcome)

    def _pattern_of(self, outcome: Outcome) -> AnswerPattern:
        fields, version = self._fields(outcome), self._env.profile.version
        return AnswerPattern.of(ResponseCode.SUCCESS, None, version, fields, _SAMPLES)


def _read(command: RemotingCommand) -> Incoming | HeaderError:
    """Read the message of a send, or say what is wrong with its header."""
    try:
        return _HEADERS[command.code].message(command)
    except HeaderError as error:
        return error
