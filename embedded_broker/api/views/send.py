"""``broker.send``: a message without any client.

Answers: how a test that needs only consumers gets a message into the broker: as the one that a
client would send, by the same call. Must not know: what the broker does with it. Read on:
``embedded_broker/core/produce.py``.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue
from typing import Any

from attrs import frozen

from embedded_broker.api.views.groups import GroupsView
from embedded_broker.api.views.lookup import PartsSource, described
from embedded_broker.api.views.messages import StoredMessage
from embedded_broker.core.refusals import Reason
from embedded_broker.core.send_values import Incoming, Terms
from embedded_broker.errors import BrokerStateError, MessageNotFound
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.code_meanings import code_for
from embedded_broker.remoting.journal import Exchange
from embedded_broker.tables.peer import Peer
from rocketmq_py.clock import monotonic_ns
from rocketmq_py.errors import ConfigError, DelayValueError, MQBrokerException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.delay import Delay, DelayKind
from rocketmq_py.protocol.handles import encode_offset_id
from rocketmq_py.protocol.names import (
    AUTO_CREATE_TOPIC,
    SCHEDULE_TOPIC,
    SLICE_TIMER_TOPIC,
    TIMER_TOPIC,
    retry_topic,
)
from rocketmq_py.protocol.properties import Prop, encode_properties

ANSWER_S = 60.0
_WAITING_IN = frozenset({TIMER_TOPIC, SLICE_TIMER_TOPIC, SCHEDULE_TOPIC})
_DELAYS = frozenset(
    {
        Prop.DELAY,
        Prop.TIMER_DELAY_SEC,
        Prop.TIMER_DELAY_MS,
        Prop.TIMER_DELIVER_MS,
        Prop.START_DELIVER_TIME,
    }
)
"""What would make a copy wait once more."""


@frozen(kw_only=True)
class SentMessage:
    """What ``broker.send`` did. The offset of a delayed message is its place among the timers."""

    msg_id: str
    offset_msg_id: str
    queue_id: int
    queue_offset: int
    recall_handle: str | None


def send_message(
    parts: BrokerParts,
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
    """Send as a client does, without a client and without a request. Outside the door.

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
    message = Incoming(
        topic,
        bytes(body),
        encode_properties(carried).decode(),
        parts.clock.now_ms,
        Terms(-1 if queue is None else queue, template=AUTO_CREATE_TOPIC, template_queues=4),
    )
    caller = _Caller()
    with parts.door:
        noted = _noted(parts, caller, message)
        (outcome,) = parts.send.produce([message], caller)
        code = 0 if outcome.reason is None else code_for(outcome.reason, parts.profile)
        noted.response_code, noted.remark = code, outcome.remark
        noted.micros = (monotonic_ns() - noted.started_ns) // 1000
        word = SafeWord(parts, outcome.synced_at)
    if (late := word.wait()) is not None:
        code = code_for(late, parts.profile)
    if code != ResponseCode.SUCCESS:
        raise MQBrokerException(code, outcome.remark, parts.address, topic=topic)
    offset_msg_id = encode_offset_id(parts.store.store_host, outcome.commit_log_offset)
    return SentMessage(
        msg_id=(outcome.unique_key or b"").decode() or offset_msg_id,
        offset_msg_id=offset_msg_id,
        queue_id=outcome.queue_id,
        queue_offset=outcome.queue_offset,
        recall_handle=None if outcome.recall_handle is None else outcome.recall_handle.decode(),
    )


def redeliver_message(
    source: PartsSource, message: StoredMessage, group: str | None
) -> SentMessage:
    """Store a copy of a delivered message, for all groups of its topic or one. Outside the door."""
    if message.topic in _WAITING_IN:
        raise MessageNotFound(
            f"message {message.msg_id} waits for its time and was not delivered yet: "
            "broker.timers.fire_now(...) delivers it, clock.advance(...) goes there"
        )
    carried = {name: one for name, one in message.properties.items() if name not in _DELAYS}
    topic = message.topic
    if group is not None:
        GroupsView(source)[group]
        topic = retry_topic(group)
        carried.setdefault(Prop.RETRY_TOPIC, message.topic)
    return send_message(source(), topic, message.body, properties=carried)


class SafeWord:
    """The word that disk and slaves have the log up to ``log_end``. Made under the door.

    It is given at once but under SYNC_FLUSH and SYNC_MASTER.
    """

    def __init__(self, parts: BrokerParts, log_end: int) -> None:
        self._told: SimpleQueue[Reason | None] = SimpleQueue()
        if parts.durability.is_reached(log_end):
            self._told.put(None)
        else:
            parts.durability.when_reached(log_end, self._told.put)

    def wait(self) -> Reason | None:
        """Wait for it outside the door; gives what was too slow.

        Raises ``BrokerStateError`` when nothing was said: the session clock bounds the wait, and a
        frozen one does not.
        """
        try:
            return self._told.get(timeout=ANSWER_S)
        except Empty:
            raise BrokerStateError(f"the broker gave no answer within {ANSWER_S} s") from None


def _check_types(topic: object, body: object, queue: object) -> None:
    if not isinstance(topic, str):
        raise TypeError(f"a topic is str, not {described(topic)}")
    if not isinstance(body, (bytes, bytearray, memoryview)):
        advice = ": encode the text, as in text.encode()" if isinstance(body, str) else ""
        raise TypeError(f"a body is bytes, not {type(body).__name__}{advice}")
    if queue is not None and (isinstance(queue, bool) or not isinstance(queue, int)):
        raise TypeError(f"queue is the number of one, counted from 0, not {described(queue)}")


def _check_texts(properties: Mapping[Any, object]) -> None:  # Any: typed str, checked here
    for name, value in properties.items():
        for text in (name, value):
            if not isinstance(text, str):
                given = described(text)
                raise TypeError(f"property {name!r}: names and values are str, not {given}")


def _as_span(delay: object) -> timedelta:
    """Give seconds or a timedelta as a timedelta."""
    if isinstance(delay, timedelta):
        return delay
    if isinstance(delay, bool) or not isinstance(delay, (int, float)):
        raise TypeError(f"delay takes seconds or a timedelta, not {described(delay)}")
    try:
        return timedelta(seconds=delay)
    except (OverflowError, ValueError) as error:  # too long, infinite, not a number
        raise DelayValueError(
            Prop.TIMER_DELAY_MS, delay, f"it is not a span of time: {error}"
        ) from error


def _noted(parts: BrokerParts, caller: Peer, message: Incoming) -> Exchange:
    """Write into the journal what a client would have asked for."""
    fields = {
        "a": "embedded-broker",
        "b": message.topic,
        "e": str(message.terms.queue_id),
        "g": str(message.born_timestamp),
        "i": message.properties,
    }
    asked = RemotingCommand(RequestCode.SEND_MESSAGE_V2, ext_fields=fields)
    size, now_ms = len(message.body), message.born_timestamp
    exchange = Exchange(
        parts.broker_name, caller, SerializeType.JSON, asked, size, now_ms, monotonic_ns()
    )
    parts.journal.append(exchange)
    return exchange


class _Caller(Peer):
    """The test itself as a peer."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ("127.0.0.1", 0))
        self.client_id = "broker.send"

    def close(self) -> None:
        """Nothing is open."""
        self.closed = True
