"""Trust in the timer files: whether recovery believes them, by check sums or record by record.

Answers: which check point to start from, whether the wheel's file can be used, and what of all this
no kill and no power loss explains. After a clean stop check sums tell, in no time. After another
one, or when it is asked for, every record of the log is to be held against its message. Must not
know: how positions are found again. Read on: `recovery.py`, and `checkpoint.py` for the seal.
"""

from collections.abc import Callable
from typing import Final

from attrs import frozen

from embedded_broker.timer.wheel.checkpoint import TimerMeta, WheelSeal
from embedded_broker.timer.wheel.state import TimerState
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint

_CHECK: Final = "config/timercheck"
_META: Final = "config/timermeta"
_CLOCKS_APART_MS: Final = 86_400_000


@frozen
class Trusted:
    """What recovery may use.

    `covered_pos`: wheel and log are as a clean stop left them, and the wheel knows every record
    before this position; None: the wheel is not used, and each record of the log is judged.
    `fault`: what is damaged; then neither wheel nor log is used.
    """

    checkpoint: TimerCheckpoint | None
    covered_pos: int | None = None
    fault: str | None = None


def seal_of(state: TimerState) -> WheelSeal:
    """Give the check sums of a wheel and a log that nobody writes to any more."""
    log = state.log
    return WheelSeal(state.wheel.check_sum(), log.begin, log.end, log.check_sum(log.begin, log.end))


def judge(
    state: TimerState,
    checkpoint: TimerCheckpoint | None,
    meta: TimerMeta | None,
    *,
    wheel_found: bool,
    clean: bool,
    full: bool,
    now_ms: int,
    tell: Callable[[str], None],
) -> Trusted:
    """Decide; what another broker or a crash explains is told, a line each. Nothing is changed."""
    known, fault = checkpoint, None
    if meta is None:
        wrong = None if checkpoint is None else _wrong_alone(checkpoint, now_ms)
        if wrong is not None:
            known, fault = None, f"{_CHECK} {wrong}"
        return Trusted(known, fault=fault or _log_is_lost(state, known, meta))
    wrong = _wrong_with(checkpoint, meta.checkpoint, state, now_ms)
    is_foreign = wrong is None and checkpoint != meta.checkpoint
    if wrong is not None:
        known = meta.checkpoint.copy()
        if clean:
            fault = f"{_CHECK} {wrong}"
        elif not _is_cut_off(checkpoint, meta.checkpoint):
            # Behind a clock that was set back, one that was written whole looks wrong, too.
            tell(f"{_CHECK} {wrong}: its copy in {_META} is used")
    elif clean and is_foreign and known is not None:
        tell(f"{_CHECK} is not as it was left: another broker had the store, or it is damaged")
    if not wheel_found and meta.checkpoint.counter:
        lost = "timerwheel is missing or empty"
        if clean:
            fault = fault or lost
        else:
            tell(f"{lost}: it is made again from the timer log")
    fault = fault or _log_is_lost(state, known, meta)
    if fault is not None or not clean or meta.seal is None or is_foreign:
        return Trusted(known, fault=fault)
    seal = meta.seal
    if state.log.check_sum(seal.log_begin, seal.log_end) != seal.log:
        return Trusted(known, fault="timerlog is not as it was left")
    if wheel_found and state.wheel.check_sum() != seal.wheel:
        return Trusted(known, fault="timerwheel is not as it was left")
    is_used = wheel_found and not full and _is_same_log(state, meta)
    return Trusted(known, meta.wheel_covered_pos if is_used else None)


def _is_same_log(state: TimerState, meta: TimerMeta) -> bool:
    """Say whether the commit log ends where it ended at the clean stop."""
    return meta.clean_end is not None and meta.clean_end[0] == state.store.log.max_offset


def _wrong_alone(found: TimerCheckpoint, now_ms: int) -> str | None:
    """Say why a timercheck without a copy is not believed.

    Slots whose time had not come when it was written were not read; if they were taken for read,
    their timers would be lost. Old brokers wrote no time.
    """
    if found.last_read_time_ms > (found.timestamp or now_ms + _CLOCKS_APART_MS):
        return f"names a read time that cannot be, {found.last_read_time_ms}"
    if found.last_timer_queue_offset < 0:
        return f"names {found.last_timer_queue_offset} queue entries"
    return None


def _is_cut_off(found: TimerCheckpoint | None, copy: TimerCheckpoint) -> bool:
    """Say whether a first write of timercheck did not reach the disk, or one ended in the middle.

    The counter is its last field and changes with every position, so new positions with the old
    counter are a mixture of two writes.
    """
    return found is None or (found.counter == copy.counter and not found.same_positions(copy))


def _wrong_with(
    found: TimerCheckpoint | None, copy: TimerCheckpoint, state: TimerState, now_ms: int
) -> str | None:
    """Say why timercheck is not believed, though a copy of an earlier state is there.

    It is as its copy, or later: positions only grow, and none lies behind its file's end. No
    broker reads slots whose time has not come.
    """
    if found is None:
        was_there = copy.counter or copy.last_read_time_ms
        return "is missing or empty" if was_there else None
    if found == copy:
        return None
    if found.counter <= copy.counter:
        return "does not agree with its version"
    read_ms = found.last_read_time_ms
    latest_ms = max(found.timestamp, copy.last_read_time_ms) + 2 * state.precision_ms
    if not copy.last_read_time_ms <= read_ms <= latest_ms or read_ms > max(
        now_ms + _CLOCKS_APART_MS, copy.last_read_time_ms
    ):
        return f"names a read time that cannot be, {read_ms}"
    if not 0 <= found.last_timer_queue_offset <= state.queue.max_offset:
        return f"names {found.last_timer_queue_offset} queue entries, there are " + str(
            state.queue.max_offset
        )
    if not 0 <= found.last_timer_log_flush_pos <= state.log.end:
        return f"names {found.last_timer_log_flush_pos} bytes of the log, it ends before"
    return None


def _log_is_lost(
    state: TimerState, checkpoint: TimerCheckpoint | None, meta: TimerMeta | None
) -> str | None:
    """Say whether whole files of the log are gone."""
    if meta is not None and state.log.begin > meta.log_begin:
        first = state.log.first_offset_py()
        if first is None or first >= state.store.log.min_offset:
            lost = state.log.begin - meta.log_begin
            return f"timerlog lacks its first {lost} bytes"
    flushed = 0 if checkpoint is None else checkpoint.last_timer_log_flush_pos
    if state.log.end < flushed:
        return f"timerlog ends at {state.log.end}, though {flushed} bytes were synced"
    return None
