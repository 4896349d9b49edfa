"""Messages of the 5.0 API: what is built and sent, and what a consumer gets.

`Message` has the official Python client's properties, `MessageBuilder` the setters of the 5.0
documents. Values are checked when they are set. Must not know clients.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Final, Self

import rocketmq_py
from compat.v5.errors import IllegalArgumentException, translated
from compat.v5.timestamps import LEAST_MS, EpochMilliseconds, EpochSeconds, as_milliseconds
from rocketmq_py import MessageExt
from rocketmq_py.errors import PayloadEmptyError, UnsupportedError

_TOPIC: Final = re.compile(r"[%a-zA-Z0-9_-]{1,127}")
_GROUP_PROPERTY: Final = "__SHARDINGKEY"
_START_PROPERTY: Final = "__STARTDELIVERTIME"
_RECEIPT_PROPERTY: Final = "POP_CK"
_TIMES: Final = ("TIMER_DELIVER_MS", _START_PROPERTY, "TIMER_OUT_MS")
"""Where a received message says when it was to be delivered; the first one counts."""
_COMPRESSED: Final = 0x1
_NOT_CARRIED: Final = (
    "only a proxy has it: RocketMQ's remoting protocol, which this speaks, has not"
)


class TopicMessageType(Enum):
    """Which kind a message is of, and which a topic is for (attribute ``message.type``)."""

    UNSPECIFIED = "UNSPECIFIED"
    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    MIXED = "MIXED"


class Message:
    """What is sent: set `topic` and `body`, and what else it is to have.

    ``message_group`` makes it a FIFO message, ``delivery_timestamp`` a delayed one; both together
    are refused where the second is set. A misspelt attribute is refused, too.

    >>> message = Message()
    >>> message.topic, message.body, message.tag = "orders", b"cancel 42", "cancel"
    >>> message.keys = "order-42"
    >>> message
    Message(topic='orders', tag='cancel', keys=['order-42'], 9 bytes)
    """

    __slots__ = ("_body", "_due", "_group", "_keys", "_message_id", "_properties", "_tag", "_topic")

    def __init__(self) -> None:
        self._topic = ""
        self._body = b""
        self._tag: str | None = None
        self._keys: tuple[str, ...] = ()
        self._group: str | None = None
        self._due: EpochMilliseconds | None = None
        self._properties: dict[str, str] = {}
        self._message_id: str | None = None

    @property
    def topic(self) -> str:
        """The topic; empty until it is set."""
        return self._topic

    @topic.setter
    def topic(self, topic: str) -> None:
        if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
            raise IllegalArgumentException(
                f"topic {topic!r} is not possible: 1 to 127 letters, digits, %, _ and -"
            )
        self._topic = topic

    @property
    def body(self) -> bytes:
        """The content; a text must be encoded first."""
        return self._body

    @body.setter
    def body(self, body: bytes | bytearray | memoryview) -> None:
        checked = rocketmq_py.Message("checks-the-body", body).body
        if not checked:
            raise PayloadEmptyError("the body is empty: a message must hold at least one byte")
        self._body = checked

    @property
    def tag(self) -> str | None:
        """One word that consumers filter by."""
        return self._tag

    @tag.setter
    def tag(self, tag: str) -> None:
        if _is_blank(tag, "tag") or "|" in tag:
            raise IllegalArgumentException(f"tag {tag!r} must not be blank and hold no |")
        _check_text("TAGS", tag)
        self._tag = tag

    @property
    def keys(self) -> frozenset[str]:
        """Words that queries find. Assigning one, or several, adds to those that are there."""
        return frozenset(self._keys)

    @keys.setter
    def keys(self, keys: str | Iterable[str]) -> None:
        if not isinstance(keys, Iterable):
            raise TypeError(f"keys are a str, or several of them, not {keys!r}")
        self._keys = _checked_keys((*self._keys, *((keys,) if isinstance(keys, str) else keys)))

    @property
    def message_group(self) -> str | None:
        """Messages of one group are consumed in the order in which they were sent."""
        return self._group

    @message_group.setter
    def message_group(self, message_group: str) -> None:
        if _is_blank(message_group, "message_group"):
            raise IllegalArgumentException("message_group must not be blank")
        if self._due is not None:
            raise _conflict("message_group", "delivery_timestamp")
        _check_text(_GROUP_PROPERTY, message_group)
        self._group = message_group

    @property
    def delivery_timestamp(self) -> EpochMilliseconds | None:
        """When it is to be delivered, in milliseconds since 1970; None: at once.

        What is **assigned is seconds**, as in the official client, or a value that knows its unit
        (`EpochSeconds`, `EpochMilliseconds`), or an aware datetime. A moment in the past means at
        once. A number that cannot be seconds is refused.
        """
        return self._due

    @delivery_timestamp.setter
    def delivery_timestamp(self, moment: int | datetime) -> None:
        self._deliver_at(as_milliseconds(moment, EpochSeconds))

    def _deliver_at(self, moment: EpochMilliseconds) -> None:
        if self._group is not None:
            raise _conflict("delivery_timestamp", "message_group")
        with translated():
            rocketmq_py.Message("checks-the-time").set_deliver_time_ms(moment)
        self._due = moment

    @property
    def lite_topic(self) -> str | None:
        """None: lite topics need a proxy, and assigning one raises UnsupportedError."""
        return None

    @lite_topic.setter
    def lite_topic(self, lite_topic: str) -> None:
        raise UnsupportedError(f"lite_topic {lite_topic!r} cannot be set: {_NOT_CARRIED}")

    @property
    def priority(self) -> int | None:
        """None: priorities need a proxy, and assigning one raises UnsupportedError."""
        return None

    @priority.setter
    def priority(self, priority: int) -> None:
        raise UnsupportedError(f"priority {priority!r} cannot be set: {_NOT_CARRIED}")

    @property
    def properties(self) -> Mapping[str, str]:
        """The program's own properties, to be looked at; `add_property` adds one."""
        return MappingProxyType(self._properties)

    def add_property(self, key: str, value: str) -> None:
        """Add a property of the program.

        Raises IllegalArgumentException for blank texts, for names that RocketMQ keeps for itself
        and for those that have a setter here.
        """
        for text, what in ((key, "key"), (value, "value")):
            if not isinstance(text, str):
                raise TypeError(f"the {what} of a property is a str, not {type(text).__name__}")
            if not text.strip():
                raise IllegalArgumentException(f"the {what} of a property must not be blank")
        if key in {_GROUP_PROPERTY, _START_PROPERTY}:
            raise IllegalArgumentException(
                f"property {key!r} is set by message_group or delivery_timestamp"
            )
        with translated():
            checks = rocketmq_py.Message("checks-the-name")
            checks.put_user_property(key, value, strict_reserved=True)
        self._properties[key] = value

    @property
    def message_id(self) -> str | None:
        """Its id; None until it is sent."""
        return self._message_id

    @message_id.setter
    def message_id(self, message_id: str | None) -> None:
        self._message_id = message_id

    @property
    def message_type(self) -> TopicMessageType:
        """Which kind of message it is, when it is not part of a transaction."""
        if self._group is not None:
            return TopicMessageType.FIFO
        return TopicMessageType.NORMAL if self._due is None else TopicMessageType.DELAY

    def __copy__(self) -> Self:
        """Make an equal message with properties of its own."""
        fresh = object.__new__(type(self))
        for kind in type(self).__mro__:
            for name in getattr(kind, "__slots__", ()):
                setattr(fresh, name, getattr(self, name))
        fresh._properties = dict(self._properties)
        return fresh

    def __repr__(self) -> str:
        shown = {
            "topic": self._topic,
            "tag": self._tag,
            "keys": list(self._keys),
            "message_group": self._group,
            "delivery_timestamp": self._due,
            "properties": self._properties,
            "message_id": self._message_id,
        }
        told = ", ".join(f"{name}={value!r}" for name, value in shown.items() if value)
        return f"{type(self).__name__}({told}, {len(self._body)} bytes)"


def _is_blank(text: str, name: str) -> bool:
    """Whether a text says nothing; TypeError for what is no text."""
    if not isinstance(text, str):
        raise TypeError(f"{name} is a str, not {type(text).__name__} {text!r}")
    return not text.strip()


def _check_text(name: str, value: str) -> None:
    """Raise for a value that cannot be stored."""
    with translated():
        rocketmq_py.Message("checks-the-text", properties={name: value})


def _checked_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"a key is a str, not {type(key).__name__} {key!r}")
        if len(key.split()) != 1:
            raise IllegalArgumentException(
                f"key {key!r} must be one word: keys are stored separated by blanks"
            )
    with translated():
        rocketmq_py.Message("checks-the-keys", keys=keys)
    return tuple(dict.fromkeys(keys))


def _conflict(name: str, other: str) -> IllegalArgumentException:
    return IllegalArgumentException(f"{name} cannot be set, since {other} is: choose one of them")


class MessageBuilder:
    """Builds a `Message` with the setters of the 5.0 documents.

    >>> builder = MessageBuilder().set_topic("orders").set_body(b"cancel 42")
    >>> builder.set_keys("order-42").set_delivery_timestamp(1_800_000_000_000).build()
    ... # doctest: +NORMALIZE_WHITESPACE
    Message(topic='orders', keys=['order-42'],
            delivery_timestamp=EpochMilliseconds(1800000000000), 9 bytes)
    """

    def __init__(self) -> None:
        self._message = Message()

    def set_topic(self, topic: str) -> Self:
        """Set the topic."""
        self._message.topic = topic
        return self

    def set_body(self, body: bytes | bytearray | memoryview) -> Self:
        """Set the content, which is copied."""
        self._message.body = body
        return self

    def set_tag(self, tag: str) -> Self:
        """Set the word that consumers filter by."""
        self._message.tag = tag
        return self

    def set_keys(self, *keys: str) -> Self:
        """Set the words that queries find, instead of earlier ones."""
        self._message._keys = _checked_keys(keys)  # noqa: SLF001 - of this module
        return self

    def set_message_group(self, message_group: str) -> Self:
        """Make it a FIFO message."""
        self._message.message_group = message_group
        return self

    def set_delivery_timestamp(self, moment: int | datetime) -> Self:
        """Make it a delayed message: **milliseconds** since 1970, or an aware datetime.

        A moment in the past means at once. A number that cannot be milliseconds is refused.
        """
        self._message._deliver_at(  # noqa: SLF001 - of this module
            as_milliseconds(moment, EpochMilliseconds)
        )
        return self

    def set_lite_topic(self, lite_topic: str) -> Self:
        """Refuse: raises UnsupportedError."""
        self._message.lite_topic = lite_topic
        return self

    def set_priority(self, priority: int) -> Self:
        """Refuse: raises UnsupportedError."""
        self._message.priority = priority
        return self

    def add_property(self, key: str, value: str) -> Self:
        """Add a property of the program."""
        self._message.add_property(key, value)
        return self

    def build(self) -> Message:
        """Give the message; IllegalArgumentException when topic or body is missing."""
        check_complete(self._message)
        return copy.copy(self._message)


class MessageView(Message):
    """A message that a consumer got, or that a transaction is asked about.

    It is a `Message`, so it can be sent on. `delivery_timestamp` is what its sender asked for, in
    milliseconds; for one that was delayed by a level, which names no moment, None.
    """

    __slots__ = ("_core",)

    def __init__(self, core: MessageExt) -> None:
        super().__init__()
        self._core = core
        self._topic = core.topic
        self._body = core.body
        self._tag = core.tags
        self._keys = tuple(core.keys)
        self._message_id = core.msg_id
        # `from_ext` leaves out what brokers and clients wrote: what stays is the sender's.
        kept = rocketmq_py.Message.from_ext(core).properties
        self._group = kept.get(_GROUP_PROPERTY)
        self._properties = {name: value for name, value in kept.items() if name not in _WITH_A_FACE}
        asked = next((core.properties[name] for name in _TIMES if name in core.properties), "")
        if asked.isdecimal() and int(asked) >= LEAST_MS:
            self._due = EpochMilliseconds(int(asked))

    @property
    def core(self) -> MessageExt:
        """The SDK's message: everything else that is known of it."""
        return self._core

    @property
    def namespace(self) -> str:
        """Empty: names are the program's own, without the namespace of its client."""
        return ""

    @property
    def born_host(self) -> str:
        """``address:port`` of the sender."""
        return self._core.born_host

    @property
    def born_timestamp(self) -> int:
        """When it was sent, by the sender's clock, in milliseconds since 1970."""
        return self._core.born_timestamp

    @property
    def delivery_attempt(self) -> int:
        """The number of this delivery to the group, from 1."""
        return self._core.reconsume_times + 1

    @property
    def receipt_handle(self) -> str | None:
        """What names this delivery to its broker; a changed invisible duration makes a new one."""
        return self._core.properties.get(_RECEIPT_PROPERTY)

    @property
    def corrupted(self) -> bool:
        """Whether the body could not be decompressed: then it is as it is stored."""
        return bool(self._core.sys_flag & _COMPRESSED)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Make an equal message that keeps its receipt, whatever becomes of this one's."""
        return type(self)(copy.deepcopy(self._core, memo))


_WITH_A_FACE: Final = frozenset({"TAGS", "KEYS", "WAIT", "UNIQ_KEY", _GROUP_PROPERTY})


def check_complete(message: Message) -> None:
    """Raise for a message without topic or body."""
    if not isinstance(message, Message):
        raise TypeError(f"a Message of compat.v5 is needed, not {type(message).__name__}")
    if not message.topic:
        raise IllegalArgumentException("topic has not been set")
    if not message.body:
        raise PayloadEmptyError("body has not been set", topic=message.topic)


def to_core(message: Message) -> rocketmq_py.Message:
    """Make the SDK's message, with an id of its own."""
    check_complete(message)
    with translated():
        core = rocketmq_py.Message(
            message.topic,
            message.body,
            tags=message.tag,
            keys=message._keys or None,  # noqa: SLF001 - in their order
        )
        for name, value in message.properties.items():
            core.put_user_property(name, value)
        if message.message_group is not None:
            core.put_user_property(_GROUP_PROPERTY, message.message_group)
        if message.delivery_timestamp is not None:
            core.set_deliver_time_ms(message.delivery_timestamp)
    return core
