"""What comes in to be stored, and what became of it. Values only.

Read on: ``produce.py``, which makes the one of the other.
"""

from collections.abc import Sequence

from attrs import define

from embedded_broker.core.refusals import Reason
from embedded_broker.store.inner import PutStatus

__all__ = ["Incoming", "Outcome"]


@define(slots=True, eq=False)
class Incoming:
    """One message that is to be stored, or a batch of them in one body.

    ``properties`` are their stored text: names and values between U+0001 and U+0002. A
    ``queue_id`` below 0 stands for any queue. An unknown topic is made after ``template``, with at
    most ``template_queues`` queues.
    """

    topic: str
    body: bytes
    properties: str
    queue_id: int = -1
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    template: str = ""
    template_queues: int = 0
    is_unit: bool = False
    is_batch: bool = False


@define(slots=True, eq=False)
class Outcome:
    """What became of one `Incoming`.

    It is stored if it has a place. A ``reason`` says why it is not, or what is wrong although it
    is. Its sender hears of it when the log is synced up to ``synced_at``; at once if that is 0.
    ``unique_key`` is None where senders are not told of it.
    """

    reason: Reason | None
    remark: str | None = None
    commit_log_offset: int = -1
    queue_id: int = -1
    queue_offset: int = -1
    unique_key: str | None = None
    recall_handle: str | None = None
    synced_at: int = 0
    offsets: Sequence[int] = ()
    """Where the messages of a batch lie in the commit log."""
    status: PutStatus = PutStatus.PUT_OK
    """What the store said, if it was asked."""

    @property
    def is_stored(self) -> bool:
        """Whether it is in the store."""
        return self.commit_log_offset >= 0
