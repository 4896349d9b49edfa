"""How trace records leave a client: queued, joined to trace messages, and never in the way.

Who notes a record only puts it into a bounded queue. A thread of its own joins records and hands
them to ``outlet.py``: as soon as there are enough for one trace message, or when the first has
waited for a while. What finds no room, and what no broker takes, is dropped, counted and told. Must
not know what a record is about, or how it is sent. Facts: ``AsyncTraceDispatcher``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from rocketmq_py.client.background import TimerHandle
from rocketmq_py.clock import monotonic
from rocketmq_py.logs import get_logger
from rocketmq_py.trace.records import Recall, TraceRecord, write_record

_log = get_logger(__name__)

QUEUE_MAX: Final = 2_048
"""Records that wait; further ones are dropped."""
BATCH_MAX: Final = 20
"""Records of one trace message."""
BYTES_MAX: Final = 128_000
"""Bytes of a trace message; a single record is far below."""
KEYS_MAX: Final = 22_767
"""Characters of the keys of a trace message: all its properties have 32,767."""
WAIT_MS: Final = 5_000
"""How long a record waits for others."""
CLOSE_S: Final = 1.0
"""How long the end of a client waits for records at most."""
LEAST_CLOSE_S: Final = 0.1
TOLD_EVERY_S: Final = 60.0


class Outlet(Protocol):
    """Where trace messages go."""

    def send(self, topic: str, keys: Sequence[str], body: bytes) -> None:
        """Send one; waits for seconds at most. Raises when no broker has taken it."""

    def stop(self) -> None:
        """Let `send` wait no more, from any thread."""


class Worker(Protocol):
    """One thread: a `WorkerPool` of one."""

    def submit(self, task: Callable[..., object], *args: object) -> bool:
        """Run a task there; False when it is closed."""

    def close(self, timeout: float, *, drop: bool = False) -> bool:
        """Refuse new tasks and wait for the one that runs."""


ScheduleAfter = Callable[[float, Callable[[], object]], TimerHandle]


class Entry(NamedTuple):
    """A record that waits."""

    topic: str
    record: TraceRecord


class Batch(NamedTuple):
    """What becomes one trace message."""

    topic: str
    keys: list[str]
    body: bytes
    records: int


class Dispatcher:
    """The trace of one client. `put` is safe from any thread and waits for nobody."""

    def __init__(
        self, who: str, outlet: Outlet, worker: Worker, schedule_after: ScheduleAfter
    ) -> None:
        self._who = who
        self._outlet = outlet
        self._worker = worker
        self._schedule_after = schedule_after
        self._lock = threading.Lock()  # held for a few steps, never while something is written
        self._waiting: deque[Entry] = deque()
        self._owed = 0
        """How many of those that wait are sent although they fill no trace message."""
        self._timer: TimerHandle | None = None
        self._works = False
        self._is_closed = False
        self._idle = threading.Event()
        self._idle.set()
        self._lost = 0
        self._why = ""
        self._told_at: float | None = None

    def put(self, topic: str, records: Sequence[TraceRecord]) -> None:
        """Let records be sent soon, to a trace topic; those without room are dropped."""
        with self._lock:
            if self._is_closed:
                return
            room = QUEUE_MAX - len(self._waiting)
            self._waiting.extend([Entry(topic, record) for record in records[:room]])
            if len(records) > room:
                self._lose(len(records) - room, f"{QUEUE_MAX} wait already")
        self._go_on()

    def _go_on(self) -> None:
        """Let the worker have what is to be sent now, or look again in time."""
        with self._lock:
            if self._works or not self._waiting:
                return
            if not self._is_due():
                if self._timer is None:
                    self._timer = self._schedule_after(WAIT_MS, self._time_is_over)
                return
            self._works = True
            self._idle.clear()
        if not self._worker.submit(self._work):
            self._rest()

    def _is_due(self) -> bool:
        return self._is_closed or self._owed > 0 or len(self._waiting) >= BATCH_MAX

    def _time_is_over(self) -> None:
        with self._lock:
            self._timer = None
            self._owed = len(self._waiting)
        self._go_on()

    def _rest(self) -> None:
        with self._lock:
            self._works = False
            self._idle.set()

    # --- on the worker ---------------------------------------------------------------------

    def _work(self) -> None:
        while mine := self._take():
            try:
                batch = joined(mine)
                self._put_back(mine[batch.records :])
                mine = mine[: batch.records]
                self._outlet.send(batch.topic, batch.keys, batch.body)
            except Exception as error:  # noqa: BLE001 - also an RPC hook's: the next has its turn
                with self._lock:
                    self._lose(len(mine), f"no broker took them: {error}")
            self._tell()
        self._go_on()

    def _take(self) -> list[Entry]:
        """Take what may be in the next trace message; none, and the worker rests: none is due."""
        with self._lock:
            if not self._waiting or not self._is_due():
                self._works = False
                self._idle.set()
                return []
            count = min(BATCH_MAX, len(self._waiting))
            self._owed = max(0, self._owed - count)
            return [self._waiting.popleft() for _ in range(count)]

    def _put_back(self, entries: list[Entry]) -> None:
        """Let what did not fit into a trace message be the next ones, at once."""
        with self._lock:
            self._waiting.extendleft(reversed(entries))
            self._owed += len(entries)

    # --- what is lost ----------------------------------------------------------------------

    def _lose(self, count: int, why: str) -> None:
        self._lost += count
        self._why = why

    def _tell(self) -> None:
        """Log what was lost since the last time: once a minute at most, and at the end."""
        now = monotonic()
        with self._lock:
            lost, why = self._lost, self._why
            is_soon = self._told_at is not None and now - self._told_at < TOLD_EVERY_S
            if not lost or (is_soon and not self._is_closed):
                return
            self._lost, self._told_at = 0, now
        _log.warning("%s: %d trace records are lost, the last because %s", self._who, lost, why)

    # --- the end ---------------------------------------------------------------------------

    def close(self, timeout: float) -> None:
        """Take no more records, and send what waits, for a second at most. Idempotent."""
        deadline = monotonic() + max(LEAST_CLOSE_S, min(timeout, CLOSE_S))
        with self._lock:
            self._is_closed = True
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        self._go_on()
        self._idle.wait(max(0.0, deadline - monotonic()))
        with self._lock:
            if self._waiting:
                self._lose(len(self._waiting), "the client has ended before they were sent")
                self._waiting.clear()
        self._outlet.stop()
        self._worker.close(LEAST_CLOSE_S, drop=True)
        self._tell()


def joined(entries: Sequence[Entry]) -> Batch:
    """Join the first entries to a trace message: of one topic, and as many as may be in one.

    Its keys are the ids and keys of the messages, so that a query by either finds it.
    """
    topic = entries[0].topic
    bodies: list[bytes] = []
    keys: list[str] = []
    size = keys_size = 0
    for one in entries:
        body = write_record(one.record)
        own = () if isinstance(one.record, Recall) else one.record.keys
        names = dict.fromkeys((one.record.msg_id, *own))
        sizes = {name: len(name.encode(errors="replace")) + 1 for name in names if name not in keys}
        if bodies and (
            one.topic != topic
            or size + len(body) > BYTES_MAX
            or keys_size + sum(sizes.values()) > KEYS_MAX
        ):
            break
        bodies.append(body)
        size += len(body)
        for name, more in sizes.items():
            if keys_size + more <= KEYS_MAX:  # else it is one message with more keys than that
                keys.append(name)
                keys_size += more
    return Batch(topic, keys, b"".join(bodies), len(bodies))
