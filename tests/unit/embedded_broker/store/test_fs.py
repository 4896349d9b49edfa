"""Both file systems keep the same promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embedded_broker.errors import StoreError, StoreLockedError
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.memory_fs import MemoryFileSystem

Make = Callable[[], FileSystem]


@pytest.fixture(params=["memory", "directory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Open the same files again and again."""
    if request.param == "memory":
        memory = MemoryFileSystem()
        return lambda: memory
    return lambda: DirectoryFileSystem(tmp_path / "store")


def test_bytes_survive_reopening_and_holes_are_zero(make: Make) -> None:
    segment = make().open_segment("commitlog/a", 100_000)
    segment.write(50_000, b"abc")
    segment.sync()
    segment.close()
    again = make().open_segment("commitlog/a", 100_000, create=False)
    assert bytes(again.view(49_999, 5)) == b"\0abc\0"
    assert again.view(0, 50_000) == bytes(50_000)
    assert again.data_end() >= 50_003
    assert (again.path, again.size) == ("commitlog/a", 100_000)
    again.close()


def test_any_buffer_can_be_written(make: Make) -> None:
    segment = make().open_segment("a", 16)
    for at, data in ((0, b"ab"), (2, bytearray(b"cd")), (4, memoryview(b"ef"))):
        segment.write(at, data)
    assert bytes(segment.view(0, 7)) == b"abcdef\0"
    segment.close()


def test_a_view_cannot_be_written(make: Make) -> None:
    segment = make().open_segment("a", 16)
    with pytest.raises(TypeError):
        segment.view(0, 4)[0] = 1
    segment.close()


def test_small_files_are_replaced_as_a_whole(make: Make) -> None:
    fs = make()
    fs.write_file("config/a", b"longer content")
    fs.write_file("config/a", b"short")
    fs.sync_file("config/a")
    fs.sync_dir("config")
    assert make().read_file("config/a") == b"short"
    assert fs.size("config/a") == 5
    fs.rename("config/a", "config/b")
    assert fs.list("config") == ["b"]
    assert not fs.exists("config/a")
    with pytest.raises(StoreError):
        fs.read_file("config/a")


def test_folders_are_listed_without_creating_them(make: Make) -> None:
    fs = make()
    assert fs.list("consumequeue") == []
    assert not fs.exists("consumequeue")
    fs.open_segment("consumequeue/T/0/x", 20).close()
    assert fs.list("consumequeue/T") == ["0"]
    assert fs.exists("consumequeue/T/0")


def test_another_size_is_refused(make: Make) -> None:
    make().open_segment("a", 16).close()
    with pytest.raises(StoreError, match="length 16 instead of 17"):
        make().open_segment("a", 17)


def test_the_lock_has_one_owner_at_a_time(make: Make) -> None:
    first, second = make(), make()
    first.lock("lock", "one")
    with pytest.raises(StoreLockedError, match="one"):
        second.lock("lock", "two")
    first.unlock("lock")
    second.lock("lock", "two")
    second.unlock("lock")


def test_only_a_directory_is_persistent(make: Make) -> None:
    fs = make()
    assert fs.persistent == isinstance(fs, DirectoryFileSystem)
