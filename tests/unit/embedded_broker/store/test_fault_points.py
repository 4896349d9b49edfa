"""What goes wrong on a disk when a test asks for it, on both file systems."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.fault_points import UNDO_MAX, DiskFault, Unsynced
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.memory_fs import MemoryFileSystem

PATH = "commitlog/00000000000000000000"


@pytest.fixture(params=["memory", "directory"])
def fs(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystem:
    return MemoryFileSystem() if request.param == "memory" else DirectoryFileSystem(tmp_path)


def content(fs: FileSystem, length: int = 20) -> bytes:
    segment = fs.open_segment(PATH, 4096)
    try:
        return bytes(segment.view(0, length)).rstrip(b"\0")
    finally:
        segment.close()


def test_unsynced_bytes_are_lost_and_synced_ones_are_not(fs: FileSystem) -> None:
    segment = fs.open_segment(PATH, 4096)
    segment.write(0, b"durable")
    segment.sync()
    segment.write(7, b" and not")
    segment.write(0, b"DUR")
    segment.close()

    assert fs.lose_unsynced() == 1

    assert content(fs) == b"durable"
    assert fs.lose_unsynced() == 0


def test_a_random_first_part_of_what_is_unsynced_may_survive(fs: FileSystem) -> None:
    found = set()
    for seed in range(30):
        fs.remove_tree("commitlog")
        segment = fs.open_segment(PATH, 4096)
        segment.write(0, b"0123")
        segment.sync()
        segment.write(4, b"4567")
        segment.write(0, b"ab")
        segment.close()
        fs.lose_unsynced(Random(seed))
        found.add(content(fs))

    assert {one[4:] for one in found} == {b"", b"4", b"45", b"456", b"4567"}
    assert {one[:4] for one in found} >= {b"0123", b"ab23"}
    assert {one[:4] for one in found} <= {b"0123", b"a123", b"ab23"}


def test_what_was_lost_is_written_again_and_lost_again(fs: FileSystem) -> None:
    segment = fs.open_segment(PATH, 4096)
    segment.write(0, b"ab")
    segment.sync()
    for _ in range(3):
        segment.write(2, b"cd")
        segment.close()
        fs.lose_unsynced()
        assert content(fs) == b"ab"
        segment = fs.open_segment(PATH, 4096)
    segment.write(2, b"cd")
    segment.sync()
    segment.close()
    fs.lose_unsynced()
    assert content(fs) == b"abcd"


def test_bytes_that_were_there_before_are_durable(tmp_path: Path) -> None:
    first = DirectoryFileSystem(tmp_path)
    segment = first.open_segment(PATH, 4096)
    segment.write(0, b"from another life")
    segment.close()

    later = DirectoryFileSystem(tmp_path)
    segment = later.open_segment(PATH, 4096)
    segment.write(0, b"FROM")
    segment.close()
    later.lose_unsynced()

    assert content(later) == b"from another life"


def test_a_sync_fails_as_often_as_asked_and_where_asked(fs: FileSystem) -> None:
    fault = DiskFault("no", "commitlog", left=2)
    fs.faults.add_sync(fault)
    segment = fs.open_segment(PATH, 4096)
    other = fs.open_segment("timerlog/00000000000000000000", 4096)
    fs.write_file("config/x", b"1")
    for _ in range(2):
        with pytest.raises(StoreError, match=f"{PATH}: no"):
            segment.sync()
        other.sync()
        fs.sync_file("config/x")
        fs.sync_dir("timerlog")
    segment.sync()
    assert fault.hits == 2

    everything = DiskFault("no", left=None)
    fs.faults.add_sync(everything)
    for call in (
        segment.sync,
        lambda: fs.sync_file("config/x"),
        lambda: fs.sync_dir("commitlog"),
    ):
        with pytest.raises(StoreError, match="no"):
            call()
    fs.faults.remove(everything)
    fs.sync_dir("commitlog")
    assert not fs.faults.armed or fault.left == 0
    segment.close()
    other.close()


def test_a_sync_that_failed_made_nothing_durable(fs: FileSystem) -> None:
    segment = fs.open_segment(PATH, 4096)
    segment.write(0, b"x")
    fs.faults.add_sync(DiskFault("no"))
    with pytest.raises(StoreError):
        segment.sync()
    segment.close()
    fs.lose_unsynced()
    assert content(fs) == b""


def test_a_write_is_torn_once_and_shorter_ones_pass(fs: FileSystem) -> None:
    fault = DiskFault("torn", "commitlog", room=3)
    fs.faults.add_write(fault)
    segment = fs.open_segment(PATH, 4096)
    segment.write(0, b"abc")
    assert fault.hits == 0
    with pytest.raises(StoreError, match="torn"):
        segment.write(3, b"defgh")
    segment.close()
    assert content(fs) == b"abcdef"
    segment = fs.open_segment(PATH, 4096)
    segment.write(3, b"defgh")
    segment.close()
    assert content(fs) == b"abcdefgh"
    assert fault.hits == 1


def test_a_full_disk_takes_what_fits_and_then_nothing_until_it_is_cleared(fs: FileSystem) -> None:
    fault = DiskFault("full", left=None, room=5, of_all=True)
    fs.faults.add_write(fault)
    segment = fs.open_segment(PATH, 4096)
    segment.write(0, b"abc")
    with pytest.raises(StoreError, match="full"):
        segment.write(3, b"def")
    with pytest.raises(StoreError, match="full"):
        fs.write_file("config/x", b"y")
    segment.close()
    assert content(fs) == b"abcde"
    assert fault.hits == 2

    fs.faults.clear()
    fs.write_file("config/x", b"y")
    assert fs.read_file("config/x") == b"y"


def test_overwrites_that_are_remembered_are_bounded() -> None:
    unsynced = Unsynced(10)
    for number in range(UNDO_MAX + 10):
        unsynced.note(0, b"%d" % number)

    writes = unsynced.lose(10, None)

    assert len(writes) <= UNDO_MAX
    assert writes[0] == (0, b"%d" % (UNDO_MAX + 9))


@pytest.mark.parametrize("open_one", [MemoryFileSystem, None])
def test_a_full_disk_is_measured_in_percent(
    open_one: Callable[[], FileSystem] | None, tmp_path: Path
) -> None:
    if open_one is not None:
        assert open_one().used_percent == 0
        return
    assert 0 < DirectoryFileSystem(tmp_path).used_percent <= 100
    assert DirectoryFileSystem(tmp_path / "nowhere").used_percent == 0
