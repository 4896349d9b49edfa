"""Messages and queues with Java's names: what a producer sends, what a listener gets.

Each is the SDK's class with one-line methods that ``names.py`` lists; `of` makes one of the SDK's
values. Must not know clients. Names as in ``org.apache.rocketmq.common.message``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final, Self, TypeVar, overload

from attrs import fields

import rocketmq_py
from compat.java.overloads import Argument, Form, read
from compat.java.spelled import JavaNames

_T = TypeVar("_T")

_TOPIC: Final = Argument("topic", "topic")
_BODY: Final = Argument("body", "body")
_TAGS: Final = Argument("tags", "tags")
_KEYS: Final = Argument("keys", "keys")
_FLAG: Final = Argument("flag", "flag")
_WAIT: Final = Argument("wait_store_msg_ok", "waitStoreMsgOK")
FORMS: Final[tuple[Form, ...]] = (
    (),
    (_TOPIC,),
    (_TOPIC, _BODY),
    (_TOPIC, _TAGS, _BODY),
    (_TOPIC, _TAGS, _KEYS, _BODY),
    (_TOPIC, _TAGS, _KEYS, _FLAG, _BODY, _WAIT),
)


def copied(kind: type[_T], value: object) -> _T:
    """Make an object of a class that adds methods alone: with the fields of ``value``."""
    fresh = object.__new__(kind)
    made: Any = kind
    for item in fields(made):
        object.__setattr__(fresh, item.name, getattr(value, item.name))
    return fresh


class Message(JavaNames, rocketmq_py.Message):
    """A message, made as in Java: (topic, body), (topic, tags, body), (topic, tags, keys, body).

    Or (topic, tags, keys, flag, body, waitStoreMsgOK), or with the keywords of the SDK's message.
    The body is bytes: ``"text".encode()`` is Java's ``"text".getBytes(UTF_8)``.

    >>> message = Message("orders", "paid", "ORDERID_100", b"42")
    >>> message.setDelayTimeLevel(3).getKeys(), message.getDelayTimeLevel()
    ('ORDERID_100', 3)
    """

    __slots__ = ()

    @overload
    def __init__(self) -> None: ...

    @overload
    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview | None = b"",
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        flag: int = 0,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
        wait_store_msg_ok: bool = True,
    ) -> None: ...

    @overload
    def __init__(self, topic: str, tags: str | None, body: bytes, /) -> None: ...

    @overload
    def __init__(self, topic: str, tags: str | None, keys: str | None, body: bytes, /) -> None: ...

    @overload
    def __init__(
        self,
        topic: str,
        tags: str | None,
        keys: str | None,
        flag: int,
        body: bytes,
        waitStoreMsgOK: bool,
        /,
    ) -> None: ...

    def __init__(self, *given: Any, **settings: Any) -> None:  # Any: the overloads say what
        meant = read("Message", FORMS, given)
        twice = meant.keys() & settings
        if twice:
            raise TypeError(f"Message got {', '.join(sorted(twice))} twice: by place and by name")
        super().__init__(**{"topic": "", **meant, **settings})

    def getTopic(self) -> str:
        """Java's spelling of `topic`."""
        return self.topic

    def setTopic(self, topic: str) -> Self:
        """Java's spelling of ``topic = ...``."""
        self.topic = topic
        return self

    def getBody(self) -> bytes:
        """Java's spelling of `body`."""
        return self.body

    def setBody(self, body: bytes) -> Self:
        """Java's spelling of ``body = ...``."""
        self.body = body
        return self

    def getFlag(self) -> int:
        """Java's spelling of `flag`."""
        return self.flag

    def setFlag(self, flag: int) -> Self:
        """Java's spelling of ``flag = ...``."""
        self.flag = flag
        return self

    def getTags(self) -> str | None:
        """Java's spelling of `tags`."""
        return self.tags

    def getKeys(self) -> str | None:
        """Give the words of `keys` as Java does: one text, separated by blanks."""
        return " ".join(self.keys) or None

    def getProperties(self) -> dict[str, str]:
        """Java's spelling of `properties`."""
        return self.properties

    def getProperty(self, name: str) -> str | None:
        """Give a property of any kind, or None."""
        return self.properties.get(name)

    def hasProperty(self, name: str) -> bool:
        """Say whether there is a property."""
        return name in self.properties

    def isWaitStoreMsgOK(self) -> bool:
        """Java's spelling of `wait_store_msg_ok`."""
        return self.wait_store_msg_ok

    def setWaitStoreMsgOK(self, waitStoreMsgOK: bool) -> Self:
        """Java's spelling of ``wait_store_msg_ok = ...``."""
        self.wait_store_msg_ok = waitStoreMsgOK
        return self

    def getBuyerId(self) -> str | None:
        """Java's spelling of `buyer_id`."""
        return self.buyer_id

    def setBuyerId(self, buyerId: str | None) -> Self:
        """Java's spelling of ``buyer_id = ...``."""
        self.buyer_id = buyerId
        return self

    def getTransactionId(self) -> str | None:
        """Java's spelling of `transaction_id`."""
        return self.transaction_id

    def setTransactionId(self, transactionId: str | None) -> Self:
        """Java's spelling of ``transaction_id = ...``."""
        self.transaction_id = transactionId
        return self

    def toString(self) -> str:
        """Java's spelling of ``str(message)``."""
        return str(self)


class MessageExt(rocketmq_py.MessageExt, Message):
    """A message that arrived. Made with the keywords of the SDK's, for tests of a listener."""

    __slots__ = ()

    @classmethod
    def of(cls, message: rocketmq_py.MessageExt) -> Self:
        """Give a message of the SDK Java's names; it has the same `properties` object."""
        return message if isinstance(message, cls) else copied(cls, message)

    def getBrokerName(self) -> str:
        """Java's spelling of `broker_name`."""
        return self.broker_name

    def setBrokerName(self, brokerName: str) -> Self:
        """Java's spelling of ``broker_name = ...``."""
        self.broker_name = brokerName
        return self

    def getQueueId(self) -> int:
        """Java's spelling of `queue_id`."""
        return self.queue_id

    def setQueueId(self, queueId: int) -> Self:
        """Java's spelling of ``queue_id = ...``."""
        self.queue_id = queueId
        return self

    def getQueueOffset(self) -> int:
        """Java's spelling of `queue_offset`."""
        return self.queue_offset

    def setQueueOffset(self, queueOffset: int) -> Self:
        """Java's spelling of ``queue_offset = ...``."""
        self.queue_offset = queueOffset
        return self

    def getCommitLogOffset(self) -> int:
        """Java's spelling of `commit_log_offset`."""
        return self.commit_log_offset

    def setCommitLogOffset(self, commitLogOffset: int) -> Self:
        """Java's spelling of ``commit_log_offset = ...``."""
        self.commit_log_offset = commitLogOffset
        return self

    def getStoreSize(self) -> int:
        """Java's spelling of `store_size`."""
        return self.store_size

    def setStoreSize(self, storeSize: int) -> Self:
        """Java's spelling of ``store_size = ...``."""
        self.store_size = storeSize
        return self

    def getSysFlag(self) -> int:
        """Java's spelling of `sys_flag`."""
        return self.sys_flag

    def setSysFlag(self, sysFlag: int) -> Self:
        """Java's spelling of ``sys_flag = ...``."""
        self.sys_flag = sysFlag
        return self

    def getBornTimestamp(self) -> int:
        """Java's spelling of `born_timestamp`."""
        return self.born_timestamp

    def setBornTimestamp(self, bornTimestamp: int) -> Self:
        """Java's spelling of ``born_timestamp = ...``."""
        self.born_timestamp = bornTimestamp
        return self

    def getStoreTimestamp(self) -> int:
        """Java's spelling of `store_timestamp`."""
        return self.store_timestamp

    def setStoreTimestamp(self, storeTimestamp: int) -> Self:
        """Java's spelling of ``store_timestamp = ...``."""
        self.store_timestamp = storeTimestamp
        return self

    def getBodyCRC(self) -> int:
        """Java's spelling of `body_crc`."""
        return self.body_crc

    def setBodyCRC(self, bodyCRC: int) -> Self:
        """Java's spelling of ``body_crc = ...``."""
        self.body_crc = bodyCRC
        return self

    def getReconsumeTimes(self) -> int:
        """Java's spelling of `reconsume_times`."""
        return self.reconsume_times

    def setReconsumeTimes(self, reconsumeTimes: int) -> Self:
        """Java's spelling of ``reconsume_times = ...``."""
        self.reconsume_times = reconsumeTimes
        return self

    def getPreparedTransactionOffset(self) -> int:
        """Java's spelling of `prepared_transaction_offset`."""
        return self.prepared_transaction_offset

    def setPreparedTransactionOffset(self, preparedTransactionOffset: int) -> Self:
        """Java's spelling of ``prepared_transaction_offset = ...``."""
        self.prepared_transaction_offset = preparedTransactionOffset
        return self

    def getBornHostBytes(self) -> bytes:
        """Java's spelling of `born_host_bytes`."""
        return self.born_host_bytes

    def getStoreHostBytes(self) -> bytes:
        """Java's spelling of `store_host_bytes`."""
        return self.store_host_bytes

    def getBornHost(self) -> str:
        """Java's spelling of `born_host`: a text ``address:port``, no SocketAddress."""
        return self.born_host

    def getBornHostString(self) -> str:
        """Give the address of `born_host` without its port; empty when unknown."""
        return self.born_host.rpartition(":")[0].strip("[]")

    def getStoreHost(self) -> str:
        """Java's spelling of `store_host`: a text ``address:port``, no SocketAddress."""
        return self.store_host

    def getMsgId(self) -> str:
        """Java's spelling of `msg_id`."""
        return self.msg_id

    def setMsgId(self, msgId: str) -> Self:
        """Set the message's own id, which `getMsgId` gives then."""
        return self.set_unique_key(msgId)


class MessageUtil:
    """Makes replies, as ``org.apache.rocketmq.client.utils.MessageUtil``."""

    __slots__ = ()

    @staticmethod
    def createReplyMessage(requestMessage: rocketmq_py.MessageExt, body: bytes) -> Message:
        """Make the reply to a request that a listener got; any started producer sends it.

        Raises as `rocketmq_py.create_reply_message`.
        """
        return copied(Message, rocketmq_py.create_reply_message(requestMessage, body))

    @staticmethod
    def getReplyToClient(replyMessage: rocketmq_py.Message) -> str | None:
        """Give the id of the client that asked; None in a message that is no request or reply."""
        return replyMessage.properties.get("REPLY_TO_CLIENT")


class MessageBatch(JavaNames, rocketmq_py.MessageBatch):
    """Several messages that travel in one request."""

    __slots__ = ()

    @classmethod
    def generateFromList(cls, messages: Iterable[rocketmq_py.Message]) -> Self:
        """Make a batch; raises as `MessageBatch` does."""
        return cls(messages)

    def iterator(self) -> Iterator[rocketmq_py.Message]:
        """Java's spelling of ``iter(batch)``."""
        return iter(self)


class MessageQueue(JavaNames, rocketmq_py.MessageQueue):
    """One queue of a topic on one broker; equal to the SDK's of the same name."""

    __slots__ = ()

    @classmethod
    def of(cls, queue: rocketmq_py.MessageQueue) -> Self:
        """Give a queue of the SDK Java's names."""
        return cls(queue.topic, queue.broker_name, queue.queue_id)

    def plain(self) -> rocketmq_py.MessageQueue:
        """Give the SDK's queue."""
        return rocketmq_py.MessageQueue(self.topic, self.broker_name, self.queue_id)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MessageQueue):
            other = other.plain()
        return self.plain() == other

    __hash__ = rocketmq_py.MessageQueue.__hash__

    def getTopic(self) -> str:
        """Java's spelling of `topic`."""
        return self.topic

    def getBrokerName(self) -> str:
        """Java's spelling of `broker_name`."""
        return self.broker_name

    def getQueueId(self) -> int:
        """Java's spelling of `queue_id`."""
        return self.queue_id

    def equals(self, other: object) -> bool:
        """Java's spelling of ``==``."""
        return self == other

    def compareTo(self, other: MessageQueue) -> int:
        """Give -1, 0 or 1: by topic, broker name and id."""
        return (self > other) - (self < other)

    def toString(self) -> str:
        """Java's spelling of ``str(queue)``."""
        return str(self)


def plain(queue: rocketmq_py.MessageQueue) -> rocketmq_py.MessageQueue:
    """Give the SDK's queue of one with Java's names."""
    return queue.plain() if isinstance(queue, MessageQueue) else queue
