"""Pulls: requests 11 and 361.

RocketMQ's PullMessageProcessor as far as headers and codes go. A pull as Java writes it is read,
and answered when it finds something, without a `RemotingCommand`. Read on:
`embedded_broker/core/consume.py` for what is checked, read and waited for.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from attrs import define, field

from embedded_broker.core.consume import Checked, Consume, Forbidden, Pull, Pulled, Who
from embedded_broker.core.refusals import Refused
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.handlers.consume.pull_form import PullForm, PullForms, UsualPull
from embedded_broker.remoting.journal import HEADER_KEPT_MAX
from embedded_broker.remoting.requests import Handler, LazyRequest, Request, SharedBytes
from embedded_broker.remoting.usual_form import answer_pattern, usual_document
from embedded_broker.settings.profiles import Profile
from embedded_broker.store.pull import ANSWER_BYTES_MAX, GetResult, GetStatus
from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame, encode_head
from rocketmq_py.protocol.headers.consume import PullMessageRequestHeader, PullMessageResponseHeader

LONG_ANSWER: Final = 64 * 1024
"""From this many bytes on an answer to pulls that waited is not copied for each of them."""

_CODES: Final = {
    GetStatus.FOUND.value: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE.value: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING.value: ResponseCode.PULL_RETRY_IMMEDIATELY,
}
"""By how a pull ended, which is the remark too; 19 at the end of the queue, all else is 21."""

_BEGIN: Final = b'{"code":11,'
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
    _pattern: bytes = field(init=False)
    _forms: PullForms = field(factory=PullForms, init=False)
    _joined: tuple[Sequence[tuple[int, int]], SharedBytes] | None = field(default=None, init=False)
    """The last long answer to those who are woken together: where its records lie, and they."""
    _is_to_forget: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        header = PullMessageResponseHeader(**_SAMPLES)
        directives = dict.fromkeys(map(str, _SAMPLES.values()), b"%d")
        self._pattern = answer_pattern(
            ResponseCode.SUCCESS,
            GetStatus.FOUND.value,
            self._profile.version,
            header.to_ext(),
            directives,
        )

    def register(self) -> None:
        """Take over the requests of this module."""
        self._endpoint.register(RequestCode.PULL_MESSAGE, self.pull)
        self._endpoint.register(RequestCode.LITE_PULL_MESSAGE, partial(self.pull, is_lite=True))
        self._endpoint.pulls = self

    # -- in the usual form ------------------------------------------------------------------

    def read(self, frame: Frame) -> UsualPull | None:
        """Give what a request 11 in its usual form says; nothing is refused here."""
        kind, header, _ = frame
        if (
            kind != SerializeType.JSON
            or not header.startswith(_BEGIN)
            or len(header) > HEADER_KEPT_MAX
        ):
            return None
        known = self._forms.read(header)
        if known is not None:
            return known
        document = usual_document(header, RequestCode.PULL_MESSAGE)
        if document is None:
            return None
        try:
            told = PullMessageRequestHeader.from_ext(document["extFields"])
        except HeaderError:
            return None  # `pull` says what is wrong with it
        form = PullForm.of(told)
        self._forms.learn(header, document, form)
        commit_offset = told.commit_offset if form.is_committing else None
        return UsualPull(form, told.queue_offset, commit_offset, document["opaque"])

    def read_on(self, usual: UsualPull, changes: int | None, now_ms: int) -> bytes | None:
        """Do a pull like one that was checked; None: it is none, or there are no messages."""
        form, offset, commit_offset, opaque = usual
        checked = form.checked
        if checked is None or form.checked_at != changes:
            return None
        try:
            found = self._consume.read_on(form.terms, checked, offset, commit_offset, now_ms)
        except Exception:  # noqa: BLE001 - `take` meets it again, and tells who asked
            return None
        return None if found is None else self._frame(found, checked, 0, opaque)

    def take(
        self, usual: UsualPull, asked: LazyRequest, changes: int | None
    ) -> bytes | Handler | None:
        """Do what was read; give the frame of the answer, or who answers the request, or neither.

        Neither: it is answered later.
        """
        form = usual.form
        try:
            pulled = self._consume.pull(
                usual.pull(asked.connection), partial(self._reply_to, asked)
            )
        except Exception as error:  # noqa: BLE001 - told to who asked, as of any handler
            return partial(self._tell, error)
        if pulled is None:
            return None
        if changes is not None and pulled.checked.is_small:
            form.checked, form.checked_at = pulled.checked, changes
        found = pulled.found
        if found.status is not GetStatus.FOUND or found.size > ANSWER_BYTES_MAX:
            return partial(self._tell, pulled)
        return self._frame(found, pulled.checked, pulled.next_broker_id, usual.opaque)

    def _frame(self, found: GetResult, checked: Checked, next_broker_id: int, opaque: int) -> bytes:
        """Give the answer to a pull that has found messages."""
        header = self._pattern % (
            next_broker_id,
            found.next_begin_offset,
            found.min_offset,
            found.max_offset,
            checked.topic.topic_sys_flag,
            checked.group.group_sys_flag,
            opaque,
        )
        head = encode_head(SerializeType.JSON, header, found.size)
        return b"".join((head, *found.buffers))

    def _tell(self, outcome: Pulled | Exception, request: Request) -> RemotingCommand:
        if isinstance(outcome, Pulled | Refused):
            return self._answer(request.command, outcome)
        raise outcome

    def _reply_to(self, asked: LazyRequest, outcome: Pulled | Refused) -> None:
        self._reply(asked.request(), outcome)

    # -- in any form ------------------------------------------------------------------------

    def pull(self, request: Request, *, is_lite: bool = False) -> RemotingCommand | None:
        """11 and 361: records from an offset on; None while the pull waits."""
        header = PullMessageRequestHeader.from_ext(request.command.ext_fields)
        form = PullForm.of(header, is_lite=is_lite)
        commit_offset = header.commit_offset if form.is_committing else None
        pull = Pull(request.connection, form.terms, header.queue_offset, commit_offset)
        try:
            pulled = self._consume.pull(pull, partial(self._reply, request))
        except Refused as refused:
            return self._answer(request.command, refused)
        return None if pulled is None else self._answer(request.command, pulled)

    def _reply(self, request: Request, outcome: Pulled | Refused) -> None:
        answer = self._answer(request.command, outcome)
        if isinstance(outcome, Pulled) and outcome.found.size >= LONG_ANSWER:
            answer.body_parts = [self._join(outcome.found)]
        self._endpoint.answer(request, answer)

    def _answer(self, command: RemotingCommand, outcome: Pulled | Refused) -> RemotingCommand:
        if isinstance(outcome, Refused):
            answer = self._endpoint.refusal(command, outcome)
            if isinstance(outcome, Forbidden):
                answer.ext_fields = {"forbiddenType": _FORBIDDEN[outcome.who]}
            return answer
        found = outcome.found
        header = PullMessageResponseHeader(
            suggest_which_broker_id=outcome.next_broker_id,
            next_begin_offset=found.next_begin_offset,
            min_offset=found.min_offset,
            max_offset=found.max_offset,
            topic_sys_flag=outcome.checked.topic.topic_sys_flag,
            group_sys_flag=outcome.checked.group.group_sys_flag,
        )
        remark = found.status.value
        code = _CODES.get(remark, ResponseCode.PULL_OFFSET_MOVED)
        if outcome.is_at_end:
            code = ResponseCode.PULL_NOT_FOUND
        answer = command.answer(code, remark, header.to_ext())
        answer.body_parts = found.buffers
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
