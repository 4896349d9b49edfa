"""Advance from slice to slice: what is loaded, fired and left behind as time passes.

Answers: which second is the current one, when its slice is over and which slice follows. A second
becomes the current one when everything before it has left. Must not know: the inbound queue,
settings, what a release is.

Read on: `engine.py` for who runs it, `dispatch.py` and `fire.py` for the two things it does.
"""

from attrs import define

from embedded_broker.clocks.timeline import UNRANKED, Budget, Deadline
from embedded_broker.timer.delivery import Release
from embedded_broker.timer.slices.dispatch import SlicePreloadService
from embedded_broker.timer.slices.fire import SliceFireService
from embedded_broker.timer.slices.flush import SliceFlushService
from embedded_broker.timer.slices.record import SECOND_MS
from embedded_broker.timer.slices.state import SliceState


@define(eq=False, repr=False)
class SliceAdvance:
    """Moves the current second of one store; only on a master."""

    _state: SliceState
    _preload: SlicePreloadService
    _fire: SliceFireService
    _flush: SliceFlushService

    def open(self) -> None:
        """Begin to load the slice of the current second."""
        state = self._state
        state.current = state.make_wheel(state.slice_of(state.current_second))
        state.following = None
        self._keep_handles()

    def keep_up(self, now_ms: int) -> None:
        """Let the current second follow the clock where that passes over nothing."""
        state = self._state
        target = now_ms // SECOND_MS + 1
        if target <= state.current_second:
            return
        wheel = state.current
        if wheel is None or wheel.is_loading:
            return
        if wheel.next_second is not None and wheel.next_second < target:
            return
        number = state.slice_of(target)
        if number != wheel.number:
            later = state.log.first_after(wheel.number)
            if later is not None and later <= number:
                return
            self._leave_slice(number)
        state.enter(target)

    def next_deadline(self, now_ms: int) -> Deadline | None:
        """When there is something to load or to fire."""
        state = self._state
        current, following = state.current, state.following
        if current is None:
            return None
        loading = current.is_loading or (following is not None and following.is_loading)
        if loading and not self._preload.paused:
            # What it holds may have been due for long: before other sources' later messages.
            from_ms = state.current_second * SECOND_MS if current.is_loading else now_ms
            return Deadline(min(now_ms, from_ms), "time slice to load")
        if current.is_loading:
            return None
        seconds = [state.late.next_second, current.next_second]
        if following is not None:
            seconds.append(following.next_second)
        in_memory = current.number if following is None else following.number
        later = state.log.first_after(in_memory)
        second = min((one for one in seconds if one is not None), default=None)
        if later is not None:
            load_at = later * state.length - state.preload_seconds
            if second is None or load_at < second:
                return Deadline(load_at * SECOND_MS, "time slice to load")
        return None if second is None else Deadline(second * SECOND_MS, "timer")

    def head_rank(self, due_ms: int) -> int:
        """Give the source of the timer that goes first in the second of `due_ms`."""
        state = self._state
        second, part_ms = divmod(due_ms, SECOND_MS)
        wheel = state.current
        if part_ms or wheel is None or wheel.is_loading:
            return UNRANKED
        if state.late and state.late.peek().second <= second:
            return state.late.peek().source
        return self._fire.head_rank(wheel, second)

    def run(self, now_ms: int, budget: Budget) -> Release:
        """Load and fire everything that is due, and move on, until the budget is used up."""
        state = self._state
        limit = now_ms // SECOND_MS
        while True:
            wheel = state.current
            if wheel is None or (wheel.is_loading and self._preload.paused):
                return Release.OUT_OF_TIME
            if not self._preload.load(wheel, budget):
                return Release.OUT_OF_TIME
            ending = self._fire_next(limit, now_ms, budget)
            if ending is not Release.DRAINED:
                return ending
            if not self._move_on(limit + 1):
                break
            if budget.exhausted():
                return Release.OUT_OF_TIME
        following = state.following
        if following is not None and not self._preload.paused:
            self._preload.load(following, budget)
        return Release.DRAINED

    def _fire_next(self, limit: int, now_ms: int, budget: Budget) -> Release:
        """Fire what is due in memory, second by second, late timers before their second's own."""
        state = self._state
        wheel = state.current
        while True:
            second = None if wheel is None else wheel.next_second
            late = state.late.next_second
            if late is not None and late <= limit and (second is None or late <= second):
                upto = limit if second is None else min(limit, second)
                ending = self._fire.fire_late(upto, now_ms, budget)
            elif wheel is not None and second is not None and second <= limit:
                state.enter(second)
                ending = self._fire.fire_cell(wheel, second, now_ms, budget)
                if ending is Release.DRAINED:
                    state.enter(second + 1)
            else:
                return Release.DRAINED
            if ending is not Release.DRAINED:
                return ending
            if budget.exhausted():
                return Release.OUT_OF_TIME

    def _move_on(self, target: int) -> bool:
        """Raise the current second, everything before which has left; True at a new slice."""
        state = self._state
        wheel = state.current
        if wheel is None:
            return False
        end = wheel.first_second + state.length
        if target < end:
            if wheel.next_second is None or wheel.next_second >= target:
                state.enter(target)
            near = state.current_second >= end - state.preload_seconds
            if near and state.following is None and wheel.number + 1 in state.log.slices:
                state.following = state.make_wheel(wheel.number + 1)
                self._keep_handles()
            return False
        number = state.slice_of(target)
        later = state.log.first_after(wheel.number)
        if later is not None:
            number = min(number, later)
        self._leave_slice(number)
        # Without a log nothing of the slice can be due yet.
        state.enter(number * state.length if number in state.log.slices else target)
        return True

    def _leave_slice(self, number: int) -> None:
        """Give the current slice up, it is over; another one becomes the current one."""
        state = self._state
        wheel = state.current
        if wheel is not None and wheel.number in state.log.slices:
            state.log.drop(wheel.number)
            state.passed.append(wheel.number)
            state.changes += 1
            self._flush.slices_removed += 1
        following = state.following
        state.current = state.wheel_of(number) or state.make_wheel(number)
        if following is not None and following.number <= number:
            state.following = None
        self._keep_handles()

    def _keep_handles(self) -> None:
        wheels = (self._state.current, self._state.following)
        self._state.log.handles.keep = [wheel.number for wheel in wheels if wheel is not None]
