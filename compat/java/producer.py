"""Producers with Java's names and argument orders.

Each is the SDK's producer; a call says which overload is meant (``forms.py``) and passes it on.
Must not know how a message is sent. Names as in ``org.apache.rocketmq.client.producer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from datetime import timedelta
from typing import Any, overload

from attrs import define, setters

import rocketmq_py
from compat.java import forms
from compat.java.construction import producer_settings
from compat.java.listeners import (
    Answering,
    MessageQueueSelector,
    RequestCallback,
    SelectorFunction,
    SendCallback,
    TransactionListener,
    answering,
    selecting,
    tell_reply,
    told,
)
from compat.java.messages import MessageExt, MessageQueue, plain
from compat.java.overloads import read
from compat.java.results import QueryResult, SendResult, TransactionSendResult
from compat.java.settings import ProducerNames
from compat.java.signing import AclClientRPCHook
from rocketmq_py import MessageQueue as AnyQueue
from rocketmq_py import RPCHook

Hook = RPCHook | AclClientRPCHook
Selector = MessageQueueSelector | SelectorFunction


def _options(meant: dict[str, Any]) -> dict[str, Any]:
    """Turn the arguments of an overload into the SDK's keywords."""
    if "queue" in meant:
        meant["queue"] = plain(meant["queue"])
    if "selector" in meant:
        meant["selector"] = selecting(meant["selector"])
    return meant


@define(init=False, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class DefaultMQProducer(rocketmq_py.DefaultMQProducer, ProducerNames):
    """Sends messages to topics; made of Java's arguments, most often the group alone.

    Settings are given by setters (`setNamesrvAddr`), times in milliseconds. The names of the SDK
    are here, too. A call with a callback gives None, as in Java: `send_async` gives a future.

    >>> producer = DefaultMQProducer("shop")
    >>> producer.setNamesrvAddr("127.0.0.1:9876")
    >>> producer.getSendMsgTimeout()
    3000
    """

    @overload
    def __init__(self, producerGroup: str = ..., /) -> None: ...

    @overload
    def __init__(self, rpcHook: Hook, /) -> None: ...

    @overload
    def __init__(self, producerGroup: str, rpcHook: Hook | None, /) -> None: ...

    @overload
    def __init__(
        self, producerGroup: str, rpcHook: Hook | None, topics: list[str] | None, /
    ) -> None: ...

    @overload
    def __init__(
        self, producerGroup: str, enableMsgTrace: bool, customizedTraceTopic: str | None, /
    ) -> None: ...

    @overload
    def __init__(
        self,
        producerGroup: str,
        rpcHook: Hook | None,
        enableMsgTrace: bool,
        customizedTraceTopic: str | None,
        /,
    ) -> None: ...

    @overload
    def __init__(
        self,
        producerGroup: str,
        rpcHook: Hook | None,
        topics: list[str] | None,
        enableMsgTrace: bool,
        customizedTraceTopic: str | None,
        /,
    ) -> None: ...

    @overload
    def __init__(
        self, namespace: str | None, producerGroup: str, rpcHook: Hook | None = None, /
    ) -> None: ...

    @overload
    def __init__(
        self,
        namespace: str | None,
        producerGroup: str,
        rpcHook: Hook | None,
        enableMsgTrace: bool,
        customizedTraceTopic: str | None,
        /,
    ) -> None: ...

    def __init__(self, *given: Any, **settings: Any) -> None:  # Any: the overloads say what
        super().__init__(**producer_settings(type(self).__name__, given, settings))

    # --- sending ---------------------------------------------------------------------------

    @overload  # the SDK's own
    def send(
        self,
        message: rocketmq_py.Message,
        *,
        timeout: int | timedelta | None = None,
        queue: AnyQueue | None = None,
    ) -> SendResult: ...

    @overload
    def send(
        self,
        message: rocketmq_py.Message,
        *,
        timeout: int | timedelta | None = None,
        selector: rocketmq_py.MessageQueueSelector,
        arg: object = None,
    ) -> SendResult: ...

    @overload
    def send(
        self, message: rocketmq_py.Message | Iterable[rocketmq_py.Message], timeout: int, /
    ) -> SendResult: ...

    @overload
    def send(self, messages: Iterable[rocketmq_py.Message], /) -> SendResult: ...

    @overload
    def send(
        self,
        message: rocketmq_py.Message | Iterable[rocketmq_py.Message],
        mq: AnyQueue,
        timeout: int = ...,
        /,
    ) -> SendResult: ...

    @overload
    def send(
        self,
        message: rocketmq_py.Message | Iterable[rocketmq_py.Message],
        sendCallback: SendCallback,
        timeout: int = ...,
        /,
    ) -> None: ...

    @overload
    def send(
        self,
        message: rocketmq_py.Message | Iterable[rocketmq_py.Message],
        mq: AnyQueue,
        sendCallback: SendCallback,
        timeout: int = ...,
        /,
    ) -> None: ...

    @overload
    def send(
        self, message: rocketmq_py.Message, selector: Selector, arg: Any, timeout: int = ..., /
    ) -> SendResult: ...

    @overload
    def send(
        self,
        message: rocketmq_py.Message,
        selector: Selector,
        arg: Any,
        sendCallback: SendCallback,
        timeout: int = ...,
        /,
    ) -> None: ...

    def send(self, message: Any, *given: Any, **options: Any) -> SendResult | None:
        """Send a message, or a list of them, to any queue, this one, or the one of a selector.

        Times are milliseconds. With a callback it returns at once, else when a broker has taken
        the message. Raises as `rocketmq_py.DefaultMQProducer.send`, and `TypeError` with all
        overloads for arguments that are none of them.
        """
        is_one = isinstance(message, rocketmq_py.Message)
        to = read("send(message, ...)", forms.SEND if is_one else forms.SEND_SEVERAL, given)
        to = {**_options(to), **options}
        callback = to.pop("callback", None)
        if callback is not None:
            batch = message if is_one else rocketmq_py.MessageBatch(message)
            self.send_async(batch, told(callback), **to)
            return None
        if is_one:
            return SendResult.of(super().send(message, **to))
        return SendResult.of(self.send_batch(message, **to))

    @overload
    def sendOneway(self, message: rocketmq_py.Message, mq: AnyQueue = ..., /) -> None: ...

    @overload
    def sendOneway(self, message: rocketmq_py.Message, selector: Selector, arg: Any, /) -> None: ...

    def sendOneway(self, message: Any, /, *given: Any) -> None:
        """Write a message to a broker's connection: nobody says whether it arrived."""
        to = read("sendOneway(message, ...)", forms.ONEWAY, given)
        self.send_oneway(message, **_options(to))

    @overload  # the SDK's own
    def request(
        self,
        message: rocketmq_py.Message,
        *,
        timeout: int | timedelta | None = None,
        queue: AnyQueue | None = None,
    ) -> MessageExt: ...

    @overload
    def request(
        self,
        message: rocketmq_py.Message,
        *,
        timeout: int | timedelta | None = None,
        selector: rocketmq_py.MessageQueueSelector,
        arg: object = None,
    ) -> MessageExt: ...

    @overload
    def request(self, message: rocketmq_py.Message, timeout: int, /) -> MessageExt: ...

    @overload
    def request(
        self, message: rocketmq_py.Message, mq: AnyQueue, timeout: int, /
    ) -> MessageExt: ...

    @overload
    def request(
        self, message: rocketmq_py.Message, requestCallback: RequestCallback, timeout: int, /
    ) -> None: ...

    @overload
    def request(
        self,
        message: rocketmq_py.Message,
        mq: AnyQueue,
        requestCallback: RequestCallback,
        timeout: int,
        /,
    ) -> None: ...

    @overload
    def request(
        self, message: rocketmq_py.Message, selector: Selector, arg: Any, timeout: int, /
    ) -> MessageExt: ...

    @overload
    def request(
        self,
        message: rocketmq_py.Message,
        selector: Selector,
        arg: Any,
        requestCallback: RequestCallback,
        timeout: int,
        /,
    ) -> None: ...

    def request(
        self, message: rocketmq_py.Message, *given: Any, **options: Any
    ) -> MessageExt | None:
        """Send a message and wait, or let a callback wait, for the reply of a consumer.

        Raises as `rocketmq_py.DefaultMQProducer.request`.
        """
        to = read("request(message, ...)", forms.REQUEST, given) if given else {}
        to = {**_options(to), **options}
        callback = to.pop("callback", None)
        if callback is None:
            return MessageExt.of(super().request(message, **to))
        reply: Future[rocketmq_py.MessageExt] = self.request_async(message, **to)
        tell_reply(callback, reply)
        return None

    def sendMessageInTransaction(
        self, msg: rocketmq_py.Message, arg: Any
    ) -> rocketmq_py.SendResult:
        """Java's spelling of `send_message_in_transaction`."""
        return self.send_message_in_transaction(msg, arg)

    def recallMessage(self, topic: str, recallHandle: str | None) -> str:
        """Java's spelling of `recall_message`."""
        return self.recall_message(topic, recallHandle)

    # --- asking ----------------------------------------------------------------------------

    def fetchPublishMessageQueues(self, topic: str) -> list[MessageQueue]:
        """Java's spelling of `fetch_publish_message_queues`."""
        return [MessageQueue.of(each) for each in self.fetch_publish_message_queues(topic)]

    @overload
    def createTopic(
        self, key: str, newTopic: str, queueNum: int, attributes: Mapping[str, str] | None = ..., /
    ) -> None: ...

    @overload
    def createTopic(
        self,
        key: str,
        newTopic: str,
        queueNum: int,
        topicSysFlag: int,
        attributes: Mapping[str, str] | None,
        /,
    ) -> None: ...

    def createTopic(self, key: str, newTopic: str, queueNum: int, /, *given: Any) -> None:
        """Java's spelling of `create_topic`."""
        more = read("createTopic(key, newTopic, queueNum, ...)", forms.CREATE_TOPIC, given)
        self.create_topic(key, newTopic, queueNum, **more)

    def searchOffset(self, mq: AnyQueue, timestamp: int) -> int:
        """Java's spelling of `search_offset`."""
        return self.search_offset(plain(mq), timestamp)

    def maxOffset(self, mq: AnyQueue) -> int:
        """Java's spelling of `max_offset`."""
        return self.max_offset(plain(mq))

    def minOffset(self, mq: AnyQueue) -> int:
        """Java's spelling of `min_offset`."""
        return self.min_offset(plain(mq))

    def earliestMsgStoreTime(self, mq: AnyQueue) -> int:
        """Java's spelling of `earliest_msg_store_time`."""
        return self.earliest_msg_store_time(plain(mq))

    def queryMessage(self, topic: str, key: str, maxNum: int, begin: int, end: int) -> QueryResult:
        """Java's spelling of `query_message`."""
        return QueryResult.of(self.query_message(topic, key, maxNum, begin, end))

    def viewMessage(self, topic: str, msgId: str) -> MessageExt:
        """Java's spelling of `view_message`."""
        return MessageExt.of(self.view_message(topic, msgId))

    # --- settings --------------------------------------------------------------------------

    def getProducerGroup(self) -> str:
        """Java's spelling of `producer_group`."""
        return self.producer_group

    def setProducerGroup(self, producerGroup: str) -> None:
        """Java's spelling of ``producer_group = ...``."""
        self.producer_group = producerGroup

    def getTopics(self) -> list[str]:
        """Give the topics that `start` looks up."""
        return list(self._topics)

    def setTopics(self, topics: Sequence[str]) -> None:
        """Set the topics that `start` looks up."""
        self._topics = tuple(topics)

    def addRetryResponseCode(self, responseCode: int) -> None:
        """Java's spelling of `add_retry_response_code`."""
        self.add_retry_response_code(responseCode)


@define(init=False, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class TransactionMQProducer(rocketmq_py.TransactionMQProducer, DefaultMQProducer):
    """Sends messages whose delivery depends on local work; see `setTransactionListener`."""

    @overload
    def __init__(self, producerGroup: str = ..., /) -> None: ...

    @overload
    def __init__(self, producerGroup: str, topics: list[str] | None, /) -> None: ...

    @overload
    def __init__(
        self, producerGroup: str, rpcHook: Hook | None, topics: list[str] | None = None, /
    ) -> None: ...

    @overload
    def __init__(
        self,
        producerGroup: str,
        rpcHook: Hook | None,
        enableMsgTrace: bool,
        customizedTraceTopic: str | None,
        /,
    ) -> None: ...

    @overload
    def __init__(self, namespace: str | None, producerGroup: str, /) -> None: ...

    @overload
    def __init__(
        self,
        namespace: str | None,
        producerGroup: str,
        rpcHook: Hook | None,
        enableMsgTrace: bool,
        customizedTraceTopic: str | None,
        /,
    ) -> None: ...

    def __init__(self, *given: Any, **settings: Any) -> None:  # Any: the overloads say what
        super().__init__(**producer_settings(type(self).__name__, given, settings))

    def sendMessageInTransaction(self, msg: rocketmq_py.Message, arg: Any) -> TransactionSendResult:
        """Java's spelling of `send_message_in_transaction`."""
        return TransactionSendResult.of(self.send_message_in_transaction(msg, arg))

    def getTransactionListener(self) -> TransactionListener | None:
        """Give the listener that `setTransactionListener` has set."""
        known = self.transaction_listener
        return known.listener if isinstance(known, Answering) else None

    def setTransactionListener(self, transactionListener: TransactionListener) -> None:
        """Set who does the local work and answers questions about it.

        `TypeError` for an object that lacks one of the two methods.
        """
        self.transaction_listener = answering(transactionListener)

    def getExecutorService(self) -> Executor | None:
        """Java's spelling of `executor`."""
        return self.executor

    def setExecutorService(self, executorService: Executor) -> None:
        """Java's spelling of ``executor = ...``: who answers questions."""
        self.executor = executorService

    def getCheckThreadPoolMinSize(self) -> int:
        """Java's spelling of `check_thread_pool_min`."""
        return self.check_thread_pool_min

    def setCheckThreadPoolMinSize(self, checkThreadPoolMinSize: int) -> None:
        """Java's spelling of ``check_thread_pool_min = ...``."""
        self.check_thread_pool_min = checkThreadPoolMinSize

    def getCheckThreadPoolMaxSize(self) -> int:
        """Java's spelling of `check_thread_pool_max`."""
        return self.check_thread_pool_max

    def setCheckThreadPoolMaxSize(self, checkThreadPoolMaxSize: int) -> None:
        """Java's spelling of ``check_thread_pool_max = ...``."""
        self.check_thread_pool_max = checkThreadPoolMaxSize

    def getCheckRequestHoldMax(self) -> int:
        """Java's spelling of `check_request_hold_max`."""
        return self.check_request_hold_max

    def setCheckRequestHoldMax(self, checkRequestHoldMax: int) -> None:
        """Java's spelling of ``check_request_hold_max = ...``."""
        self.check_request_hold_max = checkRequestHoldMax
