"""What is found again after stops, crashes and damage."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from random import Random

import pytest

from embedded_broker.errors import StoreDamagedError, StoreError
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.put_values import PutStatus
from embedded_broker.timer.delivery import NEVER_ENQUEUED_MS
from embedded_broker.timer.outcomes import RecallOutcome, TimerRecovery
from embedded_broker.timer.wheel.slots import SLOT_SIZE, TimerWheel
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint
from rocketmq_py.protocol.names import TIMER_TOPIC
from tests.unit.embedded_broker.store.store_tools import delete_before
from tests.unit.embedded_broker.timer.timer_rig import START_MS, FailingPuts, Rig

CHECK = "config/timercheck"
META = "config/timermeta"
LOG_0 = "timerlog/00000000000000000000"


def memory_of(rig: Rig) -> MemoryFileSystem:
    assert isinstance(rig.fs, MemoryFileSystem)
    return rig.fs


def wheel_of(rig: Rig) -> TimerWheel:
    """The wheel as its file holds it."""
    wheel = TimerWheel(rig.fs, "timerwheel", slots=rig.slots, precision_ms=1000)
    wheel.load()
    return wheel


def numbers(rig: Rig) -> list[int]:
    return sorted(map(int, rig.bodies()))


def open_without_damage(rig: Rig, match: str) -> TimerRecovery:
    """Open a store that is refused, and then with what is damaged left out."""
    with pytest.raises(StoreDamagedError, match=match):
        rig.open()
    rig.timers.abandon()
    if rig.store.was_clean:
        rig.store.close()
    else:
        rig.store.abandon()
    rig.settings["damagedRecords"] = "skip"
    recovery = rig.open()
    assert re.search(match, rig.store.problems[0])
    return recovery


@pytest.mark.case("C1")
def test_a_clean_stop_keeps_every_timer_and_the_queue_offset() -> None:
    rig = Rig()
    for number in range(250):
        rig.timer(1000 + 37 * number)
    rig.flush()
    recovery = rig.restart()
    assert recovery.queue_offset == 250
    checkpoint = TimerCheckpoint.decode(rig.fs.read_file(CHECK)[:56])
    assert checkpoint.last_timer_queue_offset == 250
    assert checkpoint.master_timer_queue_offset == 250
    assert (recovery.pending, recovery.records_scanned) == (250, 0)
    rig.advance(20_000)
    assert numbers(rig) == list(range(1, 251))


@pytest.mark.case("C2")
@pytest.mark.parametrize(("first", "last"), [(-1, -1), (2**63 - 1, 2**63 - 1), (-1, 2**63 - 1)])
def test_a_slot_with_impossible_positions_is_damage(first: int, last: int) -> None:
    rig = Rig()
    for _ in range(3):
        rig.timer(30_000)
    rig.close()
    wheel = wheel_of(rig)
    wheel.put_slot(START_MS + 29_000, first, last)
    wheel.begin_flush().run()
    assert open_without_damage(rig, "timerwheel is not as it was left").pending == 3
    rig.advance(30_000)
    assert numbers(rig) == [1, 2, 3]


@pytest.mark.case("C3")
def test_copies_of_the_directory_taken_while_it_runs_deliver_every_timer_once(
    tmp_path: Path,
) -> None:
    random = Random(3)
    config = {"mappedFileSizeCommitLog": 65536, "timerRollWindowSlot": 20}
    rig = Rig(DirectoryFileSystem(str(tmp_path / "live")), config=config)
    copies: list[tuple[Path, int, int]] = []
    due: dict[int, int] = {}
    while len(copies) < 50:
        for _ in range(random.randrange(1, 6)):
            delay_ms = random.randrange(1, 60_000)
            rig.timer(delay_ms)
            due[rig.serial] = rig.clock.now_ms + delay_ms
        if random.random() < 0.3:
            rig.flush()
        rig.advance(random.randrange(3000))
        where = tmp_path / str(len(copies))
        shutil.copytree(tmp_path / "live", where, ignore=shutil.ignore_patterns("lock"))
        copies.append((where, rig.clock.now_ms, rig.serial))
    for where, now_ms, serial in copies:
        again = Rig(DirectoryFileSystem(str(where)), now_ms=now_ms, config=config)
        again.advance(70_000)
        assert numbers(again) == list(range(1, serial + 1))
        assert all(one.stored_at_ms >= due[int(one.body)] for one in again.messages())
        again.abandon()


@pytest.mark.case("C4")
def test_slot_heads_and_numbers_are_rebuilt_after_a_crash_before_any_flush() -> None:
    rig = Rig()
    rig.timer(30_000)
    rig.flush()
    for _ in range(4):
        rig.timer(30_000)
    key = rig.timer(30_000)
    assert rig.timers.recall(key) is RecallOutcome.RECALLED
    recovery = rig.crash()
    assert (recovery.records_scanned, recovery.pending) == (7, 5)
    slot = rig.timers._state.wheel.get_slot(START_MS + 29_000)
    assert (slot.first_pos, slot.num) == (0, 6 - 1)
    rig.advance(30_000)
    assert numbers(rig) == [1, 2, 3, 4, 5]


@pytest.mark.case("C5")
def test_garbage_behind_the_last_record_is_cut_and_appending_goes_on_there() -> None:
    rig = Rig()
    for _ in range(3):
        rig.timer(30_000)
    rig.flush()
    rig.abandon()
    memory_of(rig).open_segment(LOG_0, 1024).write(156, b"\x00\x00\x00\x34garbage" * 20)
    recovery = rig.open()
    assert recovery.truncated_bytes == 220
    assert rig.timers._state.log.end == 156
    rig.timer(30_000)
    assert rig.timers._state.log.end == 208
    rig.advance(30_000)
    assert numbers(rig) == [1, 2, 3, 4]


@pytest.mark.case("C6")
@pytest.mark.parametrize("clean", [True, False])
def test_a_lost_wheel_is_damage_after_a_clean_stop_and_made_from_the_log_after_a_crash(
    clean: bool,
) -> None:
    rig = Rig()
    for number in range(55):
        rig.timer(60_000 + 1000 * number)
    if clean:
        rig.close()
    else:
        rig.flush()
        rig.abandon()
    assert len(rig.fs.list("timerlog")) == 3
    rig.fs.remove("timerwheel")
    if clean:
        assert open_without_damage(rig, "timerwheel is missing").pending == 55
    else:
        recovery = rig.open()
        assert (recovery.whole_log, recovery.records_scanned, recovery.pending) == (True, 55, 55)
    rig.advance(200_000)
    assert numbers(rig) == list(range(1, 56))


@pytest.mark.case("C7")
@pytest.mark.parametrize("lost", [[CHECK], [META], [CHECK, META]])
def test_lost_checkpoints_neither_lose_nor_repeat(lost: list[str]) -> None:
    rig = Rig()
    for number in range(20):
        rig.timer(1000 * (number + 1))
    rig.advance(10_000)
    rig.close()
    for path in lost:
        rig.fs.remove(path)
    if lost == [CHECK]:
        assert open_without_damage(rig, "timercheck is missing").pending == 10
    else:
        assert rig.open().pending == 10
    rig.advance(60_000)
    assert numbers(rig) == list(range(1, 21))


@pytest.mark.case("C8")
def test_after_downtime_overdue_timers_come_at_once_and_the_others_in_time() -> None:
    rig = Rig(slots=10_000)
    for minutes in (1, 30, 59, 61, 90):
        rig.timer(60_000 * minutes)
    rig.crash()
    rig.clock.now_ms += 3_600_000
    rig.fire()
    assert rig.bodies() == [b"1", b"2", b"3"]
    rig.advance(60_000 - 1)
    assert len(rig.bodies()) == 3
    rig.advance(3_600_000)
    assert rig.bodies() == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.case("C9")
def test_slots_older_than_the_wheel_are_caught_up_late_and_once() -> None:
    rig = Rig(slots=100)
    for seconds in (5, 20, 39):
        rig.timer(1000 * seconds)
    rig.restart()
    rig.clock.now_ms += 10_000_000
    rig.timer(5000)
    rig.fire()
    assert rig.bodies() == [b"1", b"2", b"3"]
    rig.advance(5000)
    assert rig.bodies() == [b"1", b"2", b"3", b"4"]


@pytest.mark.case("C9")
def test_with_the_upstream_switch_slots_older_than_the_wheel_are_skipped_and_counted() -> None:
    rig = Rig(slots=100, config={"timerSkipOldSlots": True})
    for seconds in (5, 20, 21, 39):
        rig.timer(1000 * seconds)
    rig.restart()
    assert rig.recovery.skipped == 0
    rig.close()
    rig.clock.now_ms += 20_000 + 40_000  # the wheel reaches back 40 slots
    assert rig.open().skipped == 2
    assert rig.timers.lost == {"older than the wheel": 2}
    assert rig.timers.count() == 2
    rig.fire()
    assert rig.bodies() == [b"3", b"4"]
    rig.restart()
    assert rig.fire() == 0


@pytest.mark.case("C10")
def test_a_checkpoint_beyond_the_queue_is_damage() -> None:
    rig = Rig()
    rig.timer(5000)
    rig.close()
    segment = memory_of(rig).open_segment(CHECK, 4096)
    segment.write(16, (999).to_bytes(8) * 2)
    segment.write(48, (999).to_bytes(8))
    open_without_damage(rig, "timercheck names 999 queue entries, there are 1")
    rig.timer(6000)
    rig.advance(10_000)
    assert numbers(rig) == [1, 2]


@pytest.mark.case("C10")
def test_a_checkpoint_before_the_queue_is_moved_up_into_it() -> None:
    rig = Rig(config={"mappedFileSizeCommitLog": 4096})
    for _ in range(30):
        rig.timer(1000)
    rig.advance(5000)
    assert numbers(rig) == list(range(1, 31))
    rig.timers.stages["TimerEnqueueGetService"].pause()
    rig.timer(60_000)  # to be read from the queue
    assert delete_before(rig.store, rig.store.log.max_offset - 4096) > 0
    first = rig.store.queues[TIMER_TOPIC, 0].min_offset
    assert 0 < first < 31
    left = numbers(rig)
    rig.close()
    segment = memory_of(rig).open_segment(CHECK, 4096)
    segment.write(16, bytes(16))
    segment.write(48, bytes(8))
    rig.fs.remove(META)
    assert rig.open().queue_offset == first
    rig.timer(6000)
    rig.advance(10_000)
    assert numbers(rig) == [*left, 32]
    rig.advance(60_000)
    assert numbers(rig) == [*left, 31, 32]


@pytest.mark.case("C11")
def test_records_of_messages_that_the_commit_log_lost_are_dropped() -> None:
    rig = Rig(config={"damagedRecords": "skip"})
    first = rig.send({"TIMER_DELAY_MS": "60000"})
    for _ in range(4):
        rig.timer(60_000)
    rig.flush()
    rig.abandon()
    end = first.commit_log_offset + first.size
    log = memory_of(rig).open_segment("commitlog/00000000000000000000", 1 << 20)
    log.write(end, bytes(log.data_end() - end))
    rig.open()
    rig.serial = 100
    for _ in range(4):
        assert rig.send(topic="other").ok
    rig.advance(60_000)
    assert numbers(rig) == [1]
    assert rig.timers.count() == 0
    assert rig.timers.lost == {}


@pytest.mark.case("C12")
def test_a_clock_that_is_earlier_after_a_restart_delivers_once_and_never_early() -> None:
    rig = Rig(slots=1000)
    rig.advance(200_000)
    rig.timer(10_000)
    rig.close()
    rig.clock.now_ms -= 100_000
    rig.open()
    rig.timer(50_000)
    rig.advance(49_999)
    assert rig.bodies() == []
    rig.advance(1)
    assert rig.bodies() == [b"2"]
    rig.advance(60_000)
    assert rig.bodies() == [b"2", b"1"]


@pytest.mark.case("C12")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("by_role", [True, False])
def test_a_backlog_behind_the_read_pointer_leaves_once_when_releasing_begins(
    by_role: bool, clean: bool
) -> None:
    rig = Rig(config={} if by_role else {"disappearTimeAfterStart": 2000})
    rig.advance(2000)
    rig.timer(500)
    rig.advance(1000)
    rig.timers.stages["TimerEnqueueGetService"].pause()
    began_ms = rig.clock.now_ms
    for delay_ms in (10_000, 50_000, 61_000, 62_500):
        rig.timer(delay_ms)
    rig.advance(60_000)
    rig.flush()
    assert rig.bodies() == [b"1"]
    assert rig.timers.checkpoint.last_read_time_ms > began_ms + 50_000
    if clean:
        rig.restart()
    else:
        rig.crash()
    if by_role:
        rig.timers.set_should_running_dequeue(False)
    rig.advance(1999)
    assert rig.bodies() == [b"1"]
    rig.clock.now_ms += 1
    if by_role:
        rig.timers.set_should_running_dequeue(True)
    rig.advance(10_000)
    assert [(one.body, one.stored_at_ms - began_ms) for one in rig.messages()[1:]] == [
        (b"2", 62_000),
        (b"3", 62_000),
        (b"4", 62_000),
        (b"5", 62_500),
    ]
    rig.crash()
    rig.timers.set_should_running_dequeue(True)
    rig.advance(60_000)
    assert numbers(rig) == [1, 2, 3, 4, 5]
    assert rig.timers.count() == 0


@pytest.mark.case("C14")
@pytest.mark.parametrize("with_meta", [True, False])
def test_another_precision_is_refused_and_nothing_is_touched(with_meta: bool) -> None:
    rig = Rig()
    rig.timer(60_000)
    rig.close()
    if not with_meta:
        rig.fs.remove(META)
    before = {path: rig.fs.read_file(path) for path in memory_of(rig).files()}
    rig.settings["timerPrecisionMs"] = 100
    with pytest.raises(ConfigError, match="written with 1000"):
        rig.open()
    rig.abandon()
    after = {path: rig.fs.read_file(path) for path in memory_of(rig).files() if path != "abort"}
    assert after == before


@pytest.mark.case("C15")
def test_a_stop_while_a_put_is_retried_delivers_the_message_once() -> None:
    rig = Rig()
    rig.timer(1000)
    rig.store.hooks.listed.append(FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, 99))
    rig.advance(3000)
    assert rig.messages() == []
    assert rig.timers.count() == 1
    rig.restart()
    rig.advance(5000)
    assert numbers(rig) == [1]


@pytest.mark.case("C16")
@pytest.mark.parametrize("clean", [True, False])
def test_a_stop_in_the_middle_of_a_slot_releases_the_rest_once(clean: bool) -> None:
    rig = Rig()
    for number in range(100):
        rig.timer(10_000 + 5 * number + 1)
    rig.flush()
    rig.advance(10_250)
    assert len(rig.bodies()) == 50
    recovery = rig.restart() if clean else rig.crash()
    assert recovery.already_released == 50
    rig.advance(60_000)
    assert numbers(rig) == list(range(1, 101))


@pytest.mark.case("C17")
def test_two_crashes_inside_one_slot_neither_repeat_nor_lose() -> None:
    rig = Rig()
    for number in range(90):
        rig.timer(10_000 + 10 * number + 1)
    rig.flush()
    rig.advance(10_300)
    rig.crash()
    rig.flush()
    rig.crash()
    rig.advance(300)
    rig.flush()
    rig.crash()
    rig.advance(60_000)
    assert numbers(rig) == list(range(1, 91))


@pytest.mark.case("C18")
def test_a_message_that_went_past_the_wheel_is_not_repeated_after_a_clean_stop() -> None:
    rig = Rig()
    rig.timers.stages["TimerEnqueueGetService"].pause()
    rig.timer(1500)
    rig.advance(10_000)
    rig.timers.stages["TimerEnqueueGetService"].resume()
    rig.fire()
    rig.flush()
    assert rig.restart().queue_offset == 1
    rig.advance(10_000)
    (delivered,) = rig.messages()
    assert delivered.properties["TIMER_ENQUEUE_MS"] == str(NEVER_ENQUEUED_MS)


@pytest.mark.case("C19")
@pytest.mark.parametrize("clean", [True, False])
def test_a_recalled_timer_whose_mark_is_overdue_too_is_never_delivered(clean: bool) -> None:
    rig = Rig(config={"timerRollWindowSlot": 7})
    key = rig.timer(100_000)
    other = rig.timer(100_000)
    rig.advance(11_000)
    assert rig.timers.recall(key) is RecallOutcome.RECALLED
    rig.advance(9_000)
    if clean:
        rig.restart()
    else:
        rig.crash()
    rig.clock.now_ms += 500_000
    rig.fire()
    assert [one.properties["UNIQ_KEY"] for one in rig.messages()] == [other]
    assert rig.timers.count() == 0


@pytest.mark.case("C20")
def test_torn_last_records_are_cut_and_every_acknowledged_timer_is_delivered() -> None:
    rig = Rig()
    for _ in range(3):
        rig.timer(30_000)
    rig.abandon()
    fs = memory_of(rig)
    # Magic and offset of the third record arrived, its length did not: it would pass for good.
    fs.open_segment(LOG_0, 1024).write(104 + 38, bytes(14))
    log = fs.open_segment("commitlog/00000000000000000000", 1 << 20)
    end = log.data_end()
    log.write(end, log.view(0, 150))
    rig.open()
    assert not any(log.view(end, 1000))
    assert rig.timers._state.log.end == 104
    rig.fire()
    assert rig.timers._state.log.end == 156
    rig.advance(30_000)
    assert numbers(rig) == [1, 2, 3]


def test_a_torn_checkpoint_is_not_believed() -> None:
    rig = Rig()
    rig.timer(60_000)
    rig.flush()
    segment = memory_of(rig).open_segment(CHECK, 4096)
    before, meta = bytes(segment.view(0, 56)), rig.fs.read_file(META)
    rig.advance(20_000)
    rig.flush()
    torn = bytes(segment.view(0, 7)) + before[7:]
    rig.abandon()
    segment.write(0, torn)
    rig.fs.write_file(META, meta)  # it is written behind the check point
    rig.open()
    assert rig.store.problems == []
    rig.advance(60_000)
    assert numbers(rig) == [1]


@pytest.mark.parametrize("away", [-99_999, -1, 1, 3, 32, 99_999])
@pytest.mark.parametrize("flushed", [False, True])
def test_a_slot_that_was_torn_in_the_middle_of_its_time_hides_no_timer(
    away: int, flushed: bool
) -> None:
    """Its place then has a time of another place; where that is later, nothing else went there."""
    rig = Rig()
    rig.timer(20_000)
    rig.flush()
    keys = [rig.timer(30_000) for _ in range(3)]
    if flushed:
        rig.flush()
    rig.abandon()
    unit = START_MS // 1000 + 29
    wheel = memory_of(rig).open_segment("timerwheel", 2 * rig.slots * SLOT_SIZE)
    wheel.write(unit % (2 * rig.slots) * SLOT_SIZE, (unit + away).to_bytes(8, "big"))
    assert rig.open().whole_log
    assert rig.timers.count() == 4
    assert rig.timers.recall(keys[0]) is RecallOutcome.RECALLED
    rig.flush()
    assert all(wheel_of(rig).get_slot(one.time_ms) == one for one in wheel_of(rig).used_slots())
    rig.advance(30_000)
    assert numbers(rig) == [1, 3, 4]
    assert rig.timers.count() == 0


def test_a_crash_after_a_jump_around_the_wheel_keeps_timers_and_marks() -> None:
    rig = Rig(slots=100, config={"timerRollWindowSlot": 30})
    keys = [rig.timer(150_000 + 1000 * number) for number in range(40)]
    rig.flush()
    rig.advance(20_000)
    recalled = keys[::3]
    for key in recalled:
        assert rig.timers.recall(key) is RecallOutcome.RECALLED
    rig.advance(140_000, elide=True)
    keys += [rig.timer(25_000) for _ in range(5)]
    rig.crash()
    rig.advance(20_000, elide=True)
    rig.crash()
    rig.advance(600_000)
    delivered = [one.properties["UNIQ_KEY"] for one in rig.messages()]
    assert sorted(delivered) == sorted(set(keys) - set(recalled))
    assert rig.timers.count() == 0


def test_the_length_of_log_files_is_the_stores_unless_another_is_asked_for() -> None:
    rig = Rig()
    for _ in range(25):
        rig.timer(30_000)
    rig.close()
    rig.settings["mappedFileSizeTimerLog"] = 104_857_600
    rig.open()
    assert rig.timers._state.log.file_size == 1024
    rig.close()
    rig.settings["mappedFileSizeTimerLog"] = 2048
    with pytest.raises(ConfigError, match="mappedFileSizeTimerLog"):
        rig.open()


def test_a_wheel_of_another_number_of_slots_is_refused() -> None:
    rig = Rig()
    rig.timer(30_000)
    rig.close()
    rig.slots = 401
    with pytest.raises(StoreError, match="timerwheel has 25600 bytes"):
        rig.open()


def test_a_timer_log_that_lost_synced_bytes_is_damage() -> None:
    rig = Rig()
    for _ in range(5):
        rig.timer(30_000)
    rig.flush()
    rig.abandon()
    memory_of(rig).open_segment(LOG_0, 1024).write(104, bytes(156))
    recovery = open_without_damage(rig, r"timerlog is damaged at 104 \(no record\)")
    assert (recovery.queue_offset, recovery.pending) == (0, 5)
    rig.advance(30_000)
    assert numbers(rig) == [1, 2, 3, 4, 5]


def test_timers_behind_a_damaged_record_enter_again_from_their_messages() -> None:
    rig = Rig()
    for number in range(10):
        rig.timer(30_000 + number * 1000)
    rig.flush()
    for number in range(5):
        rig.timer(60_000 + number * 1000)
    rig.fs.open_segment(LOG_0, 1024).write(3 * 52 + 40, bytes(4))
    rig.abandon()
    open_without_damage(rig, r"timerlog is damaged at 156 \(record of another message: ")
    assert rig.timers.count() == 15
    rig.advance(100_000)
    assert sorted(int(one.body) for one in rig.messages()) == list(range(1, 16))
