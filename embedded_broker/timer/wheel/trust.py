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

from embedded_broker.timer.request import topic_hash
from embedded_broker.timer.wheel.checkpoint import TimerMeta, WheelSeal
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE, MAGIC_ROLL, LogEntry
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint
from rocketmq_py.protocol.properties import Prop

_CHECK: Final = "config/timercheck"
_META: Final = "config/timermeta"
_CLOCKS_APART_MS: Final = 86_400_000
_SIZE_AND_PLACE: Final = Struct(">i24xq")
_HEAD_SIZE: Final = 91
_REMEMBERED_MAX: Final = 1024
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
        wrong = None if checkpoint is None else _wrong_alone(checkpoint, now_ms)
        if wrong is not None:
            tell(f"{_CHECK} {wrong}: it is not used")
            known = None
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


class Agreement:
    """Whether records are as they were made from their messages, which the store has checked."""

    def __init__(self, state: TimerState) -> None:
        self._state = state
        self._hashes: dict[bytes, int] = {}
        """By what lies behind a message's slot: usually its topic and queue, which recur."""

    def holds(self, entry: LogEntry, slot_ms: int) -> bool:
        """Say it of one record. One with another topic's hash is not delivered."""
        _, _, magic, _, delay_ms, offset, size, hash_of_topic, _ = entry
        files = self._state.store.log.files
        if offset < files.min_offset:
            return offset >= 0  # the message has expired
        view = files.read(offset, size)
        if view is None or size < _HEAD_SIZE:
            return False
        stored = view.tobytes()
        if _SIZE_AND_PLACE.unpack_from(stored) != (size, offset):
            return False
        is_mark = _DELETES in stored and self._is_mark(offset, size)  # a body may have the name
        if is_mark != bool(magic & MAGIC_DELETE):
            return False
        at = stored.rfind(_OUT_MS)
        if at < 0:  # the first property, or another broker's record
            return _hash_in(stored) in {None, hash_of_topic} and (
                self._state.timer_record(offset, size) is not None
            )
        out_ms, _, rest = stored[at + len(_OUT_MS) :].partition(b"\2")
        if self._hash_behind(rest, stored) not in {None, hash_of_topic} or not out_ms.isdigit():
            return False
        if int(out_ms) == slot_ms:
            return not magic & MAGIC_ROLL
        return delay_ms == 0 or (bool(magic & MAGIC_ROLL) and slot_ms < int(out_ms))

    def _is_mark(self, offset: int, size: int) -> bool:
        record = self._state.timer_record(offset, size)
        return record is not None and Prop.TIMER_DEL_UNIQKEY in record.properties

    def _hash_behind(self, rest: bytes, stored: bytes) -> int | None:
        """Give the hash of a message's topic, None when it names none; `rest` is its end."""
        found = self._hashes.get(rest)
        if found is not None:
            return found
        found = _hash_in(stored)
        recurs = rest.startswith(_REAL_TOPIC) and len(self._hashes) < _REMEMBERED_MAX
        if found is not None and recurs:
            self._hashes[rest] = found
        return found


def _hash_in(stored: bytes) -> int | None:
    named = stored.rfind(_REAL_TOPIC)
    if named < 0:
        return None
    name, _, _ = stored[named + len(_REAL_TOPIC) :].partition(b"\2")
    return topic_hash(name.decode("utf-8", "replace"))
