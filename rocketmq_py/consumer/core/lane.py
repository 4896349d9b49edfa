"""One assigned queue of a consumer: its unfinished messages, and where fetching stands.

A `Lane` holds the cached messages of a queue from the fetch until each is settled. The offset that
it lets the group commit is the smallest unfinished one, so a crash repeats messages but never loses
one. It must not know brokers, listeners or threads: `intake` puts, `progress` removes. Facts:
`org.apache.rocketmq.client.impl.consumer.ProcessQueue`, ``PullRequest``.
"""

import threading
from bisect import insort
from collections import deque
from collections.abc import Iterable
from typing import ClassVar

from rocketmq_py.message import MessageExt
from rocketmq_py.send_result import MessageQueue


class Lane:
    """Cached, unfinished messages of one queue; every method may be called by any thread.

    `count` and `size` feed the flow control: bytes of bodies as they are cached, and of those that
    listeners have decompressed. `dropped` turns True once, when the queue is taken away, and from
    then on results for it are thrown away. `paused` keeps it from being fetched. `fetched_at` is
    the monotonic second of the last fetch, for the check that fetching has not died.

    Only one fetch per lane is ever on its way, so nobody else writes `next_offset`,
    `suggested_broker`, `flow_controlled` and `forgotten` (answers in a row of a broker that does
    not know the group) meanwhile.
    """

    __slots__ = (
        "_live",
        "_lock",
        "_next",
        "_order",
        "count",
        "dropped",
        "fetched_at",
        "flow_controlled",
        "forgotten",
        "next_offset",
        "paused",
        "queue",
        "size",
        "suggested_broker",
    )

    is_popped: ClassVar = False
    """Whether its messages are acked one by one; see `PopLane`."""

    def __init__(self, queue: MessageQueue, next_offset: int, *, fetched_at: float) -> None:
        self.queue = queue
        self.next_offset = next_offset
        self.fetched_at = fetched_at
        self.suggested_broker = 0
        self.flow_controlled = 0
        self.forgotten = 0
        self.paused = False
        self.dropped = False
        self.count = 0
        self.size = 0
        self._lock = threading.Lock()
        self._live: dict[int, tuple[MessageExt, int]] = {}  # with what was counted for it
        # Offsets in rising order, finished ones included until they reach an end: the smallest
        # and the largest unfinished one are then found without sorting or searching.
        self._order: deque[int] = deque()
        self._next = 0  # offset after the largest one ever cached

    def put(self, messages: Iterable[MessageExt]) -> None:
        """Cache messages; one that is cached already is kept as it is."""
        with self._lock:
            live = self._live
            for message in messages:
                offset = message.queue_offset
                if offset in live:
                    continue
                size = len(message.body)
                live[offset] = message, size
                self.count += 1
                self.size += size
                if offset >= self._next:
                    self._order.append(offset)
                    self._next = offset + 1
                else:
                    self._insert(offset)

    def grow(self, size: int) -> None:
        """Count bytes, fewer if negative, that decompressed bodies take besides the cached ones."""
        with self._lock:
            self.size += size

    def remove(self, messages: Iterable[MessageExt]) -> int:
        """Forget finished messages and return the offset that may be committed now.

        That is the smallest unfinished offset, the one after the largest cached one when nothing
        is left, and -1 when nothing was cached at all (a sweep has emptied the queue before).
        """
        with self._lock:
            live = self._live
            if not live:
                return -1
            for message in messages:
                gone = live.pop(message.queue_offset, None)
                if gone is not None:
                    self.count -= 1
                    self.size -= gone[1]
            return self._first_unfinished()

    def release(self) -> None:
        """Let go what brokers keep for this lane, which is dropped: of a pulled one nothing."""

    def holds(self, message: MessageExt) -> bool:
        """Whether the message is still unfinished, that is, nobody sent it back meanwhile."""
        return message.queue_offset in self._live

    def head(self) -> MessageExt | None:
        """Return the unfinished message with the smallest offset."""
        with self._lock:
            found = self._live.get(self._first_unfinished())
            return None if found is None else found[0]

    @property
    def max_span(self) -> int:
        """Distance between the smallest and the largest unfinished offset."""
        with self._lock:
            if not self._live:
                return 0
            order = self._order
            while order[-1] not in self._live:
                order.pop()
            return order[-1] - self._first_unfinished()

    def _first_unfinished(self) -> int:
        order, live = self._order, self._live
        while order and order[0] not in live:
            order.popleft()
        return order[0] if order else self._next

    def _insert(self, offset: int) -> None:
        # A broker that answers below what was asked; rare, so the cost of a rebuild is fine.
        ordered = list(self._order)
        if offset not in self._order:
            insort(ordered, offset)
        self._order = deque(ordered)
