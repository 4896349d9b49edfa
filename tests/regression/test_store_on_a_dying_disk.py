"""What the message store once lost, or could not open again, when a disk died under it."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.mapped_file import MappedFileQueue
from embedded_broker.store.memory_fs import MemoryFileSystem, MemorySegment
from tests.sim.disk import Disk, SimulatedCrash
from tests.unit.embedded_broker.store.store_tools import SMALL_FILES, message, new_store


def _disk(seed: int = 0, *, persistent: bool = False) -> Disk:
    return Disk(Random(seed), persistent=persistent)


@pytest.mark.parametrize("seed", range(20))
def test_what_a_killed_process_wrote_counts_as_synced_only_after_a_sync(seed: int) -> None:
    disk = _disk(seed)
    store = new_store(disk)
    while store.log.max_offset < 2 * SMALL_FILES["mappedFileSizeCommitLog"]:
        assert store.put(message(1)).ok
    disk.reboot(power_lost=False)
    store = new_store(disk)
    assert store.put(message(2)).ok
    store.begin_flush().run()
    durable = store.flushed_offset
    assert durable == store.log.max_offset
    disk.reboot(power_lost=True)
    assert new_store(disk).log.max_offset == durable


def test_an_index_file_without_length_does_not_keep_the_store_from_opening() -> None:
    disk = _disk(persistent=True)
    store = new_store(disk)
    assert store.put(message(1)).ok
    store.abandon()
    disk.write_file("index/20231114221320000", b"")
    store = new_store(disk)
    assert len(store.query("T", "ID0001", 9, 0, 1 << 62)) == 1


@pytest.mark.parametrize("change", range(1, 30))
def test_a_store_killed_while_it_indexed_opens_again_with_its_settings(change: int) -> None:
    disk = _disk(change, persistent=True)
    settings = {"maxIndexNum": 200}
    store = new_store(disk, config=settings)
    for number in range(3):
        assert store.put(message(number, KEYS="ALL")).ok
    store.begin_flush().run()
    for number in range(3, 12):
        assert store.put(message(number, KEYS="ALL")).ok
    disk.arm(change)
    with suppress(SimulatedCrash):
        store.query("T", "ALL", 99, 0, 1 << 62)
    disk.reboot(power_lost=False)
    store = new_store(disk, config=settings)
    assert len(store.query("T", "ALL", 99, 0, 1 << 62)) == 12


def test_a_refused_write_is_an_error_of_the_simulated_disk() -> None:
    disk = _disk()
    disk.full_for = 1
    with pytest.raises(StoreError):
        disk.write_file("config/x", b"123")


class _HalfSegment(MemorySegment):
    """Writes half of what it is given once, and then says that the disk is full."""

    __slots__ = ("is_full",)

    def write(self, at: int, data: bytes | bytearray | memoryview) -> None:
        if getattr(self, "is_full", False):
            self.is_full = False
            super().write(at, data[: len(data) // 2])
            raise StoreError("no space left")
        super().write(at, data)


class _HalfFullDisk(MemoryFileSystem):
    def new_segment(self, path: str, size: int) -> MemorySegment:
        return _HalfSegment(path, size)


def test_bytes_of_a_refused_append_do_not_pass_for_the_rest_of_the_next_one() -> None:
    fs = _HalfFullDisk()
    log = MappedFileQueue(fs, "log", 100)
    log.append(b"first")
    segment = fs.open_segment("log/00000000000000000000", 100)
    assert isinstance(segment, _HalfSegment)
    segment.is_full = True
    with pytest.raises(StoreError):
        log.append(b"refused in its middle")
    log.append(b"next")
    assert bytes(segment.view(0, 40)) == b"firstnext".ljust(40, b"\0")
