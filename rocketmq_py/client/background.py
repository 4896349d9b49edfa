"""Who runs work that nobody waits for: one timer thread, and a few worker threads.

`Timer` runs short tasks at their time; `WorkerPool` runs tasks that may block; `GrowingPool` those
that may wait for each other. All start their threads on first use and join them in ``close``. Must
not know brokers or messages.
"""

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from queue import SimpleQueue

from rocketmq_py.clock import monotonic
from rocketmq_py.errors import MQClientException
from rocketmq_py.logs import get_logger
from rocketmq_py.threads import RETRY_MS, ScheduleAfter, started, tell_of_shortage

_log = get_logger(__name__)

CANCELLED_MAX = 4_096
"""Cancelled entries that may stay in the heap before it is rebuilt."""
START_AGAIN_S = 0.05
LAST_BREATH_S = 0.2
"""How long threads that have done their work may take to be gone."""


class EndingThread(threading.Thread):
    """Runs one task for a caller who waits for it, or is taken away by a signal.

    The caller's thread counts as its own: it is not waited for, because it waits itself. ``owner``
    is who is ended.
    """

    def __init__(self, task: Callable[[], object], owner: object) -> None:
        super().__init__(name="rocketmq-client-end", daemon=True)
        self.owner = owner
        self.caller = threading.current_thread()
        self._task = task
        # A bare lock: what else can be waited for takes locks that an interrupted caller may hold.
        self._unfinished = threading.Lock()
        self._unfinished.acquire()

    def run(self) -> None:
        """Run the task; `wait` returns True from then on."""
        _ends[self] = None
        for look_again in list(_looks):
            look_again()
        try:
            self._task()
        finally:
            _ends.pop(self, None)
            self._unfinished.release()

    def wait(self, timeout: float) -> bool:
        """Wait for the task, at most ``timeout`` seconds; False when it still runs."""
        if not self._unfinished.acquire(timeout=timeout):
            return False
        self._unfinished.release()
        if self.ident is not None:  # None: it was run without a thread
            self.join(LAST_BREATH_S)
        return True


def who_waits() -> Iterator[threading.Thread]:
    """Give this thread, the one that waits for it to end something, who waits for that, ..."""
    return _callers(threading.current_thread())


def _callers(thread: threading.Thread) -> Iterator[threading.Thread]:
    yield thread
    while isinstance(thread, EndingThread):
        thread = thread.caller
        yield thread


_ends: dict[EndingThread, None] = {}
"""The ends that are under way in this process."""
_looks: dict[Callable[[], object], None] = {}
"""Called when another end begins: who waits for threads need not wait for its caller."""


def who_waits_along() -> set[threading.Thread]:
    """Give the threads that wait until this one has ended something, or for an end of the same.

    None of them may be waited for here: two listeners may shut down their consumer at once.
    """
    mine = set(who_waits())
    owners = [one.owner for one in mine if isinstance(one, EndingThread)]
    for end in list(_ends):
        if any(end.owner is owner for owner in owners):
            mine.update(_callers(end))
    return mine


class TimerHandle:
    """A scheduled task; `cancel` keeps it from running again."""

    __slots__ = ("_task", "_timer", "period_s")

    def __init__(self, timer: "Timer", task: Callable[[], object], period_s: float | None) -> None:
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

    def start(self, wait_s: float) -> None:
        """Have the thread from now on; it is what tries again when other threads are missing.

        Raises `MQClientException` when the system starts no thread within ``wait_s`` seconds.
        """
        deadline = monotonic() + wait_s
        while True:
            with self._condition:
                if self._closed or self._has_thread():
                    return
            tell_of_shortage()
            if monotonic() >= deadline:
                raise MQClientException(
                    f"thread {self._name} cannot be started within {wait_s} s, "
                    f"{threading.active_count()} run in this process: look at the limits of "
                    "threads of its user (ulimit -u) and of its container (pids), then start a "
                    "new client"
                )
            threading.Event().wait(START_AGAIN_S)

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
                self._has_thread()
            elif heap[0][2] is handle:
                self._condition.notify()

    def _has_thread(self) -> bool:
        """Start the thread unless it runs, under the lock; False when that is impossible now."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            if not started(thread):
                return False
            self._thread = thread
        return True

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
        if thread is not None and thread not in who_waits_along():
            thread.join(timeout)


class WorkerPool:
    """Up to ``threads`` daemon threads that run tasks in order of arrival.

    At most ``tasks_max`` tasks wait, for a thread or for their time (None: whoever gives them has
    a bound); one more is refused.
    Threads start when work waits and none is idle. While the system starts none, tasks wait, and
    ``schedule_after`` is asked to try again; without it the next task does.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        tasks_max: int | None = None,
        *,
        schedule_after: ScheduleAfter | None = None,
    ) -> None:
        self._name = name
        self._schedule_after = schedule_after
        self._tries_again = False
        self._size = threads
        self._tasks_max = tasks_max
        self._lock = threading.Lock()
        self._ended_one = threading.Condition(self._lock)  # told of each task, once it is closed
        self._tasks: deque[Callable[[], object]] = deque()
        self._put_off = 0
        self._calls: SimpleQueue[None] = SimpleQueue()  # each lets one idle thread look for work
        self._threads: list[threading.Thread] = []
        self._serial = itertools.count(1)
        self._called = False  # a thread was called and has not come yet
        self._idle = 0
        self._running: set[threading.Thread] = set()
        self._ended = 0
        self._closed = False

    @property
    def unfinished(self) -> int:
        """Tasks that wait or run."""
        with self._lock:  # else a task that is just begun is seen twice
            return len(self._tasks) + len(self._running)

    @property
    def waiting(self) -> int:
        """Tasks that wait; a moment ago, since no lock is taken."""
        return len(self._tasks)

    @property
    def size(self) -> int:
        """Threads at most."""
        return self._size

    def start(self, threads: int) -> None:
        """Start threads before there is work, until there are so many."""
        with self._lock:
            while not self._closed and len(self._threads) < min(threads, self._size):
                if not self._add_thread():
                    return

    def submit(self, task: Callable[..., object], *args: object) -> bool:
        """Run ``task(*args)`` on a worker; False when the pool is full or closed."""
        return self.submit_all((partial(task, *args) if args else task,))

    def submit_all(self, tasks: Iterable[Callable[[], object]]) -> bool:
        """Run tasks in their order; False when the pool is full or closed, and none will run."""
        with self._lock:
            if self._closed or self._is_full():
                return False
            self._tasks.extend(tasks)
            self._call_another()
        return True

    def submit_after(self, delay_ms: float, task: Callable[[], object]) -> bool:
        """Run a task on a worker after ``delay_ms``; False when the pool is full or closed.

        Only of a pool with ``schedule_after``.
        """
        if self._schedule_after is None:
            raise TypeError(f"the pool {self._name} was made without schedule_after")
        if delay_ms <= 0:
            return self.submit(task)
        with self._lock:
            if self._closed or self._is_full():
                return False
            self._put_off += 1
        self._schedule_after(delay_ms, partial(self._take_due, task))
        return True

    def _take_due(self, task: Callable[[], object]) -> None:
        """Take a task whose time has come; there is room for it, since it was counted before."""
        with self._lock:
            self._put_off -= 1
            if not self._closed:
                self._tasks.append(task)
                self._call_another()

    def _is_full(self) -> bool:
        """Whether so many tasks wait that no more may, under the lock."""
        most = self._tasks_max
        return most is not None and len(self._tasks) + self._put_off >= most

    def resize(self, threads: int) -> None:
        """Change the number of threads; surplus ones end after their present task."""
        with self._lock:
            self._size = threads
            self._call_all()
            self._call_another()

    def close(self, timeout: float, *, drop: bool = False) -> bool:
        """Refuse new tasks, run those that wait, join within ``timeout`` seconds. Idempotent.

        ``drop``: those that wait never run. False when a task still runs: it is left to its
        daemon thread. A task may close its own pool; it does not wait for itself, nor for others
        that wait for the same end.
        """
        deadline = monotonic() + timeout
        look_again = partial(self._look_again)
        _looks[look_again] = None
        with self._lock:
            self._closed = True
            if drop:
                self._tasks.clear()
            self._call_all()
            threads = list(self._threads)
            while (busy := self._busy()) and (left_s := deadline - monotonic()) > 0:
                self._ended_one.wait(left_s)
            idle = [one for one in threads if one not in self._running]
        del _looks[look_again]
        for thread in busy:
            _log.warning("thread %s is still busy after %.1f s", thread.name, timeout)
        deadline = monotonic() + LAST_BREATH_S
        for thread in idle:
            thread.join(max(0.0, deadline - monotonic()))
        return not busy

    def _busy(self) -> set[threading.Thread]:
        """Give the threads that an end must wait for, under the lock."""
        others = set(self._threads) - who_waits_along()
        return others if self._tasks else others & self._running

    def _look_again(self) -> None:
        with self._lock:
            self._ended_one.notify_all()

    def _call_another(self) -> None:
        """Let one more thread look for work, under the lock.

        One call at a time is enough, since each thread that comes and takes a task calls the next
        one while tasks are left: as many threads as tasks keep busy come to work, and quick tasks
        do not wake all of them for nothing.
        """
        if not self._tasks or self._called:
            return
        if self._idle:
            self._called = True
            self._idle -= 1
            self._calls.put(None)
        elif not self._closed and len(self._threads) < self._size:
            self._called = self._add_thread()

    def _add_thread(self) -> bool:
        name = f"{self._name}-{next(self._serial)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        if started(thread):
            self._threads.append(thread)
            return True
        if self._schedule_after is not None and not self._tries_again:
            self._tries_again = True
            self._schedule_after(RETRY_MS, self._try_again)
        return False

    def _try_again(self) -> None:
        """Start the thread that was missing, if there is still work for it."""
        with self._lock:
            self._tries_again = False
            self._call_another()
        tell_of_shortage()

    def _call_all(self) -> None:
        for _ in range(self._idle):
            self._calls.put(None)
        self._idle = 0

    def _work(self) -> None:
        task = self._next_task()
        while task is not None:
            try:
                task()
            except BaseException:  # noqa: BLE001 - SystemExit too: no task takes a thread away
                _log.exception("background task failed pool=%s: %r", self._name, task)
            del task  # an idle worker must not keep its last task alive
            task = self._next_task(ended=1)

    def _next_task(self, ended: int = 0) -> Callable[[], object] | None:
        """Note the end of the last task and wait for another one; None ends the thread."""
        comes = not ended
        me = threading.current_thread()
        while True:
            with self._lock:
                if comes:
                    self._called = False
                else:
                    self._running.discard(me)
                self._ended += ended
                ended = 0
                if self._closed:
                    self._ended_one.notify_all()
                if len(self._threads) > self._size or (self._closed and not self._tasks):
                    self._threads.remove(me)
                    # This thread may have been the one that was called.
                    self._call_another()
                    return None
                if self._tasks:
                    self._running.add(me)
                    task = self._tasks.popleft()
                    self._call_another()
                    return task
                self._idle += 1
            self._calls.get()
            comes = True


GROW_AFTER_MS = 10
GROWN_MAX = 512


class GrowingPool(WorkerPool):
    """A pool for code of the application, which may block for as long as it likes.

    While tasks wait and none of the running ones ends, it gets one thread more, again and again:
    a slow task holds up no other, and a task may wait for what a later one does. The threads that
    it got end when it has caught up.
    """

    def __init__(self, name: str, threads: int, timer: Timer) -> None:
        super().__init__(name, threads, schedule_after=timer.schedule_after)
        self._least = threads
        self._timer = timer
        self._watched = False

    def submit_all(self, tasks: Iterable[Callable[[], object]]) -> bool:
        """As of every pool."""
        taken = super().submit_all(tasks)
        if taken and self._tasks and not self._watched:
            self._watch()
        return taken

    def _watch(self) -> None:
        """Look soon whether any of the tasks has ended by then."""
        self._watched = True
        self._timer.schedule_after(GROW_AFTER_MS, partial(self._look, self._ended))

    def _look(self, ended: int) -> None:
        waits = bool(self._tasks)
        if waits and self._ended == ended and len(self._running) >= self._size:
            if self._size < GROWN_MAX:
                self.resize(self._size + 1)
        elif not waits and self._size > self._least:
            self.resize(max(self._least, len(self._running)))
        self._watched = False
        if waits or self._tasks:
            self._watch()
