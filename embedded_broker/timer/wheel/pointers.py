"""Pointers of the wheel: how the two follow the clock.

Answers: when a slot is finished, and which one is loaded next. The write pointer is where the
clock has come; the read pointer follows it over slots whose timers have all been released, and
what it reaches is loaded. Must not know: how timers are released, requests, connections.

Read on: `dequeue.py` for what a move loads, `engine.py` for the order of everything.
"""

from embedded_broker.timer.gates import Gates
from embedded_broker.timer.wheel.dequeue import TimerDequeueGetService
from embedded_broker.timer.wheel.state import TimerState


class Pointers:
    """Moves `curr_write_ms` and `curr_read_ms` of one wheel."""

    def __init__(
        self, state: TimerState, gates: Gates, dequeue_get: TimerDequeueGetService
    ) -> None:
        self._state = state
        self._gates = gates
        self._dequeue_get = dequeue_get
        self.old_queue_end = 0
        """Where the timer topic's queue ended when the store was opened."""

    def next_slot_ms(self) -> int | None:
        """When the next slot is to be loaded."""
        waiting_ms = self._state.wheel.next_waiting(self._state.curr_read_ms)
        return None if waiting_ms is None else waiting_ms - self._state.precision_ms

    def keep_up(self, now_ms: int) -> bool:
        """Move both pointers to the clock if that skips nothing; False when something is behind."""
        state = self._state
        write_ms = state.curr_write_ms
        if now_ms < write_ms + state.precision_ms and write_ms <= state.curr_read_ms:
            return True
        if self._gates.exit_closed(now_ms):
            return True
        target_ms = state.floor(now_ms)
        if state.curr_read_ms < state.curr_write_ms:
            return False
        if target_ms <= state.curr_write_ms:
            return True
        if self._dequeue_get.is_loading:
            return False
        due_ms = state.due_heap.next_due_ms
        if due_ms is not None and due_ms <= target_ms:
            return False
        waiting_ms = state.wheel.next_waiting(state.curr_read_ms)
        if waiting_ms is not None and waiting_ms <= target_ms + state.precision_ms:
            return False
        state.curr_write_ms = target_ms
        self._move_read(target_ms)
        return True

    def move_on(self, limit_ms: int) -> bool:
        """Raise the write pointer to the clock and follow with the read pointer; says if it moved.

        Everything due in the slots that are passed has been released; runs of empty slots are
        one move.
        """
        state = self._state
        state.curr_write_ms = max(state.curr_write_ms, state.floor(limit_ms))
        read_ms = state.curr_read_ms
        if read_ms >= state.curr_write_ms:
            return False
        end_ms = read_ms + state.precision_ms
        due_ms = state.due_heap.next_due_ms
        if due_ms is not None and due_ms <= end_ms:
            return False  # the clock was set back below a slot that is being read
        stop_ms = state.curr_write_ms
        waiting_ms = state.wheel.next_waiting(end_ms)
        if waiting_ms is not None:
            stop_ms = min(stop_ms, waiting_ms - state.precision_ms)
        if due_ms is not None:
            stop_ms = min(stop_ms, state.floor(due_ms - 1))
        self._move_read(max(end_ms, stop_ms))
        return True

    def _move_read(self, read_ms: int) -> None:
        state = self._state
        self._dequeue_get.move(read_ms)
        if (
            state.old_scan_pos is not None
            and read_ms > state.old_scan_until_ms
            and state.curr_queue_offset >= self.old_queue_end
        ):
            state.old_scan_pos = None
            state.due_heap.done.clear()
