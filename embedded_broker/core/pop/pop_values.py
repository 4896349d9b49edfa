"""Values of a pop: what it asks for and what it gets.

Must not know: headers, the store. Read on: `service.py`, `peeks.py`.
"""

from collections.abc import Callable
from typing import NamedTuple

from attrs import define, field

from embedded_broker.core.refusals import Refused
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.pop_handles import OrderCount, PopPortion


@define(slots=True, eq=False)
class Pop:
    """What is asked for: at most `max_count` messages of a queue, or of any.

    A new group begins with the first message there is, or with `from_last` at the end. `expression`
    is of tags unless `expression_type` says otherwise; None means every message. `wait_ms`: how
    long to wait for a message, 0 not at all. Ordered pops of one `attempt_id` get the same block.
    """

    peer: Peer
    group: str
    topic: str
    queue_id: int
    max_count: int
    invisible_ms: int
    wait_ms: int = 0
    from_last: bool = False
    expression: str | None = None
    expression_type: str | None = None
    is_ordered: bool = False
    attempt_id: str | None = None
    is_cancelled: bool = field(default=False, init=False)
    """Whether nobody waits for the answer any more; see `PopService.cancel`."""


@define(slots=True, eq=False)
class Popped:
    """What was found: records, from which queues, and how many messages are left.

    Nothing was found without `portions`; `is_full` says that there were too many to wait as well.
    """

    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    left: int = 0
    buffers: list[memoryview | bytes] = field(factory=list)
    count: int = 0
    portions: list[PopPortion] = field(factory=list)
    order_counts: list[OrderCount] = field(factory=list)
    is_full: bool = False
    has_passed: bool = False
    """Whether messages were passed over that nobody wants, and more may follow."""


class Notice(NamedTuple):
    """Whether a pop would find something; `is_full`: there were too many to wait for that."""

    has_message: bool
    is_full: bool = False


Reply = Callable[[Popped | Refused], None]
"""Told once how a pop ended that had to wait."""
