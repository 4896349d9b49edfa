"""Which queues a client wants to hold alone: bodies of 41 and 42.

Sources: `LockBatchRequestBody`, `LockBatchResponseBody`, `UnlockBatchRequestBody`.
"""

from __future__ import annotations

from attrs import define, field

from rocketmq_py.protocol.bodies.document import Document, MessageQueueKey, wire


@define
class LockBatchRequest(Document):
    """Queues to lock or unlock for one client of a group."""

    consumer_group: str = ""
    client_id: str = ""
    only_this_broker: bool = False
    mq_set: list[MessageQueueKey] = field(factory=list)


@define
class LockBatchResponse(Document):
    """The queues that the caller holds now."""

    lock_ok_mq_set: list[MessageQueueKey] = field(factory=list, metadata=wire("lockOKMQSet"))
