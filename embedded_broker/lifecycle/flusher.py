"""Flush thread: makes the store durable, outside the broker's lock.

Answers: when files are synced, in which order, and who hears about it. Must not know: requests,
formats; what is synced is captured under the door by ``begin_flush`` of the store and the timer
store, and written by their ``run``. Read on: ``embedded_broker/core/durability.py``, timer-store
order in ``embedded_broker/timer/wheel/engine.py``.
"""

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Condition, Event, Thread

from attrs import define, field

from embedded_broker.door import Door
from embedded_broker.errors import BrokerStateError, StoreError
from embedded_broker.store.flush import FlushWork
from embedded_broker.threads import has_ended
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

CLOSE_S = 30.0
OTHER_S = 5.0
AFTER_A_FAILURE_S = 0.2


@define(eq=False, repr=False)
class Flusher:
    """Runs one flush cycle whenever it is asked to; requests that arrive meanwhile share the next.

    ``begin`` is called under the door and returns the work in its order; ``done`` under the door
    when all of it has run, with the lists that a group commit waits for. ``look`` is called before
    each cycle, outside the door: it sees whether there still is a place to write to.
    """

    _door: Door
    _begin: Callable[[bool], list[FlushWork]]
    _done: Callable[[], None]
    _look: Callable[[], None]
    _asked: Event = field(factory=Event, init=False)
    _log: bool = field(default=False, init=False)
    _everything: bool = field(default=False, init=False)
    _other: deque[Callable[[], None]] = field(factory=deque, init=False)
    _other_done: Condition = field(factory=Condition, init=False)
    _other_left: int = field(default=0, init=False)
    _stopped: Event = field(factory=Event, init=False)
    _thread: Thread | None = field(default=None, init=False)
    _failures: set[str] = field(factory=set, init=False)
    """What was logged since a flush was through."""

    def start(self) -> None:
        """Start the thread."""
        self._thread = Thread(target=self._run, name="embedded-broker-flush", daemon=True)
        self._thread.start()

    def request(self, *, everything: bool = False) -> None:
        """Flush soon: the message log, or ``everything`` (timer files and check points too)."""
        self._log = True
        if everything:
            self._everything = True
        self._asked.set()

    def do(self, work: Callable[[], None]) -> None:
        """Do some other slow work soon, on the same thread; what is left at ``close`` is done."""
        with self._other_done:
            self._other_left += 1
        self._other.append(work)
        self._asked.set()

    def do_and_wait(self, work: Callable[[], None], limit_s: float, what: str) -> None:
        """Do slow work on the same thread, and raise what it raised. Outside the door.

        Raises ``BrokerStateError``, which says that ``what`` was not done, after ``limit_s``.
        """
        done: Future[None] = Future()

        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - raised again by who waits
                done.set_exception(error)
            else:
                done.set_result(None)

        self.do(run)
        if not wait([done], limit_s).done:
            raise BrokerStateError(f"{what} within {limit_s:g} s")
        done.result()

    def wait_other(self) -> None:
        """Wait (bounded) until work that was handed over before has been done."""
        with self._other_done:
            self._other_done.wait_for(lambda: not self._other_left, OTHER_S)

    def close(self) -> None:
        """Stop and join the thread; what is unsynced stays so. Idempotent."""
        self._stopped.set()
        self._asked.set()
        if self._thread is not None and not has_ended(self._thread, CLOSE_S):
            logger.error("the flush thread did not end within %s s", CLOSE_S)
        self._thread = None
        self._do_other()

    def abandon(self) -> None:
        """End as a killed process would: work that has not begun is not done."""
        with self._other_done:
            self._other.clear()
            self._other_left = 0
            self._other_done.notify_all()
        self.close()

    def _run(self) -> None:
        while True:
            self._asked.wait()
            if self._stopped.is_set():
                return
            self._asked.clear()
            try:
                self._do_other()
                if self._log:
                    everything = self._everything
                    self._log = self._everything = False
                    self.cycle(everything=everything)
                    self._failures.clear()
            except Exception as error:
                # A disk that refuses: the answers stay parked until their time is up, as the
                # original's FLUSH_DISK_TIMEOUT; the next request tries again. It is logged once: a
                # disk may refuse for hours.
                if str(error) not in self._failures:
                    trace = None if isinstance(error, StoreError) else error
                    text = "a flush failed, and is tried again: %s"
                    logger.log(logging.ERROR, text, error, exc_info=trace)
                self._failures.add(str(error))
                self._stopped.wait(AFTER_A_FAILURE_S)

    def _do_other(self) -> None:
        while self._other:
            work = self._other.popleft()
            try:
                work()
            except Exception:
                logger.exception("background work failed: %r", work)
            with self._other_done:
                self._other_left = max(0, self._other_left - 1)
                self._other_done.notify_all()

    def cycle(self, *, everything: bool, also: Callable[[], None] | None = None) -> None:
        """Flush now, for work that runs on this thread; raises ``StoreError``.

        ``also`` is called under the door in the entry that captures what is flushed.
        """
        self._look()
        with self._door:
            work = self._begin(everything)
            if also is not None:
                also()
        for index, step in enumerate(work):
            try:
                step.run()
            except BaseException:
                for never_run in work[index + 1 :]:
                    never_run.failed()
                raise
        with self._door:
            self._done()
