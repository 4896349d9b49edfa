"""Time for asynchronous sends after the main thread of a program has ended.

The SDK's threads are daemons, and from Python 3.12 on a program that is ending starts no more
threads: a send that needs one, for its first connection perhaps, would be lost in ``atexit``. So a
thread that is no daemon puts that end off, for as long as a shutdown takes at most. (3.12.0 and
3.12.1 start none as soon as the main thread has ended; there `Sender.drain` says what is lost.)
Must not know sends. Read on: ``pool.py`` for the end itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from rocketmq_py.client.life import time_to_leave
from rocketmq_py.threads import started

LOOK_EVERY_S = 0.2
"""So often it is looked whether the main thread has ended: nobody can wait for that and more."""
JOIN_S = 1.0


class LastSends:
    """Keeps the program from ending until ``wait`` returns, which gets seconds at most.

    Begins with `watch`, and ends with `close` or after the main thread. Safe from any thread.
    """

    def __init__(self, wait: Callable[[float], object]) -> None:
        self._wait = wait
        self._over: SimpleQueue[None] = SimpleQueue()
        self._may_start = [True]  # taking it is one step for any number of threads
        self._thread: threading.Thread | None = None
        self.is_watching = False

    def watch(self) -> None:
        """Have the thread from now on; a system without threads ends as it ends."""
        try:
            self._may_start.pop()
        except IndexError:
            return
        self.is_watching = True
        thread = threading.Thread(target=self._run, name="rocketmq-last-sends", daemon=False)
        if started(thread):
            self._thread = thread

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._over.put(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_S)

    def _run(self) -> None:
        main = threading.main_thread()
        while main.is_alive():
            try:
                self._over.get(timeout=LOOK_EVERY_S)
            except Empty:
                continue
            return
        self._wait(time_to_leave())
