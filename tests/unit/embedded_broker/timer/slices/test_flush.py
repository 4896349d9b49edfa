"""How a sliced store becomes durable."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.memory_fs import MemoryFileSystem, MemorySegment
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.delay_offsets import DelayOffsetFile
from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, SliceRig


class NotedSegment(MemorySegment):
    __slots__ = ("fs",)

    fs: NotingFileSystem

    def sync(self) -> None:
        self.fs.note(f"sync {self.path.partition('/')[0]}")


class NotingFileSystem(MemoryFileSystem):
    """Notes what becomes durable or goes, in which order; refuses one thing if it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.refused = ""

    def note(self, step: str) -> None:
        if step == self.refused:
            raise StoreError(f"refused: {step}")
        if not self.steps or self.steps[-1] != step:
            self.steps.append(step)

    def new_segment(self, path: str, size: int) -> NotedSegment:
        segment = NotedSegment(path, size)
        segment.fs = self
        return segment

    def sync_file(self, path: str) -> None:
        super().sync_file(path)
        self.note(f"sync {path}")

    def remove(self, path: str) -> None:
        if path in self.files():
            self.note(f"remove {path.partition('/')[0]}")
        super().remove(path)


def test_progress_follows_what_it_accounts_for_and_files_go_last() -> None:
    fs = NotingFileSystem()
    rig = SliceRig(fs)
    rig.timer(1000)
    rig.timer(100_000)
    rig.advance(50_000)
    fs.steps.clear()
    rig.flush()
    wanted = [
        "sync commitlog",
        "sync dcommitlog",
        "sync config/slicemetrics.tmp",
        "sync config/delayOffset.json.tmp",
        "remove dcommitlog",
    ]
    assert list(dict.fromkeys(step for step in fs.steps if step in wanted)) == wanted


def test_a_slice_s_files_stay_until_the_progress_is_saved() -> None:
    rig = SliceRig()
    rig.timer(1000)
    number = START_MS // 60_000
    rig.advance(45_000)
    assert rig.slices() == [number]
    flush = rig.timers.stages["SliceFlushService"]
    assert flush.queue_depth == 1
    rig.flush()
    assert rig.slices() == []
    assert flush.counters == {"begun": 1, "slices_removed": 1}


@pytest.mark.parametrize("step", ["sync dcommitlog", "sync config/delayOffset.json.tmp"])
def test_what_a_flush_could_not_do_the_next_one_does(step: str) -> None:
    fs = NotingFileSystem()
    rig = SliceRig(fs)
    rig.timer(1000)
    rig.timer(100_000)
    rig.advance(50_000)
    fs.refused = step
    with pytest.raises(StoreError, match="refused"):
        rig.flush()
    assert len(rig.slices()) == 2
    fs.refused = ""
    fs.steps.clear()
    rig.flush()
    assert "sync config/delayOffset.json.tmp" in fs.steps
    assert len(rig.slices()) == 1
    assert DelayOffsetFile(fs).load()["sliceDelayOffset"] == 2


def test_nothing_is_written_while_nothing_happens() -> None:
    fs = NotingFileSystem()
    rig = SliceRig(fs)
    rig.timer(100_000)
    rig.flush()
    fs.steps.clear()
    rig.clock.now_ms += 20_000
    rig.flush()
    rig.flush()
    assert fs.steps == []


def test_progress_is_saved_before_recovery_had_to_read_much_of_the_commit_log() -> None:
    rig = SliceRig()
    rig.timer(100_000)
    rig.flush()
    before = DelayOffsetFile(rig.fs).load()["sliceReleaseScanPos"]
    for _ in range(110):
        rig.store.put(InnerMessage("T", 0, bytes(40_000), {}))
    rig.clock.now_ms += 2000
    rig.flush()
    assert DelayOffsetFile(rig.fs).load()["sliceReleaseScanPos"] > before + 4_000_000
