"""The message: what a program writes into it and what it reads from one that arrived.

`Message` is what is sent, `MessageExt` what arrives, `MessageBatch` several in one request. The
delay setters only write properties; what those mean, and which of several wins, is told in
`rocketmq_py.protocol.delay`. Where a message went is `rocketmq_py.send_result`, whose names are
exported from here too. This module must not know connections, routes or settings.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Never, Self

from attrs import define, field, fields

from rocketmq_py.errors import DelayConflictError, ReservedPropertyError, UnsupportedOperationError
from rocketmq_py.protocol import delay as delays
from rocketmq_py.protocol.compression import BODY_SIZE_MAX, decompress
from rocketmq_py.protocol.delay import Delay, DelayKind
from rocketmq_py.protocol.handles import encode_offset_id, unpack_host
from rocketmq_py.protocol.message_codec import MessageRecord, encode_batch
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.properties import (
    KNOWN,
    RESERVED,
    Prop,
    encode_user_properties,
    unique_key_problem,
    user_text_problem,
)
from rocketmq_py.protocol.sysflag import COMPRESSED, without_compression
from rocketmq_py.spelling import Spelled

_TRUE = "true"

_FORWARDED_SYSTEM_PROPERTIES = frozenset({Prop.KEYS, Prop.TAGS, Prop.WAIT, Prop.BUYER_ID})
"""Of all reserved names, those that the first sender chose."""

_RECEIVED_PROPERTIES = (
    RESERVED - _FORWARDED_SYSTEM_PROPERTIES - delays.DELAY_PROPERTIES - {Prop.UNIQ_KEY}
)
"""Reserved names that no setter of a new message writes."""

_HISTORY_PROPERTIES = (
    KNOWN - _FORWARDED_SYSTEM_PROPERTIES - {Prop.SHARDING_KEY, Prop.TRAN_SRC_OFFSET}
)
"""Properties about one delivery of a message. A message that is sent on does not keep them."""


@define(slots=True, init=False, repr=False)
class Message(Spelled):
    """What a producer sends: a topic, a body of bytes, and properties.

    `tags` is one word that consumers filter by, `keys` words that queries find. `delay` (a
    `timedelta` counted from arrival at the broker) and `deliver_at` (an aware `datetime`) are the
    preferred ways to send later; only one of them may be given. A broker refuses delays longer
    than its ``timerMaxDelaySec``, 3 days unless it is changed. `properties` starts as a copy; it
    may hold what the setters write. `flag` is a number that RocketMQ stores untouched.

    `unique_key` is the message's id (UNIQ_KEY). Without it the first send gives one. A program that
    keeps it can send the message again after a crash, and consumers see in `MessageExt.msg_id`
    that both are one. `raw.MessageIds` hands out ids that RocketMQ's tools find; any other 1 to 255
    visible ASCII characters without a comma are possible.

    The body must be bytes, topic and properties text: TypeError otherwise. Raises ValueError for
    properties that cannot be stored and ReservedPropertyError for names that only RocketMQ
    writes: a message that arrived is forwarded by `from_ext`. Lengths and topic are checked when
    it is sent.

    >>> from datetime import timedelta
    >>> Message("orders", b"cancel 42", tags="cancel", delay=timedelta(minutes=30))
    Message(topic='orders', 9 bytes, TAGS='cancel', TIMER_DELAY_MS='1800000', WAIT='true')
    """

    topic: str = field(init=False)
    _body: bytes = field(init=False)
    flag: int = field(init=False)
    properties: dict[str, str] = field(init=False)
    transaction_id: str | None = field(init=False, default=None)
    _legacy_delays: tuple[str, ...] = field(init=False, eq=False, default=())

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview | None = b"",
        *too_many: Never,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        flag: int = 0,
        properties: Mapping[str, str] | None = None,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
        unique_key: str | None = None,
        wait_store_msg_ok: bool = True,
    ) -> None:
        if too_many:
            raise TypeError(
                f"Message takes (topic, body) by position, not {len(too_many) + 2} arguments: "
                'tags, keys, flag and delay are keywords, as in Message("T", body, tags="TagA")'
            )
        self.topic = topic if type(topic) is str else _checked_topic(topic)
        self._body = body if type(body) is bytes else _checked_body(body)
        self.flag = flag
        self.properties = _checked_properties(properties) if properties else {}
        self.transaction_id = None
        self._legacy_delays = ()
        if unique_key is not None:
            self._take_unique_key(unique_key)
        if tags is not None:
            self.set_tags(tags)
        if keys is not None:
            self.set_keys(keys)
        if delay is not None and deliver_at is not None:
            reason = "give delay= or deliver_at=, not both"
            raise DelayConflictError("deliver_at", deliver_at, reason)
        if delay is not None:
            self.set_delay(delay)
        if deliver_at is not None:
            self.set_deliver_at(deliver_at)
        if not wait_store_msg_ok:
            self.properties[Prop.WAIT] = "false"
        elif Prop.WAIT not in self.properties:
            self.properties[Prop.WAIT] = _TRUE

    @classmethod
    def from_ext(cls, message: "MessageExt") -> Self:
        """Make a fresh message of one that arrived, to forward it.

        Topic, body, flag, tags, keys and user properties are taken over. Everything that tells
        the history of the old copy stays behind: ids, counters, the delay it asked for, and
        ``TIMER_OUT_MS``, which would silently cancel a new delay.
        """
        kept = {
            name: value
            for name, value in message.properties.items()
            if name not in _HISTORY_PROPERTIES
        }
        fresh = cls(message.topic, message.body, flag=message.flag)
        # Not checked as the constructor does: whoever sent them could, so they can travel on.
        fresh.properties.update(kept)
        return fresh

    @property
    def body(self) -> bytes:
        """The content. Assigning anything but bytes raises TypeError."""
        return self._body

    @body.setter
    def body(self, body: bytes | bytearray | memoryview | None) -> None:
        self._body = _checked_body(body)

    # --- properties that have a face ---

    @property
    def tags(self) -> str | None:
        """The tag; None or an empty text removes it."""
        return self.properties.get(Prop.TAGS)

    @tags.setter
    def tags(self, tags: str | None) -> None:
        self.set_tags(tags)

    def set_tags(self, tags: str | None) -> Self:
        """Set the tag. Raises ValueError for text that cannot be stored."""
        return self._write(Prop.TAGS, tags)

    @property
    def keys(self) -> list[str]:
        """The index words; assign one text (split at blanks), several words, or None.

        One of several words must hold no blank: it would be found as two.
        """
        return self.properties.get(Prop.KEYS, "").split()

    @keys.setter
    def keys(self, keys: str | Iterable[str] | None) -> None:
        self.set_keys(keys)

    def set_keys(self, keys: str | Iterable[str] | None) -> Self:
        """Set the index words, joined by one blank.

        Raises ValueError for text that cannot be stored, and for several words of which one holds
        a blank: it would become two.
        """
        joined = keys if keys is None or isinstance(keys, str) else _joined(keys)
        return self._write(Prop.KEYS, joined)

    @property
    def unique_key(self) -> str | None:
        """The id that its program, or its first send, has given; None removes it."""
        return self.properties.get(Prop.UNIQ_KEY)

    @unique_key.setter
    def unique_key(self, unique_key: str | None) -> None:
        self.set_unique_key(unique_key)

    def set_unique_key(self, unique_key: str | None) -> Self:
        """Set the id. Raises ValueError for one that cannot travel, TypeError for no text."""
        if unique_key is None:
            self.properties.pop(Prop.UNIQ_KEY, None)
        else:
            self.properties[Prop.UNIQ_KEY] = _checked_unique_key(unique_key)
        return self

    @property
    def buyer_id(self) -> str | None:
        """RocketMQ's BUYER_ID property; None removes it."""
        return self.properties.get(Prop.BUYER_ID)

    @buyer_id.setter
    def buyer_id(self, buyer_id: str | None) -> None:
        self._write(Prop.BUYER_ID, buyer_id)

    @property
    def wait_store_msg_ok(self) -> bool:
        """Whether the answer waits for flush and replication, if the broker is configured so."""
        return self.properties.get(Prop.WAIT, _TRUE).lower() == _TRUE

    @wait_store_msg_ok.setter
    def wait_store_msg_ok(self, wait: bool) -> None:
        self.properties[Prop.WAIT] = _TRUE if wait else "false"

    def put_user_property(self, name: str, value: str, *, strict_reserved: bool = False) -> Self:
        """Add a property of your own, which consumers read and SQL filters see.

        The four old names of a delay (``TIMER_DELAY_SEC``, ``TIMER_DELAY_MS``,
        ``TIMER_DELIVER_MS``, ``__STARTDELIVERTIME``) are accepted as the setters' equals if the
        value is a decimal integer; `strict_reserved` refuses the first three as 5.x Java does.

        Raises ReservedPropertyError for RocketMQ's own names, ValueError for blank texts, for
        U+0000 to U+0002 and for a delay that is no number or an instant before 1973-03 (seconds?),
        TypeError for anything but text.
        """
        _require_text(name, name)
        _require_text(name, value)
        legacy = name in delays.LEGACY_DELAY_PROPERTIES
        if name in RESERVED and (strict_reserved or not legacy):
            raise ReservedPropertyError(name)
        if legacy:
            delays.refuse_seconds(DelayKind(name), delays.parse_number(value, name))
            self._legacy_delays = (*self._legacy_delays, name)
        self.properties[name] = _checked_text(name, value)
        return self

    def get_user_property(self, name: str) -> str | None:
        """Give the value of a property, or None."""
        return self.properties.get(name)

    @property
    def legacy_delays(self) -> tuple[str, ...]:
        """Delay properties that were written by `put_user_property`, not by a setter."""
        return self._legacy_delays

    # --- delay ---

    def set_delay_time_level(self, level: int) -> Self:
        """Ask for a delay level, 1 to 18 on an unchanged broker (`DelayLevel`).

        0 means no delay. Below 0, and above 18, a send does what ``delay_policy`` says.
        """
        return self._ask(Delay.of(DelayKind.LEVEL, level))

    def get_delay_time_level(self) -> int:
        """Give the level asked for, or 0."""
        return delays.delay_level(self.properties)

    def set_delay_time_sec(self, seconds: int) -> Self:
        """Ask for a delay of whole seconds after arrival at the broker."""
        return self._ask(Delay.of(DelayKind.SEC, seconds))

    def get_delay_time_sec(self) -> int:
        """Give what `set_delay_time_sec` set, or 0."""
        return self._asked(DelayKind.SEC)

    def set_delay_time_ms(self, milliseconds: int) -> Self:
        """Ask for a delay in milliseconds after arrival at the broker."""
        return self._ask(Delay.of(DelayKind.MS, milliseconds))

    def get_delay_time_ms(self) -> int:
        """Give what `set_delay_time_ms` set, or 0."""
        return self._asked(DelayKind.MS)

    def set_deliver_time_ms(self, epoch_ms: int) -> Self:
        """Ask for delivery at an instant, in epoch milliseconds. The past means at once.

        An instant before March 1973 is refused, since it was probably counted in seconds.
        The caller's clock names the instant and the broker's decides when it has come: a client
        that is an hour ahead waits an hour longer. `set_delay_time_ms` counts on the broker's.
        """
        return self._ask_instant(DelayKind.DELIVER_AT, epoch_ms)

    def get_deliver_time_ms(self) -> int:
        """Give what `set_deliver_time_ms` set, or 0."""
        return self._asked(DelayKind.DELIVER_AT)

    def set_start_deliver_time(self, epoch_ms: int) -> Self:
        """Ask in Aliyun's way for delivery at an instant, in epoch milliseconds; 0 means none.

        An open-source broker does not know the property, so the client adds
        ``TIMER_DELIVER_MS`` when it sends, unless ``translate_start_deliver_time`` forbids it.
        """
        return self._ask_instant(DelayKind.START_DELIVER, epoch_ms)

    def get_start_deliver_time(self) -> int:
        """Give what `set_start_deliver_time` set, or 0."""
        return self._asked(DelayKind.START_DELIVER)

    def set_delivery_timestamp(self, moment: int | datetime) -> Self:
        """Ask for delivery at an instant: epoch milliseconds or an aware datetime."""
        if isinstance(moment, datetime):
            return self.set_deliver_at(moment)
        return self.set_deliver_time_ms(moment)

    @property
    def delivery_timestamp(self) -> int | None:
        """Epoch milliseconds of ``TIMER_DELIVER_MS``, or None."""
        return self._asked(DelayKind.DELIVER_AT) or None

    def set_delay(self, delay: timedelta) -> Self:
        """Ask for a delay after arrival at the broker, rounded up to a millisecond.

        A broker refuses more than its ``timerMaxDelaySec``, which is 3 days if nobody changed it.
        """
        return self._ask(Delay.after(delay))

    @property
    def delay(self) -> timedelta | None:
        """The delay asked for in seconds or milliseconds, or None. Assign None to remove it."""
        for kind in (DelayKind.SEC, DelayKind.MS):
            if kind.value in self.properties:
                return Delay(kind, self._asked(kind)).to_timedelta()
        return None

    @delay.setter
    def delay(self, delay: timedelta | None) -> None:
        asked = None if delay is None else Delay.after(delay)
        self.properties.pop(Prop.TIMER_DELAY_SEC, None)
        self.properties.pop(Prop.TIMER_DELAY_MS, None)
        if asked is not None:
            self._ask(asked)

    def set_deliver_at(self, moment: datetime) -> Self:
        """Ask for delivery at an instant; the datetime must know its time zone."""
        return self._ask(Delay.at(moment))

    @property
    def deliver_at(self) -> datetime | None:
        """The instant of ``TIMER_DELIVER_MS`` in UTC, or None. Assign None to remove it."""
        if Prop.TIMER_DELIVER_MS not in self.properties:
            return None
        kind = DelayKind.DELIVER_AT
        return Delay(kind, self._asked(kind)).to_datetime()

    @deliver_at.setter
    def deliver_at(self, moment: datetime | None) -> None:
        if moment is None:
            self.properties.pop(Prop.TIMER_DELIVER_MS, None)
        else:
            self.set_deliver_at(moment)

    def effective_delay(self) -> Delay | None:
        """Give the one delay that counts when several are set, or None.

        >>> Message("T").set_delay_time_ms(60_000).set_delay_time_sec(5).effective_delay()
        Delay(kind=<DelayKind.SEC: 'TIMER_DELAY_SEC'>, value=5)
        """
        return delays.effective_delay(self.properties)

    def clear_delay(self) -> Self:
        """Remove every delay, and the mark of an earlier one that would cancel a new delay."""
        for name in (*delays.DELAY_PROPERTIES, Prop.TIMER_OUT_MS):
            self.properties.pop(name, None)
        self._legacy_delays = ()
        return self

    # --- Java's spelling, for ported programs ---

    def setDelayTimeLevel(self, level: int) -> Self:
        """Java's spelling of `set_delay_time_level`."""
        return self.set_delay_time_level(level)

    def getDelayTimeLevel(self) -> int:
        """Java's spelling of `get_delay_time_level`."""
        return self.get_delay_time_level()

    def setDelayTimeSec(self, sec: int) -> Self:
        """Java's spelling of `set_delay_time_sec`."""
        return self.set_delay_time_sec(sec)

    def getDelayTimeSec(self) -> int:
        """Java's spelling of `get_delay_time_sec`."""
        return self.get_delay_time_sec()

    def setDelayTimeMs(self, timeMs: int) -> Self:  # noqa: N803 - Java's argument name
        """Java's spelling of `set_delay_time_ms`."""
        return self.set_delay_time_ms(timeMs)

    def getDelayTimeMs(self) -> int:
        """Java's spelling of `get_delay_time_ms`."""
        return self.get_delay_time_ms()

    def setDeliverTimeMs(self, timeMs: int) -> Self:  # noqa: N803 - Java's argument name
        """Java's spelling of `set_deliver_time_ms`."""
        return self.set_deliver_time_ms(timeMs)

    def getDeliverTimeMs(self) -> int:
        """Java's spelling of `get_deliver_time_ms`."""
        return self.get_deliver_time_ms()

    def setStartDeliverTime(self, value: int) -> Self:
        """Java's spelling of `set_start_deliver_time`."""
        return self.set_start_deliver_time(value)

    def getStartDeliverTime(self) -> int:
        """Java's spelling of `get_start_deliver_time`."""
        return self.get_start_deliver_time()

    def putUserProperty(self, name: str, value: str) -> Self:
        """Java's spelling of `put_user_property`."""
        return self.put_user_property(name, value)

    def getUserProperty(self, name: str) -> str | None:
        """Java's spelling of `get_user_property`."""
        return self.get_user_property(name)

    def setTags(self, tags: str | None) -> Self:
        """Java's spelling of `set_tags`."""
        return self.set_tags(tags)

    def setKeys(self, keys: str | Iterable[str] | None) -> Self:
        """Java's spelling of `set_keys`."""
        return self.set_keys(keys)

    # --- inside ---

    def _take_unique_key(self, unique_key: str) -> None:
        known = self.properties.get(Prop.UNIQ_KEY, unique_key)
        if known != unique_key:
            raise ValueError(
                f"unique_key={unique_key!r} and UNIQ_KEY={known!r} in properties: give it once"
            )
        self.set_unique_key(unique_key)

    def _write(self, name: str, value: str | None) -> Self:
        """Write one of RocketMQ's own text properties; None and empty remove it."""
        if value:
            self.properties[name] = _checked_text(name, value)
        else:
            self.properties.pop(name, None)
        return self

    def _ask(self, delay: Delay) -> Self:
        self.properties[delay.kind.value] = delay.text
        return self

    def _ask_instant(self, kind: DelayKind, epoch_ms: int) -> Self:
        delay = Delay.of(kind, epoch_ms)
        delays.refuse_seconds(kind, epoch_ms)
        return self._ask(delay)

    def _asked(self, kind: DelayKind) -> int:
        text = self.properties.get(kind.value)
        return 0 if text is None else delays.parse_number(text, kind.value)

    def __copy__(self) -> Self:
        """Make an equal message with properties of its own."""
        fresh = object.__new__(type(self))
        for name, value in self._state().items():
            object.__setattr__(fresh, name, value)
        fresh.properties = dict(self.properties)
        return fresh

    def _state(self) -> dict[str, object]:
        """Give everything that makes this message, what a subclass has added included."""
        state = {item.name: getattr(self, item.name) for item in fields(type(self))}
        return state | getattr(self, "__dict__", {})

    def __repr__(self) -> str:
        shown = "".join(f", {name}={value!r}" for name, value in sorted(self.properties.items()))
        return f"{type(self).__name__}(topic={self.topic!r}, {len(self._body)} bytes{shown})"


@define(slots=True, repr=False)
class MessageExt(Message):
    """A message that arrived: a `Message` and where, when and how often it was stored.

    Timestamps are epoch milliseconds: `born_timestamp` by the producer's clock,
    `store_timestamp` by the broker's. `reconsume_times` counts failed deliveries to this group.
    Made by `from_record`; a program that tests its listener may make one with keywords.
    """

    # Made as they are: `Message.__init__` writes what a sender means, and this was sent already.
    topic: str
    _body: bytes = b""
    properties: dict[str, str] = field(factory=dict, kw_only=True)
    flag: int = field(default=0, kw_only=True)
    broker_name: str = field(default="", kw_only=True)
    queue_id: int = field(default=0, kw_only=True)
    queue_offset: int = field(default=0, kw_only=True)
    commit_log_offset: int = field(default=0, kw_only=True)
    store_size: int = field(default=0, kw_only=True)
    sys_flag: int = field(default=0, kw_only=True)
    born_timestamp: int = field(default=0, kw_only=True)
    born_host_bytes: bytes = field(default=b"", kw_only=True)
    store_timestamp: int = field(default=0, kw_only=True)
    store_host_bytes: bytes = field(default=b"", kw_only=True)
    body_crc: int = field(default=0, kw_only=True)
    reconsume_times: int = field(default=0, kw_only=True)
    prepared_transaction_offset: int = field(default=0, kw_only=True)

    @classmethod
    def from_record(
        cls, record: MessageRecord, broker_name: str = "", *, body_size_max: int = BODY_SIZE_MAX
    ) -> Self:
        """Make the message of a stored record; a compressed body is decompressed.

        The compressed bit of `sys_flag` is then cleared, as Java's decoder does. Raises BodyError
        for a body that cannot be decompressed to at most `body_size_max` bytes.
        """
        return cls.as_stored(record, broker_name).unpacked(body_size_max)

    @classmethod
    def as_stored(cls, record: MessageRecord, broker_name: str = "") -> Self:
        """Make the message of a stored record, compressed if it is: `sys_flag` says so."""
        return cls(
            record.topic,
            record.body,
            properties=record.properties,
            flag=record.flag,
            broker_name=broker_name,
            queue_id=record.queue_id,
            queue_offset=record.queue_offset,
            commit_log_offset=record.commit_log_offset,
            store_size=record.size,
            sys_flag=record.sys_flag,
            born_timestamp=record.born_timestamp,
            born_host_bytes=record.born_host,
            store_timestamp=record.store_timestamp,
            store_host_bytes=record.store_host,
            body_crc=record.body_crc,
            reconsume_times=record.reconsume_times,
            prepared_transaction_offset=record.prepared_transaction_offset,
        )

    def unpacked(self, body_size_max: int = BODY_SIZE_MAX) -> Self:
        """Give this message with its body as it was sent.

        That is the message itself, or if `sys_flag` says that it is compressed a copy, which has
        the same `properties` object. Raises BodyError as `from_record` does.
        """
        sys_flag = self.sys_flag
        if not sys_flag & COMPRESSED:
            return self
        body = decompress(self._body, sys_flag, body_size_max)
        fresh = object.__new__(type(self))
        for name, value in self._state().items():
            object.__setattr__(fresh, name, value)
        fresh._body = body
        fresh.sys_flag = without_compression(sys_flag)
        return fresh

    @property
    def msg_id(self) -> str:
        """The id that the sender got: its own (UNIQ_KEY), else `offset_msg_id`."""
        return self.properties.get(Prop.UNIQ_KEY) or self.offset_msg_id

    @property
    def offset_msg_id(self) -> str:
        """The id that names where this copy lies; empty when no store host is known."""
        if not self.store_host_bytes:
            return ""
        return encode_offset_id(self.store_host_bytes, self.commit_log_offset)

    @property
    def born_host(self) -> str:
        """The sender's ``address:port`` as the broker saw it; empty when unknown."""
        return _host_text(self.born_host_bytes)

    @property
    def store_host(self) -> str:
        """The broker's ``address:port``; empty when unknown."""
        return _host_text(self.store_host_bytes)


@define(slots=True, init=False, repr=False)
class MessageBatch(Message):
    """Several messages that travel in one request and are stored as if sent one by one.

    They must share topic and `wait_store_msg_ok`, go to no retry topic, and ask for no delay of
    any kind: the broker reads only what stands on the batch, so the delay of an item would be
    lost. Raises UnsupportedOperationError otherwise, and for no messages at all; TypeError for
    what is not several of anything.
    """

    messages: tuple[Message, ...] = field(init=False)

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = _several(messages)
        _check_batch(self.messages)
        first = self.messages[0]
        super().__init__(first.topic, wait_store_msg_ok=first.wait_store_msg_ok)

    def encode(self, extra_properties: Mapping[str, str] | None = None) -> bytes:
        """Give the batch body of the messages as they are now, ids included.

        Each message gets the extra properties that it has not itself. Raises BodyError for
        properties that cannot be stored and RecordError for too long ones.
        """
        extra = extra_properties or {}
        return encode_batch(
            (message.flag, message.body, encode_user_properties({**extra, **message.properties}))
            for message in self.messages
        )

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


def _checked_body(body: object) -> bytes:
    if body is None:
        return b""  # refused when it is sent, as an empty one is
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    if isinstance(body, str):
        raise TypeError("a body is bytes, not str: encode the text, as in text.encode()")
    raise TypeError(f"a body is bytes, not {type(body).__name__}")


def _checked_topic(topic: object) -> str:
    if isinstance(topic, str):
        return topic
    raise TypeError(f"a topic is a str, not {type(topic).__name__} {topic!r}")


def _checked_properties(properties: Mapping[str, str]) -> dict[str, str]:
    if type(properties) is not dict and not isinstance(properties, Mapping):
        raise TypeError(f"properties are a mapping of texts, not {type(properties).__name__}")
    checked = dict(properties)
    if not _are_plain(checked):
        for name, value in checked.items():
            _require_text(name, name)
            _checked_text(name, value)
    if not _RECEIVED_PROPERTIES.isdisjoint(checked):
        reason = "only RocketMQ writes it; forward a message with Message.from_ext"
        name = next(name for name in checked if name in _RECEIVED_PROPERTIES)
        raise ReservedPropertyError(name, reason)
    if Prop.UNIQ_KEY in checked:
        _checked_unique_key(checked[Prop.UNIQ_KEY])
    return checked


def _checked_unique_key(unique_key: object) -> str:
    if not isinstance(unique_key, str):
        kind = type(unique_key).__name__
        raise TypeError(f"a unique_key is a str, not {kind} {unique_key!r}")
    problem = unique_key_problem(unique_key)
    if problem is not None:
        raise ValueError(f"unique_key {problem}")
    return unique_key


def _are_plain(properties: dict[str, str]) -> bool:
    """Whether no property needs a closer look: all of them text, printable, without a blank."""
    try:
        text = "".join([*properties, *properties.values()])
    except TypeError:
        return False
    blank = " " in text or "" in properties or "" in properties.values()
    return not blank and text.isprintable()


def _joined(keys: Iterable[str]) -> str:
    try:
        words = list(keys)
        joined = " ".join(words)
    except TypeError:
        raise TypeError(f"keys are one str or several, not {keys!r}") from None
    if len(joined.split()) != len(words):
        for word in words:
            if len(word.split()) > 1:
                raise ValueError(
                    f"the key {word[:80]!r} holds a blank and would become two keys: replace the "
                    "blank, or give several keys"
                )
    return joined


def _checked_text(name: str, value: str) -> str:
    _require_text(name, value)
    problem = user_text_problem(name, value)
    if problem is not None:
        raise ValueError(f"property {name[:80]!r}: {problem}")
    return value


def _require_text(name: object, value: object) -> None:
    if not isinstance(value, str):
        given = f"{type(value).__name__} {value!r}"
        raise TypeError(f"property {name!r}: names and values are str, not {given}")


def _host_text(host: bytes) -> str:
    if not host:
        return ""
    ip, port = unpack_host(host)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _several(messages: object) -> tuple[Message, ...]:
    if not isinstance(messages, Iterable):
        raise TypeError(f"a batch is made of messages, not of one {type(messages).__name__}")
    checked = []
    for position, message in enumerate(messages):
        if not isinstance(message, Message):
            kind = type(message).__name__
            raise UnsupportedOperationError(f"item {position} of the batch is no Message: {kind}")
        checked.append(message)
    return tuple(checked)


def _check_batch(messages: Sequence[Message]) -> None:
    if not messages:
        raise UnsupportedOperationError("a batch holds at least one message")
    first = messages[0]
    for position, message in enumerate(messages):
        if message.topic != first.topic:
            reason = f"topic {message.topic!r}, the first has {first.topic!r}: send one per topic"
        elif message.wait_store_msg_ok != first.wait_store_msg_ok:
            reason = "another wait_store_msg_ok than the first"
        elif is_retry_topic(message.topic):
            reason = f"the retry topic {message.topic!r}: send it alone"
        elif delays.has_delay(message.properties):
            reason = "a delay, which brokers ignore inside a batch: send it alone"
        else:
            continue
        raise UnsupportedOperationError(f"message {position} of the batch has {reason}")
