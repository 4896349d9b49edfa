"""What has one assigned queue delivered that is not finished yet, and what may be committed.

A `ProcessQueue` holds the cached messages of one queue between pull and listener result. The
offset it lets the group commit is the smallest unfinished one, so a crash repeats messages but
never loses one. It must not know about pulls, listeners or brokers: `pull_loop` puts, `concurrent`
removes. Facts: `org.apache.rocketmq.client.impl.consumer.ProcessQueue`.
"""

import threading
from bisect import insort
from collections import deque
from collections.abc import Iterable

from rocketmq_py.message import MessageExt
from rocketmq_py.send_result import MessageQueue


class ProcessQueue:
    """Cached, unfinished messages of one queue; every method may be called by any thread.

    `count` and `size` feed the flow control: bytes of bodies as they are cached, and of those that
    listeners have decompressed. `dropped` turns True once, when the queue is taken away, and from
    then on results for it are thrown away. `last_pull` is the monotonic second of the last pull,
    for the check that pulling has not died.
    """

    __slots__ = ("_live", "_lock", "_next", "_order", "count", "dropped", "last_pull", "size")

    def __init__(self, *, last_pull: float) -> None:
        self._lock = threading.Lock()
        self._live: dict[int, tuple[MessageExt, int]] = {}  # with what was counted for it
        # Offsets in rising order, finished ones included until they reach an end: the smallest
        # and the largest unfinished one are then found without sorting or searching.
        self._order: deque[int] = deque()
        self._next = 0  # offset after the largest one ever cached
        self.count = 0
        self.size = 0
        self.dropped = False
        self.last_pull = last_pull

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


class PullState:
    """Where pulling of one assigned queue stands: the original's PullRequest.

    Only one pull per queue is ever on its way, so nobody else writes `next_offset` meanwhile.
    """

    __slots__ = (
        "flow_controlled",
        "forgotten",
        "next_offset",
        "process_queue",
        "queue",
        "suggested_broker",
    )

    def __init__(self, queue: MessageQueue, process_queue: ProcessQueue, next_offset: int) -> None:
        self.queue = queue
        self.process_queue = process_queue
        self.next_offset = next_offset
        self.suggested_broker = 0
        self.flow_controlled = 0
        self.forgotten = 0  # answers in a row of a broker that does not know the group

    @property
    def dropped(self) -> bool:
        """Whether the queue was taken away."""
        return self.process_queue.dropped
