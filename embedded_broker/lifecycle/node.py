"""Life of one broker: its store, timers and threads are opened, started and closed in order.

Answers: how a broker is put together and taken apart, in the order of the original
(``BrokerController.initialize``, ``start``, ``shutdown``; timer-store 5.1 and 5.2). Must not know:
addresses of others, what a user calls. Read on: ``embedded_broker/lifecycle/runtime.py`` for what
brokers share, ``embedded_broker/lifecycle/parts.py`` for the state.
"""

import logging
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path

from embedded_broker.clocks.clock import BrokerClock, VirtualClock
from embedded_broker.clocks.driver import Track
from embedded_broker.clocks.instants import instant
from embedded_broker.clocks.wall_time_hint import WallTimeHint
from embedded_broker.core.guards import RemoteAdministration
from embedded_broker.errors import StoreError
from embedded_broker.ha.registration import Registration
from embedded_broker.lifecycle import assembly
from embedded_broker.lifecycle.aging import LOOK_EVERY_MS, Aging, TimerHousekeeping
from embedded_broker.lifecycle.arguments import Arguments
from embedded_broker.lifecycle.escape_wiring import Escape
from embedded_broker.lifecycle.flusher import Flusher
from embedded_broker.lifecycle.idleness import Idleness
from embedded_broker.lifecycle.master import registration_of
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.lifecycle.recovery_report import RecoveryReport
from embedded_broker.lifecycle.reset import succeed
from embedded_broker.lifecycle.runtime import Runtime
from embedded_broker.lifecycle.slave import SlaveNode
from embedded_broker.lifecycle.snapshot import CLOCK_PATH, clock_document, take_snapshot
from embedded_broker.lifecycle.unsynced import Unsynced
from embedded_broker.store.config_files import JsonConfigFile
from embedded_broker.store.flush import FlushWork
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.retention import MEMORY_OPTIONS, allow_memory
from embedded_broker.tables.accounts.plain import WATCH_EVERY_MS
from embedded_broker.tables.peer import is_loopback, pack_address
from embedded_broker.timer.choice import make_engine
from embedded_broker.timer.delay_offsets import DelayOffsetFile
from embedded_broker.timer.levels.service import ScheduleMessageService
from embedded_broker.timer.stage import FlushStage
from rocketmq_py.clock import LATEST_MS
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

FLUSH_S = 60.0


class BrokerNode:
    """A running broker: ``core`` is its state; ``close`` ends it cleanly, ``crash`` does not.

    ``predecessor`` is a state whose clients this one takes over: nothing is opened for them.
    ``unsynced`` is what the broker had not synced when it crashed.
    """

    def __init__(
        self,
        runtime: Runtime,
        arguments: Arguments,
        fs: FileSystem,
        address: str,
        *,
        ha_address: str = "",
        predecessor: BrokerParts | None = None,
        unsynced: Unsynced | None = None,
    ) -> None:
        self.fs = fs
        self.ha_address = ha_address
        """Where slaves follow it; "" if none can."""
        self._runtime = runtime
        self._arguments = arguments
        self._undo: list[Callable[[], None]] = []
        self.unsaved: str | None = None
        """What the disk refused when this was closed."""
        self._is_open = False
        self._levels_due = False
        self._held_too = False
        self._predecessor = predecessor
        self._unsynced = unsynced or Unsynced((), ())
        self._tracks: list[Track] = []
        self._kept_clock: dict[str, object] = {}
        self._slave: SlaveNode | None = None
        """What follows a master, in a slave."""
        self._registration: Registration | None = None
        """What registers a master at name servers of other processes."""
        self._escape: Escape | None = None
        """By what the due messages of a broker leave that only delays."""
        try:
            self._open(address)
        except BaseException:
            self._run_undo()
            raise
        self._is_open = True

    def _open(self, address: str) -> None:
        arguments, runtime, fs = self._arguments, self._runtime, self.fs
        config, clock = arguments.config, arguments.clock
        host, _, port = address.rpartition(":")
        self._clock_file = JsonConfigFile(fs, CLOCK_PATH)
        store_host = pack_address(host.strip("[]"), int(port))
        owner = f"embedded broker {arguments.broker_name} at {address}"
        store = MessageStore(fs, config, clock, store_host, owner=owner)
        skip_damage = config.text("damagedRecords") == "skip"
        offsets_file = DelayOffsetFile(fs, skip_damage=skip_damage)
        levels = ScheduleMessageService(store, fs, config, clock, file=offsets_file)
        self._undo.append(partial(self._close_store, store))
        self.share_memory()
        found = store.load()
        timers = make_engine(
            store,
            fs,
            config,
            clock,
            random=runtime.random,
            file=offsets_file,
            levels=arguments.levels,
        )
        timers.admission.honours_timers = arguments.profile.timer_messages
        timers.admission.set_limits(arguments.limits)
        if isinstance(clock, VirtualClock):
            saved = self._clock_file.load(skip_damage=True)
            _restore(clock, saved, store.last_store_timestamp)
        elif fs.exists(CLOCK_PATH):
            _tell_of_left_time(owner, clock, self._clock_file.load(skip_damage=True))
        self._undo.append(timers.close)
        timers_found = timers.load()
        self._undo.append(levels.close)
        if arguments.levels:
            levels.load()
        self.parts = parts = BrokerParts(
            door=runtime.door,
            clock=clock,
            session_clock=arguments.session_clock,
            config=config,
            profile=arguments.profile,
            limits=arguments.limits,
            store=store,
            timers=timers,
            levels=levels,
            journal=runtime.journal,
            random=runtime.random,
            cluster_name=arguments.cluster_name,
            broker_name=arguments.broker_name,
            address=address,
            new_topic_type="" if arguments.grpc is None else "MIXED",
            accounts=arguments.accounts,
            first_users=arguments.first_users,
        )
        self._flusher = self._connect_flusher(parts)
        self._install(parts)
        self._mend_files(offsets_file)
        self.recovery = RecoveryReport.of(
            found, timers_found, store.problems, self._unsynced.lost(found.commit_log_end)
        )
        config.on_change(self._note_change)
        config.on_change(self._note_memory)
        self._idleness = Idleness(parts, runtime.clients, runtime.namesrv)
        self._aging = Aging(parts, clock)
        parts.let_old_go = self._aging.look_at_once
        if self._predecessor is None:
            runtime.serve(address, parts.endpoint)
            runtime.let_grpc_clients_reach(parts)
        self._take_role(parts)

    def _take_role(self, parts: BrokerParts) -> None:
        """Let slaves follow, or follow a master."""
        if (slaves := self._runtime.serve_slaves(parts)) is not None:
            parts.durability.replication.slaves = slaves
            slaves.on_reported = parts.durability.replicated
            parts.on_leave.append(slaves.close)
        if parts.config.text("brokerRole") == "SLAVE":
            with parts.door:
                self._slave = SlaveNode(parts, self.ha_address, self._runtime.driver.wake)
            return
        with parts.door:
            self._registration = registration_of(parts, self.ha_address, self._runtime.driver.wake)
            if name_servers := parts.config.text("escapeNamesrvAddr"):
                self._escape = Escape(parts, name_servers, self._runtime.driver.wake)
                self._escape.open()

    def _connect_flusher(self, parts: BrokerParts) -> Flusher:
        """Make what flushes, and let everybody ask it."""
        flusher = Flusher(parts.door, self._begin_flush, parts.durability.synced, parts.store.look)
        parts.durability.request_flush = flusher.request
        parts.in_background = flusher.do
        parts.sync_log = partial(flusher.cycle, everything=False)
        parts.flush_everything = self._flush_now
        parts.timers.retry.session_timer = parts.session.after
        parts.levels.session_timer = parts.session.after
        parts.levels.request_flush = flusher.request
        return flusher

    def _mend_files(self, offsets_file: DelayOffsetFile) -> None:
        """Report the small files that were not as they should be, and write them anew."""
        parts, clock, clock_file = self.parts, self.parts.clock, self._clock_file
        metrics = parts.timers.metrics
        files: list[tuple[str | None, Callable[[], None]]] = [
            (offsets_file.problem, partial(offsets_file.save, {})),
            (metrics.problem, metrics.save),
        ]
        if isinstance(clock, VirtualClock):
            files.append((clock_file.problem, partial(clock_file.save, clock_document(clock))))
        elif clock_file.problem is not None:
            parts.store.problems.append(clock_file.problem)
        for problem, save in files:
            if problem is None:
                continue
            parts.store.problems.append(problem)
            try:
                save()
            except StoreError as error:
                logger.warning("not mended yet: %s", error)

    def _install(self, parts: BrokerParts) -> None:
        """Give the broker its hooks, tables, handlers and its place at the name server."""
        store, timers, namesrv = parts.store, parts.timers, self._runtime.namesrv
        self._undo.append(parts.endpoint.long_requests.close)
        parts.wall_time_hint = WallTimeHint(self._arguments.session_clock)
        with parts.door:
            store.hooks.listed += [parts.wall_time_hint, timers.admission]
            self._arguments.put_hooks.run_before(store.hooks.listed)
            if not is_loopback(self._arguments.host):
                parts.guards.append(RemoteAdministration(parts.config))
            store.listen(timers.topic, timers.on_arrival)
            parts.queues_of = namesrv.routes.readable_queues
            assembly.install(parts)
            namesrv.register(
                parts.tables.topics,
                parts.config,
                cluster=parts.cluster_name,
                broker_name=parts.broker_name,
                address=parts.address,
                ha_address=self.ha_address,
                broker_id=parts.config.int("brokerId"),
            )
        parts.on_leave.append(
            partial(namesrv.registrations.drop, parts.cluster_name, parts.address)
        )

    def start(self) -> None:
        """Start flushing; timers fire once the runtime has started."""
        parts, runtime = self.parts, self._runtime
        driver = runtime.driver
        self._tracks = [
            driver.add(self._arguments.session_clock, [parts.session], visible=False),
            driver.add(self._arguments.clock, parts.sources, visible=True),
        ]
        driver.after_jump.append(self._after_jump)
        driver.after_age.append(self._aging.look_at_once)
        driver.barriers += [self._wait_for_escape, self._flusher.wait_other, self._keep_clock]
        self._arguments.clock.move_in(self._idleness)
        self._flusher.start()
        self._undo.append(self._flusher.close)
        parts.config.attach(lambda: parts.door)
        self._undo.append(parts.config.detach)
        with parts.door:
            parts.session.every(
                parts.config.int("flushIntervalCommitLog"), self._flusher.request, "flush"
            )
            parts.session.every(parts.config.int("timerFlushIntervalMs"), self._flush_all, "flush")
            parts.session.every(
                parts.config.int("flushDelayOffsetInterval"), self._flush_levels, "flush"
            )
            parts.session.every(LOOK_EVERY_MS, self._aging.look)
            if parts.accounts is not None:
                watch = partial(parts.in_background, parts.accounts.watch)
                parts.session.every(WATCH_EVERY_MS, watch)
            TimerHousekeeping(parts).start()
            if self._arguments.store is not None and self._arguments.topics:
                parts.table_files.save()
        self._flusher.wait_other()  # topics that were asked for survive even if we are killed now
        if self._slave is not None:
            self._slave.start()
        if self._registration is not None:
            self._registration.start()

    def snapshot(self, path: str | PathLike[str]) -> Path:
        """Copy the store as it is now. Outside the door."""
        self._levels_due = self._held_too = True  # what the flush writes must be complete
        return take_snapshot(self.parts, self._flusher, path)

    def describe_retention(self) -> str:
        """Say what the store keeps, and for how long."""
        return self._aging.describe()

    def take_over(self) -> None:
        """Answer the clients of the predecessor from now on."""
        old, self._predecessor = self._predecessor, None
        if old is not None:
            with self.parts.door:
                self._runtime.replace(old, self.parts)
                succeed(old, self.parts)

    def close(self) -> None:
        """Save and sync everything, then give the files back. After the runtime has closed."""
        parts = self.parts
        self._stop_following(clean=True)
        try:
            with parts.door:
                parts.save_all()
            self._flusher.close()
            if isinstance(parts.clock, VirtualClock):
                try:
                    self._clock_file.save(clock_document(parts.clock))
                except StoreError as error:
                    if parts.store.health.problem is None:
                        raise
                    logger.warning("the time of the clock is not saved: %s", error)
        finally:
            self._leave()
            self._run_undo()

    def _close_store(self, store: MessageStore) -> None:
        """Close the messages; a store that is refused after a crash stays as the crash left it."""
        if not self._is_open and not store.was_clean:
            store.keep_mark()
        store.close()

    def stop_flushing(self) -> None:
        """Begin to crash: from now on nothing more becomes durable."""
        self._flusher.abandon()

    def crash(self) -> None:
        """Let go of everything as a killed process does: nothing is saved or synced."""
        parts = self.parts
        self._stop_following(clean=False)
        self._flusher.abandon()
        self._leave()
        with parts.door:
            works = parts.table_files.begin_saves()
        for work in works:
            work()
        with parts.door:
            parts.timers.abandon()
            parts.store.abandon()
        parts.config.detach()
        parts.endpoint.long_requests.close()
        self._undo.clear()

    def _leave(self) -> None:
        """Stop acting: nothing fires, nobody is asked or told."""
        parts, driver = self.parts, self._runtime.driver
        for track in self._tracks:
            driver.remove(track)
        self._arguments.clock.move_out(self._idleness)
        with parts.door:
            for calls, mine in (
                (driver.after_jump, self._after_jump),
                (driver.after_age, self._aging.look_at_once),
                (driver.barriers, self._wait_for_escape),
                (driver.barriers, self._flusher.wait_other),
                (driver.barriers, self._keep_clock),
            ):
                if mine in calls:
                    calls.remove(mine)
            for call in parts.on_leave:
                call()
            parts.on_leave.clear()

    def _keep_clock(self) -> None:
        """Save a virtual clock that was moved: a process that is killed then goes on there.

        Outside the door, on the thread that moved it. A store in memory ends with the process.
        """
        clock = self._arguments.clock
        if self._arguments.store is None or not isinstance(clock, VirtualClock):
            return
        document = clock_document(clock)
        if document == self._kept_clock:
            return
        try:
            self._clock_file.save(document)
        except StoreError as error:
            logger.warning("the time of the clock is not saved: %s", error)
        else:
            self._kept_clock = document

    def _run_undo(self) -> None:
        """Take apart in the reverse order of putting together; a failure stops nothing."""
        while self._undo:
            step = self._undo.pop()
            try:
                step()
            except StoreError as error:
                # A disk that refuses says what and why: where in the code helps nobody.
                self.unsaved = str(error)
                logger.log(logging.ERROR, "closing a broker: not everything is saved: %s", error)
            except Exception as error:
                self.unsaved = repr(error)
                logger.exception("closing a broker: %r failed", step)

    def _begin_flush(self, everything: bool) -> list[FlushWork]:
        """Capture what to sync, timers first: their check point must not be ahead (5a)."""
        parts = self.parts
        if not everything:
            return [parts.store.begin_flush()]
        stages = parts.timers.stages.values()
        held = any(isinstance(stage, FlushStage) and stage.paused for stage in stages)
        work: list[FlushWork] = []
        if self._held_too or not held:
            work.append(parts.timers.begin_flush())
        self._held_too = False
        if self._levels_due:
            self._levels_due = False
            work.append(parts.levels.begin_flush())
        return [parts.store.begin_flush(), *work]

    def _note_change(self, _names: frozenset[str]) -> None:
        """Let the driver look again: options hold and release timers."""
        self._runtime.driver.wake()

    def _wait_for_escape(self) -> None:
        """Let a jump of the clock end when what is due is where it belongs."""
        slave, escape = self._slave, self._escape
        if slave is not None and slave.acting is not None:
            escape = slave.acting.escape
        if escape is not None:
            escape.wait()

    def _stop_following(self, *, clean: bool) -> None:
        slave, self._slave = self._slave, None
        if slave is not None:
            slave.close(clean=clean)
        registration, self._registration = self._registration, None
        if registration is not None:
            registration.close(politely=clean)
        escape, self._escape = self._escape, None
        if escape is not None:
            escape.close(clean=clean)

    def _note_memory(self, names: frozenset[str]) -> None:
        if names & MEMORY_OPTIONS:
            self.share_memory()

    def share_memory(self) -> None:
        """Tell a store in memory what it may take, by the options and the number of brokers."""
        allow_memory(self.fs, self._arguments.config, self._runtime.memory.each)

    def _flush_now(self) -> None:
        cycle = partial(self._flusher.cycle, everything=True)
        self._flusher.do_and_wait(cycle, FLUSH_S, "the flush did not end")

    def _flush_all(self) -> None:
        self._flusher.request(everything=True)

    def _flush_levels(self) -> None:
        self._levels_due = True

    def _after_jump(self) -> None:
        """Housekeeping at the end of a jump of the message clock. Under the door."""
        self.parts.transactions.end_jump()
        self._levels_due = True
        self._flush_all()


def _restore(clock: VirtualClock, saved: object, last_store_timestamp: int) -> None:
    """Let a clock go on where the store was closed, at its last message at least."""
    clock.raise_to(max(_left_at_ms(saved) or 0, last_store_timestamp))
    clock.jumps.take_over(saved.get("leaps") if isinstance(saved, dict) else None)


def _left_at_ms(saved: object) -> int | None:
    """Read when a store was closed; None where its file names no time that a clock can show."""
    now_ms = saved.get("nowMs") if isinstance(saved, dict) else None
    return now_ms if isinstance(now_ms, int) and 0 <= now_ms <= LATEST_MS else None


def _tell_of_left_time(owner: str, clock: BrokerClock, saved: object) -> None:
    """Warn that a store lived on virtual time, which wall time does not go on with."""
    now_ms = _left_at_ms(saved)
    if now_ms is not None:
        logger.warning(
            "virtual_time_left %s: the store was left at virtual time %s, and this broker runs on "
            "wall time, %s. Messages that wait are now due by wall time. Pass "
            "clock=VirtualClock() to go on at the virtual time",
            owner,
            instant(now_ms).isoformat(),
            clock.now().isoformat(),
        )
