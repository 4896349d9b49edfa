"""What came back of a send or a query, with Java's names.

Each is the SDK's value with one-line getters that ``names.py`` lists. Must not know clients.
"""

from __future__ import annotations

from typing import Self

from attrs import evolve

import rocketmq_py
from compat.java.messages import MessageExt, MessageQueue, copied
from compat.java.spelled import JavaNames
from rocketmq_py import LocalTransactionState, SendStatus


class SendResult(JavaNames, rocketmq_py.SendResult):
    """Where a message went, and how safely it is stored there."""

    __slots__ = ()

    @classmethod
    def of(cls, result: rocketmq_py.SendResult) -> Self:
        """Give a result of the SDK Java's names."""
        if isinstance(result, cls):
            return result
        return copied(cls, evolve(result, message_queue=MessageQueue.of(result.message_queue)))

    def getSendStatus(self) -> SendStatus:
        """Java's spelling of `send_status`."""
        return self.send_status

    def getMsgId(self) -> str:
        """Java's spelling of `msg_id`."""
        return self.msg_id

    def getOffsetMsgId(self) -> str:
        """Java's spelling of `offset_msg_id`."""
        return self.offset_msg_id

    def getMessageQueue(self) -> MessageQueue:
        """Java's spelling of `message_queue`."""
        return MessageQueue.of(self.message_queue)

    def getQueueOffset(self) -> int:
        """Java's spelling of `queue_offset`."""
        return self.queue_offset

    def getTransactionId(self) -> str | None:
        """Java's spelling of `transaction_id`."""
        return self.transaction_id

    def getRegionId(self) -> str:
        """Java's spelling of `region_id`."""
        return self.region_id

    def isTraceOn(self) -> bool:
        """Java's spelling of `trace_on`."""
        return self.trace_on

    def getRecallHandle(self) -> str | None:
        """Java's spelling of `recall_handle`."""
        return self.recall_handle

    def toString(self) -> str:
        """Java's spelling of ``str(result)``."""
        return str(self)


class TransactionSendResult(rocketmq_py.TransactionSendResult, SendResult):
    """Where a half message went, and what became of the local work."""

    __slots__ = ()

    def getLocalTransactionState(self) -> LocalTransactionState:
        """Java's spelling of `local_transaction_state`."""
        return self.local_transaction_state


class QueryResult(JavaNames, rocketmq_py.QueryResult):
    """Which messages a query found."""

    __slots__ = ()

    @classmethod
    def of(cls, result: rocketmq_py.QueryResult) -> Self:
        """Give a result of the SDK Java's names."""
        return copied(cls, result)

    def getIndexLastUpdateTimestamp(self) -> int:
        """Java's spelling of `index_last_update_timestamp`."""
        return self.index_last_update_timestamp

    def getMessageList(self) -> list[MessageExt]:
        """Give the messages of `message_list`, with Java's names."""
        return [MessageExt.of(message) for message in self.message_list]

    def toString(self) -> str:
        """Java's spelling of ``str(result)``."""
        return str(self)
