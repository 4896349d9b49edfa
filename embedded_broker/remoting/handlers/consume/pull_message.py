"""Pulls: requests 11 and 361.

RocketMQ's PullMessageProcessor as far as headers and codes go. Read on:
`embedded_broker/core/consume.py` for what is checked, read and waited for.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from attrs import define, field

from embedded_broker.core.consume import Consume, Forbidden, Pull, Pulled, Who
from embedded_broker.core.refusals import Refused
from embedded_broker.remoting.answer_patterns import AnswerPattern
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.requests import Answer, Request, SharedBytes
from embedded_broker.settings.profiles import Profile
from embedded_broker.store.pull import GetResult, GetStatus
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.consume import PullMessageRequestHeader, PullMessageResponseHeader

LONG_ANSWER: Final = 64 * 1024
"""From this many bytes on an answer to pulls that waited is not copied for each of them."""

_CODES: Final = {
    GetStatus.FOUND.value: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE.value: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING.value: ResponseCode.PULL_RETRY_IMMEDIATELY,
}
"""By how a pull ended, which is the remark too; 19 at the end of the queue, all else is 21."""

_SAMPLES: Final = {
    "suggest_which_broker_id": 1111111111,
    "next_begin_offset": 1212121212,
    "min_offset": 1313131313,
    "max_offset": 1414141414,
    "topic_sys_flag": 1515151515,
    "group_sys_flag": 1616161616,
}
"""Fields of an answer that brings messages, in the order in which they are written."""

_FORBIDDEN: Final = {
    Who.BROKER: "1",
    Who.GROUP: "2",
    Who.TOPIC: "3",
    Who.BROADCASTING: "4",
    Who.SUBSCRIPTION: "5",
}


@define(eq=False)
class PullMessageProcessor:
    """Answers pulls, at once or when a message arrives."""

    _endpoint: Endpoint
    _consume: Consume
    _profile: Profile
    _found: AnswerPattern = field(init=False)
    _joined: tuple[Sequence[tuple[int, int]], SharedBytes] | None = field(default=None, init=False)
    """The last long answer to those who are woken together: where its records lie, and they."""
    _is_to_forget: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        directives = dict.fromkeys(map(str, _SAMPLES.values()), b"%d")
        self._found = AnswerPattern.of(
            ResponseCode.SUCCESS,
            GetStatus.FOUND.value,
            self._profile.version,
            PullMessageResponseHeader(**_SAMPLES).to_ext(),
            directives,
        )

    def register(self) -> None:
        """Take over the requests of this module."""
        self._endpoint.register(RequestCode.PULL_MESSAGE, self.pull)
        self._endpoint.register(RequestCode.LITE_PULL_MESSAGE, partial(self.pull, is_lite=True))

    def pull(self, request: Request, *, is_lite: bool = False) -> Answer | None:
        """11 and 361: records from an offset on; None while the pull waits."""
        header = PullMessageRequestHeader.from_ext(request.command.ext_fields)
        flags = header.sys_flag
        pull = Pull(
            request.connection,
            header.consumer_group,
            header.topic,
            header.queue_id,
            header.queue_offset,
            header.max_msg_nums,
            (header.subscription or "") if flags & PullSysFlag.SUBSCRIPTION else None,
            header.expression_type,
            header.sub_version,
            header.suspend_timeout_millis if flags & PullSysFlag.SUSPEND else None,
            header.commit_offset if flags & PullSysFlag.COMMIT_OFFSET else None,
            is_lite,
        )
        try:
            pulled = self._consume.pull(pull, partial(self._reply, request))
        except Refused as refused:
            return self._refusal(request.command, refused)
        return None if pulled is None else self._answer(request.command, pulled)

    def _reply(self, request: Request, outcome: Pulled | Refused) -> None:
        """Answer a pull that waited; rights, and whose a retry topic is, may have changed."""
        command = request.command
        if not isinstance(outcome, Refused):
            outcome = self._endpoint.check(request) or outcome
        if isinstance(outcome, Refused):
            self._endpoint.answer(request, self._refusal(command, outcome))
            return
        found = outcome.found
        body = [self._join(found)] if found.size >= LONG_ANSWER else None
        self._endpoint.answer(request, self._answer(command, outcome, body))

    def _refusal(self, command: RemotingCommand, refused: Refused) -> RemotingCommand:
        answer = self._endpoint.refusal(command, refused)
        if isinstance(refused, Forbidden):
            answer.ext_fields = {"forbiddenType": _FORBIDDEN[refused.who]}
        return answer

    def _answer(
        self, command: RemotingCommand, outcome: Pulled, body: Sequence[bytes] | None = None
    ) -> Answer:
        found, checked = outcome.found, outcome.checked
        values = (
            outcome.next_broker_id,
            found.next_begin_offset,
            found.min_offset,
            found.max_offset,
            checked.topic.topic_sys_flag,
            checked.group.group_sys_flag,
        )
        parts = found.buffers if body is None else body
        remark = found.status.value
        if remark == self._found.remark and self._endpoint.answers_in_json(command):
            return self._found.fill((*values, command.opaque), parts)
        code = _CODES.get(remark, ResponseCode.PULL_OFFSET_MOVED)
        if outcome.is_at_end:
            code = ResponseCode.PULL_NOT_FOUND
        header = PullMessageResponseHeader(**dict(zip(_SAMPLES, values, strict=True)))
        answer = command.answer(code, remark, header.to_ext())
        answer.body_parts = parts
        return answer

    def _join(self, found: GetResult) -> SharedBytes:
        """Give the records of a long answer, the same object to all that get it together."""
        joined = self._joined
        if joined is None or joined[0] != found.places:
            joined = self._joined = (found.places, SharedBytes(b"".join(found.buffers)))
        if not self._is_to_forget:
            self._is_to_forget = True
            self._endpoint.door.after(self._forget)
        return joined[1]

    def _forget(self) -> None:
        """Let it go, unless there are more to be woken: they may want the same. Outside."""
        with self._endpoint.door.quiet:
            self._is_to_forget = False
            if not self._consume.waiters.is_waking:
                self._joined = None
