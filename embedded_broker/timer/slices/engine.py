"""The sliced engine: a log for every slice of time, and the present slice in memory.

Answers: in which order messages are sent on their way, slices are loaded and seconds are fired, so
that a timer leaves exactly once, never early, whatever the clock does and wherever the process
dies. An alternative to the wheel (`../engine.py`) with the same admission rules and the same
behaviour towards clients; it is precise to a second, rounded up. Must not know: requests,
connections, threads: everything here runs under the broker's door.

One step (`fire`):

1. every entry of the inbound queue is sent on its way: appends only, nothing leaves yet, so a mark
   always comes before the release of its victim,
2. late timers and the seconds of the current slice are fired in the order of time, up to now;
   `current_second` becomes a second when everything before it has left,
3. when the slice is over, the next one that has a log follows; what is not loaded of it yet is
   loaded before anything of it is fired,
4. `slicePreloadSec` before a slice begins it is loaded, in turns.

In the usual case a message that arrives goes to its slice at once (`on_arrival`). Who hands what to
whom::

    inbound queue -> SliceDispatchService -> slice logs, seconds in memory     dispatch.py
    slice logs -> SlicePreloadService -> seconds in memory                     dispatch.py
    seconds in memory -> SliceFireService -> the messages' own topics          fire.py

Read on: `dispatch.py` for where a message goes, `recovery.py` for crashes, `roles.py` for nodes
that follow a master.
"""

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any

from attrs import evolve

from embedded_broker.clocks.timeline import UNRANKED, Budget, Deadline
from embedded_broker.errors import StoreError
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.message_run import Arrival, Arrivals
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.admission import Admission
from embedded_broker.timer.delay_offsets import DelayOffsetFile
from embedded_broker.timer.delivery import DISK_RETRY_MS, Release
from embedded_broker.timer.gates import Gates
from embedded_broker.timer.interface import TimerEngine
from embedded_broker.timer.metrics import Distribution
from embedded_broker.timer.outcomes import TimerRecovery
from embedded_broker.timer.recall import UnsettledMarks
from embedded_broker.timer.request import TimerRequest, parse_request, victim_root
from embedded_broker.timer.slices.advance import SliceAdvance
from embedded_broker.timer.slices.change import SliceChanges, find_copies
from embedded_broker.timer.slices.dcommit_log import folder_of
from embedded_broker.timer.slices.dispatch import Inbound, SliceDispatchService, SlicePreloadService
from embedded_broker.timer.slices.fire import SliceFireService
from embedded_broker.timer.slices.flush import SliceFlush, SliceFlushService
from embedded_broker.timer.slices.listing import SliceListing
from embedded_broker.timer.slices.opening import first_offset, make_state, take_store
from embedded_broker.timer.slices.progress import SliceProgress
from embedded_broker.timer.slices.record import SECOND_MS, Glance, second_of
from embedded_broker.timer.slices.recovery import recover
from embedded_broker.timer.slices.roles import follow, step_down, take_over
from embedded_broker.timer.slices.state import SliceNeededOffsets, SliceRole, SliceState
from embedded_broker.timer.slices.upkeep import SliceUpkeep, distances, recount
from embedded_broker.timer.stage import Stage
from embedded_broker.timer.timer_run import TimerRuns
from rocketmq_py.clock import Clock
from rocketmq_py.logs import get_logger

_LOG = get_logger(__name__)


class SlicedTimerStore(TimerEngine):
    """The timers of one broker; a `TimerEngine`.

    `levels_off` puts what waits into the document's own place, queue 1 of SCHEDULE_TOPIC_XXXX, and
    lets this engine serve delay levels as well. `role` is that of the node.

    >>> from embedded_broker.store.memory_fs import MemoryFileSystem
    >>> from rocketmq_py.clock import SystemClock
    >>> fs, config, clock = MemoryFileSystem(), BrokerConfig(), SystemClock()
    >>> store = MessageStore(fs, config, clock, bytes(8))
    >>> _ = store.load()
    >>> SlicedTimerStore(store, fs, config, clock).load().pending
    0
    """

    _state: SliceState

    def __init__(
        self,
        store: MessageStore,
        fs: FileSystem,
        config: BrokerConfig,
        clock: Clock,
        *,
        random: Random | None = None,
        file: DelayOffsetFile | None = None,
        levels_off: bool = False,
        role: SliceRole = SliceRole.MASTER,
    ) -> None:
        self._file = DelayOffsetFile(fs) if file is None else file
        self._skip_damage = config.text("damagedRecords") == "skip"
        table = self._file.load()
        self._progress = SliceProgress.from_table(table)
        self._first_offset = first_offset(table) if levels_off else 0
        state = make_state(store, fs, config, self._progress, levels_off=levels_off, role=role)
        self.admission = Admission(
            config,
            slot_num=self._cell_count,
            random=Random(0) if random is None else random,
            topic=state.topic,
            queue_id=state.inbound[1],
            precision_ms=SECOND_MS,
            levels_as_timers=levels_off,
            record_size_max=state.log.record_size_max,
            record_size_setting="setting mappedFileSizeDCommitLog",
        )
        self.topic = state.topic
        self.runs: TimerRuns | None = None
        self._dispatch = SliceDispatchService(state)
        self._preload = SlicePreloadService(state)
        self._fire = SliceFireService(state, config)
        self._flush = SliceFlushService(state, fs, self._file)
        self._course = SliceAdvance(state, self._preload, self._fire, self._flush)
        services = (self._dispatch, self._preload, self._fire, self._flush)
        self.stages: dict[str, Stage[SliceState]] = {stage.name: stage for stage in services}
        """The services by name."""
        self.upkeep = SliceUpkeep(state, config, services, settle=self._settle_marks)
        """What is done now and then: counts, progress."""
        self.needed_offsets = SliceNeededOffsets(state)
        super().__init__(
            state,
            clock,
            changes=SliceChanges(state, clock),
            listing=SliceListing(state),
            unsettled=UnsettledMarks(state.metrics, partial(find_copies, state)),
            flush_stage=self._flush,
        )
        self._running = False
        self._firing = False
        self._gates = Gates(
            config,
            entering=(self._dispatch,),
            leaving=(self._fire,),
            may_enter=lambda: state.role is not SliceRole.SLAVE,
            may_leave=lambda: state.role is SliceRole.MASTER,
        )

    # --- life ----------------------------------------------------------------------------------

    def load(self) -> TimerRecovery:
        """Open the files and recover; after `MessageStore.load`, before the first put.

        Raises ConfigError when timeSliceLength or mappedFileSizeDCommitLog is not the store's, and
        StoreError when a file cannot be used.
        """
        state, progress = self._state, self._progress
        state.metrics.load()
        now_ms = self._clock.now_ms
        if progress is not None and progress.inbound[0] and progress.inbound != state.inbound:
            # Nothing waits in the other queue (`timer/choice.py`), and all of this one was done
            # before.
            progress = evolve(
                progress, delay_offset=state.queue_end, ends={}, late=frozenset(), clean=None
            )
        findings = recover(
            state,
            progress,
            first_offset=self._first_offset,
            now_ms=now_ms,
            skip_damage=self._skip_damage,
        )
        take_store(self._file, state, progress)
        if state.damaged_slices and progress is not None:
            self._fill_again(progress.delay_offset)
        if state.role is not SliceRole.MASTER:
            # What the master released since then will have to be found when this node takes over.
            log = state.store.log
            state.cell_scan_pos = log.min_offset if progress is None else progress.scan_pos
        found = (state.store.log.max_offset, state.metrics.counter)
        if progress is None or progress.clean != found or state.damaged_slices:
            state.metrics.replace(recount(state), now_ms)
        self._changes.look_for_unfinished()
        self._gates.start(now_ms)
        self._running = True
        if state.role is SliceRole.MASTER:
            self._course.open()
        pending = state.metrics.total
        _LOG.info("sliced timer store loaded: %d pending, %r", pending, findings)
        return evolve(
            findings,
            already_released=len(state.done),
            queue_offset=state.queue_offset,
            read_time_ms=state.current_second * SECOND_MS,
            pending=pending,
        )

    def _fill_again(self, upto: int) -> None:
        """Send everything on its way again that damaged logs lack, and make that durable.

        At once: a stop in the middle would leave nothing that says what has left already.
        """
        inbound = self._dispatch.next()
        while inbound is not None and inbound.queue_offset < upto:
            self._dispatch.put(inbound)
            self._state.queue_offset = inbound.queue_offset + 1
            inbound = self._dispatch.next()
        self._flush.begin(clean=False).run()

    def abandon(self) -> None:
        """Let go of everything as a killed process would: nothing is written."""
        self._running = False
        self._release_files()

    @property
    def _is_open(self) -> bool:
        return self._running

    def _stop(self) -> None:
        self._keep_up(self._clock.now_ms)
        self._running = False

    def _release_files(self) -> None:
        self._state.log.close()

    def _load_all(self) -> None:
        """Do nothing: what is not in memory is read where it lies."""

    # --- arrivals ------------------------------------------------------------------------------

    def on_arrival(self, arrivals: Arrivals) -> None:
        """Take note of what became visible; messages of the inbound queue go their way."""
        state = self._state
        if arrivals.topic == state.topic and arrivals.queue_id == state.inbound[1]:
            for arrival in arrivals.each() if self._running else ():
                self._take(arrival)
            state.alarm.ring()

    def _take(self, arrival: Arrival) -> None:
        """Send a message that arrived on its way, unless it must wait in the queue."""
        state = self._state
        request = parse_request(arrival.properties)
        if request is None:
            return  # it is counted when it is sent on its way
        if request.deletes is None:
            state.metrics.add(request.real_topic, 1, arrival.store_timestamp)
        else:
            victim = victim_root(arrival.properties)
            self._unsettled.add(arrival.commit_log_offset, request, victim)
        state.changes += 1
        if self._gates.entry_closed:
            self._keep_out(arrival, request)
            return
        if self._firing or arrival.queue_offset != state.queue_offset or self.retry.is_on:
            return
        self._keep_up(arrival.store_timestamp)
        record = state.store.log.read(arrival.commit_log_offset, arrival.size)
        if record is None:
            return
        try:
            self._dispatch.put(Inbound(arrival.queue_offset, _glance_of(arrival, request), record))
            state.queue_offset += 1
        except StoreError as error:
            # The message is accepted and stays in the queue; `fire` tries again.
            _LOG.warning("timer at %d not in its slice yet: %s", arrival.commit_log_offset, error)
            self.retry.begin(arrival.store_timestamp, DISK_RETRY_MS)

    def _keep_out(self, arrival: Arrival, request: TimerRequest) -> None:
        """Let a mark work that a hold keeps in the queue, and note how far that is known."""
        state = self._state
        if request.deletes is not None:
            state.kept_out.add(_glance_of(arrival, request))
        if arrival.queue_offset == max(state.kept_out_to, state.queue_offset):
            state.kept_out_to = arrival.queue_offset + 1

    def _keep_up(self, now_ms: int) -> None:
        """Let the current second follow the clock, if nothing is held or still to be read."""
        if (
            not self._firing
            and not self._gates.exit_closed(now_ms)
            and self._dispatch.queue_depth <= 1
        ):
            self._course.keep_up(now_ms)

    # --- time ----------------------------------------------------------------------------------

    def next_deadline(self) -> Deadline | None:
        """When `fire` has something to do: a release, or a slice to load before its time."""
        if not self._running:
            return None
        if self.retry.is_on:
            return self.retry.deadline
        now_ms = self._clock.now_ms
        state = self._state
        if self._dispatch.queue_depth and not self._gates.entry_closed:
            return Deadline(now_ms, "timers to send on their way")
        if state.role is not SliceRole.MASTER:
            return None
        if self._changes.unfinished is not None:
            return Deadline(now_ms, "mark of a moved timer")
        if self._gates.exit_closed(now_ms):
            opens_ms = self._gates.exit_opens_ms(now_ms)
            return None if opens_ms is None else Deadline(opens_ms, "disappearTimeAfterStart")
        return self._course.next_deadline(now_ms)

    def head_rank(self, due_ms: int) -> int:
        """Give the commit-log offset of the timer that goes first at `due_ms`."""
        return UNRANKED if self._dispatch.queue_depth else self._course.head_rank(due_ms)

    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:  # noqa: ARG002
        """Do everything that is due at `now_ms` until the budget is used up.

        Gives the number of messages delivered. Nothing hops here, so `horizon_ms` has no meaning.
        """
        if not self._running:
            return 0
        self.retry.look(now_ms)
        if self.retry.is_on:
            return 0
        before = self._fire.released
        self._firing = True
        try:
            self._step(now_ms, budget)
        except StoreError as error:
            _LOG.warning("the sliced timer store waits for its disk: %s", error)
            self.retry.begin(now_ms, DISK_RETRY_MS)
        finally:
            self._firing = False
        return self._fire.released - before

    def _step(self, now_ms: int, budget: Budget) -> None:
        if self._state.role is SliceRole.MASTER and not self._changes.finish():
            self.retry.begin(now_ms, DISK_RETRY_MS)
            return
        self._settle_marks()
        if not self._send_on(budget):
            return
        if self._gates.exit_closed(now_ms):
            return
        if self._gates.entry_closed and not self._dispatch.note_kept_out(budget):
            return
        if self._course.run(now_ms, budget) is Release.BLOCKED:
            self.retry.begin(now_ms, self._fire.delivery.retry_wait_ms)

    def _send_on(self, budget: Budget) -> bool:
        """Send every entry of the queue on its way; False when time ran out before the end."""
        if self._gates.entry_closed:
            return True
        inbound = self._dispatch.next()
        while inbound is not None:
            self._dispatch.put(inbound)
            self._state.queue_offset = inbound.queue_offset + 1
            if budget.exhausted() and self._dispatch.queue_depth:
                return False
            inbound = self._dispatch.next()
        self._state.kept_out.clear()
        return True

    # --- role ------------------------------------------------------------------------------------

    @property
    def role(self) -> SliceRole:
        """What this node does; a master from the start unless it was made as something else."""
        return self._state.role

    def become(self, role: SliceRole) -> None:
        """Take another role. A follower or slave that becomes the master takes over."""
        state = self._state
        if role is state.role:
            return
        if role is not SliceRole.MASTER:
            step_down(state, role)
            return
        state.role = role
        take_over(state)
        self._unsettled.clear()
        state.metrics.replace(recount(state), self._clock.now_ms)
        self._course.open()

    @property
    def should_running_dequeue(self) -> bool:
        """Whether due timers leave this store, in the words of the wheel engine."""
        return self._state.role is SliceRole.MASTER

    def set_should_running_dequeue(self, running: bool) -> None:
        """Be the master, or a follower, in the words of the wheel engine."""
        self.become(SliceRole.MASTER if running else SliceRole.FOLLOWER)

    def follow(self, table: Mapping[str, Any]) -> None:
        """Take note of the master's delayOffset.json, on a follower.

        Raises ConfigError when the master's slices have another length or another inbound queue.
        """
        follow(self._state, table)

    # --- looking in ----------------------------------------------------------------------------

    def _cell_count(self, out_ms: int) -> int:
        """Give how many timers the second of a TIMER_OUT_MS holds; 0 while it is not in memory."""
        second = second_of(out_ms)
        wheel = self._state.wheel_of(self._state.slice_of(second))
        return 0 if wheel is None else wheel.count(second)

    def distribution(self) -> Distribution:
        """Begin to count timers by how soon they are due."""
        return Distribution(distances(self._state, self._clock.now_ms))

    @property
    def checkpoint(self) -> None:
        """Nothing: there is no timercheck."""

    def log_ends(self) -> dict[str, int]:
        """Give the end of every slice's log, by folder: what lies before it does not change."""
        slices = self._state.log.slices
        return {folder_of(number): log.end for number, log in slices.items()}

    def begin_flush(self, *, clean: bool = False) -> SliceFlush:
        """Capture what to write; see `TimerEngine`."""
        clean = self._prepare_flush(clean=clean)
        if self._running:
            self._keep_up(self._clock.now_ms)
        return self._flush.begin(clean=clean)


def _glance_of(arrival: Arrival, request: TimerRequest) -> Glance:
    return Glance(
        arrival.commit_log_offset,
        arrival.size,
        second_of(request.out_ms),
        request.real_topic,
        request.deletes is not None,
        arrival.properties,
    )
