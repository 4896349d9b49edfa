"""Workers of a dispatch whose listener calls are coroutines: turns of an event loop, no threads.

`LoopWorkers` stands where a dispatch has a pool of threads otherwise. It begins a call when the
program has room for what that hands over: a plain one on the loop's thread, one that must
decompress a body, or may wait for a lock, on a thread that all clients of the instance share. All
that has arrived is begun by one wake-up of the loop. It must not know asyncio: the loop is given as
a function. Who has the messages then is in ``aio/receiving.py``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.dispatch.pool import PoolCall
from rocketmq_py.logs import get_logger

if TYPE_CHECKING:
    from rocketmq_py.client.instance import ClientInstance

_log = get_logger(__name__)

Task: TypeAlias = Callable[[], object]
OnLoop: TypeAlias = Callable[[Task], bool]
"""Calls a function on the loop's thread, soon; False when the loop has closed."""

TURN_MAX: Final = 100
"""Tasks that are begun before other callbacks of the loop have their turn."""
CROWDED_WAIT_MS: Final = 50
"""After so long it is tried again to get one of the instance's threads."""
LOOK_EVERY_MS: Final = 30_000
"""So often it is looked whether the loop has closed meanwhile."""


class LoopWorkers:
    """Begins the calls of one dispatch in their order. Every method is safe from any thread.

    ``room`` is how many may be under way, those included whose messages the program still has
    (`hold`). ``abandoned`` is called once, by any thread, when the loop has closed (``is_over``):
    that is noticed with the next message, or after `LOOK_EVERY_MS`.
    """

    def __init__(
        self,
        engine: ClientInstance,
        on_loop: OnLoop,
        room: int,
        *,
        is_over: Callable[[], bool],
        abandoned: Callable[[], object],
    ) -> None:
        self._engine = engine
        self._on_loop = on_loop
        self._is_over = is_over
        self._abandoned: Callable[[], object] | None = abandoned
        self._look = engine.schedule_every(LOOK_EVERY_MS, LOOK_EVERY_MS, self._has_loop)
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)  # told of when it is closed
        self._tasks: deque[Task] = deque()
        self._passed_on: deque[Task] = deque()
        self._room = room
        self._running = 0
        self._held = 0
        self._is_woken = False
        self._closed = False

    # --- what a dispatch asks of a pool -----------------------------------------------------

    @property
    def unfinished(self) -> int:
        """Calls that wait, run, or whose messages the program has."""
        self._has_loop()
        with self._lock:
            return len(self._tasks) + len(self._passed_on) + self._running + self._held

    def submit(self, task: Callable[..., object], *args: object) -> bool:
        """Run ``task(*args)`` when there is room; False when it is closed."""
        return self.submit_all((partial(task, *args) if args else task,))

    def submit_all(self, tasks: Iterable[Task]) -> bool:
        """Run tasks in their order; False when it is closed, and none will run."""
        with self._lock:
            if self._closed:
                return False
            self._tasks.extend(tasks)
        self._wake()
        return True

    def resize(self, threads: int) -> None:
        """Change how many may be under way."""
        with self._lock:
            self._room = threads
        self._wake()

    def close(self, timeout: float, *, drop: bool = False) -> bool:
        """Begin no more, and wait for what the program has; False when it still has some."""
        del drop  # what waits cannot run without the loop, so it never does
        deadline = monotonic() + timeout
        self._look.cancel()
        self._has_loop()
        with self._lock:
            self._closed = True
            self._tasks.clear()
            while self._running or self._held:
                left_s = deadline - monotonic()
                if left_s <= 0:
                    return False
                self._ended.wait(left_s)
        return True

    # --- what the program's side asks -------------------------------------------------------

    def hold(self) -> None:
        """Count messages that the program gets, until `give_back`."""
        with self._lock:
            if self._abandoned is not None:
                self._held += 1

    def give_back(self) -> None:
        """Count them no more: there is room for others."""
        with self._lock:
            if self._abandoned is not None:
                self._held -= 1
            self._tell_who_closes()
        self._wake()

    def widen(self, by: int) -> None:
        """Make room for so many more, on the loop's thread; what fits is begun at once."""
        with self._lock:
            self._room += by
        if by > 0:
            self._turn()

    def pass_on(self, call: Task) -> None:
        """Call something on the loop's thread, with what else waits for its turn there."""
        with self._lock:
            if self._abandoned is not None:
                self._passed_on.append(call)
        self._wake()

    # --- inside -----------------------------------------------------------------------------

    def _wake(self) -> None:
        """Let the loop look, unless it will do so anyway."""
        if not self._has_loop():
            return
        with self._lock:
            if self._is_woken or not (self._passed_on or self._has_turn()):
                return
            self._is_woken = True
        if not self._on_loop(self._turn):
            self._abandon()

    def _has_loop(self) -> bool:
        """Whether the loop is there; a wake-up that it never had tells nobody else."""
        if not self._is_over():
            return True
        self._abandon()
        return False

    def _has_turn(self) -> bool:
        return bool(self._tasks) and self._running + self._held < self._room

    def _turn(self) -> None:
        """Call what was passed on and begin calls, on the loop's thread, as far as there is room.

        Nothing that comes meanwhile wakes the loop: it has its place in this turn, or in the next.
        """
        for _ in range(TURN_MAX):
            with self._lock:
                is_passed_on = bool(self._passed_on)
                if is_passed_on:
                    task = self._passed_on.popleft()
                elif self._has_turn():
                    task = self._tasks.popleft()
                    self._running += 1
                else:
                    self._is_woken = False
                    return
            if is_passed_on:
                _run(task)
            elif isinstance(task, PoolCall) and task.is_plain:
                _run(task)
                self._note_end()
            elif not self._engine.submit_background(self._run_aside, task):
                self._put_back(task)
                return
        if not self._on_loop(self._turn):
            self._abandon()

    def _run_aside(self, task: Task) -> None:
        _run(task)
        self._note_end()
        self._wake()

    def _note_end(self) -> None:
        with self._lock:
            self._running -= 1
            self._tell_who_closes()

    def _tell_who_closes(self) -> None:
        if self._closed:
            self._ended.notify_all()

    def _put_back(self, task: Task) -> None:
        with self._lock:
            self._running -= 1
            self._is_woken = False
            self._tell_who_closes()
            if self._closed:
                return
            self._tasks.appendleft(task)
            waits = not self._passed_on
        if waits:
            self._engine.schedule_after(CROWDED_WAIT_MS, self._wake)
        else:  # has come meanwhile
            self._wake()

    def _abandon(self) -> None:
        """Count nothing any more: nobody will take it. The messages come again elsewhere."""
        with self._lock:
            self._closed = True
            self._tasks.clear()
            self._passed_on.clear()
            self._held = 0
            self._tell_who_closes()
            abandoned, self._abandoned = self._abandoned, None
        self._look.cancel()
        if abandoned is not None:
            abandoned()


def _run(task: Task) -> None:
    try:
        task()
    except Exception:  # noqa: BLE001 - the other calls must have their turn
        _log.exception("a listener call failed")
