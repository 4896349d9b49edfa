"""The ONS message: one key, user properties apart from system ones, an absolute delivery time.

What a program builds before a send and gets in a listener; `to_core` and `from_core` translate.
Must not know clients. Names as in ``com.aliyun.openservices.ons.api.Message``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, overload

import rocketmq_py
from rocketmq_py import MessageExt

logger = logging.getLogger(__name__)

_SYSTEM_NAMES: Final = frozenset({"KEYS", "TAGS", "WAIT", "BUYER_ID"})


class Message:
    """A message as ONS programs know it; made of (topic, tag, body) or (topic, tag, key, body).

    `body` is bytes. `start_deliver_time` (epoch ms, 0 = at once) delays delivery; its setter does
    not check it, the send does. `key` is one text, several words separated by blanks. Both
    spellings of every accessor exist: `msg_id` and `getMsgID()`.

    >>> message = Message("orders", "paid", b"42").setKey("ORDERID_100")
    >>> message.getTopic(), message.tag, message.getKey()
    ('orders', 'paid', 'ORDERID_100')
    """

    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, topic: str, tag: str | None, body: bytes, /) -> None: ...
    @overload
    def __init__(self, topic: str, tag: str | None, key: str | None, body: bytes, /) -> None: ...
    def __init__(
        self,
        topic: str = "",
        tag: str | None = None,
        key: str | bytes | None = None,
        body: bytes | None = None,
    ) -> None:
        if body is None and not isinstance(key, str):
            key, body = None, key
        self.topic = topic
        self.tag = tag
        self.key: str | None = key if isinstance(key, str) else None
        self._body = b""
        self.body = body if body is not None else b""
        self.sharding_key: str | None = None
        self.msg_id: str | None = None
        self.start_deliver_time = 0
        self.reconsume_times = 0
        self.born_timestamp = 0
        self.born_host = ""
        self.offset = 0
        self._user_properties: dict[str, str] = {}

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
    def user_properties(self) -> dict[str, str]:
        """A copy of the user properties."""
        return dict(self._user_properties)

    def put_user_properties(self, key: str | None, value: str | None) -> None:
        """Set a user property; None as key or value changes nothing, as in Java.

        Raises ValueError for a name that RocketMQ keeps for itself (Java drops it at the send).
        """
        if key is None or value is None:
            return
        rocketmq_py.Message("checks-the-name", b"").put_user_property(key, value)
        self._user_properties[key] = value

    def get_user_properties(self, key: str) -> str | None:
        """Return a user property, None when it is not set."""
        return self._user_properties.get(key)

    def __copy__(self) -> Message:
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

    def setTopic(self, topic: str) -> Message:
        """Set `topic`."""
        self.topic = topic
        return self

    def getTag(self) -> str | None:
        """Java's spelling of `tag`."""
        return self.tag

    def setTag(self, tag: str | None) -> Message:
        """Set `tag`."""
        self.tag = tag
        return self

    def getKey(self) -> str | None:
        """Java's spelling of `key`."""
        return self.key

    def setKey(self, key: str | None) -> Message:
        """Set `key`."""
        self.key = key
        return self

    def getBody(self) -> bytes:
        """Java's spelling of `body`."""
        return self.body

    def setBody(self, body: bytes) -> Message:
        """Set `body`."""
        self.body = body
        return self

    def getMsgID(self) -> str | None:
        """Java's spelling of `msg_id`: known as soon as a send has been called."""
        return self.msg_id

    def setMsgID(self, msgid: str | None) -> Message:
        """Set `msg_id`; the next send overwrites it."""
        self.msg_id = msgid
        return self

    def getShardingKey(self) -> str | None:
        """Java's spelling of `sharding_key`."""
        return self.sharding_key

    def setShardingKey(self, shardingKey: str | None) -> Message:
        """Set `sharding_key`."""
        self.sharding_key = shardingKey
        return self

    def set_start_deliver_time(self, value: int) -> Message:
        """Ask for delivery at `value`, epoch ms; 0 = at once. Checked by the send."""
        self.start_deliver_time = value
        return self

    def setStartDeliverTime(self, value: int) -> Message:
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

    def getBornTimestamp(self) -> int:
        """Java's spelling of `born_timestamp`: when the producer sent it, epoch ms."""
        return self.born_timestamp

    def getBornHost(self) -> str:
        """Java's spelling of `born_host`: ``ip:port`` of the producer."""
        return self.born_host

    def getOffset(self) -> int:
        """Java's spelling of `offset`: place in its queue."""
        return self.offset

    def getUserProperties(self, key: str) -> str | None:
        """Java's spelling of `get_user_properties`."""
        return self.get_user_properties(key)

    def putUserProperties(self, key: str | None, value: str | None) -> None:
        """Java's spelling of `put_user_properties`."""
        self.put_user_properties(key, value)


def to_core(message: Message) -> rocketmq_py.Message:
    """Make the SDK's message; ValueError or TypeError for what cannot be sent."""
    core = rocketmq_py.Message(message.topic, message.body, tags=message.tag, keys=message.key)
    for key, value in message.user_properties.items():
        core.put_user_property(key, value)
    if message.sharding_key:
        core.put_user_property("__SHARDINGKEY", message.sharding_key)
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
    message.start_deliver_time = core.get_start_deliver_time()
    # `from_ext` leaves out what brokers and clients wrote: what stays is the sender's.
    kept: Mapping[str, str] = rocketmq_py.Message.from_ext(core).properties
    message.sharding_key = kept.get("__SHARDINGKEY")
    for key, value in kept.items():
        if key not in _SYSTEM_NAMES and key != "__SHARDINGKEY":
            message._user_properties[key] = value  # noqa: SLF001 - already checked by its sender
    return message
