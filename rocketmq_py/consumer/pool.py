"""Which thread runs a listener.

A `ListenerPool` has up to `size` daemon threads, created when work waits and no thread is idle.
Its queue has no bound of its own: the flow control of the pull loop bounds what can be in it. It
must not know what a task does; `concurrent` gives it listener calls.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

from rocketmq_py.clock import monotonic

logger = logging.getLogger(__name__)


class ListenerPool:
    """Threads that run tasks in the order given.

    `name` begins the thread names; `size` is the number of threads at most.
    """

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._changed = threading.Condition()
        self._tasks: deque[Callable[[], None]] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._running = 0
        self._closed = False
        self._serial = 0

    def submit_all(self, tasks: Iterable[Callable[[], None]]) -> bool:
        """Queue tasks; False when the pool is closed and they will not run."""
        with self._changed:
            if self._closed:
                return False
            self._tasks.extend(tasks)
            self._call_another()
            return True

    @property
    def busy(self) -> int:
        """Tasks that wait or run."""
        return len(self._tasks) + self._running

    @property
    def size(self) -> int:
        """Threads at most."""
        return self._size

    def resize(self, size: int) -> None:
        """Change the number of threads; surplus ones end after their present task."""
        with self._changed:
            self._size = size
            self._changed.notify_all()
            self._call_another()

    def close(self, timeout: float) -> bool:
        """Drop waiting tasks, wait up to `timeout` seconds for running ones, end the threads.

        Returns False when a task still runs; its daemon thread ends with it. A task may close
        its own pool: it does not wait for itself.
        """
        with self._changed:
            self._closed = True
            self._tasks.clear()
            self._changed.notify_all()
            threads = list(self._threads)
        deadline = monotonic() + timeout
        ended = True
        for thread in threads:
            if thread is threading.current_thread():
                continue
            thread.join(max(0.0, deadline - monotonic()))
            ended = ended and not thread.is_alive()
        return ended

    def _call_another(self) -> None:
        """Let one more thread look for work, under the lock.

        Each thread that takes a task calls the next one while tasks are left: as many threads as
        listeners keep busy come to work, and quick listeners do not wake twenty for nothing.
        """
        if not self._tasks:
            return
        if self._idle:
            self._changed.notify()
        elif len(self._threads) < self._size:
            self._serial += 1
            thread = threading.Thread(
                target=self._work, name=f"{self._name}-{self._serial}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while (task := self._next_task()) is not None:
            try:
                task()
            except Exception:
                # Listener errors are handled inside the task; this one is ours and must not
                # take a thread away from the consumer.
                logger.exception("task of %s failed", self._name)
            with self._changed:
                self._running -= 1
            del task  # an idle thread must not keep messages alive

    def _next_task(self) -> Callable[[], None] | None:
        """Wait for a task; None ends the thread."""
        with self._changed:
            while len(self._threads) <= self._size:
                if self._tasks:
                    self._running += 1
                    task = self._tasks.popleft()
                    self._call_another()
                    return task
                if self._closed:
                    break
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            self._threads.remove(threading.current_thread())
            # This thread may have been the one that was called.
            self._call_another()
            return None
