"""The lite pull consumer with Java's names and argument orders.

It is the SDK's consumer; what it gives has Java's names. Must not know how messages are fetched.
Names as in ``org.apache.rocketmq.client.consumer.DefaultLitePullConsumer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal, overload

from attrs import define, setters

import rocketmq_py
from compat.java import forms
from compat.java.construction import settings_of
from compat.java.consumer_settings import LitePullConsumerNames
from compat.java.listeners import QueuesFunction, TopicMessageQueueChangeListener, changing
from compat.java.messages import MessageExt, MessageQueue, plain
from compat.java.signing import AclClientRPCHook
from rocketmq_py import MessageQueue as AnyQueue
from rocketmq_py import MessageSelector, RPCHook
from rocketmq_py.errors import UnsupportedOperationError

Hook = RPCHook | AclClientRPCHook
NO_OFFSET = -1
"""What `DefaultLitePullConsumer.committed` gives of a queue in which nothing is committed."""


@define(init=False, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class DefaultLitePullConsumer(rocketmq_py.DefaultLitePullConsumer, LitePullConsumerNames):
    """Receives messages of a group when the program polls; made of Java's arguments.

    >>> consumer = DefaultLitePullConsumer("reports")
    >>> consumer.setPullBatchSize(32)
    >>> consumer.subscribe("orders", "*")
    """

    @overload
    def __init__(self, consumerGroup: str = ..., rpcHook: Hook | None = None, /) -> None: ...

    @overload
    def __init__(self, rpcHook: Hook, /) -> None: ...

    @overload
    def __init__(
        self, namespace: str | None, consumerGroup: str, rpcHook: Hook | None = None, /
    ) -> None: ...

    def __init__(self, *given: Any, **settings: Any) -> None:  # Any: the overloads say what
        kind = type(self).__name__
        super().__init__(**settings_of(kind, forms.LITE_PULL_CONSUMER, given, settings))

    def isRunning(self) -> bool:
        """Java's spelling of `is_running`."""
        return self.is_running

    # --- which queues ----------------------------------------------------------------------

    def assign(self, queues: Iterable[AnyQueue]) -> None:
        """Read these queues, and no others: see `rocketmq_py.DefaultLitePullConsumer`."""
        super().assign([plain(each) for each in queues])

    def setSubExpressionForAssign(self, topic: str, subExpression: str | MessageSelector) -> None:
        """Java's spelling of `set_sub_expression_for_assign`."""
        self.set_sub_expression_for_assign(topic, subExpression)

    def assignment(self) -> list[MessageQueue]:  # type: ignore[override] # more than it asks for
        """Give the queues that this consumer reads now, with Java's names, sorted."""
        return [MessageQueue.of(each) for each in super().assignment()]

    def fetchMessageQueues(self, topic: str) -> list[MessageQueue]:
        """Java's spelling of `fetch_message_queues`."""
        return [MessageQueue.of(each) for each in self.fetch_message_queues(topic)]

    def registerTopicMessageQueueChangeListener(
        self,
        topic: str,
        topicMessageQueueChangeListener: TopicMessageQueueChangeListener | QueuesFunction,
    ) -> None:
        """Java's spelling of `register_topic_message_queue_change_listener`."""
        listener = changing(topicMessageQueueChangeListener)
        self.register_topic_message_queue_change_listener(topic, listener)

    # --- messages --------------------------------------------------------------------------

    def poll(  # type: ignore[override] # a list of what has more names
        self, timeout: int | timedelta | None = None
    ) -> list[MessageExt]:
        """Give messages of one queue, with Java's names; ``timeout`` in ms."""
        return [MessageExt.of(each) for each in super().poll(timeout)]

    # --- offsets ---------------------------------------------------------------------------

    @overload
    def commit(self, offsets: Mapping[AnyQueue, int] | None = None) -> None: ...

    @overload
    def commit(self, offsets: Mapping[AnyQueue, int], persist: Literal[True], /) -> None: ...

    def commit(self, offsets: Mapping[AnyQueue, int] | None = None, persist: bool = True) -> None:
        """Commit what polls have returned, or these offsets; brokers are told within a moment.

        `UnsupportedOperationError` for ``persist`` False, which would not tell them.
        """
        if not persist:
            raise UnsupportedOperationError(
                f"persist={persist!r} is not possible: brokers are told within a moment"
            )
        super().commit(offsets and {plain(each): offset for each, offset in offsets.items()})

    @overload
    def commitSync(self) -> None: ...

    @overload
    def commitSync(self, offsets: Mapping[AnyQueue, int], persist: Literal[True], /) -> None: ...

    def commitSync(
        self, offsets: Mapping[AnyQueue, int] | None = None, persist: Literal[True] = True
    ) -> None:
        """Commit as `commit` does."""
        if offsets is None:
            self.commit()
        else:
            self.commit(offsets, persist)

    def committed(self, queue: AnyQueue) -> int:
        """Give the committed offset of a queue; -1: there is none."""
        offset = super().committed(plain(queue))
        return NO_OFFSET if offset is None else offset

    def seek(self, queue: AnyQueue, offset: int) -> None:
        """Go on at an offset: see `rocketmq_py.DefaultLitePullConsumer`."""
        super().seek(plain(queue), offset)

    def seekToBegin(self, messageQueue: AnyQueue) -> None:
        """Java's spelling of `seek_to_begin`."""
        self.seek_to_begin(messageQueue)

    def seekToEnd(self, messageQueue: AnyQueue) -> None:
        """Java's spelling of `seek_to_end`."""
        self.seek_to_end(messageQueue)

    def offsetForTimestamp(self, messageQueue: AnyQueue, timestamp: int) -> int:
        """Java's spelling of `offset_for_timestamp`."""
        return self.offset_for_timestamp(plain(messageQueue), timestamp)

    def getConsumerGroup(self) -> str:
        """Java's spelling of `consumer_group`."""
        return self.consumer_group

    def setConsumerGroup(self, consumerGroup: str) -> None:
        """Java's spelling of ``consumer_group = ...``."""
        self.consumer_group = consumerGroup
