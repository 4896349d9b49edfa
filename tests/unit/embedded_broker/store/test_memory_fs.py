from __future__ import annotations

import os

import pytest

from embedded_broker.errors import StoreError, StoreLockedError
from embedded_broker.store.memory_fs import MemoryFileSystem


def test_a_new_segment_is_zero_and_keeps_what_is_written() -> None:
    fs = MemoryFileSystem()
    segment = fs.open_segment("commitlog/a", 8192)
    segment.write(8000, b"xyz")
    assert bytes(segment.view(7999, 5)) == b"\0xyz\0"
    assert segment.data_end() == 8003
    assert bytes(segment.view(0, 8000)) == bytes(8000)


def test_a_view_is_read_only_and_live() -> None:
    segment = MemoryFileSystem().open_segment("a", 16)
    view = segment.view(0, 4)
    segment.write(0, b"abcd")
    assert bytes(view) == b"abcd"
    assert view.readonly


def test_an_untouched_segment_of_a_gibibyte_costs_no_memory() -> None:
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - a kernel file
        before = int(statm.read().split()[1])
    segment = MemoryFileSystem().open_segment("a", 1 << 30)
    segment.write(1 << 29, b"x")
    with open("/proc/self/statm") as statm:  # noqa: PTH123
        after = int(statm.read().split()[1])
    assert (after - before) * os.sysconf("SC_PAGE_SIZE") < 16 << 20


def test_a_segment_opens_again_with_its_bytes_and_only_with_its_size() -> None:
    fs = MemoryFileSystem()
    fs.open_segment("a", 16).write(0, b"ab")
    assert bytes(fs.open_segment("a", 16).view(0, 2)) == b"ab"
    with pytest.raises(StoreError, match="length 16 instead of 32"):
        fs.open_segment("a", 32)
    with pytest.raises(StoreError, match="no such file"):
        fs.open_segment("b", 32, create=False)


def test_small_files_are_written_renamed_listed_and_removed() -> None:
    fs = MemoryFileSystem()
    fs.write_file("config/x.json", b"1")
    fs.rename("config/x.json", "config/x.json.bak")
    fs.write_file("config/x.json", b"2")
    fs.open_segment("consumequeue/T/0/f", 20)
    assert fs.list("config") == ["x.json", "x.json.bak"]
    assert fs.list("") == ["config", "consumequeue"]
    assert fs.list("consumequeue") == ["T"]
    assert fs.exists("consumequeue/T")
    assert not fs.exists("consumequeue/T/1")
    assert fs.read_file("config/x.json.bak") == b"1"
    assert fs.size("config/x.json") == 1
    assert fs.files() == ["config/x.json", "config/x.json.bak", "consumequeue/T/0/f"]
    fs.remove("config/x.json")
    fs.remove("config/x.json")
    with pytest.raises(StoreError):
        fs.read_file("config/x.json")
    with pytest.raises(StoreError):
        fs.sync_file("config/x.json")


def test_a_small_file_can_be_opened_as_a_segment_of_its_length() -> None:
    fs = MemoryFileSystem()
    fs.write_file("checkpoint", b"1234")
    segment = fs.open_segment("checkpoint", 4)
    assert bytes(segment.view(0, 4)) == b"1234"
    assert fs.read_file("checkpoint") == b"1234"
    fs.write_file("other", b"1234")
    with pytest.raises(StoreError, match="length 4 instead of 5"):
        fs.open_segment("other", 5)


def test_a_second_owner_is_told_who_has_the_store() -> None:
    fs = MemoryFileSystem()
    fs.lock("lock", "broker-a")
    with pytest.raises(StoreLockedError, match="broker-a"):
        fs.lock("lock", "broker-b")
    fs.unlock("lock")
    fs.lock("lock", "broker-b")


def test_a_copy_has_the_same_bytes_and_a_life_of_its_own() -> None:
    fs = MemoryFileSystem()
    segment = fs.open_segment("a", 4096)
    segment.write(10, b"one")
    fs.write_file("b", b"x")
    fs.lock("lock", "first")
    twin = fs.copy()
    segment.write(10, b"two")
    assert bytes(twin.open_segment("a", 4096).view(10, 3)) == b"one"
    assert twin.read_file("b") == b"x"
    twin.lock("lock", "second")
