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
wheel at once (`arrivals.py`).

Where slots hold few timers, a jump of the clock does the same in passes over many (`sweep.py`).

The services have the names of the original's threads, but nothing runs by itself: the engine steps
them::

    timer topic -> EnqueueGet -> EnqueuePut -> wheel + timer log          enqueue.py
    wheel + timer log -> DequeueGet -> DequeueGetMessage -> due heap      dequeue.py
    due heap -> DequeuePutMessage -> the messages' own topics             release.py

Read on: `pointers.py` for how the wheel follows the clock, `due_heap.py` for what is in memory,
`recovery.py`, `flush.py`.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from attrs import evolve

from embedded_broker.clocks.timeline import UNRANKED, Budget, Deadline
from embedded_broker.errors import StoreError
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.options import OPTIONS
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.message_run import Arrivals
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.admission import Admission
from embedded_broker.timer.delivery import DISK_RETRY_MS, Bridge, Delivery, Release
from embedded_broker.timer.gates import Gates
from embedded_broker.timer.interface import TimerEngine
from embedded_broker.timer.metrics import Distribution
from embedded_broker.timer.outcomes import TimerProgress, TimerRecovery
from embedded_broker.timer.request import TimerMessage
from embedded_broker.timer.stage import Stage
from embedded_broker.timer.timer_run import TimerRuns
from embedded_broker.timer.wheel.arrivals import WheelArrivals
from embedded_broker.timer.wheel.change import WheelChanges
from embedded_broker.timer.wheel.checkpoint import TimerMeta
from embedded_broker.timer.wheel.dequeue import (
    TimerDequeueGetMessageService,
    TimerDequeueGetService,
    TimerDequeueWarmService,
)
from embedded_broker.timer.wheel.enqueue import TimerEnqueueGetService, TimerEnqueuePutService
from embedded_broker.timer.wheel.flush import META_FILE, Checkpointer, TimerFlush, TimerFlushService
from embedded_broker.timer.wheel.handover import pass_released, progress, take_over
from embedded_broker.timer.wheel.listing import WheelListing
from embedded_broker.timer.wheel.plain_timer import Destinations
from embedded_broker.timer.wheel.pointers import Pointers
from embedded_broker.timer.wheel.recovery import recover
from embedded_broker.timer.wheel.release import TimerDequeuePutMessageService
from embedded_broker.timer.wheel.slots import SLOTS_DEFAULT
from embedded_broker.timer.wheel.state import LOG_FOLDER, SPARE_SLOTS, TimerState, new_state
from embedded_broker.timer.wheel.sweep import Sweep
from embedded_broker.timer.wheel.trust import judge
from embedded_broker.timer.wheel.upkeep import TimerUpkeep, WheelNeededOffsets, distances, recount
from rocketmq_py.clock import Clock
from rocketmq_py.errors import ConfigError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint
from rocketmq_py.protocol.names import TIMER_TOPIC

_LOG = get_logger(__name__)


_NO_BUDGET_MS: Final = 1e12
_FAR_MS: Final = 1 << 62


class TimerMessageStore(TimerEngine):
    """The timers of one broker; a `DeadlineSource`.

    `slots` is S, half the number of wheel slots; it belongs to the store like the precision.

    >>> from embedded_broker.store.memory_fs import MemoryFileSystem
    >>> from rocketmq_py.clock import SystemClock
    >>> fs, config, clock = MemoryFileSystem(), BrokerConfig(), SystemClock()
    >>> store = MessageStore(fs, config, clock, bytes(8))
    >>> _ = store.load()
    >>> timers = TimerMessageStore(store, fs, config, clock, slots=100)
    >>> timers.load().pending
    0
    """

    _state: TimerState
    runs: TimerRuns

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
        state = new_state(store, fs, config, slots)
        self._store = store
        self._config = config
        self._checkpointer = Checkpointer(state, fs)
        self.admission = Admission(
            config,
            slot_num=state.wheel.get_num,
            random=Random(0) if random is None else random,
        )
        self.topic = TIMER_TOPIC

        self._enqueue_get = TimerEnqueueGetService(state)
        self._enqueue_put = TimerEnqueuePutService(state)
        destinations = Destinations()
        self._get_message = TimerDequeueGetMessageService(state, destinations)
        self._dequeue_get = TimerDequeueGetService(state, self._get_message)
        self._put_message = TimerDequeuePutMessageService(state, config, destinations)
        self._sweep = Sweep(state, self._dequeue_get, self._get_message, self._put_message)
        stages: tuple[Stage[TimerState], ...] = (
            self._enqueue_get,
            self._enqueue_put,
            self._dequeue_get,
            self._get_message,
            self._put_message,
            TimerDequeueWarmService(state),
            flush_stage := TimerFlushService(state),
        )
        self._gates = Gates(
            config,
            entering=(self._enqueue_get, self._enqueue_put),
            leaving=(self._dequeue_get, self._get_message, self._put_message),
            may_enter=lambda: state.role.may_enqueue(state.curr_queue_offset),
            may_leave=lambda: state.role.releases,
        )
        self._pointers = Pointers(state, self._gates, self._dequeue_get)
        self._arrivals = WheelArrivals(state, self._gates, self._pointers, self._enqueue_put)
        self.on_arrival: Callable[[Arrivals], None] = self._arrivals.on_arrival
        """Takes note of messages that became visible; those of the timer topic enter the wheel."""
        self.runs = TimerRuns(self.admission, TIMER_TOPIC)
        """The short way for timers that come together."""
        super().__init__(
            state,
            clock,
            changes=WheelChanges(state, clock),
            listing=WheelListing(state, self._dequeue_get),
            unsettled=self._arrivals.unsettled,
            flush_stage=flush_stage,
        )
        self._put_message.delivery.on_answer = self.retry.end
        self.stages: dict[str, Stage[TimerState]] = {stage.name: stage for stage in stages}
        """The seven services by the names of the original's threads."""
        self.needed_offsets = WheelNeededOffsets(state)
        """Which messages of the commit log are still needed."""
        self.upkeep = TimerUpkeep(state, config, stages, settle=self._settle)
        """What is done now and then; the caller has the clock."""

    # --- life --------------------------------------------------------------------------------

    def load(self) -> TimerRecovery:
        """Open the files and recover; after `MessageStore.load`, before the first put.

        Raises ConfigError when timerPrecisionMs or the number of slots is not the store's,
        StoreDamagedError for what no kill and no power loss explains, and StoreError when a file
        cannot be used.
        """
        state = self._state
        problems = self._store.problems
        known = len(problems)
        checkpoint, meta = self._checkpointer.load()
        damaged = self._checkpointer.problem
        is_lost = damaged is None and meta is None and checkpoint is not None
        if is_lost and self._store.was_ours and self._store.was_clean:
            problems.append(f"{META_FILE} is missing: timers may be read again")
        # A crash may leave files without their lengths.
        mended = problems if self._store.log.skip_damage or not self._store.was_clean else None
        has_all_slots = meta is not None and meta.slots_total == state.wheel.slots_total
        wheel_found = state.wheel.load(mended=mended if has_all_slots else None)
        state.log.load(self._log_file_size(meta), mended)
        state.metrics.load()
        now_ms = self._clock.now_ms
        reach_ms = (state.wheel.slots_total // 2 - SPARE_SLOTS) * state.precision_ms
        skips = self._config.flag("timerSkipOldSlots")
        trusted = judge(
            state,
            checkpoint,
            meta,
            wheel_found=wheel_found,
            clean=self._store.was_clean,
            full=self._config.text("storeCheck") == "full",
            now_ms=now_ms,
            tell=problems.append,
        )
        if damaged is not None:
            trusted = evolve(trusted, fault=damaged)
        recovered = recover(
            state,
            trusted,
            meta,
            now_ms=now_ms,
            skip_before_ms=state.floor(now_ms) - reach_ms if skips else 0,
        )
        self._checkpointer.start(recovered)
        state.role.follow(recovered.checkpoint.master_timer_queue_offset)
        state.old_scan_pos = recovered.release_scan_pos
        state.old_scan_until_ms = max(recovered.released_until_ms, state.displaced_until_ms)
        self._pointers.old_queue_end = state.queue.max_offset
        self._arrivals.latest_ms = max(now_ms, self._store.last_store_timestamp)
        self._arrivals.note_passed_marks()
        found = (self._store.log.max_offset, state.log.end, state.metrics.counter)
        if meta is None or meta.clean_end != found or recovered.report.skipped:
            state.metrics.replace(recount(state), now_ms)
        self._dequeue_get.open_window()
        self._arrivals.note_unread_marks()
        self._gates.start(now_ms)
        self._changes.look_for_unfinished()
        self._arrivals.is_open = True
        if len(problems) > known:
            self.begin_flush().run()  # what was made again stays so, whatever comes
        pending = state.metrics.total
        _LOG.info("timer store loaded: %d pending, %r", pending, recovered.report)
        return evolve(recovered.report, pending=pending)

    def _log_file_size(self, meta: TimerMeta | None) -> int:
        """Give the length of TimerLog files: the store's own, unless another one is asked for.

        Files of another length than the store's are damaged; so is one that was cut short.
        """
        name = "mappedFileSizeTimerLog"
        wanted, found = self._config.int(name), self._state.log.found_file_size()
        if meta is not None and meta.log_file_size is not None:
            found = meta.log_file_size
        if found is None or found == wanted:
            return wanted
        if wanted not in {OPTIONS[name].default, OPTIONS[name].upstream}:
            raise ConfigError(name, wanted, f"it must be {found}, as in this store's timer log")
        return found

    def abandon(self) -> None:
        """Let go of everything as a killed process would: nothing is written."""
        self._arrivals.is_open = False
        self._release_files()

    @property
    def _is_open(self) -> bool:
        return self._arrivals.is_open

    def _stop(self) -> None:
        self._arrivals.is_open = False

    def _release_files(self) -> None:
        self._state.wheel.close()
        self._state.log.close()
        self._checkpointer.close()

    # --- releases ----------------------------------------------------------------------------

    def next_deadline(self) -> Deadline | None:
        """When `fire` has something to do: a release, a hop, or a slot to load before its time."""
        if not self._arrivals.is_open:
            return None
        now_ms = self._clock.now_ms
        if self.retry.is_on:
            return self.retry.deadline
        if self._changes.unfinished is not None and self._state.role.releases:
            # Also under a hold: with the next message only the queue's last one would be known.
            return Deadline(now_ms, "mark of a moved timer")
        behind = self._enqueue_get.queue_depth > 0 and not self._gates.entry_closed
        if self._gates.exit_closed(now_ms):
            if behind:
                return Deadline(now_ms, "timers to enqueue")
            ends_ms = self._gates.exit_opens_ms(now_ms)
            return None if ends_ms is None else Deadline(ends_ms, "disappearTimeAfterStart")
        if behind or self._dequeue_get.is_loading:
            return Deadline(now_ms, "timers to enqueue or load")
        due_ms, slot_ms = self._state.due_heap.next_due_ms, self._pointers.next_slot_ms()
        if slot_ms is not None and (due_ms is None or slot_ms < due_ms):
            return Deadline(slot_ms, "slot of the timer wheel")
        return None if due_ms is None else Deadline(due_ms, "timer")

    def head_rank(self, due_ms: int) -> int:
        """Give the offset of the first copy of the timer that goes first at `due_ms`."""
        heap = self._state.due_heap.heap
        if heap and heap[0][0] == due_ms and not self._enqueue_get.queue_depth:
            return heap[0][1]
        return UNRANKED

    def _next_due_ms(self) -> int | None:
        """Give the time of `next_deadline`, quickly where nothing is in the way."""
        if not self._is_undisturbed(self._clock.now_ms):
            deadline = self.next_deadline()
            return None if deadline is None else deadline.due_ms
        due_ms, slot_ms = self._state.due_heap.next_due_ms, self._pointers.next_slot_ms()
        if slot_ms is not None and (due_ms is None or slot_ms < due_ms):
            return slot_ms
        return due_ms

    def _is_undisturbed(self, now_ms: int) -> bool:
        """Whether only the due heap and the wheel say what happens next."""
        return not (
            self.retry.is_on
            or not self._arrivals.is_open
            or self._enqueue_get.queue_depth
            or self._dequeue_get.is_loading
            or self._changes.unfinished is not None
            or self._gates.exit_closed(now_ms)
        )

    def fire_through(
        self, limit_ms: int, *, pin: Callable[[int], None], horizon_ms: int, budget: Budget
    ) -> int:
        """Do what `fire` does at every deadline up to `limit_ms`, telling `pin` each time first.

        Ends early when the budget is used up or a message went to a topic of delayed ones: then
        another source may have to fire first.
        """
        fired = 0
        delayed = self._store.delayed_puts
        due_ms, before_ms = self._next_due_ms(), None
        # The same time again: held, or a put is to be tried again.
        while due_ms is not None and due_ms <= limit_ms and due_ms != before_ms:
            if self._may_sweep(due_ms):
                fired += self._sweep.run(limit_ms, pin, budget)
                swept_ms, due_ms = due_ms, self._next_due_ms()
                if due_ms is None or due_ms > limit_ms:
                    break
                # A pass that could do nothing leaves what is due to a step, however late it is.
                if due_ms != swept_ms and budget.exhausted():
                    break
            pin(due_ms)
            now_ms = max(due_ms, self._clock.now_ms)  # what was held back is overdue
            fired += self.fire(now_ms, horizon_ms=max(horizon_ms, now_ms), budget=budget)
            if budget.exhausted() or self._store.delayed_puts != delayed:
                break
            due_ms, before_ms = self._next_due_ms(), due_ms
        return fired

    def _may_sweep(self, due_ms: int) -> bool:
        """Whether what comes next, at `due_ms`, may be done together with what follows it."""
        now_ms = self._clock.now_ms
        return (
            due_ms >= now_ms
            and not self._unsettled
            and self._is_undisturbed(now_ms)
            and self._sweep.may_begin()
        )

    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:
        """Do everything that is due at `now_ms` until the budget is used up.

        Timers whose hop ends inside a clock jump to `horizon_ms` that also reaches their due time
        stay in memory instead of being rolled. Gives the number of messages delivered.
        """
        if not self._arrivals.is_open:
            return 0
        self._arrivals.is_firing = True
        before = self._put_message.released
        try:
            self._step(now_ms, max(now_ms, horizon_ms), budget)
        except StoreError as error:
            _LOG.warning("the timer store waits for its disk: %s", error)
            self.retry.begin(now_ms, DISK_RETRY_MS)
        finally:
            self._arrivals.is_firing = False
        return self._put_message.released - before

    def _step(self, now_ms: int, reach_ms: int, budget: Budget) -> None:
        state = self._state
        if self.delivery.keeps_hops:
            reach_ms = _FAR_MS
        self.retry.look(now_ms)
        if self._changes.unfinished is not None:
            self._load_all()
            if not self._changes.finish():
                self.retry.begin(now_ms, DISK_RETRY_MS)
                return
        self._settle_marks()  # before a release finds a victim gone, whose mark came just now
        heap, releases = state.due_heap.heap, not self._gates.exit_closed(now_ms)
        while True:
            queued = None
            if self._enqueue_get.queue_depth:
                if not self._gates.entry_closed:
                    queued = self._enqueue_get.peek()
                elif releases and not self._arrivals.note_kept_out(budget):
                    return
            limit_ms = now_ms if queued is None else min(now_ms, queued.store_timestamp)
            if releases:
                if self.retry.is_on:
                    return
                if self._dequeue_get.is_loading and not self._dequeue_get.load(budget):
                    return
                ready_ms = min(limit_ms, state.curr_read_ms + state.precision_ms)
                if (heap and heap[0][0] <= ready_ms) or self._put_message.delivery.is_waiting:
                    rolled = self._put_message.rolled
                    ending = self._put_message.release(ready_ms, now_ms, reach_ms, budget)
                    if self._put_message.rolled != rolled:
                        self._arrivals.note_time(self._store.last_store_timestamp)
                    if ending is Release.BLOCKED:
                        self.retry.begin(now_ms, self._put_message.delivery.retry_wait_ms)
                    if ending is not Release.DRAINED:
                        return
                # Where a former life had been before the clock was set back, timers may lie.
                upto_ms = limit_ms if queued else max(limit_ms, state.displaced_until_ms)
                if self._pointers.move_on(upto_ms):
                    continue
            if queued is None:
                break
            if not self._enqueue_alike(queued, now_ms, limit_ms, budget):
                return
        is_even = state.curr_read_ms >= state.curr_write_ms
        if releases and is_even and self._enqueue_get.queue_depth == 0:
            state.due_heap.forget_late_marks(now_ms - state.precision_ms)

    def _enqueue_alike(
        self, queued: TimerMessage, now_ms: int, limit_ms: int, budget: Budget
    ) -> bool:
        """Enter a message and those behind it of the same time; False when the budget is used up.

        While nothing becomes due by it, what comes before the next one would find nothing to do.
        """
        heap = self._state.due_heap.heap
        while True:
            self._enqueue(queued, now_ms)
            if budget.exhausted():
                return False
            following = self._enqueue_get.peek()
            if (
                following is None
                or min(now_ms, following.store_timestamp) != limit_ms
                or (heap and heap[0][0] <= limit_ms)
                or self._put_message.delivery.is_waiting
                or self._dequeue_get.is_loading
                or self.retry.is_on
                or self._gates.entry_closed
            ):
                return True
            queued = following

    def _enqueue(self, queued: TimerMessage, now_ms: int) -> None:
        """Enter one message into the wheel, first making room if carried timers are in the way."""
        state = self._state
        in_way_ms = self._enqueue_put.put(queued, now_ms)
        while in_way_ms is not None:
            if not self._put_message.roll_carried(in_way_ms, now_ms):
                self.retry.begin(now_ms, self._put_message.delivery.retry_wait_ms)
                return
            in_way_ms = self._enqueue_put.put(queued, now_ms)
        state.curr_queue_offset = queued.queue_offset + 1

    # --- role ----------------------------------------------------------------------------------

    @property
    def should_running_dequeue(self) -> bool:
        """Whether due timers leave this store; true from the start, as on a master."""
        return self._state.role.releases

    def set_should_running_dequeue(self, running: bool) -> None:
        """Release, or only follow a master: then the wheel is filled up to where it has come.

        What was released stays released: after taking over again the slot goes on where it ended,
        and what the master released meanwhile is known by its copies in our log.
        """
        role = self._state.role
        if running and not role.releases:
            self._settle_for_role()
            take_over(self._state, self._clock.now_ms)
            self._pointers.old_queue_end = self._state.queue.max_offset
            role.take_over()
        elif role.releases and not running:
            role.step_down(self._state.curr_queue_offset)

    def follow_master(self, timer_queue_offset: int) -> None:
        """Let the wheel be filled up to this entry of the timer topic's queue.

        The offset is `masterTimerQueueOffset` of the master's check point (request 60).
        """
        self._state.role.follow(timer_queue_offset)

    def progress(self) -> TimerProgress:
        """Say how far this store has released."""
        self._load_all()
        return progress(self._state, self._clock.now_ms)

    def pass_released(self, other: TimerProgress) -> int:
        """Do not release what another broker has released; gives how many timers these are.

        To be called before this one releases anything.
        """
        self._settle_for_role()
        passed = pass_released(self._state, other, self._clock.now_ms)
        self._pointers.old_queue_end = self._state.queue.max_offset
        return passed

    def _settle_for_role(self) -> None:
        """Load what is due, and let new marks find victims that count as released from now on."""
        self._load_all()
        try:
            self._settle_marks()
        except StoreError as error:
            # Whose turn it is does not wait for a count.
            _LOG.warning("recalled timers still count: %s", error)

    @property
    def delivery(self) -> Delivery:
        """Where released messages are put, and whether more of them may leave."""
        return self._put_message.delivery

    @property
    def escape(self) -> Bridge | None:
        """Where released and rolled messages are put instead of this store; None: nowhere else."""
        return self._put_message.delivery.escape

    @escape.setter
    def escape(self, bridge: Bridge | None) -> None:
        self._put_message.delivery.escape = bridge

    # --- looking in --------------------------------------------------------------------------

    @property
    def checkpoint(self) -> TimerCheckpoint:
        """What the last flush began to write into timercheck."""
        return self._checkpointer.checkpoint.copy()

    def distribution(self) -> Distribution:
        """Begin to count timers by how soon they are due."""
        return Distribution(distances(self._state, self._clock.now_ms))

    def _load_all(self) -> None:
        self._dequeue_get.load(Budget(_NO_BUDGET_MS))

    def _settle(self) -> None:
        """Bring everything in memory up to date with the files."""
        self._load_all()
        self._settle_marks()

    def log_ends(self) -> dict[str, int]:
        """Give the end of every log of ours, by folder: what lies before it does not change."""
        return {LOG_FOLDER: self._state.log.end}

    def begin_flush(self, *, clean: bool = False) -> TimerFlush:
        """Capture what to write; see `TimerEngine`."""
        clean = self._prepare_flush(clean=clean)
        return self._checkpointer.begin(self._clock.now_ms, clean=clean)
