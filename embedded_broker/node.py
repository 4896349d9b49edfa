"""One broker of a cluster: its store, its timers, its tables, its flush thread.

Answers: how a broker is put together and taken apart, in the order of the original
(``BrokerController.initialize``, ``start``, ``shutdown``; timer-store 5.1 and 5.2). Must not
know: addresses of others, what a user calls. Read on: ``embedded_broker/runtime.py`` for what
brokers share, ``embedded_broker/core.py`` for the state.
"""

import logging
from collections.abc import Callable

from embedded_broker import handlers
from embedded_broker.arguments import Arguments
from embedded_broker.clock import VirtualClock
from embedded_broker.connection import pack_address
from embedded_broker.core import BrokerCore
from embedded_broker.flusher import Flusher, FlushWork
from embedded_broker.runtime import Runtime
from embedded_broker.store.config_files import JsonConfigFile
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.engine import TimerMessageStore
from embedded_broker.timer.levels import ScheduleMessageService
from embedded_broker.wall_time_hint import WallTimeHint

__all__ = ["BrokerNode"]

logger = logging.getLogger(__name__)

CLOCK_PATH = "config/virtualClock.json"


class BrokerNode:
    """A running broker: ``core`` is its state; ``close`` ends it cleanly."""

    def __init__(
        self, runtime: Runtime, arguments: Arguments, fs: FileSystem, address: str
    ) -> None:
        self.fs = fs
        self._runtime = runtime
        self._arguments = arguments
        self._undo: list[Callable[[], None]] = []
        self._levels_due = False
        self._changes = 0
        try:
            self._open(address)
        except BaseException:
            self._run_undo()
            raise

    def _open(self, address: str) -> None:
        arguments, runtime, fs = self._arguments, self._runtime, self.fs
        config, clock = arguments.config, arguments.clock
        host, _, port = address.rpartition(":")
        self._clock_file = JsonConfigFile(fs, CLOCK_PATH)
        store_host = pack_address(host.strip("[]"), int(port))
        owner = f"embedded broker {arguments.broker_name} at {address}"
        store = MessageStore(fs, config, clock, store_host, owner=owner)
        timers = TimerMessageStore(store, fs, config, clock, random=runtime.random)
        timers.admission.honours_timers = arguments.profile.timer_messages
        levels = ScheduleMessageService(store, fs, config, clock)
        self._undo.append(store.close)
        store.load()
        if isinstance(clock, VirtualClock):
            clock.raise_to(max(_saved_ms(self._clock_file), store.last_store_timestamp))
        self._undo.append(timers.close)
        timers.load()
        self._undo.append(levels.close)
        levels.load()
        self.core = core = BrokerCore(
            door=runtime.door,
            clock=clock,
            session_clock=arguments.session_clock,
            config=config,
            profile=arguments.profile,
            store=store,
            timers=timers,
            levels=levels,
            namesrv=runtime.namesrv,
            journal=runtime.journal,
            random=runtime.random,
            session_timers=runtime.session_timers,
            cluster_name=arguments.cluster_name,
            broker_name=arguments.broker_name,
            address=address,
        )
        self._flusher = Flusher(runtime.door, self._begin_flush, self._flush_done)
        core.request_flush = self._flusher.request
        core.in_background = self._flusher.do
        timers.session_timer = core.after
        levels.session_timer = core.after
        with runtime.door:
            store.put_hooks += [WallTimeHint(arguments.session_clock), timers.admission]
            store.on_arrival.append(timers.on_arrival)
            handlers.install(core)
        config.on_change(self._note_change)
        runtime.driver.add(clock, core.sources, visible=True, stirs=self._stirs)
        runtime.driver.after_jump.append(self._after_jump)
        runtime.driver.barriers.append(self._flusher.wait_other)
        runtime.serve(address, core.endpoint)

    def start(self) -> None:
        """Start flushing; timers fire once the runtime has started."""
        core = self.core
        self._flusher.start()
        self._undo.append(self._flusher.close)
        core.config.attach(lambda: core.door)
        self._undo.append(core.config.detach)
        with core.door:
            core.every(core.config.int("flushIntervalCommitLog"), self._flusher.request, "flush")
            core.every(core.config.int("timerFlushIntervalMs"), self._flush_all, "flush")
            core.every(core.config.int("flushDelayOffsetInterval"), self._flush_levels, "flush")

    def close(self) -> None:
        """Save and sync everything, then give the files back. After the runtime has closed."""
        core = self.core
        try:
            with core.door:
                for call in core.on_close:
                    call()
            self._flusher.close()
            if isinstance(core.clock, VirtualClock):
                self._clock_file.save({"nowMs": core.clock.now_ms})
        finally:
            self._run_undo()

    def _run_undo(self) -> None:
        """Take apart in the reverse order of putting together; a failure stops nothing."""
        while self._undo:
            step = self._undo.pop()
            try:
                step()
            except Exception:
                logger.exception("closing a broker: %r failed", step)

    def _begin_flush(self, everything: bool) -> list[FlushWork]:
        """Capture what to sync, timers first: their check point must not be ahead (5a)."""
        core = self.core
        if not everything:
            return [core.store.begin_flush()]
        work: list[FlushWork] = [core.timers.begin_flush()]
        if self._levels_due:
            self._levels_due = False
            work.append(core.levels.begin_flush())
        return [core.store.begin_flush(), *work]

    def _stirs(self) -> int:
        """Count what can bring a timer's deadline nearer, for the clock driver."""
        return self.core.store.delayed_puts + self._changes

    def _note_change(self, _names: frozenset[str]) -> None:
        """Let the driver look again: options hold and release timers."""
        self._changes += 1

    def _flush_done(self) -> None:
        self.core.flushed()

    def _flush_all(self) -> None:
        self._flusher.request(everything=True)

    def _flush_levels(self) -> None:
        self._levels_due = True

    def _after_jump(self) -> None:
        """Housekeeping at the end of a jump of the message clock. Under the door."""
        for call in self.core.housekeeping:
            call()
        self._levels_due = True
        self._flush_all()


def _saved_ms(file: JsonConfigFile) -> int:
    """Return the virtual time at which the store was closed, 0 when it never was."""
    saved = file.load()
    now_ms = saved.get("nowMs") if isinstance(saved, dict) else None
    return now_ms if isinstance(now_ms, int) else 0
