"""Values of a send: what comes in to be stored, and what became of it.

Read on: ``produce.py``, which makes the one of the other.
"""

from collections.abc import Sequence

from attrs import define, field

from embedded_broker.core.refusals import Reason
from embedded_broker.store.put_values import PutStatus


@define(slots=True, eq=False)
class Terms:
    """How a message is to be sent; many messages of one sender share them.

    A ``queue_id`` below 0 stands for any queue. An unknown topic is made after ``template``, with
    at most ``template_queues`` queues.
    """

    queue_id: int = -1
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    template: str = ""
    template_queues: int = 0
    is_unit: bool = False
    is_batch: bool = False
    is_escaped: bool = False
    """Whether the timer of another broker has released it."""
    are_usual: bool = field(init=False)
    """Whether nothing of this needs a look at the single message."""

    def __attrs_post_init__(self) -> None:
        """Look once."""
        self.are_usual = (
            self.queue_id >= 0
            and not (self.flag or self.reconsume_times or self.is_batch or self.is_escaped)
            and self.max_reconsume_times is None
        )


@define(slots=True, eq=False)
class Incoming:
    """One message that is to be stored, or a batch of them in one body.

    ``properties`` are their stored text: names and values between U+0001 and U+0002.
    """

    topic: str
    body: bytes
    properties: str
    born_timestamp: int = 0
    terms: Terms = field(factory=Terms)


@define(slots=True, eq=False)
class Outcome:
    """What became of one `Incoming`.

    It is stored if it has a place. A ``reason`` says why it is not, or what is wrong although it
    is. Its sender hears of it when the log is synced up to ``synced_at``; at once if that is 0.
    ``unique_key`` is None where senders are not told of it. It is UTF-8, as the handle by which a
    timer is recalled is ASCII.
    """

    reason: Reason | None
    remark: str | None = None
    commit_log_offset: int = -1
    queue_id: int = -1
    queue_offset: int = -1
    unique_key: bytes | None = None
    recall_handle: bytes | None = None
    synced_at: int = 0
    batch_key: bytes | None = None
    """The UNIQ_KEY of a batch that is stored as one record: its messages have no ids of their own
    there."""
    offsets: Sequence[int] = ()
    """Where the messages of a batch lie in the commit log."""
    status: PutStatus = PutStatus.PUT_OK
    """What the store said, if it was asked."""

    @property
    def is_stored(self) -> bool:
        """Whether it is in the store."""
        return self.commit_log_offset >= 0
