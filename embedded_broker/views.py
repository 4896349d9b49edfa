"""What a test sees of a broker: topics, messages, timers.

Answers: ``broker.topics``, ``broker.messages``, ``broker.timers``, ``broker.send``. Must not
know: sockets or threads; every look enters the door and holds it for at most a few milliseconds.
Read on: ``embedded_broker/core.py`` for the state behind.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from difflib import get_close_matches
from threading import Event
from typing import Protocol

from attrs import field, frozen

from embedded_broker.arguments import MessageType, TopicSpec
from embedded_broker.clock import epoch_ms, instant
from embedded_broker.connection import Connection
from embedded_broker.core import BrokerCore
from embedded_broker.errors import BrokerStateError
from embedded_broker.timeline import Budget
from embedded_broker.timer.recall import RecallOutcome
from embedded_broker.topics.ready_made import ready_made_topics
from rocketmq_py.errors import ConfigError, MQBrokerException
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame, FrameDecoder
from rocketmq_py.protocol.handles import decode_offset_id
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader, SendMessageResponseHeader
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC, SCHEDULE_TOPIC
from rocketmq_py.protocol.properties import Prop, encode_properties

__all__ = [
    "MessagesView",
    "SentMessage",
    "StoredMessage",
    "TimersView",
    "TopicView",
    "TopicsView",
    "send_message",
]

ANSWER_S = 60.0

CoreSource = Callable[[], BrokerCore]
"""Returns the running core, or raises ``BrokerStateError``."""


class HasMessageId(Protocol):
    """Anything with ``msg_id``: what a send returned, or a message that was received."""

    @property
    def msg_id(self) -> str:
        """The unique id, or the offset id."""
        ...


@frozen(kw_only=True)
class StoredMessage:
    """One message in a topic, as a consumer would get it."""

    topic: str
    queue_id: int
    offset: int
    body: bytes = field(repr=lambda body: f"<{len(body)} bytes>")
    tags: str | None
    keys: tuple[str, ...]
    properties: dict[str, str] = field(repr=False)
    message_id: str
    born_at: datetime
    stored_at: datetime


@frozen(kw_only=True)
class SentMessage:
    """What ``broker.send`` did; ``queue_offset`` of a delayed message is its place as a timer."""

    msg_id: str
    offset_msg_id: str
    queue_id: int
    queue_offset: int
    recall_handle: str | None


class TopicView:
    """One topic: its queues and how much is in them."""

    def __init__(self, core: CoreSource, name: str) -> None:
        self._core = core
        self.name = name

    def __repr__(self) -> str:
        return f"<topic {self.name}: {self.queues} queues, {self.count()} messages>"

    @property
    def queues(self) -> int:
        """How many queues a producer may write to."""
        core = self._core()
        with core.door.quiet:
            return _find(core, self.name).write_queue_nums

    def max_offset(self, queue: int = 0) -> int:
        """Return the offset that the next message of a queue gets."""
        core = self._core()
        with core.door.quiet:
            _find(core, self.name)
            return core.store.max_offset(self.name, queue)

    def count(self) -> int:
        """Count the messages that became visible here since the topic was created."""
        core = self._core()
        with core.door.quiet:
            return delivered(core, self.name)


class TopicsView:
    """``broker.topics``: create, look up, list."""

    def __init__(self, core: CoreSource) -> None:
        self._core = core

    def __repr__(self) -> str:
        return f"<topics {', '.join(self.names())}>"

    def __getitem__(self, name: str) -> TopicView:
        core = self._core()
        with core.door.quiet:
            _find(core, name)
        return TopicView(self._core, name)

    def __contains__(self, name: object) -> bool:
        core = self._core()
        with core.door.quiet:
            return name in core.topics

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def create(
        self, name: str, *, queues: int = 4, message_type: MessageType | None = None
    ) -> TopicView:
        """Create a topic, or change the one that exists; it is in the routes on return."""
        core = self._core()
        create_topic(core, TopicSpec(name, queues, message_type))
        return TopicView(self._core, name)

    def names(self) -> list[str]:
        """Return the topics that somebody created, in that order; not those of every broker."""
        core = self._core()
        with core.door.quiet:
            ready_made = {
                topic.topic_name
                for topic in ready_made_topics(
                    core.config,
                    version=core.profile.version,
                    cluster_name=core.cluster_name,
                    broker_name=core.broker_name,
                )
            }
            return [name for name in core.topics.names() if name not in ready_made]


class MessagesView:
    """``broker.messages``: what is stored."""

    def __init__(self, core: CoreSource) -> None:
        self._core = core

    def in_topic(self, topic: str) -> list[StoredMessage]:
        """Return the visible messages of a topic in the order in which they were stored."""
        core = self._core()
        with core.door.quiet:
            config = _find(core, topic)
            queues = max(config.read_queue_nums, config.write_queue_nums)
        found: list[tuple[int, StoredMessage]] = []
        for queue_id in range(queues):
            offset = 0
            while True:
                with core.door.quiet:
                    more, offset = _read_queue(core, topic, queue_id, offset)
                if not more:
                    break
                found += more
        found.sort(key=lambda one: one[0])
        return [message for _, message in found]


class TimersView:
    """``broker.timers``: what waits for its time."""

    def __init__(self, core: CoreSource) -> None:
        self._core = core

    def __repr__(self) -> str:
        return f"<timers: {self.count()} pending>"

    def count(self, *, topic: str | None = None) -> int:
        """Count the messages that were accepted and wait for their time.

        Timers of the wheel and messages at a delay level; ``topic`` is where they will go.
        """
        core = self._core()
        with core.door.quiet:
            return core.timers.count(topic) + _at_levels(core, topic)

    def recall(self, message: str | HasMessageId, *, topic: str | None = None) -> RecallOutcome:
        """Take back a pending timer: a unique id, an offset id, or anything with ``msg_id``.

        Works until the release itself. ``topic`` tells messages apart that share an id.
        """
        key = message if isinstance(message, str) else message.msg_id
        core = self._core()
        with core.door:
            outcome = core.timers.recall(key, topic)
            if outcome is RecallOutcome.UNKNOWN:
                unique = _unique_key(core, key)
                if unique is not None:
                    outcome = core.timers.recall(unique, topic)
            return outcome


def create_topic(core: BrokerCore, spec: TopicSpec) -> None:
    """Create or change a topic. Outside the door."""
    spec.check(core.profile)
    changes = {} if spec.message_type is None else {"+message.type": spec.message_type}
    with core.door:
        core.topics.update(
            TopicConfig(
                topic_name=spec.name,
                read_queue_nums=spec.queues,
                write_queue_nums=spec.queues,
            ),
            changes,
        )


def delivered(core: BrokerCore, topic: str) -> int:
    """Count what became visible in a topic since its creation; 0 when unknown. Under the door."""
    config = core.topics.get(topic)
    if config is None:
        return 0
    queues = max(config.read_queue_nums, config.write_queue_nums)
    return sum(core.store.max_offset(topic, queue_id) for queue_id in range(queues))


def send_message(
    core: BrokerCore,
    topic: str,
    body: bytes,
    *,
    tags: str | None = None,
    keys: str | None = None,
    queue: int | None = None,
    properties: dict[str, str] | None = None,
    delay: float | timedelta | None = None,
    delay_level: int | None = None,
    deliver_at: datetime | None = None,
) -> SentMessage:
    """Send as a client does, request 310 and all, without a client. Outside the door."""
    asked = sum(one is not None for one in (delay, delay_level, deliver_at))
    if asked > 1:
        raise ConfigError("delay", delay, "one of delay, delay_level and deliver_at")
    carried = dict(properties or {})
    if tags is not None:
        carried[Prop.TAGS] = tags
    if keys is not None:
        carried[Prop.KEYS] = keys
    if delay is not None:
        span = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
        carried[Prop.TIMER_DELAY_MS] = str(round(span / timedelta(milliseconds=1)))
    if delay_level is not None:
        carried[Prop.DELAY] = str(delay_level)
    if deliver_at is not None:
        carried[Prop.TIMER_DELIVER_MS] = str(epoch_ms(deliver_at))
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
        code=RequestCode.SEND_MESSAGE_V2, ext_fields=header.to_ext_v2(), body=body
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


class _Caller(Connection):
    """The test itself as a peer: its answers stay on the calling thread's object."""

    __slots__ = ("_answered", "_answers")

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ("127.0.0.1", 0))
        self.client_id = "broker.send"
        self._answers: list[Frame] = []
        self._answered = Event()

    def ask(self, core: BrokerCore, request: RemotingCommand) -> RemotingCommand:
        """Have one request handled, and return its answer."""
        decoder = FrameDecoder()
        core.receive(self, decoder.feed(request.encode()))
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


def _read_queue(
    core: BrokerCore, topic: str, queue_id: int, offset: int
) -> tuple[list[tuple[int, StoredMessage]], int]:
    """Read on in one queue until the budget of the door is used up."""
    found: list[tuple[int, StoredMessage]] = []
    queue = core.store.consume_queue(topic, queue_id)
    if queue is None:
        return found, offset
    budget = Budget()
    offset = max(offset, queue.min_offset)
    while offset < queue.max_offset and not (found and budget.exhausted()):
        entry = queue.entry(offset)
        record = None if entry is None else core.store.record(entry[0])
        if record is not None:
            found.append((record.commit_log_offset, _stored(record)))
        offset += 1
    return found, offset


def _stored(record: MessageRecord) -> StoredMessage:
    properties = dict(record.properties)
    return StoredMessage(
        topic=record.topic,
        queue_id=record.queue_id,
        offset=record.queue_offset,
        body=bytes(record.unpacked_body()),
        tags=properties.get(Prop.TAGS),
        keys=tuple(properties.get(Prop.KEYS, "").split()),
        properties=properties,
        message_id=record.msg_id,
        born_at=instant(record.born_timestamp),
        stored_at=instant(record.store_timestamp),
    )


def _at_levels(core: BrokerCore, topic: str | None) -> int:
    """Count the messages that wait at a delay level, all or of one topic. Under the door."""
    if topic is None:
        return core.levels.count()
    found = 0
    for level, offset in core.levels.offsets().items():
        queue = core.store.consume_queue(SCHEDULE_TOPIC, level - 1)
        for index in range(offset, 0 if queue is None else queue.max_offset):
            entry = None if queue is None else queue.entry(index)
            record = None if entry is None else core.store.record(entry[0])
            found += record is not None and record.properties.get(Prop.REAL_TOPIC) == topic
    return found


def _find(core: BrokerCore, name: str) -> TopicConfig:
    """Return a topic's settings; ``KeyError`` names the nearest. Under the door."""
    config = core.topics.get(name)
    if config is None:
        close = get_close_matches(name, core.topics.names(), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise KeyError(f"no topic {name!r}{hint}")
    return config


def _unique_key(core: BrokerCore, offset_id: str) -> str | None:
    """Return the unique id of the message at an offset id, if it is one of ours."""
    try:
        _, _, log_offset = decode_offset_id(offset_id)
    except ValueError:
        return None
    record = core.store.record(log_offset)
    return None if record is None else record.properties.get(Prop.UNIQ_KEY)
