"""Who runs work that nobody waits for: one timer thread, and a few worker threads.

`Timer` runs short tasks at their time; `WorkerPool` runs tasks that may block. Both start their
threads on first use and join them in ``close``. Must not know brokers or messages.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from rocketmq_py.clock import monotonic

__all__ = ["Timer", "TimerHandle", "WorkerPool"]

_log = logging.getLogger(__name__)

CANCELLED_MAX = 4_096
"""Cancelled entries that may stay in the heap before it is rebuilt."""


class TimerHandle:
    """A scheduled task; `cancel` keeps it from running again."""

    __slots__ = ("_task", "_timer", "period_s")

    def __init__(self, timer: Timer, task: Callable[[], object], period_s: float | None) -> None:
        self._timer = timer
        self._task: Callable[[], object] | None = task
        self.period_s = period_s

    def cancel(self) -> None:
        """Forget the task; one that is running right now still ends. Idempotent."""
        if self._task is not None:
            self._task = None
            self._timer.count_cancelled()

    @property
    def is_cancelled(self) -> bool:
        """Cancelled, or run for the last time."""
        return self._task is None

    def run(self) -> None:
        """Run the task; its exception is logged, the timer lives on."""
        task = self._task
        if task is None:
            return
        if self.period_s is None:
            self._task = None
        try:
            task()
        except Exception:  # noqa: BLE001 - the timer outlives its tasks
            _log.exception("timer task failed: %r", task)


class Timer:
    """One daemon thread that runs short tasks at their time, started with the first task."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._condition = threading.Condition(threading.Lock())
        self._heap: list[tuple[float, int, TimerHandle]] = []
        self._sequence = itertools.count()
        self._cancelled = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def schedule_after(self, delay_ms: float, task: Callable[[], object]) -> TimerHandle:
        """Run ``task`` once after ``delay_ms``; on a closed timer it never runs."""
        handle = TimerHandle(self, task, None)
        self._push(monotonic() + delay_ms / 1000, handle)
        return handle

    def schedule_every(
        self, initial_ms: float, period_ms: float, task: Callable[[], object]
    ) -> TimerHandle:
        """Run ``task`` after ``initial_ms``, then ``period_ms`` after each run."""
        handle = TimerHandle(self, task, period_ms / 1000)
        self._push(monotonic() + initial_ms / 1000, handle)
        return handle

    def count_cancelled(self) -> None:
        """Note a cancelled entry; many of them make the heap be rebuilt at the next push."""
        self._cancelled += 1

    def _push(self, due: float, handle: TimerHandle) -> None:
        with self._condition:
            if self._closed:
                return
            heap = self._heap
            if self._cancelled > CANCELLED_MAX and self._cancelled * 2 > len(heap):
                heap[:] = [entry for entry in heap if not entry[2].is_cancelled]
                heapq.heapify(heap)
                self._cancelled = 0
            heapq.heappush(heap, (due, next(self._sequence), handle))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            elif heap[0][2] is handle:
                self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                if self._closed:
                    return
                now = monotonic()
                if not self._heap or self._heap[0][0] > now:
                    self._condition.wait(self._heap[0][0] - now if self._heap else None)
                    continue
                handle = heapq.heappop(self._heap)[2]
            handle.run()
            if handle.period_s is not None and not handle.is_cancelled:
                self._push(monotonic() + handle.period_s, handle)

    def close(self, timeout: float) -> None:
        """Drop all tasks and join the thread within ``timeout`` seconds. Idempotent."""
        with self._condition:
            self._closed = True
            self._heap.clear()
            self._condition.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)


class WorkerPool:
    """Up to ``threads`` daemon threads that run tasks in order of arrival.

    At most ``tasks_max`` tasks wait; one more is refused. Threads start when there is work.
    """

    def __init__(self, name: str, threads: int, tasks_max: int) -> None:
        self._name = name
        self._threads_max = threads
        self._tasks_max = tasks_max
        self._tasks: SimpleQueue[tuple[Callable[..., object], tuple[object, ...]] | None] = (
            SimpleQueue()
        )
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0  # waiting and running tasks, under the lock
        self._closed = False

    @property
    def unfinished(self) -> int:
        """Tasks that wait or run."""
        return self._unfinished

    def submit(self, task: Callable[..., object], *args: object) -> bool:
        """Run ``task(*args)`` on a worker; False when the pool is full or closed."""
        with self._lock:
            if self._closed or self._tasks.qsize() >= self._tasks_max:
                return False
            self._unfinished += 1
            self._tasks.put((task, args))
            # More tasks than threads: somebody would wait behind a task that may block.
            if len(self._threads) < min(self._threads_max, self._unfinished):
                self._add_thread()
        return True

    def _add_thread(self) -> None:
        name = f"{self._name}-{len(self._threads) + 1}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        while (item := self._tasks.get()) is not None:
            task, args = item
            try:
                task(*args)
            except Exception:  # noqa: BLE001 - a worker outlives its tasks
                _log.exception("background task failed: %r", task)
            with self._lock:
                self._unfinished -= 1
            del item, task, args  # an idle worker must not keep its last task alive

    def close(self, timeout: float) -> None:
        """Refuse new tasks, run those that wait, join within ``timeout`` seconds. Idempotent.

        A task that does not end in time is left to its daemon thread and logged.
        """
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        for _ in threads:
            self._tasks.put(None)
        deadline = monotonic() + timeout
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - monotonic()))
                if thread.is_alive():
                    _log.warning("thread %s is still busy after %.1f s", thread.name, timeout)
