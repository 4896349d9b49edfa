"""The logs of the slices: places, blanks, ends, a bounded number of open files."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.timer.slices.dcommit_log import DCommitLog, SliceLog, remove_slice
from rocketmq_py.protocol.message_codec import MAGIC_BLANK


def record(size: int, fill: bytes = b"r") -> bytes:
    return size.to_bytes(4, "big") + fill * (size - 4)


def contents(log: DCommitLog, number: int) -> list[tuple[int, bytes]]:
    return [(position, bytes(view)) for position, view in log.scan(number)]


def test_records_lie_one_behind_the_other_in_the_folder_of_their_slice() -> None:
    fs = MemoryFileSystem()
    log = DCommitLog(fs, 1024)
    assert [log.append(7, record(100)), log.append(7, record(50)), log.append(9, record(60))] == [
        0,
        100,
        0,
    ]
    assert fs.list("dcommitlog") == ["7", "9"]
    assert fs.list("dcommitlog/7") == ["0" * 20]
    assert contents(log, 7) == [(0, record(100)), (100, record(50))]
    assert contents(log, 8) == []


def test_a_record_that_does_not_fit_leaves_the_rest_of_the_file_blank() -> None:
    fs = MemoryFileSystem()
    log = DCommitLog(fs, 1024)
    places = [log.append(7, record(300)) for _ in range(7)]
    assert places == [0, 300, 600, 1024, 1324, 1624, 2048]
    assert fs.list("dcommitlog/7") == [f"{start:020d}" for start in (0, 1024, 2048)]
    first = fs.read_file("dcommitlog/7/" + "0" * 20)
    assert first[900:908] == (124).to_bytes(4, "big") + (MAGIC_BLANK % 2**32).to_bytes(4, "big")
    assert [position for position, _ in log.scan(7)] == places
    assert log.record_size_max == 1016


def test_reading_a_slice_ends_when_the_slice_is_over() -> None:
    fs = MemoryFileSystem()
    log = DCommitLog(fs, 1024)
    for _ in range(9):
        log.append(7, record(300))
    reading = log.scan(7)
    assert [next(reading)[0], next(reading)[0]] == [0, 300]
    log.drop(7)
    remove_slice(fs, 7)
    log.append(8, record(300))
    assert list(reading) == []


def test_every_file_keeps_room_for_the_mark_of_a_blank() -> None:
    log = DCommitLog(MemoryFileSystem(), 1024)
    log.append(7, record(500))
    assert log.append(7, record(517)) == 1024
    assert log.append(8, record(500)) == 0
    assert log.append(8, record(516)) == 500


def test_the_slice_that_follows_is_known_as_slices_come_and_go() -> None:
    log = DCommitLog(MemoryFileSystem(), 1024)
    assert log.first_after(0) is None
    for number, expected in ((9, 9), (12, 9), (7, 7)):
        log.append(number, record(50))
        assert log.first_after(5) == expected
    assert (log.first_after(7), log.first_after(9), log.first_after(12)) == (9, 12, None)
    log.drop(7)
    assert log.first_after(5) == 9


def test_nothing_is_read_where_no_record_begins_or_the_log_has_ended() -> None:
    log = DCommitLog(MemoryFileSystem(), 1024)
    log.append(7, record(100))
    assert [log.read(7, at) for at in (-1, 100, 5000)] == [None] * 3
    assert log.read(8, 0) is None


def test_a_slice_that_was_dropped_is_not_synced_and_its_files_go() -> None:
    fs = MemoryFileSystem()
    log = DCommitLog(fs, 1024)
    for _ in range(5):
        log.append(7, record(300))
    sync = log.begin_sync()
    log.append(7, record(300))
    log.drop(7)
    log.sync_failed(sync)
    assert not log.begin_sync().files
    remove_slice(fs, 7)
    assert log.found_slices() == []


def test_truncating_removes_later_files_and_makes_the_rest_zero() -> None:
    fs = MemoryFileSystem()
    log = DCommitLog(fs, 1024)
    for _ in range(5):
        log.append(7, record(300))
    log.slices[7] = SliceLog(end=300)
    assert log.truncate(7, 300) > 0
    assert fs.list("dcommitlog/7") == ["0" * 20]
    assert fs.read_file("dcommitlog/7/" + "0" * 20).rstrip(b"\0") == record(300)
    assert log.append(7, record(10)) == 300


def test_names_that_are_none_of_ours_are_refused() -> None:
    fs = MemoryFileSystem()
    log = DCommitLog(fs, 1024)
    fs.write_file("dcommitlog/next/x", b"")
    with pytest.raises(StoreError, match="time slice"):
        log.found_slices()
    fs.write_file("dcommitlog/7/x", b"")
    with pytest.raises(StoreError, match="20 digits"):
        log.files_of(7)


def test_a_refused_write_leaves_no_trace_behind_the_next_record() -> None:
    class Once(MemoryFileSystem):
        refuse = False

    fs: FileSystem = Once()
    log = DCommitLog(fs, 1024)
    log.append(7, record(20))
    segment = log.handles.get((7, 0))
    original = type(segment).write

    def half(self: object, at: int, data: bytes) -> None:
        original(self, at, data[: len(data) // 2])  # type: ignore[arg-type]
        raise StoreError("full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(segment), "write", half)
        with pytest.raises(StoreError):
            log.append(7, record(200, b"X"))
    assert log.append(7, record(30)) == 20
    assert fs.read_file("dcommitlog/7/" + "0" * 20).rstrip(b"\0") == record(20) + record(30)


# --- a bounded number of open files --------------------------------------------------------------


def test_only_so_many_files_are_open_those_in_memory_longest() -> None:
    log = DCommitLog(MemoryFileSystem(), 1024, open_files_max=4)
    log.append(1, record(50))
    log.handles.keep = [1]
    for number in range(2, 40):
        log.append(number, record(50))
        assert len(log.handles) <= 4
    opened = log.handles.opened
    assert contents(log, 1) == [(0, record(50))]
    assert log.handles.opened == opened
    assert contents(log, 2) == [(0, record(50))]
    assert log.handles.opened == opened + 1


class CountingFileSystem(MemoryFileSystem):
    """Knows which files were synced."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []

    def sync_dir(self, path: str) -> None:
        self.synced.append(path)


def test_a_flush_syncs_what_was_written_even_when_the_file_was_closed_meanwhile() -> None:
    fs = CountingFileSystem()
    log = DCommitLog(fs, 1024, open_files_max=2)
    for number in range(5):
        log.append(number, record(50))
    sync = log.begin_sync()
    assert len(sync.files) == 5
    assert len(sync.open_files) == 2
    for number in range(5, 9):
        log.append(number, record(50))
    assert len(log.handles) <= 4  # two are lent to the flush
    sync.run()
    assert fs.synced == [f"dcommitlog/{number}" for number in range(5)]
    log.sync_failed(sync)
    log.drop(0)
    again = log.begin_sync()
    assert len(again.files) == 8
    assert len(log.handles) <= 2
    assert not log.begin_sync().files
