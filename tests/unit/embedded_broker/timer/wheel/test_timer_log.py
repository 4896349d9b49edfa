"""Records of the timer log, and the files that hold them."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.timer.wheel.timer_log import TimerLog, TimerLogRecord, decode_record
from rocketmq_py.protocol.tag_hash import java_hash

GOLDEN = (
    "00000034ffffffffffffffff000000010000018bcfe568000000138800000000000010000000012c"
    "d93c750a0000000000000000"
)
GOLDEN_RECORD = TimerLogRecord(-1, 1, 1_700_000_000_000, 5000, 4096, 300, -650_349_302)
BLANK_36 = "000000240000000000000000cbd43194"


def new_log(fs: MemoryFileSystem | None = None, file_size: int = 1024) -> TimerLog:
    log = TimerLog(fs or MemoryFileSystem(), "timerlog", file_size)
    log.load()
    return log


def append(log: TimerLog, offset_py: int = 0, *, prev: int = -1, slot_ms: int = 1000) -> int:
    return log.append_record(prev, 1, 0, slot_ms, offset_py, 100, 7)


def clean(log: TimerLog, commit_log_min: int) -> int:
    before = len(log.file_starts)
    work = log.begin_clean(commit_log_min)
    if work is not None:
        work()
    return before - len(log.file_starts)


@pytest.mark.case("F1")
def test_the_golden_record_is_written_and_read() -> None:
    assert decode_record(bytes.fromhex(GOLDEN)) == GOLDEN_RECORD
    assert GOLDEN_RECORD.topic_hash == java_hash("TimerTopic")
    assert GOLDEN_RECORD.slot_ms == 1_700_000_005_000
    log = new_log()
    assert log.append_record(*GOLDEN_RECORD) == 0
    assert bytes(log.read_bytes(0)).hex() == GOLDEN


@pytest.mark.case("F2")
def test_nineteen_records_fill_a_file_of_1024_bytes_and_a_blank_ends_it() -> None:
    log = new_log()
    positions = [append(log) for _ in range(110)]
    assert positions[:10] == [number * 52 for number in range(10)]
    assert positions[18:21] == [18 * 52, 1024, 1024 + 52]
    assert log.file_starts == [number * 1024 for number in range(6)]
    for start in log.file_starts[:-1]:
        assert bytes(log.read_bytes(start + 988)[:16]).hex() == BLANK_36


@pytest.mark.case("F3")
def test_a_record_is_read_at_its_position_and_a_whole_file_from_its_begin() -> None:
    log = new_log()
    for number in range(110):
        append(log, number)
    tenth = bytes(log.read_bytes(9 * 52))
    assert tenth[:4] == b"\0\0\0\x34"
    record = log.read(9 * 52)
    assert record is not None
    assert record.offset_py == 9
    whole = log.read_bytes(0)
    assert len(whole) == 19 * 52 + 16  # to the end of the blank
    assert decode_record(whole) == log.read(0)
    assert log.read(988) is None
    assert log.read(10_000) is None


@pytest.mark.case("F4")
def test_files_whose_messages_left_the_commit_log_go_but_the_newest() -> None:
    log = new_log()
    for _ in range(110):
        append(log, 1000)
    assert log.last_record_offset_py(0) == 1000
    assert clean(log, 1000) == 0
    assert clean(log, 1024) == 5
    assert log.file_starts == [5 * 1024]
    assert clean(log, 10**9) == 0


def test_the_last_record_of_a_file_of_the_original_size_is_where_the_original_looks() -> None:
    size = 104_857_600
    assert size - (size - 16) % 52 - 16 - 52 == 104_857_532


@pytest.mark.case("F5")
def test_pieces_of_any_length_stay_in_one_file_and_are_found_again() -> None:
    fs = MemoryFileSystem()
    log = new_log(fs)
    assert log.append(b"a" * 512) == 0
    assert log.append(b"b" * 510) == 1024
    assert log.append(b"c" * 14) == 1534
    log.close()
    again = new_log(fs)
    again.truncate(1548)
    assert bytes(again.read_bytes(1024)) == b"b" * 510 + b"c" * 14
    assert bytes(again.read_bytes(1534)) == b"c" * 14
    assert again.file_starts == [0, 1024]


@pytest.mark.case("F6")
def test_a_file_of_another_length_is_refused_by_name() -> None:
    fs = MemoryFileSystem()
    append(new_log(fs))
    with pytest.raises(StoreError, match="timerlog/00000000000000000000"):
        new_log(fs, file_size=2048)


@pytest.mark.case("F17")
def test_the_topic_hash_is_javas() -> None:
    assert [java_hash(topic) for topic in ("TopicTest", "中文", None)] == [-1902610879, 646394, 0]


def test_a_record_needs_its_size_its_magic_and_all_its_bytes() -> None:
    good = bytes.fromhex(GOLDEN)
    assert decode_record(good[:51]) is None
    assert decode_record(b"\0\0\0\x35" + good[4:]) is None
    assert decode_record(good[:12] + b"\0\0\0\x10" + good[16:]) is None
    magics = [magic.to_bytes(4, signed=True) for magic in (1, 3, 5, 7, 15, 16, -1)]
    found = [decode_record(good[:12] + magic + good[16:]) for magic in magics]
    assert [one is not None for one in found] == [True] * 5 + [False] * 2


def test_a_chain_is_walked_backwards_and_ends_where_it_leaves_the_slot() -> None:
    log = new_log()
    first = append(log, 1)
    second = append(log, 2, prev=first)
    third = append(log, 3, prev=second)
    assert [pos for pos, _ in log.chain(third, 1000)] == [third, second, first]
    assert list(log.chain(third, 2000)) == []
    other = append(log, 4, slot_ms=5000)
    broken = append(log, 5, prev=other)
    assert [pos for pos, _ in log.chain(broken, 1000)] == [broken]
    loop = append(log, 6, prev=10_000)
    assert [pos for pos, _ in log.chain(loop, 1000)] == [loop]


def test_a_scan_goes_over_blanks_and_stops_at_the_first_bytes_that_are_no_record() -> None:
    fs = MemoryFileSystem()
    log = new_log(fs)
    positions = [append(log, number) for number in range(25)]
    assert [pos for pos, _ in log.scan(0)] == positions
    assert [pos for pos, _ in log.scan(17 * 52)] == positions[17:]
    log.close()
    again = new_log(fs)
    assert [pos for pos, _ in again.scan(0)] == positions
    again.truncate(positions[20])
    assert [pos for pos, _ in again.scan(0)] == positions[:20]
    assert append(again, 99) == positions[20]


def test_flushing_says_what_to_sync_once() -> None:
    log = new_log()
    assert log.begin_flush() is None
    append(log)
    plan = log.begin_flush()
    assert plan is not None
    plan.run()
    assert log.begin_flush() is None
    assert (log.begin, log.end) == (0, 52)
