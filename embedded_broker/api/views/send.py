"""``broker.send``: a message without any client.

Answers: how a test that needs only consumers gets a message into the broker: by the request that
a client would send, handled as any other. Must not know: what the broker does with it. Read on:
``embedded_broker/remoting/handlers/send/send_message.py``.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from threading import Event
from typing import Any

from attrs import frozen

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.errors import BrokerStateError
from embedded_broker.remoting.connection import Connection
from rocketmq_py.errors import ConfigError, DelayValueError, MQBrokerException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.delay import Delay, DelayKind
from rocketmq_py.protocol.frame import Frame, FrameDecoder
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader, SendMessageResponseHeader
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from rocketmq_py.protocol.properties import Prop, encode_properties

__all__ = ["SentMessage", "send_message"]

ANSWER_S = 60.0


@frozen(kw_only=True)
class SentMessage:
    """What ``broker.send`` did; ``queue_offset`` of a delayed message is its place as a timer."""

    msg_id: str
    offset_msg_id: str
    queue_id: int
    queue_offset: int
    recall_handle: str | None


def send_message(
    core: BrokerCore,
    topic: str,
    body: bytes | bytearray | memoryview,
    *,
    tags: str | None = None,
    keys: str | None = None,
    queue: int | None = None,
    properties: dict[str, str] | None = None,
    delay: float | timedelta | None = None,
    delay_level: int | None = None,
    deliver_at: datetime | None = None,
) -> SentMessage:
    """Send as a client does, request 310 and all, without a client. Outside the door.

    What no client could send is refused as the client does: `TypeError` for a value of another
    type, `DelayValueError` for a delay that cannot be meant.
    """
    asked = sum(one is not None for one in (delay, delay_level, deliver_at))
    if asked > 1:
        raise ConfigError("delay", delay, "one of delay, delay_level and deliver_at")
    _check_types(topic, body, queue)
    carried = dict(properties or {})
    if tags is not None:
        carried[Prop.TAGS] = tags
    if keys is not None:
        carried[Prop.KEYS] = keys
    if carried:
        _check_texts(carried)
    if delay is not None:
        carried[Prop.TIMER_DELAY_MS] = Delay.after(_as_span(delay)).text
    if delay_level is not None:
        carried[Prop.DELAY] = Delay.of(DelayKind.LEVEL, delay_level).text
    if deliver_at is not None:
        carried[Prop.TIMER_DELIVER_MS] = Delay.at(deliver_at).text
    header = SendMessageRequestHeader(
        producer_group="embedded-broker",
        topic=topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=4,
        queue_id=-1 if queue is None else queue,
        sys_flag=0,
        born_timestamp=core.clock.now_ms,
        flag=0,
        properties=encode_properties(carried).decode(),
        reconsume_times=0,
        unit_mode=False,
        batch=False,
    )
    request = RemotingCommand(
        code=RequestCode.SEND_MESSAGE_V2, ext_fields=header.to_ext_v2(), body=bytes(body)
    )
    response = _Caller().ask(core, request)
    if response.code != ResponseCode.SUCCESS:
        raise MQBrokerException(response.code, response.remark, core.address, topic=topic)
    answer = SendMessageResponseHeader.from_ext(response.ext_fields)
    return SentMessage(
        msg_id=answer.transaction_id or answer.msg_id,
        offset_msg_id=answer.msg_id,
        queue_id=answer.queue_id,
        queue_offset=answer.queue_offset,
        recall_handle=answer.recall_handle,
    )


def _check_types(topic: object, body: object, queue: object) -> None:
    if not isinstance(topic, str):
        raise TypeError(f"a topic is str, not {_given(topic)}")
    if not isinstance(body, (bytes, bytearray, memoryview)):
        advice = ": encode the text, as in text.encode()" if isinstance(body, str) else ""
        raise TypeError(f"a body is bytes, not {type(body).__name__}{advice}")
    if queue is not None and (isinstance(queue, bool) or not isinstance(queue, int)):
        raise TypeError(f"queue is the number of one, from 0, not {_given(queue)}")


def _check_texts(properties: Mapping[Any, object]) -> None:  # Any: typed str, checked here
    for name, value in properties.items():
        for text in (name, value):
            if not isinstance(text, str):
                given = _given(text)
                raise TypeError(f"property {name!r}: names and values are str, not {given}")


def _as_span(delay: object) -> timedelta:
    """Give seconds or a timedelta as a timedelta."""
    if isinstance(delay, timedelta):
        return delay
    if isinstance(delay, bool) or not isinstance(delay, (int, float)):
        raise TypeError(f"delay takes seconds or a timedelta, not {_given(delay)}")
    try:
        return timedelta(seconds=delay)
    except (OverflowError, ValueError) as error:  # too long, infinite, not a number
        raise DelayValueError(Prop.TIMER_DELAY_MS, delay, f"no span of time: {error}") from error


def _given(value: object) -> str:
    return f"{type(value).__name__} {value!r}"


class _Caller(Connection):
    """The test itself as a peer: its answers stay on the calling thread's object."""

    __slots__ = ("_answered", "_answers")
    is_own = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ("127.0.0.1", 0))
        self.client_id = "broker.send"
        self._answers: list[Frame] = []
        self._answered = Event()

    def ask(self, core: BrokerCore, request: RemotingCommand) -> RemotingCommand:
        """Have one request handled, and return its answer."""
        decoder = FrameDecoder()
        core.endpoint.receive(self, decoder.feed(request.encode()))
        # Under SYNC_FLUSH the flusher's thread gives the answer.
        if not self._answered.wait(ANSWER_S):
            raise BrokerStateError(f"the broker gave no answer within {ANSWER_S} s")
        return RemotingCommand.decode(self._answers[0])

    def deliver(self, frames: list[bytes]) -> None:
        """Keep the answer."""
        decoder = FrameDecoder()
        for frame in frames:
            self._answers += decoder.feed(frame)
        self._answered.set()

    def close(self) -> None:
        """Nothing is open."""
        self.closed = True
