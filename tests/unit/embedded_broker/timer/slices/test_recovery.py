"""A sliced store is found again from its bytes."""

from __future__ import annotations

from random import Random

import pytest

from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.timer.delay_offsets import DelayOffsetFile
from tests.sim.disk import Disk
from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, SliceRig

FILE = "0" * 20


def slice_file(delay_ms: int) -> str:
    return f"dcommitlog/{(START_MS + delay_ms) // 60_000}/{FILE}"


def overwrite(fs: MemoryFileSystem, path: str, at: int, data: bytes) -> None:
    fs.open_segment(path, fs.size(path), create=False).write(at, data)


def test_what_was_appended_and_not_accounted_for_is_not_appended_again() -> None:
    rig = SliceRig()
    rig.timer(100_000)
    rig.flush()
    rig.timer(100_000)
    rig.timer(101_000)
    rig.crash()
    assert rig.recovery.records_scanned == 2
    state = rig.timers._state
    number = (START_MS + 100_000) // 60_000
    rig.advance(1)
    assert len(list(state.log.scan(number))) == 3
    assert rig.timers.count() == 3
    rig.advance(200_000)
    assert rig.bodies() == [b"1", b"2", b"3"]


@pytest.mark.parametrize("passed", [0, 2, 4])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_flush_before_the_queue_was_read_again_repeats_no_timer(
    passed: int, is_killed: bool
) -> None:
    rig = SliceRig()
    rig.timer(100_000)
    rig.flush()
    for delay in (100_000, 200_000, 300_000, 100_000):
        rig.timer(delay)
    rig.settings["timerStopEnqueue"] = True
    rig.crash()
    state = rig.timers._state
    for queue_offset in range(1, 1 + passed):
        assert rig.timers._dispatch.read(queue_offset) is None  # it is in its log
        state.queue_offset = queue_offset + 1
    rig.flush()
    rig.settings["timerStopEnqueue"] = False
    rig.crash() if is_killed else rig.restart()
    assert [one.msg_id for one in rig.listed()] == ["K1", "K2", "K5", "K3", "K4"]
    assert rig.timers.count() == 5
    rig.advance(400_000)
    assert rig.bodies() == [b"1", b"2", b"5", b"3", b"4"]
    assert rig.timers.count() == 0


@pytest.mark.parametrize("damage", [b"\0\0\0\1", b"\0" * 60, b"\x7f\xff\xff\xff"])
def test_a_log_is_cut_at_its_first_bad_record_and_filled_again_from_the_queue(
    damage: bytes,
) -> None:
    rig = SliceRig()
    assert isinstance(rig.fs, MemoryFileSystem)
    rig.timer(100_000)
    rig.flush()
    rig.timer(100_000)
    at = rig.timers._state.log.slices[(START_MS + 100_000) // 60_000].end
    rig.timer(100_000)
    rig.timers.abandon()
    rig.store.abandon()
    overwrite(rig.fs, slice_file(100_000), at, damage)
    rig.open()
    assert rig.recovery.truncated_bytes > 0
    assert rig.timers.count() == 3
    rig.advance(200_000)
    assert rig.bodies() == [b"1", b"2", b"3"]
    assert not rig.timers.lost


def test_a_record_whose_message_is_not_in_the_commit_log_is_cut_off() -> None:
    disk = Disk(Random(1), persistent=False)
    rig = SliceRig(disk)
    rig.timer(100_000)
    rig.flush()
    end = rig.store.log.max_offset
    rig.timer(100_000)
    rig.timers.abandon()
    rig.store.abandon()
    # The slice's file came to the disk by itself, the commit log's page did not.
    log = next(one for one in disk.list("commitlog"))
    overwrite(disk, f"commitlog/{log}", end, bytes(300))
    rig.open()
    assert rig.timers.count() == 1
    rig.timer(90_000)
    rig.advance(200_000)
    assert [one.properties["UNIQ_KEY"] for one in rig.messages()] == ["K3", "K1"]


def test_without_progress_everything_is_read_and_nothing_is_repeated() -> None:
    rig = SliceRig()
    for delay in (1000, 2000, 30_000, 100_000):
        rig.timer(delay)
    rig.advance(5000)
    rig.close()
    for name in ("delayOffset.json", "delayOffset.json.bak", "slicemetrics", "slicemetrics.bak"):
        rig.fs.remove(f"config/{name}")
    rig.open()
    assert rig.recovery.whole_log
    assert rig.recovery.already_released == 2
    assert rig.timers.count() == 2
    rig.advance(100_000)
    assert rig.bodies() == [b"1", b"2", b"3", b"4"]


def test_slices_that_are_over_are_removed_when_a_crash_left_them() -> None:
    rig = SliceRig()
    rig.timer(1000)
    rig.timer(100_000)
    rig.advance(50_000)
    work = rig.timers.begin_flush()
    rig.store.begin_flush().run()
    DelayOffsetFile(rig.fs).save(work.table or {})
    rig.crash()  # the progress was saved, the files were not removed
    assert rig.slices() == [(START_MS + 100_000) // 60_000]
    rig.advance(60_000)
    assert rig.bodies() == [b"1", b"2"]


@pytest.mark.parametrize("last_only", [False, True])
def test_a_slice_whose_files_are_gone_is_filled_again_if_damage_is_left_out(
    last_only: bool,
) -> None:
    rig = SliceRig(config={"damagedRecords": "skip"})
    for _ in range(30):
        rig.timer(100_000)
    rig.timer(1000)
    rig.advance(2000)
    gone = rig.timer(100_000)
    rig.timers.recall(gone)
    rig.close()
    folder = slice_file(100_000).rpartition("/")[0]
    for name in rig.fs.list(folder)[-1 if last_only else 0 :]:
        rig.fs.remove(f"{folder}/{name}")
    rig.open()
    assert rig.timers.count() == 30
    rig.flush()
    rig.crash()
    rig.advance(200_000)
    assert rig.bodies() == [b"31", *(b"%d" % number for number in range(1, 31))]


@pytest.mark.parametrize("seed", range(25))
def test_a_power_loss_takes_only_what_the_commit_log_lost(seed: int) -> None:
    random = Random(seed)
    disk = Disk(random, persistent=False)
    settings = {"mappedFileSizeDCommitLog": 1024, "timeSliceLength": random.choice((1, 5, 60))}
    rig = SliceRig(disk, config=settings)
    for _ in range(4):
        for _ in range(25):
            rig.timer(random.randrange(1, 40_000))
            rig.advance(random.randrange(700))
            if random.random() < 0.2:
                rig.flush()
        rig.timers.abandon()
        rig.store.abandon()
        disk.reboot(power_lost=True)
        rig.open()
    accepted = {
        record.properties["UNIQ_KEY"]
        for record in rig.store.scan(0)
        if record.topic == rig.timers.topic
    }
    rig.advance(60_000)
    found = [one.properties["UNIQ_KEY"] for one in rig.messages()]
    assert sorted(found) == sorted(accepted)
