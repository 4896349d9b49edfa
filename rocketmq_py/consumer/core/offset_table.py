"""Offsets of a group member in memory, and when they are written; where to is another module.

`OffsetTable` is the base of each kind of offset store. It notes how far every queue is consumed and
asks its heir to write what changed: when a queue runs empty, at most every so often, and whenever
somebody asks for it. This module must not know brokers or files. Read on: `broker_offsets`,
`file_offsets`.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from attrs import define, field

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.clock import monotonic
from rocketmq_py.send_result import MessageQueue


@define(eq=False)
class Offset:
    """The next offset to consume of one queue; a frozen one does not move.

    Whoever writes it by a request of its own holds `turn`: two requests must not overtake each
    other, or the smaller offset would be the last.
    """

    value: int
    frozen: bool = False
    written: int | None = None
    turn: threading.Lock = field(factory=threading.Lock)


class OffsetTable(ABC):
    """Offsets of one group member; every method may be called by any thread.

    ``soon_ms``: writes of queues that ran empty are at least this far apart.
    """

    def __init__(self, engine: ClientInstance, soon_ms: int) -> None:
        self._engine = engine
        self._soon_s = soon_ms / 1000
        self._lock = threading.Lock()
        self._table: dict[MessageQueue, Offset] = {}
        self._empty: set[MessageQueue] = set()
        self._writing = 0
        self._flush_waits = False
        self._flushed_at = 0.0

    @abstractmethod
    def load(self, queue: MessageQueue) -> int | None:
        """Read the stored offset, None when there is none, and note it."""

    @abstractmethod
    def _write(self, queues: Collection[MessageQueue], *, changed_only: bool = False) -> None:
        """Write the offsets of queues as they are now; a failure is reported and not raised.

        ``changed_only``: those that were written as they are need not be written again.
        """

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> None:
        """Note the next offset to consume; a frozen one does not move."""
        with self._lock:
            known = self._table.get(queue)
            if known is None:
                self._table[queue] = Offset(offset)
            elif not known.frozen and (offset > known.value or not increase_only):
                known.value = offset

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset that the broker has corrected; late results cannot move it."""
        with self._lock:
            known = self._table.setdefault(queue, Offset(offset))
            known.value = offset
            known.frozen = True

    def in_memory(self, queue: MessageQueue) -> int:
        """Return the offset noted here, -1 when none is."""
        known = self._table.get(queue)
        return -1 if known is None else known.value

    @contextmanager
    def riding(self, queue: MessageQueue) -> Iterator[int]:
        """Give the offset that rides along with a pull, -1 when none does."""
        del queue
        yield -1

    def persist(self, queue: MessageQueue) -> None:
        """Write one offset now."""
        self._write((queue,))

    def persist_all(self, queues: Iterable[MessageQueue]) -> None:
        """Write the offsets of `queues` and forget those of all others."""
        wanted = set(queues)
        self._write(wanted)
        with self._lock:
            for queue in [queue for queue in self._table if queue not in wanted]:
                del self._table[queue]

    def persist_soon(self, queue: MessageQueue) -> None:
        """Write the offset of a queue whose cache ran empty: now, or a while after the last one."""
        with self._lock:
            self._empty.add(queue)
            if self._flush_waits:
                return
            wait_s = self._flushed_at + self._soon_s - monotonic()
            if wait_s > 0:
                self._flush_waits = True
                self._engine.schedule_after(int(wait_s * 1000) + 1, self._flush_on_pool)
                return
        self._flush()

    def remove(self, queue: MessageQueue) -> None:
        """Forget the queue; a frozen offset thaws with it."""
        with self._lock:
            self._table.pop(queue, None)
            self._empty.discard(queue)

    @property
    def unwritten(self) -> int:
        """Offsets of emptied queues that are not written yet."""
        return len(self._empty) + self._writing

    def hasten(self) -> None:
        """Write now, in background, what waits for its time."""
        if self._flush_waits:
            self._flush_on_pool()

    def _noted(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int]:
        """Give the offsets of those queues of which one is noted."""
        with self._lock:
            known = {queue: self._table.get(queue) for queue in queues}
            return {queue: offset.value for queue, offset in known.items() if offset is not None}

    def _flush_on_pool(self) -> None:
        # The timer thread must not wait for a socket or a disk.
        self._engine.submit(self._flush)

    def _flush(self) -> None:
        with self._lock:
            self._flush_waits = False
            self._flushed_at = monotonic()
            # A queue that runs empty again from here on is one more.
            self._writing += len(self._empty)  # first: who looks meanwhile may count too many
            due, self._empty = self._empty, set()
        try:
            self._write(due, changed_only=True)
        finally:
            with self._lock:
                self._writing -= len(due)
