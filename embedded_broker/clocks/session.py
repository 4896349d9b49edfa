"""Session timers: calls at times of the session clock, which drives long polls and expiry.

Answers: how a part of the broker is called later, once or again and again. Must not know: who asks
and what for. Read on: ``driver.py`` for who fires them.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from embedded_broker.clocks.timeline import Alarm, Budget, Deadline
from rocketmq_py.clock import Clock


class SessionTimer:
    """One call that waits for its session time; ``cancel`` may be called at any time."""

    __slots__ = ("_owner", "call", "due_ms", "what")

    def __init__(self, owner: "Session", due_ms: int, call: Callable[[], None], what: str) -> None:
        self._owner = owner
        self.due_ms = due_ms
        self.call: Callable[[], None] | None = call
        self.what = what

    def cancel(self) -> None:
        """Forget the call; harmless when it has run already."""
        if self.call is not None:
            self.call = None
            self._owner.forget_one()


class Session:
    """Session time and the calls that wait for it. Used under the door.

    A ``DeadlineSource``. Ties fire in the order they were asked for. Cancelled entries leave the
    heap when they are half of it, so thousands of answered long polls do not pile up.
    """

    __slots__ = ("_cancelled", "_count", "_heap", "alarm", "clock", "horizon_ms")

    _SWEEP_FROM = 64

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._heap: list[tuple[int, int, SessionTimer]] = []
        self._cancelled = 0
        self._count = 0
        self.alarm = Alarm()
        self.horizon_ms = 0
        """While a jump of the session clock runs, its end: periodic work is done once there."""

    @property
    def now_ms(self) -> int:
        """Session time."""
        return self.clock.now_ms

    def at(self, due_ms: int, call: Callable[[], None], what: str = "session") -> SessionTimer:
        """Call ``call`` under the door once the session clock reaches ``due_ms``."""
        timer = SessionTimer(self, due_ms, call, what)
        self._count += 1
        heappush(self._heap, (due_ms, self._count, timer))
        self.alarm.ring(due_ms)
        return timer

    def after(self, delay_ms: int, call: Callable[[], None], what: str = "session") -> SessionTimer:
        """Call ``call`` under the door after ``delay_ms`` of session time."""
        return self.at(self.clock.now_ms + delay_ms, call, what)

    def every(self, period_ms: int, call: Callable[[], None], what: str = "housekeeping") -> None:
        """Call ``call`` under the door every ``period_ms`` of session time, first after one.

        A jump of the session clock makes the call once more, at its end, and not for every
        period on the way.
        """

        def again() -> None:
            due_ms = self.clock.now_ms + period_ms
            self.at(max(due_ms, self.horizon_ms), again, what)
            call()

        self.after(period_ms, again, what)

    def forget_one(self) -> None:
        """Count one cancelled entry; sweep the heap when most of it is cancelled."""
        self._cancelled += 1
        heap = self._heap
        if self._cancelled > self._SWEEP_FROM and self._cancelled * 2 > len(heap):
            heap[:] = [entry for entry in heap if entry[2].call is not None]
            heapify(heap)
            self._cancelled = 0

    def next_deadline(self) -> Deadline | None:
        """Return the next call that still stands."""
        heap = self._heap
        while heap:
            due_ms, _, timer = heap[0]
            if timer.call is not None:
                return Deadline(due_ms, timer.what)
            heappop(heap)
            self._cancelled -= 1
        return None

    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:
        """Make the calls that are due. Session work is not visible to a user: counts zero."""
        heap = self._heap
        self.horizon_ms = horizon_ms
        while heap and heap[0][0] <= now_ms:
            timer = heappop(heap)[2]
            call = timer.call
            if call is None:
                self._cancelled -= 1
                continue
            timer.call = None
            call()
            if budget.exhausted():
                break
        return 0
