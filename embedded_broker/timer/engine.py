"""The timer wheel engine: accepts timers for any time and releases each at its own.

Answers: in which order enqueueing, loading and releasing happen, so that a timer leaves exactly
once, never early, whatever the clock does and wherever the process dies. Must not know: requests,
connections, threads: everything here runs under the broker's door. Behaves as
`org.apache.rocketmq.store.timer.TimerMessageStore` with exact release inside the slot.

One step (`fire`) is a replay of what happened, in the order of time:

1. the next message of the timer topic says up to when releasing may go on (its store time);
2. what is due until then, and within the slot being read, is released or rolled;
3. the read pointer moves over finished slots up to the write pointer, loading what it reaches;
4. only when no slot before the write pointer is unread, the message enters the wheel.

So a slot is complete before it is finished, an append never lands behind the reader or on a slot
that is still to be read, and after any downtime everything happens in the order in which it
should have happened. In the usual case, a message that arrives while nothing is behind enters the
wheel at once (`on_arrival`).

Read on: `services.py` for the stages, `front.py` for what is in memory, `recovery.py`, `flush.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from embedded_broker.config import OPTIONS, BrokerConfig
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.inner import Arrival
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timeline import Budget, Deadline
from embedded_broker.timer.admission import Admission
from embedded_broker.timer.dequeue import TimerDequeueGetMessageService, TimerDequeueGetService
from embedded_broker.timer.enqueue import Queued, TimerEnqueueGetService, TimerEnqueuePutService
from embedded_broker.timer.flush import Checkpointer, TimerFlush
from embedded_broker.timer.front import Mark
from embedded_broker.timer.metrics import TimerMetrics
from embedded_broker.timer.recall import RecallOutcome, find_copies, mark_message
from embedded_broker.timer.recount import recount
from embedded_broker.timer.recovery import TimerRecovery, recover
from embedded_broker.timer.release import Release, TimerDequeuePutMessageService
from embedded_broker.timer.request import (
    TimerRequest,
    parse_request,
    root_offset,
    victim_root,
)
from embedded_broker.timer.services import Stage, TimerDequeueWarmService, TimerFlushService
from embedded_broker.timer.state import TimerState
from embedded_broker.timer.timer_log import TimerLog
from embedded_broker.timer.wheel import SLOTS_DEFAULT, TimerWheel
from rocketmq_py.clock import Clock
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop

__all__ = ["TimerMessageStore"]

_LOG = logging.getLogger(__name__)

WHEEL_FILE: Final = "timerwheel"
LOG_FOLDER: Final = "timerlog"
METRICS_FILE: Final = "config/timermetrics"

_SPARE_SLOTS: Final = 60
_NO_BUDGET_MS: Final = 1e12
_LOOPBACK: Final = b"\x7f\x00\x00\x01\x00\x00\x00\x00"


class TimerMessageStore:
    """The timers of one broker; a `DeadlineSource`.

    `slots` is S, half the number of wheel slots; it belongs to the store like the precision.
    `session_timer(delay_ms, call)` is used to wait before a failed put is tried again; without it
    the message clock is, and a frozen one then waits for ever.

    >>> from embedded_broker.store.memory_fs import MemoryFileSystem
    >>> from rocketmq_py.clock import SystemClock
    >>> fs, config, clock = MemoryFileSystem(), BrokerConfig(), SystemClock()
    >>> store = MessageStore(fs, config, clock, bytes(8))
    >>> _ = store.load()
    >>> timers = TimerMessageStore(store, fs, config, clock, slots=100)
    >>> timers.load().pending
    0
    """

    def __init__(
        self,
        store: MessageStore,
        fs: FileSystem,
        config: BrokerConfig,
        clock: Clock,
        *,
        slots: int = SLOTS_DEFAULT,
        random: Random | None = None,
    ) -> None:
        precision_ms = config.int("timerPrecisionMs")
        window = config.int("timerRollWindowSlot")
        if not 2 <= window <= slots - _SPARE_SLOTS:
            window = max(2, slots - _SPARE_SLOTS)
        self._store = store
        self._config = config
        self._clock = clock
        self._state = TimerState(
            store=store,
            wheel=TimerWheel(fs, WHEEL_FILE, slots=slots, precision_ms=precision_ms),
            log=TimerLog(fs, LOG_FOLDER, config.int("mappedFileSizeTimerLog")),
            metrics=TimerMetrics(fs, METRICS_FILE),
            precision_ms=precision_ms,
            release_precision_ms=config.int("timerReleasePrecisionMs"),
            roll_window=window,
        )
        self._checkpointer = Checkpointer(self._state, fs)
        self.admission = Admission(
            config,
            slot_num=self._state.wheel.get_num,
            random=Random(0) if random is None else random,
        )
        self.session_timer: Callable[[int, Callable[[], None]], object] | None = None

        state = self._state
        self._enqueue_get = TimerEnqueueGetService(state)
        self._enqueue_put = TimerEnqueuePutService(state)
        self._get_message = TimerDequeueGetMessageService(state)
        self._dequeue_get = TimerDequeueGetService(state, self._get_message)
        self._put_message = TimerDequeuePutMessageService(state, config)
        stages: tuple[Stage, ...] = (
            self._enqueue_get,
            self._enqueue_put,
            self._dequeue_get,
            self._get_message,
            self._put_message,
            TimerDequeueWarmService(state),
            TimerFlushService(state),
        )
        self.stages: dict[str, Stage] = {stage.name: stage for stage in stages}
        """The seven services by the names of the original's threads."""
        self._running = False
        self._firing = False
        self._retry_at_ms: int | None = None
        self._waits_for_session = False
        self._hold_until_ms = 0
        self._old_queue_end = 0
        self._latest_ms = 0
        self._unsettled: list[tuple[int, TimerRequest, int | None]] = []

    # --- life --------------------------------------------------------------------------------

    def load(self) -> TimerRecovery:
        """Open the files and recover; after `MessageStore.load`, before the first put.

        Raises ConfigError when timerPrecisionMs or the number of slots is not the store's, and
        StoreError when a file cannot be used.
        """
        state = self._state
        wheel_found = state.wheel.load()
        state.log.load(self._log_file_size())
        state.metrics.load()
        checkpoint, meta = self._checkpointer.load()
        now_ms = self._clock.now_ms
        recovered = recover(state, checkpoint, meta, wheel_found=wheel_found, now_ms=now_ms)
        self._checkpointer.start(recovered.checkpoint)
        if recovered.report.whole_log and meta is not None:
            self._checkpointer.distrust_wheel(meta)
        state.old_scan_pos = recovered.release_scan_pos
        state.old_scan_until_ms = max(recovered.released_until_ms, state.displaced_until_ms)
        self._old_queue_end = self._enqueue_get.queue.max_offset
        found = (self._store.log.max_offset, state.log.end, state.metrics.counter)
        if meta is None or meta.clean_end != found:
            state.metrics.replace(recount(state), now_ms)
        self._latest_ms = max(now_ms, self._store.last_store_timestamp)
        self._dequeue_get.open_window()
        self._note_unread_marks()
        hold_ms = self._config.int("disappearTimeAfterStart")
        self._hold_until_ms = now_ms + hold_ms if hold_ms > 0 else 0
        self._running = True
        pending = state.metrics.total
        _LOG.info("timer store loaded: %d pending, %r", pending, recovered.report)
        return TimerRecovery(
            records_scanned=recovered.report.records_scanned,
            truncated_bytes=recovered.report.truncated_bytes,
            already_released=recovered.report.already_released,
            whole_log=recovered.report.whole_log,
            queue_offset=state.curr_queue_offset,
            read_time_ms=state.curr_read_ms,
            pending=pending,
        )

    def _log_file_size(self) -> int:
        """Give the length of TimerLog files: the store's own, unless another one is asked for."""
        name = "mappedFileSizeTimerLog"
        wanted, found = self._config.int(name), self._state.log.found_file_size()
        if found is None or found == wanted:
            return wanted
        if wanted not in {OPTIONS[name].default, OPTIONS[name].upstream}:
            raise ConfigError(name, wanted, f"{found}: the store's timer log has files of it")
        return found

    def close(self) -> None:
        """Make everything durable and give the files back; idempotent. The store is still open."""
        if not self._running:
            return
        try:
            self._running = False
            work = self.begin_flush(clean=True)
            self._store.begin_flush().run()
            work.run()
        finally:
            self._release_files()

    def abandon(self) -> None:
        """Let go of everything as a killed process would: nothing is written."""
        self._running = False
        self._release_files()

    def _release_files(self) -> None:
        self._state.wheel.close()
        self._state.log.close()
        self._checkpointer.close()

    # --- arrivals ----------------------------------------------------------------------------

    def on_arrival(self, arrival: Arrival) -> None:
        """Take note of a message that became visible; one of the timer topic enters the wheel."""
        if arrival.topic != TIMER_TOPIC or arrival.queue_id != 0 or not self._running:
            return
        state = self._state
        properties = arrival.properties
        request = parse_request(properties)
        if request is None:
            return  # EnqueueGet counts it when it comes there
        offset = arrival.commit_log_offset
        if request.deletes is None:
            state.metrics.add(request.real_topic, 1, arrival.store_timestamp)
        elif Prop.TIMER_SRC_OFFSET not in properties:
            self._unsettled.append((offset, request, victim_root(properties)))
        if (
            not self._firing
            and arrival.queue_offset == state.curr_queue_offset
            and not self._enqueue_held
            and self._keep_up(arrival.store_timestamp)
        ):
            queued = Queued(
                arrival.queue_offset,
                offset,
                arrival.size,
                arrival.store_timestamp,
                properties,
                request,
            )
            if self._enqueue_put.put(queued, arrival.store_timestamp) is None:
                state.curr_queue_offset += 1
                return
        self._latest_ms = max(self._latest_ms, arrival.store_timestamp)
        self._mark_at_once(request, properties, offset, arrival.queue_offset)

    def _keep_up(self, now_ms: int) -> bool:
        """Move both pointers to the clock if that skips nothing; False when something is behind."""
        state = self._state
        if self._dequeue_held(now_ms):
            return True
        target_ms = state.floor(now_ms)
        if state.curr_read_ms < state.curr_write_ms:
            return False
        if target_ms <= state.curr_write_ms:
            return True
        if self._dequeue_get.is_loading:
            return False
        due_ms = state.front.next_due_ms
        if due_ms is not None and due_ms <= target_ms:
            return False
        waiting_ms = state.wheel.next_waiting(state.curr_read_ms)
        if waiting_ms is not None and waiting_ms <= target_ms + state.precision_ms:
            return False
        state.curr_write_ms = target_ms
        self._move_read(target_ms)
        return True

    def _mark_at_once(
        self,
        request: TimerRequest,
        properties: Mapping[str, str],
        offset: int,
        queue_offset: int,
    ) -> None:
        """Let a mark that has not entered the wheel yet work already, if its victims may be due.

        The queue before it is read first, and with it the time may go on to the latest in there.
        """
        if request.deletes is not None and request.out_ms < self._latest_ms:
            mark = Mark(root_offset(properties, offset), victim_root(properties))
            self._state.front.add_late_mark(request.out_ms, request.deletes, mark, queue_offset)

    def _note_unread_marks(self) -> None:
        """Let the marks that wait in the queue work on what is released before they are read."""
        state = self._state
        for number, (offset, size, _) in self._enqueue_get.queue.iterate(state.curr_queue_offset):
            record = state.timer_record(offset, size)
            request = None if record is None else parse_request(record.properties)
            if record is not None and request is not None:
                self._mark_at_once(request, record.properties, offset, number)

    # --- releases ----------------------------------------------------------------------------

    def next_deadline(self) -> Deadline | None:
        """When `fire` has something to do: a release, a hop, or a slot to load before its time."""
        if not self._running:
            return None
        now_ms = self._clock.now_ms
        if self._waits_for_session:
            return None
        if self._retry_at_ms is not None:
            return Deadline(self._retry_at_ms, "retry of a timer's release")
        behind = self._enqueue_get.queue_depth > 0 and not self._enqueue_held
        if self._dequeue_held(now_ms):
            if behind:
                return Deadline(now_ms, "timers to enqueue")
            if self._hold_until_ms > now_ms and not self._stopped_by_option:
                return Deadline(self._hold_until_ms, "disappearTimeAfterStart")
            return None
        if behind or self._dequeue_get.is_loading:
            return Deadline(now_ms, "timers to enqueue or load")
        state = self._state
        due_ms = state.front.next_due_ms
        waiting_ms = state.wheel.next_waiting(state.curr_read_ms)
        if waiting_ms is not None and (due_ms is None or waiting_ms - state.precision_ms < due_ms):
            return Deadline(waiting_ms - state.precision_ms, "slot of the timer wheel")
        return None if due_ms is None else Deadline(due_ms, "timer")

    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:
        """Do everything that is due at `now_ms` until the budget is used up.

        Timers whose hop ends inside a clock jump to `horizon_ms` that also reaches their due time
        stay in memory instead of being rolled. Gives the number of messages delivered.
        """
        if not self._running:
            return 0
        self._firing = True
        try:
            return self._step(now_ms, max(now_ms, horizon_ms), budget)
        finally:
            self._firing = False

    def _step(self, now_ms: int, reach_ms: int, budget: Budget) -> int:
        state = self._state
        if self._retry_at_ms is not None and now_ms >= self._retry_at_ms:
            self._retry_at_ms = None
        self._settle_marks()
        released = 0
        while True:
            queued = None if self._enqueue_held else self._enqueue_get.peek()
            limit_ms = now_ms if queued is None else min(now_ms, queued.store_timestamp)
            if not self._dequeue_held(now_ms):
                if self._retry_at_ms is not None or self._waits_for_session:
                    return released
                if not self._dequeue_get.load(budget):
                    return released
                end_ms = state.curr_read_ms + state.precision_ms
                count, ending = self._put_message.release(
                    min(limit_ms, end_ms), now_ms, reach_ms, budget
                )
                released += count
                if ending is Release.BLOCKED:
                    self._wait_before_retry(now_ms)
                if ending is not Release.DRAINED:
                    return released
                # Where a former life had been before the clock was set back, timers may lie.
                upto_ms = limit_ms if queued else max(limit_ms, state.displaced_until_ms)
                if self._move_on(upto_ms):
                    continue
            if queued is None:
                break
            if self._enqueue(queued, now_ms) and budget.exhausted():
                return released
        if state.curr_read_ms >= state.curr_write_ms and self._enqueue_get.queue_depth == 0:
            state.front.forget_late_marks()
        return released

    def _move_on(self, limit_ms: int) -> bool:
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
        due_ms = state.front.next_due_ms
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
            and state.curr_queue_offset >= self._old_queue_end
        ):
            state.old_scan_pos = None
            state.front.done.clear()

    def _enqueue(self, queued: Queued, now_ms: int) -> bool:
        """Enter one message into the wheel, first making room if carried timers are in the way."""
        state = self._state
        in_way_ms = self._enqueue_put.put(queued, now_ms)
        while in_way_ms is not None:
            if not self._put_message.roll_carried(in_way_ms, now_ms):
                self._wait_before_retry(now_ms)
                return True
            in_way_ms = self._enqueue_put.put(queued, now_ms)
        state.curr_queue_offset = queued.queue_offset + 1
        return True

    def _wait_before_retry(self, now_ms: int) -> None:
        """Leave everything as it is for a while: the put that failed is the next one again."""
        wait_ms = max(1, self._put_message.retry_wait_ms)
        if self.session_timer is None:
            self._retry_at_ms = now_ms + wait_ms
            return
        self._waits_for_session = True
        self.session_timer(wait_ms, self._end_of_wait)

    def _end_of_wait(self) -> None:
        self._waits_for_session = False

    @property
    def _enqueue_held(self) -> bool:
        return (
            self._enqueue_get.paused
            or self._enqueue_put.paused
            or self._config.flag("timerStopEnqueue")
        )

    @property
    def _stopped_by_option(self) -> bool:
        return (
            self._dequeue_get.paused
            or self._get_message.paused
            or self._put_message.paused
            or self._config.flag("timerStopDequeue")
        )

    def _dequeue_held(self, now_ms: int) -> bool:
        return now_ms < self._hold_until_ms or self._stopped_by_option

    # --- looking in --------------------------------------------------------------------------

    def count(self, topic: str | None = None) -> int:
        """How many timers wait, in all or of one topic; recalled ones count no more."""
        self._settle_marks()
        metrics = self._state.metrics
        return metrics.total if topic is None else metrics.count(topic)

    @property
    def lost(self) -> dict[str, int]:
        """How many messages were given up, by reason; empty when all is well."""
        return dict(self._state.lost)

    @property
    def dropped(self) -> int:
        """How many messages were given up in all."""
        return self._state.lost.total()

    @property
    def metrics(self) -> TimerMetrics:
        """The counts by topic."""
        self._settle_marks()
        return self._state.metrics

    def recall(self, uniq_key: str, topic: str | None = None) -> RecallOutcome:
        """Take back every waiting timer with this id; exact, until the release itself."""
        self._dequeue_get.load(Budget(_NO_BUDGET_MS))
        copies = find_copies(self._state, uniq_key, topic)
        outcome = RecallOutcome.UNKNOWN
        for copy in copies:
            if copy.marked_by is not None:
                continue
            if not copy.waits:
                if outcome is RecallOutcome.UNKNOWN:
                    outcome = RecallOutcome.ALREADY_DUE
                continue
            message = mark_message(copy, now_ms=self._clock.now_ms, born_host=_LOOPBACK)
            result = self._store.put(message)
            if not result.ok:
                _LOG.warning("recall of %s was not stored: %s", uniq_key, result.remark)
                continue
            outcome = RecallOutcome.RECALLED
        return outcome

    def _settle_marks(self) -> None:
        """Take the victims of new marks out of the counts.

        Not while the mark arrives: the index that finds the victims is behind then.
        """
        if not self._unsettled:
            return
        self._dequeue_get.load(Budget(_NO_BUDGET_MS))
        metrics, now_ms = self._state.metrics, self._clock.now_ms
        while self._unsettled:
            offset, request, victim = self._unsettled[0]
            topic, _, unique_key = (request.deletes or "").partition("+")
            copies = find_copies(self._state, unique_key, topic)
            del self._unsettled[0]
            for copy in copies:
                if (
                    copy.waits
                    and copy.request.out_ms == request.out_ms
                    and copy.root < offset
                    and victim in {None, copy.root}
                    and (copy.marked_by is None or copy.marked_by >= offset)
                ):
                    metrics.add(topic, -1, now_ms)

    # --- durability --------------------------------------------------------------------------

    def begin_flush(self, *, clean: bool = False) -> TimerFlush:
        """Capture what to write so that recovery starts from here; under the door.

        Run the result outside of it, after the store's own flush that was begun in the same
        entry: the positions account for messages that must be durable first.
        """
        self._settle_marks()
        return self._checkpointer.begin(self._clock.now_ms, clean=clean)
