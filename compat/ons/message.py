"""The ONS message: one key, user properties apart from system ones, an absolute delivery time.

What a program builds before a send and gets in a listener; `to_core` and `from_core` translate.
Must not know clients. Names as in ``com.aliyun.openservices.ons.api.Message``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self, overload

from attrs import frozen

import rocketmq_py
from compat.ons.properties import Properties
from rocketmq_py import MessageExt, MessageQueue
from rocketmq_py.errors import ONSClientException, ReservedPropertyError

logger = logging.getLogger(__name__)

SHARDING_KEY: Final = "__SHARDINGKEY"
_SENDERS_OWN: Final = frozenset({"KEYS", "TAGS", "WAIT", "BUYER_ID", SHARDING_KEY})
"""Properties of a sender that are no user properties."""
_SET_OTHERWISE: Final = {
    "__TAG": "tag",
    "__KEY": "key",
    "__MSGID": "msg_id, by the send",
    "__RECONSUMETIMES": "reconsume_times, by the broker",
    "__BORNTIMESTAMP": "born_timestamp, by the send",
    "__BORNHOST": "born_host, by the broker",
}
"""System keys of ONS, and which field of a message is set instead."""
_FORMS: Final = "Message(), Message(topic, tag, body) or Message(topic, tag, key, body)"
_PARTITION_SIGN: Final = "@"


@frozen
class TopicPartition:
    """A queue in the words of ONS: ``partition`` names broker and queue, and has no other meaning.

    ``PullConsumer.topic_partitions`` gives them.
    """

    topic: str
    partition: str

    def getTopic(self) -> str:
        """Java's spelling of `topic`."""
        return self.topic

    def getPartition(self) -> str:
        """Java's spelling of `partition`."""
        return self.partition


class Message:
    """A message as ONS programs know it; made of (topic, tag, body) or (topic, tag, key, body).

    `body` is bytes. `start_deliver_time` (epoch ms, 0 = at once) delays delivery; its value is
    checked by the send. `key` is one text, several words separated by blanks. Both spellings of
    every accessor exist: `msg_id` and `getMsgID()`. Setters return the message.

    TypeError for a body that is no bytes and a time that is no int, AttributeError for an attribute
    that a message does not have.

    >>> message = Message("orders", "paid", b"42").setKey("ORDERID_100")
    >>> message.getTopic(), message.tag, message.getKey()
    ('orders', 'paid', 'ORDERID_100')
    """

    topic: str
    tag: str | None
    key: str | None
    sharding_key: str | None
    msg_id: str | None
    reconsume_times: int
    born_timestamp: int
    born_host: str
    offset: int
    topic_partition: TopicPartition | None
    """Where a message that arrived lies; None before."""

    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, topic: str, tag: str | None, body: bytes, /) -> None: ...
    @overload
    def __init__(self, topic: str, tag: str | None, key: str | None, body: bytes, /) -> None: ...
    def __init__(self, *given: Any) -> None:  # Any: the overloads say what is what
        topic, tag, key, body = "", None, None, b""
        if len(given) == 3:
            topic, tag, body = given
        elif len(given) == 4:
            topic, tag, key, body = given
        elif given:
            raise TypeError(f"{len(given)} arguments for a message: it is made by {_FORMS}")
        self.topic = topic
        self.tag = tag
        self.key = key
        self.body = body
        self.sharding_key = None
        self.msg_id = None
        self.start_deliver_time = 0
        self.reconsume_times = 0
        self.born_timestamp = 0
        self.born_host = ""
        self.offset = 0
        self.topic_partition = None
        self._user_properties: dict[str, str] = {}

    if not TYPE_CHECKING:  # a checker that saw this method would accept every name

        def __setattr__(self, name: str, value: object) -> None:
            if not _is_known(type(self), name):
                raise AttributeError(_no_attribute(name), name=name, obj=self)
            object.__setattr__(self, name, value)

    @property
    def body(self) -> bytes:
        """The content."""
        return self._body

    @body.setter
    def body(self, body: bytes) -> None:
        if not isinstance(body, (bytes, bytearray, memoryview)):
            raise TypeError(
                f"body is {type(body).__name__}, it must be bytes: encode text with .encode()"
            )
        self._body = bytes(body)

    @property
    def start_deliver_time(self) -> int:
        """When consumers get it, epoch ms; 0 means at once."""
        return self._start_deliver_time

    @start_deliver_time.setter
    def start_deliver_time(self, epoch_ms: int) -> None:
        if not isinstance(epoch_ms, int) or isinstance(epoch_ms, bool):
            raise TypeError(
                f"start_deliver_time is {type(epoch_ms).__name__} {epoch_ms!r}, it must be an int "
                "of epoch milliseconds, or 0 for delivery at once"
            )
        self._start_deliver_time = epoch_ms

    @property
    def user_properties(self) -> Properties:
        """A copy of the user properties; assign a mapping to replace them all."""
        return Properties(self._user_properties)

    @user_properties.setter
    def user_properties(self, properties: Mapping[str, str]) -> None:
        before, self._user_properties = self._user_properties, {}
        try:
            for key, value in properties.items():
                self.put_user_properties(key, value)
        except BaseException:
            self._user_properties = before
            raise

    def put_user_properties(
        self, key: str | None, value: str | None, *, lenient: bool = False
    ) -> None:
        """Set a user property; None as key or value changes nothing, as in Java.

        Raises ValueError for a name that RocketMQ or ONS keeps for itself; with ``lenient`` it is
        left out and logged (Java leaves it out at the send, without a word). ``TIMER_DELAY_SEC``
        and the other names of a delay are accepted, as in `rocketmq_py.Message.put_user_property`.
        """
        if key is None or value is None:
            return
        try:
            _check_user_property(key, value)
        except ReservedPropertyError as error:
            if not lenient:
                raise
            logger.warning("left out: %s", error)
            return
        self._user_properties[key] = value

    def get_user_properties(self, key: str) -> str | None:
        """Return a user property, None when it is not set."""
        return self._user_properties.get(key)

    def __copy__(self) -> Self:
        """Make an equal message with user properties of its own."""
        fresh = object.__new__(type(self))
        fresh.__dict__.update(self.__dict__, _user_properties=dict(self._user_properties))
        return fresh

    def __repr__(self) -> str:
        return (
            f"Message [topic={self.topic}, tag={self.tag}, key={self.key}, msgID={self.msg_id}, "
            f"startDeliverTime={self.start_deliver_time}, reconsumeTimes={self.reconsume_times}, "
            f"userProperties={self._user_properties}, body={len(self._body)} bytes]"
        )

    # --- Java's spelling ----------------------------------------------------------------------

    def getTopic(self) -> str:
        """Java's spelling of `topic`."""
        return self.topic

    def setTopic(self, topic: str) -> Self:
        """Set `topic`."""
        self.topic = topic
        return self

    def getTag(self) -> str | None:
        """Java's spelling of `tag`."""
        return self.tag

    def setTag(self, tag: str | None) -> Self:
        """Set `tag`."""
        self.tag = tag
        return self

    def getKey(self) -> str | None:
        """Java's spelling of `key`."""
        return self.key

    def setKey(self, key: str | None) -> Self:
        """Set `key`."""
        self.key = key
        return self

    def getBody(self) -> bytes:
        """Java's spelling of `body`."""
        return self.body

    def setBody(self, body: bytes) -> Self:
        """Set `body`."""
        self.body = body
        return self

    def getMsgID(self) -> str | None:
        """Java's spelling of `msg_id`: known as soon as a send has been called."""
        return self.msg_id

    def setMsgID(self, msgid: str | None) -> Self:
        """Set `msg_id`; the next send overwrites it."""
        self.msg_id = msgid
        return self

    def getShardingKey(self) -> str | None:
        """Java's spelling of `sharding_key`."""
        return self.sharding_key

    def setShardingKey(self, shardingKey: str | None) -> Self:
        """Set `sharding_key`."""
        self.sharding_key = shardingKey
        return self

    def set_start_deliver_time(self, value: int) -> Self:
        """Ask for delivery at `value`, epoch ms; 0 = at once. The value is checked by the send."""
        self.start_deliver_time = value
        return self

    def setStartDeliverTime(self, value: int) -> Self:
        """Java's spelling of `set_start_deliver_time`."""
        return self.set_start_deliver_time(value)

    def get_start_deliver_time(self) -> int:
        """Return the delivery time asked for, epoch ms, 0 when none was."""
        return self.start_deliver_time

    def getStartDeliverTime(self) -> int:
        """Java's spelling of `get_start_deliver_time`."""
        return self.get_start_deliver_time()

    def getReconsumeTimes(self) -> int:
        """Java's spelling of `reconsume_times`: failed deliveries before this one."""
        return self.reconsume_times

    def setReconsumeTimes(self, value: int) -> Self:
        """Set `reconsume_times`, for tests of a listener: no send takes it along."""
        self.reconsume_times = value
        return self

    def getBornTimestamp(self) -> int:
        """Java's spelling of `born_timestamp`: when the producer sent it, epoch ms."""
        return self.born_timestamp

    def setBornTimestamp(self, value: int) -> Self:
        """Set `born_timestamp`, for tests of a listener: no send takes it along."""
        self.born_timestamp = value
        return self

    def getBornHost(self) -> str:
        """Java's spelling of `born_host`: ``ip:port`` of the producer."""
        return self.born_host

    def setBornHost(self, value: str) -> Self:
        """Set `born_host`, for tests of a listener: no send takes it along."""
        self.born_host = value
        return self

    def getOffset(self) -> int:
        """Java's spelling of `offset`: place in its queue."""
        return self.offset

    def getTopicPartition(self) -> TopicPartition | None:
        """Java's spelling of `topic_partition`."""
        return self.topic_partition

    @overload
    def getUserProperties(self) -> Properties: ...
    @overload
    def getUserProperties(self, key: str) -> str | None: ...
    def getUserProperties(self, key: str | None = None) -> Properties | str | None:
        """Java's spelling of `get_user_properties`, and without a key of `user_properties`."""
        return self.user_properties if key is None else self.get_user_properties(key)

    def setUserProperties(self, userProperties: Mapping[str, str]) -> Self:
        """Java's spelling of assigning `user_properties`."""
        self.user_properties = userProperties
        return self

    def putUserProperties(
        self, key: str | None, value: str | None, *, lenient: bool = False
    ) -> None:
        """Java's spelling of `put_user_properties`."""
        self.put_user_properties(key, value, lenient=lenient)


def _check_user_property(key: str, value: str) -> None:
    if key in _SET_OTHERWISE:
        raise ReservedPropertyError(key, f"ONS keeps it: it is {_SET_OTHERWISE[key]}")
    rocketmq_py.Message("checks-the-name", b"").put_user_property(key, value)


_ATTRIBUTES: Final = (
    *Message.__annotations__,
    *(name for name, member in vars(Message).items() if isinstance(member, property)),
)
_PLAIN_NAMES: Final = {name.replace("_", ""): name for name in _ATTRIBUTES}


def _is_known(kind: type, name: str) -> bool:
    """Whether a message has an attribute; a subclass may have more, unless they are misspelt."""
    if (
        name in _ATTRIBUTES
        or name.startswith("_")
        or isinstance(getattr(kind, name, None), property)
    ):
        return True
    return kind is not Message and _plain(name) not in _PLAIN_NAMES


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _no_attribute(name: str) -> str:
    meant = _PLAIN_NAMES.get(_plain(name))
    hint = "" if meant is None else f": did you mean {meant}?"
    return f"an ONS message has no attribute {name!r}{hint}"


def check_message(message: object) -> None:
    """Raise TypeError for what is no message of ONS."""
    if not isinstance(message, Message):
        raise TypeError(
            f"a Message of compat.ons is needed, not {type(message).__name__}: made by {_FORMS}"
        )


def to_core(message: Message) -> rocketmq_py.Message:
    """Make the SDK's message; ValueError or TypeError for what cannot be sent."""
    core = rocketmq_py.Message(message.topic, message.body, tags=message.tag, keys=message.key)
    for key, value in message.user_properties.items():
        core.put_user_property(key, value)
    if message.sharding_key:
        core.put_user_property(SHARDING_KEY, message.sharding_key)
    if message.start_deliver_time:
        core.set_start_deliver_time(message.start_deliver_time)
    return core


def from_core(core: MessageExt) -> Message:
    """Make the ONS message that a listener gets."""
    message = Message(core.topic, core.tags, core.body)
    message.key = " ".join(core.keys) or None
    message.msg_id = core.msg_id
    message.reconsume_times = core.reconsume_times
    message.born_timestamp = core.born_timestamp
    message.born_host = core.born_host
    message.offset = core.queue_offset
    message.start_deliver_time = _deliver_time_of(core)
    if core.broker_name:
        queue = MessageQueue(core.topic, core.broker_name, core.queue_id)
        message.topic_partition = partition_of(queue)
    # `from_ext` leaves out what brokers and clients wrote: what stays is the sender's.
    kept: Mapping[str, str] = rocketmq_py.Message.from_ext(core).properties
    message.sharding_key = kept.get(SHARDING_KEY)
    for key, value in kept.items():
        if key not in _SENDERS_OWN:
            message._user_properties[key] = value  # noqa: SLF001 - already checked by its sender
    return message


def _deliver_time_of(core: MessageExt) -> int:
    try:
        return core.get_start_deliver_time()
    except ValueError:  # its sender was another client, which wrote what is no time
        return 0


def partition_of(queue: MessageQueue) -> TopicPartition:
    """Name a queue as ONS does."""
    return TopicPartition(queue.topic, f"{queue.broker_name}{_PARTITION_SIGN}{queue.queue_id}")


def queue_of(partition: object) -> MessageQueue:
    """Find the queue that a partition names; ONSClientException for one that names none."""
    if not isinstance(partition, TopicPartition):
        kind = type(partition).__name__
        raise ONSClientException(f"a TopicPartition is needed, not {kind} {partition!r}")
    broker_name, sign, queue_id = partition.partition.rpartition(_PARTITION_SIGN)
    if not sign or not (queue_id.isascii() and queue_id.isdigit()):
        raise ONSClientException(
            f"{partition} names no queue: take one that topic_partitions() has given"
        )
    return MessageQueue(partition.topic, broker_name, int(queue_id))
