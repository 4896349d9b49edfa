"""Whether the timer files are as they were left: what is looked at before recovery believes them.

Answers: which check point to start from, whether the wheel's file can be used, and whether the
timer log can; if it cannot, every timer enters again from the timer topic's queue, where all of
them are. After a clean stop check sums tell, in no time. After another one, or when it is asked
for, every record of the log is to be held against its message. Must not know: how positions are
found again. Read on: `recovery.py`, and `checkpoint.py` for the seal.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from attrs import frozen

from embedded_broker.timer.wheel.checkpoint import TimerMeta, WheelSeal
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE, MAGIC_ROLL, TimerLogRecord
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint
from rocketmq_py.protocol.properties import Prop

_CHECK: Final = "config/timercheck"
_META: Final = "config/timermeta"
_CLOCKS_APART_MS: Final = 86_400_000
_SIZE_AND_PLACE: Final = Struct(">i24xq")
_HEAD_SIZE: Final = 91
_REAL_TOPIC: Final = f"{Prop.REAL_TOPIC}\1".encode()
_OUT_MS: Final = f"\2{Prop.TIMER_OUT_MS}\1".encode()
_DELETES: Final = f"{Prop.TIMER_DEL_UNIQKEY}\1".encode()


@frozen
class Trusted:
    """What recovery may use.

    `rebuild`: the log is of no use, every timer enters again. `deep`: every record of the log is to
    be held against its message before it is believed.
    """

    checkpoint: TimerCheckpoint | None
    wheel_found: bool
    rebuild: bool = False
    deep: bool = False


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
    """Decide; what is not believed is told, a line each. Nothing is changed."""
    if meta is None:
        known, is_foreign = checkpoint, True
    else:
        wrong = _wrong_with(checkpoint, meta.checkpoint, state, now_ms)
        is_foreign = wrong is None and checkpoint != meta.checkpoint
        known = checkpoint if wrong is None else meta.checkpoint.copy()
        is_torn = not clean and checkpoint is not None and _is_torn(checkpoint, meta.checkpoint)
        if wrong is not None and not is_torn:
            tell(f"{_CHECK} {wrong}: its copy in {_META} is used")
        elif clean and is_foreign and known is not None:
            tell(f"{_CHECK} is not as it was left: another broker had the store, or it is damaged")
        if not wheel_found and meta.checkpoint.counter:
            tell("timerwheel is missing or empty: it is made again from the timer log")
    fault = _log_is_lost(state, known, meta)
    if fault is None and clean and meta is not None and meta.seal is not None and not is_foreign:
        seal = meta.seal
        if state.log.check_sum(seal.log_begin, seal.log_end) != seal.log:
            fault = "timerlog is not as it was left"
        if wheel_found and state.wheel.check_sum() != seal.wheel:
            tell("timerwheel is not as it was left: it is made again from the timer log")
            wheel_found = False
    if fault is not None:
        tell(f"{fault}: every timer enters again from the queue of the timer topic")
    is_deep = fault is None and (full or not clean)
    return Trusted(known, wheel_found and not is_deep, rebuild=fault is not None, deep=is_deep)


def _is_torn(found: TimerCheckpoint, copy: TimerCheckpoint) -> bool:
    """Say whether a write of timercheck ended in the middle.

    The counter is its last field and changes with every position, so new positions with the old
    counter are a mixture of two writes.
    """
    return found.counter == copy.counter and not found.same_positions(copy)


def _wrong_with(
    found: TimerCheckpoint | None, copy: TimerCheckpoint, state: TimerState, now_ms: int
) -> str | None:
    """Say why timercheck is not believed, though a copy of an earlier state is there.

    It is as its copy, or later: positions only grow, and none lies behind its file's end. No
    broker reads slots whose time has not come.
    """
    if found is None:
        return "is missing or empty" if copy.counter or copy.last_read_time_ms else None
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


def agrees(
    state: TimerState, record: TimerLogRecord, slot_ms: int, hash_of: Callable[[bytes], int]
) -> bool:
    """Whether a record is as it was made from its message, which the store has checked already.

    `hash_of` gives the hash of a topic; a record with another one is not delivered.
    """
    _, magic, _, delay_ms, offset, size, topic_hash = record
    files = state.store.log.files
    if offset < files.min_offset:
        return offset >= 0  # the message has expired
    view = files.read(offset, size)
    if view is None or size < _HEAD_SIZE:
        return False
    stored = view.tobytes()
    if _SIZE_AND_PLACE.unpack_from(stored) != (size, offset):
        return False
    if magic & MAGIC_DELETE and _DELETES not in stored:
        return False
    named = stored.rfind(_REAL_TOPIC)
    if named >= 0:
        begin = named + len(_REAL_TOPIC)
        end = stored.find(b"\2", begin)
        if hash_of(stored[begin:] if end < 0 else stored[begin:end]) != topic_hash:
            return False
    at = stored.rfind(_OUT_MS)
    if at < 0:  # the first property, or another broker's record
        return state.timer_record(offset, size) is not None
    begin = at + len(_OUT_MS)
    end = stored.find(b"\2", begin)
    out_ms = stored[begin:] if end < 0 else stored[begin:end]
    if not out_ms.isdigit():
        return False
    if int(out_ms) == slot_ms:
        return not magic & MAGIC_ROLL
    return delay_ms == 0 or (bool(magic & MAGIC_ROLL) and slot_ms < int(out_ms))
