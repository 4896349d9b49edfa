"""How far has the group consumed each queue, and when does the broker learn it.

`OffsetStore` keeps offsets in memory and writes them to the broker one-way: every few seconds, as
soon as a queue's cache runs empty (at most every 50 ms), when a queue goes away and at shutdown.
`first_offset` answers where a fresh queue begins. This module must not know what is cached; that
is `process_queue`. Facts: `RemoteBrokerOffsetStore`, `RebalancePushImpl.computePullFromWhere`.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.clock import Clock, monotonic
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.listener import ConsumeFromWhere
from rocketmq_py.consumer.settings import PushConsumerConfig, parse_instant
from rocketmq_py.errors import MQClientException, RocketMQError
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.send_result import MessageQueue

SOON_MS = 50
"""Writes caused by an empty cache are at least this far apart."""
TIMESTAMP_DEFAULT_MS = 30 * 60 * 1000
"""CONSUME_FROM_TIMESTAMP without a timestamp: this long before now."""


class _Offset:
    __slots__ = ("frozen", "value", "write_lock", "written")

    def __init__(self, value: int) -> None:
        self.value = value
        # Two requests must not overtake each other, or the smaller offset would be the last.
        self.write_lock = threading.Lock()
        self.written: int | None = None
        self.frozen = False


class OffsetStore:
    """Offsets of one group member; every method may be called by any thread."""

    def __init__(self, engine: ClientInstance, calls: ConsumerCalls) -> None:
        self._engine = engine
        self._calls = calls
        self._lock = threading.Lock()
        self._table: dict[MessageQueue, _Offset] = {}
        self._empty: set[MessageQueue] = set()
        self._writing = 0
        self._flush_waits = False
        self._flushed_at = 0.0

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> None:
        """Note the next offset to consume; a frozen one does not move."""
        with self._lock:
            known = self._table.get(queue)
            if known is None:
                self._table[queue] = _Offset(offset)
            elif not known.frozen and (offset > known.value or not increase_only):
                known.value = offset

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset that the broker has corrected; late results cannot move it."""
        with self._lock:
            known = self._table.setdefault(queue, _Offset(offset))
            known.value = offset
            known.frozen = True

    def in_memory(self, queue: MessageQueue) -> int:
        """Return the offset noted here, -1 when none is."""
        known = self._table.get(queue)
        return -1 if known is None else known.value

    @contextmanager
    def riding(self, queue: MessageQueue) -> Iterator[int]:
        """Give the offset that rides along with a pull; no larger one is written meanwhile."""
        known = self._table.get(queue)
        if known is None:
            yield -1
            return
        with known.write_lock:
            yield known.value

    def from_broker(self, queue: MessageQueue) -> int | None:
        """Read the stored offset, None when there is none; RocketMQError when nobody answers."""
        stored = self._calls.stored_offset(queue)
        if stored is None or stored < 0:
            return None
        self.update(queue, stored, increase_only=False)
        return stored

    def persist(self, queue: MessageQueue) -> None:
        """Write one offset to the broker; a failure is logged, the next write repairs it."""
        known = self._table.get(queue)
        if known is None:
            return
        with known.write_lock:
            value = known.value
            try:
                self._calls.store_offset(queue, value)
            except RocketMQError as error:
                what = f"writing offset {value} of {queue}"
                self._engine.absences.failed(queue.broker_name, what, error)
            else:
                known.written = value

    def persist_all(self, queues: Iterable[MessageQueue]) -> None:
        """Write the offsets of `queues` and forget those of all others."""
        wanted = set(queues)
        for queue in wanted:
            self.persist(queue)
        with self._lock:
            for queue in [queue for queue in self._table if queue not in wanted]:
                del self._table[queue]

    def persist_soon(self, queue: MessageQueue) -> None:
        """Write the offset of a queue whose cache ran empty: now, or 50 ms after the last one."""
        with self._lock:
            self._empty.add(queue)
            if self._flush_waits:
                return
            wait = self._flushed_at + SOON_MS / 1000 - monotonic()
            if wait > 0:
                self._flush_waits = True
                self._engine.schedule_after(int(wait * 1000) + 1, self._flush_on_pool)
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

    def hurry(self) -> None:
        """Write what waits for its 50 ms now: somebody waits for this client to be idle."""
        if self._flush_waits:
            self._flush_on_pool()

    def _flush_on_pool(self) -> None:
        # The timer thread must not wait for a socket.
        self._engine.submit(self._flush)

    def _flush(self) -> None:
        with self._lock:
            self._flush_waits = False
            self._flushed_at = monotonic()
            # A queue that runs empty again from here on is one more.
            self._writing += len(self._empty)  # first: who looks meanwhile may count too many
            due, self._empty = self._empty, set()
        try:
            for queue in due:
                known = self._table.get(queue)
                if known is not None and known.written != known.value:
                    self.persist(queue)
        finally:
            with self._lock:
                self._writing -= len(due)


def first_offset(
    queue: MessageQueue,
    *,
    offsets: OffsetStore,
    calls: ConsumerCalls,
    config: PushConsumerConfig,
    clock: Clock,
) -> int:
    """Where pulling of a fresh queue begins.

    A stored offset always wins. Without one: LAST and the legacy names begin at the end, FIRST at
    0, TIMESTAMP at the first message stored since then; the retry topic begins at 0 (TIMESTAMP:
    at its end). Raises RocketMQError when a broker does not answer; the caller tries again.
    """
    stored = offsets.from_broker(queue)
    if stored is not None:
        return stored
    retry = is_retry_topic(queue.topic)
    match config.consume_from_where:
        case ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            offset = 0
        case ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            offset = (
                calls.max_offset(queue)
                if retry
                else calls.search_offset(
                    queue, _timestamp_ms(config.consume_timestamp, clock), None
                )
            )
        case _:
            offset = 0 if retry else calls.max_offset(queue)
    if offset < 0:
        raise MQClientException(f"broker gave offset {offset} for {queue}", topic=queue.topic)
    return offset


def _timestamp_ms(setting: str | datetime, clock: Clock) -> int:
    if setting == "":
        return clock.now_ms - TIMESTAMP_DEFAULT_MS
    instant = parse_instant(setting) if isinstance(setting, str) else setting
    return int(instant.timestamp() * 1000)
