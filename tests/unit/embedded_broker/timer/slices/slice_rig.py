"""The rig of the timer tests with the sliced engine in it; small slices, small files."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.delay_offsets import DelayOffsetFile
from embedded_broker.timer.levels.service import ScheduleMessageService
from embedded_broker.timer.outcomes import TimerRecovery
from embedded_broker.timer.slices.engine import SlicedTimerStore
from embedded_broker.timer.slices.state import SliceRole
from tests.unit.embedded_broker.timer.timer_rig import (
    HOST,
    START_MS,
    Endless,
    FailingPuts,
    Rig,
    Short,
)

__all__ = ["START_MS", "Endless", "FailingPuts", "Short", "SliceRig"]


class SliceRig(Rig):
    """`Rig` whose timers are sliced: slices of a minute, files of 4 KiB, five seconds ahead."""

    timers: SlicedTimerStore  # type: ignore[assignment]

    def __init__(
        self,
        fs: FileSystem | None = None,
        *,
        now_ms: int = START_MS,
        config: Mapping[str, object] | None = None,
        levels_off: bool = False,
        role: SliceRole = SliceRole.MASTER,
    ) -> None:
        self.levels_off = levels_off
        self.role = role
        settings = {
            "timerEngine": "sliced",
            "timeSliceLength": 60,
            "slicePreloadSec": 5,
            "mappedFileSizeDCommitLog": 4096,
            **(config or {}),
        }
        super().__init__(fs, now_ms=now_ms, config=settings)

    def open(self) -> TimerRecovery:
        self.config = BrokerConfig(self.settings, defaults=self.defaults)
        self.store = MessageStore(self.fs, self.config, self.clock, HOST)
        file = DelayOffsetFile(self.fs)
        self.levels = ScheduleMessageService(
            self.store, self.fs, self.config, self.clock, file=file
        )
        self.store.load()
        self.timers = SlicedTimerStore(
            self.store,
            self.fs,
            self.config,
            self.clock,
            random=Random(7),
            file=file,
            levels_off=self.levels_off,
            role=self.role,
        )
        self.recovery = self.timers.load()
        if not self.levels_off:
            self.levels.load()
        self.store.hooks.listed.append(self.timers.admission)
        self.store.on_arrival.append(self.timers.on_arrival)
        return self.recovery

    def slices(self) -> list[int]:
        """Numbers of the slices that have files."""
        return sorted(
            int(name) for name in self.fs.list("dcommitlog") if self.fs.list(f"dcommitlog/{name}")
        )
