"""The order in which the files become durable, and what a failure leaves to do."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.memory_fs import MemoryFileSystem, MemorySegment
from embedded_broker.timer.wheel.checkpoint import TimerCheckpointFile, TimerMetaFile
from embedded_broker.timer.wheel.flush import CHECKPOINT_FILE, META_FILE
from tests.unit.embedded_broker.timer.timer_rig import Rig


class WatchedSegment(MemorySegment):
    __slots__ = ("fs",)

    fs: WatchedFileSystem

    def sync(self) -> None:
        self.fs.note(self.path)


class WatchedFileSystem(MemoryFileSystem):
    """Writes down what is synced, and can refuse it."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []
        self.refused = ""

    def new_segment(self, path: str, size: int) -> WatchedSegment:
        segment = WatchedSegment(path, size)
        segment.fs = self
        return segment

    def sync_file(self, path: str) -> None:
        super().sync_file(path)
        self.note(path)

    def note(self, path: str) -> None:
        name = path.removesuffix(".tmp").split("/")
        short = name[1] if name[0] == "config" else name[0]
        if self.refused == short:
            raise StoreError(f"{path}: the disk refuses")
        self.synced.append(short)


def watched() -> tuple[Rig, WatchedFileSystem]:
    fs = WatchedFileSystem()
    rig = Rig(fs)
    fs.synced.clear()
    return rig, fs


@pytest.mark.case("C13")
def test_messages_come_first_and_what_says_so_comes_last() -> None:
    rig, fs = watched()
    rig.timer(60_000)
    timers = rig.timers.begin_flush()
    assert fs.synced == []
    rig.store.begin_flush().run()
    timers.run()
    order = [name for name in fs.synced if name != "checkpoint"]
    assert order == [
        "commitlog",
        "consumequeue",
        "timerlog",
        "timerwheel",
        "timermeta",  # of a new store, so that its first timercheck has a copy
        "timercheck",
        "timermetrics",
        "timermetrics.crc32",
        "timermeta",
    ]


def test_positions_are_those_of_the_moment_of_capture() -> None:
    rig, fs = watched()
    rig.timer(60_000)
    work = rig.timers.begin_flush()
    rig.timer(60_000)
    rig.store.begin_flush().run()
    work.run()
    checkpoint = TimerCheckpointFile(fs, CHECKPOINT_FILE).load()
    assert checkpoint is not None
    assert checkpoint.last_timer_queue_offset == 1
    assert checkpoint.last_timer_log_flush_pos == 52
    meta = TimerMetaFile(fs, META_FILE).load()
    assert meta is not None
    assert meta.checkpoint == checkpoint


@pytest.mark.parametrize("back_ms", [500, 5000, 3_600_000])
def test_the_first_flush_may_end_early_behind_a_clock_that_was_set_back(back_ms: int) -> None:
    """Its timercheck names a read time that has not come, and nothing of it is damaged."""
    rig, fs = watched()
    rig.timer(60_000)
    rig.advance(10_000)
    rig.clock.now_ms -= back_ms
    fs.refused = "timermetrics"
    with pytest.raises(StoreError):
        rig.flush()
    checkpoint = TimerCheckpointFile(fs, CHECKPOINT_FILE).load()
    assert checkpoint is not None
    assert checkpoint.last_read_time_ms > rig.clock.now_ms
    fs.refused = ""
    rig.crash()
    assert rig.recovery.pending == 1
    rig.advance(60_000 + back_ms)
    assert len(rig.bodies()) == 1


def test_nothing_is_written_when_nothing_changed() -> None:
    rig, fs = watched()
    rig.timer(60_000)
    rig.flush()
    fs.synced.clear()
    rig.flush()
    assert fs.synced == []


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("file", ["timerlog", "timerwheel", "timercheck", "timermeta"])
def test_a_flush_that_failed_is_made_up_for_by_the_next(file: str, *, is_first: bool) -> None:
    """In the first one of a store timermeta comes before timercheck, too, later only behind."""
    rig, fs = watched()
    rig.timer(60_000)
    if not is_first:
        rig.flush()
        rig.timer(60_000)
    fs.synced.clear()
    fs.refused = file
    with pytest.raises(StoreError):
        rig.flush()
    if file == "timermeta":
        assert ("timercheck" in fs.synced) is not is_first
    fs.refused = ""
    fs.synced.clear()
    rig.flush()
    assert [name for name in fs.synced if name.startswith("timer")][-1] == "timermeta"
    assert "timerwheel" in fs.synced
    rig.crash()
    assert rig.recovery.pending == (1 if is_first else 2)
    assert rig.store.problems == []
