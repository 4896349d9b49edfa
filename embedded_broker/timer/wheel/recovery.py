"""Recovery of the timer wheel: what waits, and what was released before the broker stopped.

Answers: where the timer log ends, what every slot of the wheel holds, where reading and releasing
go on, and what an earlier life released already, all from the bytes of the store alone. Must not
know: the door, how messages are released. The steps are numbered as in the specification of our
recovery; where they differ from `TimerMessageStore.recover`, the reason stands beside them.

Read on: `engine.py` (`load`), `flush.py` for the order that makes the files trustworthy,
`upkeep.py` for the counts.
"""

from collections.abc import Iterator

from attrs import define, field

from embedded_broker.errors import StoreDamagedError
from embedded_broker.store.damaged_folder import ways_out
from embedded_broker.timer.delivery import NEVER_ENQUEUED_MS, released_since
from embedded_broker.timer.outcomes import TimerRecovery
from embedded_broker.timer.recall import Mark
from embedded_broker.timer.request import parse_request
from embedded_broker.timer.wheel.checkpoint import TimerMeta
from embedded_broker.timer.wheel.record_judge import Fault, RecordJudge
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE, RECORD_SIZE
from embedded_broker.timer.wheel.trust import Trusted
from rocketmq_py.errors import ConfigError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop

_LOG = get_logger(__name__)
_NOTHING_TO_READ = 2**63 - 1


@define(slots=True, kw_only=True)
class Recovered:
    """What the engine goes on with."""

    checkpoint: TimerCheckpoint
    release_scan_pos: int
    """Releases of unfinished slots by an earlier life lie at or behind it."""
    released_until_ms: int
    """No slot behind this one has been released from."""
    again_from_pos: int
    """The first record of the timer log whose message is still to be passed in the queue."""
    again_until_py: int
    """The last message of those records; -1 for none."""
    report: TimerRecovery


def recover(
    state: TimerState,
    trusted: Trusted,
    meta: TimerMeta | None,
    *,
    now_ms: int,
    skip_before_ms: int = 0,
) -> Recovered:
    """Bring the wheel, the log and the pointers of `state` in order.

    Timers of slots before `skip_before_ms` are given up and counted, not caught up.
    The files are loaded, nothing of them is changed yet. Raises ConfigError when the store was
    written with another precision, and StoreDamagedError for damage that may not be left out,
    before anything is changed.
    """
    checkpoint = trusted.checkpoint or TimerCheckpoint()
    _check_precision(state, meta)
    state.displaced_until_ms = meta.displaced_until_ms if meta is not None else 0
    released_from = _release_scan_start(state, checkpoint, meta)
    if trusted.fault is not None:
        checkpoint = _begin_again(state, checkpoint, trusted.fault)
        released_from = state.store.log.min_offset
    state.due_heap.done, released_until_ms = _find_released(state, released_from)
    if meta is not None:
        state.old_removed = meta.removed
        state.due_heap.done |= meta.removed
    scan = _LogScan(state, checkpoint, trusted.covered_pos)
    if not scan.run():
        what = "no record" if scan.fault is None else ": ".join(scan.fault)
        state.already_logged.clear()
        again = Trusted(trusted.checkpoint, fault=f"timerlog is damaged at {scan.end} ({what})")
        return recover(state, again, meta, now_ms=now_ms, skip_before_ms=skip_before_ms)
    state.curr_queue_offset = _queue_offset(state, checkpoint)
    _pass_logged(state)
    read_ms = state.floor(checkpoint.last_read_time_ms)
    if read_ms <= 0:
        read_ms = scan.earliest_slot_ms if scan.earliest_slot_ms is not None else now_ms
        read_ms = min(state.floor(read_ms), state.floor(now_ms))
    skipped = 0
    if read_ms < skip_before_ms:
        skipped = _count_waiting(state, read_ms, skip_before_ms)
        state.lost["older than the wheel"] += skipped
        read_ms = skip_before_ms
    state.curr_read_ms = state.curr_write_ms = read_ms
    state.wheel.mark_waiting(read_ms)
    return Recovered(
        checkpoint=checkpoint,
        release_scan_pos=released_from,
        released_until_ms=released_until_ms,
        again_from_pos=scan.again_from_pos,
        again_until_py=max(state.already_logged, default=-1),
        report=TimerRecovery(
            records_scanned=scan.count,
            truncated_bytes=scan.truncated,
            already_released=len(state.due_heap.done),
            whole_log=trusted.covered_pos is None,
            skipped=skipped,
            queue_offset=state.curr_queue_offset,
            read_time_ms=read_ms,
        ),
    )


def _count_waiting(state: TimerState, from_ms: int, to_ms: int) -> int:
    """Count the timers of the slots in between that no earlier life released."""
    waiting = {
        record.offset_py
        for slot in state.wheel.used_slots()
        if from_ms <= slot.time_ms < to_ms
        for _, record in state.log.chain(slot.last_pos, slot.time_ms)
        if not record.magic & MAGIC_DELETE
    }
    return len(waiting - state.due_heap.done)


def _begin_again(state: TimerState, checkpoint: TimerCheckpoint, fault: str) -> TimerCheckpoint:
    """Go on without damaged timer files if that is asked for, else refuse the store.

    The timer log is emptied, with a copy: every message of the queue enters once more. What was
    released before is known from the commit log, which is read from its begin.
    """
    store = state.store
    if not store.log.skip_damage:
        raise StoreDamagedError(f"{fault}. No timer file was changed. {ways_out(store.fs)}")
    store.problems.append(f"{fault}: every timer enters again from the queue of the timer topic")
    kept: list[str] = []
    if state.log.truncate(state.log.begin, kept):
        store.problems.append(f"the timer log that is not used is kept in {', '.join(kept)}")
    again = checkpoint.copy()
    again.last_timer_queue_offset = again.last_timer_log_flush_pos = 0
    return again


# --- step 8: the precision belongs to the store ------------------------------------------------


def _check_precision(state: TimerState, meta: TimerMeta | None) -> None:
    found = meta.precision_ms if meta is not None else None
    if found is None:
        found = next(_slot_precisions(state), None)
    if found is not None and found != state.precision_ms:
        raise ConfigError(
            "timerPrecisionMs",
            state.precision_ms,
            f"this store was written with {found}, and its slots would mean other times. Open it "
            "with that value, or start with an empty store",
        )


def _slot_precisions(state: TimerState) -> Iterator[int]:
    for slot in state.wheel.used_slots():
        record = state.log.read(slot.last_pos) if slot.last_pos >= 0 else None
        unit = slot.time_ms // state.precision_ms
        if record is not None and record.slot_ms % unit == 0:
            yield record.slot_ms // unit


# --- steps 3 and 4: the end of the log, the slots of the wheel ---------------------------------


@define(eq=False, repr=False)
class _LogScan:
    """One pass over the timer log: all of it, and the wheel is made from it, or a sealed tail."""

    _state: TimerState
    _checkpoint: TimerCheckpoint
    _covered_pos: int | None
    """Up to there a sealed wheel knows every record; None: the whole log is read."""
    count: int = field(default=0, init=False)
    truncated: int = field(default=0, init=False)
    end: int = field(init=False)
    fault: Fault | None = field(default=None, init=False)
    """What is wrong with the record at the end, if there is one."""
    earliest_slot_ms: int | None = field(default=None, init=False)
    again_from_pos: int = field(default=0, init=False)
    _judge: RecordJudge = field(init=False)
    _chains: dict[int, tuple[int, int, int]] = field(factory=dict, init=False)
    """First and last position, and the number, of every slot whose records were scanned."""
    _unread_py: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        state = self._state
        self._judge = RecordJudge(state.store.log, state.precision_ms)
        self.end = state.log.begin
        entry = state.queue.entry(self._checkpoint.last_timer_queue_offset)
        self._unread_py = _NOTHING_TO_READ if entry is None else entry[0]

    def run(self) -> bool:
        """Scan, make the wheel from what is found, cut the log behind its last good record.

        False, and nothing is changed but the wheel, when a synced record is not good.
        """
        log, flushed = self._state.log, self._checkpoint.last_timer_log_flush_pos
        starts = log.file_starts
        if self._covered_pos is None:
            self._state.wheel.clear()
        if not starts:
            return True
        self._scan(self._start(starts))
        if not log.is_end(self.end, flushed):
            return False
        if self._covered_pos is None:
            self._make_wheel()
        self.truncated = log.truncate(self.end)
        return True

    def _start(self, starts: list[int]) -> int:
        """Give where to begin: before what the wheel lacks and what will be enqueued again."""
        if self._covered_pos is None:
            return starts[0]
        log = self._state.log
        covered = min(self._covered_pos, log.end)
        chosen = starts[0]
        for start in reversed(starts):
            # Only what lies before the covered position is surely no torn record.
            first = log.read(start) if start < covered else None
            if first is not None and first.offset_py <= self._unread_py:
                chosen = start
                break
        return max(starts[0], min(covered, self._first_unread(chosen, covered)))

    def _first_unread(self, start: int, covered: int) -> int:
        """Give the first position from `start` whose message will be enqueued again.

        Below the covered position every record is sound, and offsets grow, but for records of
        messages that were passed already (`Checkpointer` covers less while that is not so).
        """
        log = self._state.log
        low, high = 0, (min(covered, start + log.file_size) - start) // RECORD_SIZE
        while low < high:
            middle = (low + high) // 2
            record = log.read(start + middle * RECORD_SIZE)
            if record is not None and record.offset_py < self._unread_py:
                low = middle + 1
            else:
                high = middle
        return start + low * RECORD_SIZE

    def _scan(self, start: int) -> None:
        """Read records up to the first bad one."""
        chains, begin = self._chains, self._state.log.begin
        is_whole = self._covered_pos is None
        self.end = self.again_from_pos = start
        for position, entry in self._state.log.entries(start):
            _, previous, magic, write_ms, delay_ms, offset_py, _, _, _ = entry
            slot_ms = write_ms + delay_ms
            first, last, num = chains.get(slot_ms, (position, -1, 0))
            self.fault = self._judge.fault(position, entry)
            if previous < begin:
                first, num = position, 0
            elif is_whole and previous != last:
                self.fault = Fault("broken chain", f"previous record at {previous}")
            if self.fault is not None:
                break
            self.count += 1
            self.end = position + RECORD_SIZE
            chains[slot_ms] = first, position, num + (-1 if magic & MAGIC_DELETE else 1)
            if delay_ms == 0:
                self._state.displaced_until_ms = max(self._state.displaced_until_ms, slot_ms)
            if self.earliest_slot_ms is None or slot_ms < self.earliest_slot_ms:
                self.earliest_slot_ms = slot_ms
            if offset_py >= self._unread_py:
                self._state.already_logged.add(offset_py)

    def _make_wheel(self) -> None:
        """Write what the log says into the wheel: ends of the chains, and the true numbers.

        Two slots of one place occur when a clock jump went around the wheel and was never
        flushed. The later one is still to be read; of the earlier one everything is done, and
        the copies say so, but for its marks: they may be needed to drop a victim once more.
        Where a power loss took the copies, the earlier one keeps the place, and the messages of
        the later one enter the wheel anew.
        """
        wheel = self._state.wheel
        read_ms = self._checkpoint.last_read_time_ms
        for slot_ms, (first, last, num) in sorted(self._chains.items()):
            other_ms = wheel.stored_time_ms(slot_ms)
            if read_ms <= other_ms < slot_ms:
                if self._is_undone(other_ms) and self._may_enter_again(slot_ms, last):
                    continue
                self._keep_marks(other_ms, wheel.get_slot(other_ms).last_pos)
            wheel.put_slot(slot_ms, first, last, num, 0)

    def _is_undone(self, slot_ms: int) -> bool:
        """Say whether a timer of the slot was released by nobody."""
        state = self._state
        chain = state.log.chain(state.wheel.get_slot(slot_ms).last_pos, slot_ms)
        return any(
            record.offset_py not in state.due_heap.done and not record.magic & MAGIC_DELETE
            for _, record in chain
        )

    def _may_enter_again(self, slot_ms: int, last_pos: int) -> bool:
        """Let the messages of a slot be enqueued once more; False if the queue is past them.

        It is not: the place was free only after the checkpoint that recovery starts from.
        """
        state = self._state
        offsets = []
        for _, record in state.log.chain(last_pos, slot_ms):
            message = state.timer_record(record.offset_py, record.size_py)
            if message is None or message.queue_offset < self._checkpoint.last_timer_queue_offset:
                return False
            offsets.append(record.offset_py)
        state.already_logged.difference_update(offsets)
        return True

    def _keep_marks(self, slot_ms: int, last_pos: int) -> None:
        state = self._state
        for _, record in state.log.chain(last_pos, slot_ms):
            if not record.magic & MAGIC_DELETE:
                continue
            message = state.message(record.offset_py, record.size_py)
            if message is None or message.request.deletes is None:
                continue
            out_ms, key = message.request.out_ms, message.request.deletes
            mark = Mark.of(message.properties, record.offset_py)
            end_ms = state.mark_end_ms(max(slot_ms, out_ms))
            state.due_heap.add_mark(out_ms, key, mark, end_slot_ms=end_ms)


# --- step 5: where the queue is read on --------------------------------------------------------


def _queue_offset(state: TimerState, checkpoint: TimerCheckpoint) -> int:
    """Give the next entry to enqueue.

    The original starts behind the last record always, which repeats messages of the late path:
    they leave no record.
    """
    queue = state.queue
    return max(queue.min_offset, min(checkpoint.last_timer_queue_offset, queue.max_offset))


def _pass_logged(state: TimerState) -> None:
    """Pass the messages at the head of the queue that have a record: they entered the wheel."""
    logged, done = state.already_logged, state.due_heap.done
    if not logged:
        return
    for number, (offset, _, _) in state.queue.iterate(state.curr_queue_offset):
        if offset in logged:
            logged.discard(offset)
        elif offset not in done:
            return
        state.curr_queue_offset = number + 1


# --- step 2: what was released already ---------------------------------------------------------


def _release_scan_start(
    state: TimerState, checkpoint: TimerCheckpoint, meta: TimerMeta | None
) -> int:
    """Give the commit-log offset behind which releases of unfinished slots lie."""
    log = state.store.log
    if meta is not None:
        return max(log.min_offset, meta.release_scan_pos)
    files = log.files.files
    for start, _ in reversed(files):
        stored = log.store_timestamp(start)
        if 0 < stored < checkpoint.last_read_time_ms:
            return start
    return log.min_offset


def _find_released(state: TimerState, start: int) -> tuple[set[int], int]:
    """Give the sources of all copies we made since `start`, and the last slot any of them was in.

    That is usually the slot of the copy's store time. Where the clock had been set back it is a
    later one, at the read pointer of that moment, which is then also the time of enqueueing.
    """
    found: set[int] = set()
    last_ms = state.store.last_store_timestamp
    for source, topic, properties in released_since(state.store.log, start):
        found.add(source)
        enqueued = properties.get(Prop.TIMER_ENQUEUE_MS, "")
        request = parse_request(properties)
        if enqueued.isdecimal() and int(enqueued) < NEVER_ENQUEUED_MS:
            last_ms = max(last_ms, int(enqueued))
        if request is not None and topic != TIMER_TOPIC:
            last_ms = max(last_ms, request.out_ms)
    if found:
        _LOG.info("timers released before the last stop and not yet accounted for: %d", len(found))
    return found, state.floor(last_ms) + state.precision_ms
