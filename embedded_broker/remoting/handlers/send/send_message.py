"""Sends on this wire: requests 310, 10 and 320.

Answers: how a frame becomes an `Incoming`, and an `Outcome` an answer; those of nearly all sends
are read and answered without a `RemotingCommand`. Every answer, refusals included, carries
MSG_REGION and TRACE_ON. Read on: `embedded_broker/core/produce.py` for what becomes of a message.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Final

from attrs import define, field

from embedded_broker.core.incoming import Incoming, Outcome, Terms
from embedded_broker.core.produce import Produce
from embedded_broker.remoting.code_meanings import code_for
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.handlers.send.send_form import FORMS_MAX, SendForms
from embedded_broker.remoting.journal import HEADER_KEPT_MAX
from embedded_broker.remoting.requests import Connection, Handler, Request, RequestError, Send
from embedded_broker.remoting.usual_form import answer_pattern, usual_document
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import Profile
from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import MQVersion, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame
from rocketmq_py.protocol.handles import encode_offset_ids
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from rocketmq_py.protocol.names import ESCAPE_PRODUCER_PREFIX
from rocketmq_py.protocol.properties import Prop

_BEGIN: Final = b'{"code":310,'
_LONG_DIGITS: Final = 19
# Fields that are the same in many headers.
_form: Final = itemgetter("c", "d", "e", "f", "h", "j", "k", "m")
# Values that occur nowhere else in an answer: what is around them is kept.
_SAMPLES: Final = {
    "5A5A5A5A5A5A5A5A": b"%016X",
    "1717171717": b"%d",
    "1818181818181818181": b"%d",
    "0123456789ABCDEFFEDCBA9876543210": b"%b",
    "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=": b"%b",
}


@define(eq=False, kw_only=True)
class SendMessageProcessor:
    """Reads and answers sends; ``store_host`` begins every offset id."""

    _endpoint: Endpoint
    _produce: Produce
    _config: BrokerConfig
    _profile: Profile
    _store_host: bytes
    _marks: dict[str, str] = field(init=False)
    _pattern: bytes = field(init=False)
    _recall_pattern: bytes = field(init=False)
    _terms: dict[tuple[str, ...], Terms] = field(factory=dict, init=False)
    _forms: SendForms = field(factory=SendForms, init=False)

    def __attrs_post_init__(self) -> None:
        self._read_settings(frozenset())
        self._config.on_change(self._read_settings)

    def register(self) -> None:
        """Take over the requests of this module."""
        endpoint = self._endpoint
        short = partial(self._send, SendMessageRequestHeader.from_ext_v2)
        endpoint.register(RequestCode.SEND_MESSAGE_V2, short)
        endpoint.register(RequestCode.SEND_BATCH_MESSAGE, short)
        # Go and C++ clients send the long field names.
        long = partial(self._send, SendMessageRequestHeader.from_ext)
        endpoint.register(RequestCode.SEND_MESSAGE, long)
        endpoint.sends = self

    # -- one by one -------------------------------------------------------------------------

    def _send(
        self, read: Callable[[Mapping[str, str]], SendMessageRequestHeader], request: Request
    ) -> RemotingCommand | None:
        """310, 320 and 10: a message or a batch; ``read`` knows the names of the fields."""
        command = request.command
        try:
            header = read(command.ext_fields)
        except HeaderError as error:
            raise self._refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
        terms = terms_of(header, is_batch=command.code == RequestCode.SEND_BATCH_MESSAGE)
        if command.version < MQVersion.V3_4_9:
            terms.max_reconsume_times = None  # these clients do not mean what they write there
        message = Incoming(
            header.topic, command.body, header.properties or "", header.born_timestamp, terms
        )
        (outcome,) = self._produce([message], request.connection)
        return self._answer(outcome, request)

    def _answer(self, outcome: Outcome, request: Request) -> RemotingCommand | None:
        """Answer a send; None while the answer waits for a sync."""
        code: int = ResponseCode.SUCCESS
        if outcome.reason is not None:
            code = code_for(outcome.reason, self._profile)
        if not outcome.is_stored:
            raise self._refusal(code, outcome.remark or "")
        response = request.command.answer(code, outcome.remark, self._fields(outcome))
        if outcome.synced_at:
            return self._endpoint.answer_when_durable(request, response, outcome.synced_at)
        return response

    def _fields(self, outcome: Outcome) -> dict[str, str]:
        offsets = tuple(outcome.offsets) or (outcome.commit_log_offset,)
        fields = self._marks | {
            "msgId": encode_offset_ids(self._store_host, offsets),
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

    def _refusal(self, code: int, remark: str) -> RequestError:
        return RequestError(code, remark, self._marks.copy())

    # -- those that come together -------------------------------------------------------------

    def read(self, frame: Frame) -> Send | None:
        """Give the send if it is one in its usual form; nothing is refused here."""
        header = frame.header
        if not header.startswith(_BEGIN) or len(header) > HEADER_KEPT_MAX:
            return None
        known = self._forms.find(header)
        if known is not None and (found := known.read(header)) is not None:
            born_ms, text, opaque, fields = found
            message = Incoming(known.topic, frame.body, text, born_ms, known.terms)
            return Send(frame, opaque, fields, message)
        document = usual_document(header, RequestCode.SEND_MESSAGE_V2)
        if document is None:
            return None
        ext, opaque = document["extFields"], document["opaque"]
        try:
            topic, born, text = ext["b"], ext["g"], ext["i"]
            if (
                not (born.isdecimal() and born.isascii() and len(born) < _LONG_DIGITS)
                or "l" in ext
                or ext["a"].startswith(ESCAPE_PRODUCER_PREFIX)
                or not (ext["a"] and topic)
            ):
                return None
            form = _form(ext)
            terms = self._terms.get(form)
            if terms is None and (terms := self._learn(form, ext)) is None:
                return None
            message = Incoming(topic, frame.body, text, int(born), terms)
            self._forms.learn(header, document, message)
        except KeyError:
            return None  # an odd header: `_send` says what is wrong with it
        return Send(frame, opaque, ext, message)

    def _learn(self, form: tuple[str, ...], ext: Mapping[str, str]) -> Terms | None:
        """Read a header whose fields look like this, so that the next one need not be read."""
        try:
            terms = terms_of(SendMessageRequestHeader.from_ext_v2(ext))
        except HeaderError:
            return None
        if terms.is_batch:
            return None
        if len(self._terms) >= FORMS_MAX:
            self._terms.clear()
        self._terms[form] = terms
        return terms

    def take(self, connection: Connection, sends: Sequence[Send]) -> Iterator[bytes | Handler]:
        """Accept sends; give the header of each answer, or who answers the request."""
        outcomes = self._produce([send.message for send in sends], connection)
        return map(self._ready, outcomes, [send.opaque for send in sends])

    def _ready(self, outcome: Outcome, opaque: int) -> bytes | Handler:
        key, handle = outcome.unique_key, outcome.recall_handle
        if outcome.reason is not None or outcome.synced_at or key is None or not key.isalnum():
            return partial(self._answer, outcome)
        offset, queue_id = outcome.commit_log_offset, outcome.queue_id
        if handle is None:
            return self._pattern % (offset, queue_id, outcome.queue_offset, key, opaque)
        return self._recall_pattern % (
            offset,
            queue_id,
            outcome.queue_offset,
            key,
            handle,
            opaque,
        )

    def _read_settings(self, _changed: frozenset[str]) -> None:
        """Keep what every answer begins with, and whole answers but for what differs in them."""
        self._marks = {
            Prop.MSG_REGION: self._config.text("regionId"),
            Prop.TRACE_ON: str(self._config.flag("traceOn")).lower(),
        }
        offset, queue_id, queue_offset, key, handle = _SAMPLES
        outcome = Outcome(
            None, None, int(offset, 16), int(queue_id), int(queue_offset), key.encode()
        )
        self._pattern = self._header_pattern(outcome)
        outcome.recall_handle = handle.encode()
        self._recall_pattern = self._header_pattern(outcome)

    def _header_pattern(self, outcome: Outcome) -> bytes:
        """Give the header of an answer, with directives for its samples, in their order."""
        fields, version = self._fields(outcome), self._profile.version
        return answer_pattern(ResponseCode.SUCCESS, None, version, fields, _SAMPLES)


def terms_of(header: SendMessageRequestHeader, *, is_batch: bool = False) -> Terms:
    """Read how a message is to be sent."""
    return Terms(
        header.queue_id,
        header.flag,
        header.sys_flag,
        header.reconsume_times or 0,
        header.max_reconsume_times,
        header.default_topic,
        header.default_topic_queue_nums,
        bool(header.unit_mode),
        is_batch or bool(header.batch),
        header.producer_group.startswith(ESCAPE_PRODUCER_PREFIX),
    )
