"""The first files of the commit log are gone: retention let them go, or they are lost."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreDamagedError, StoreError
from embedded_broker.store.fault_points import DiskFault
from embedded_broker.store.memory_fs import MemoryFileSystem, MemorySegment
from embedded_broker.store.message_store import MessageStore
from tests.unit.embedded_broker.store.store_tools import bodies, delete_before, message, new_store

COUNT = 40
FILE = 1024
SKIP = {"damagedRecords": "skip"}


def _filled(fs: MemoryFileSystem, *, clean: bool, old_to: int = 0) -> None:
    store = new_store(fs)
    for number in range(COUNT):
        store.put(message(number))
    delete_before(store, old_to)
    _leave(store, clean=clean)


def _leave(store: MessageStore, *, clean: bool) -> None:
    if clean:
        store.close()
    else:
        store.begin_flush().run()
        store.abandon()


def _remove(fs: MemoryFileSystem, *starts: int) -> None:
    for start in starts:
        fs.remove(f"commitlog/{start:020d}")


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("old_to", [0, 2 * FILE])
def test_a_log_that_begins_later_than_it_was_left_is_refused(*, clean: bool, old_to: int) -> None:
    fs = MemoryFileSystem()
    _filled(fs, clean=clean, old_to=old_to)
    new_store(fs).close()
    _remove(fs, old_to)
    lost = rf"commitlog begins at {old_to + FILE}, but was left beginning at {old_to}: files are"
    for _ in range(2):  # the refusal changes nothing
        with pytest.raises(StoreDamagedError, match=lost):
            new_store(fs)
    store = new_store(fs, config=SKIP)
    assert [line for line in store.problems if "The messages in them are lost" in line]
    assert store.min_offset("T", 0) > 0
    store.close()
    again = new_store(fs)
    assert again.problems == []
    again.close()


@pytest.mark.parametrize("clean", [True, False])
def test_files_that_retention_let_go_are_not_missed(*, clean: bool) -> None:
    fs = MemoryFileSystem()
    _filled(fs, clean=clean, old_to=2 * FILE)
    store = new_store(fs)
    assert (store.problems, store.log.min_offset) == ([], 2 * FILE)


def test_files_that_were_let_go_but_are_still_there_are_no_harm() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    for number in range(COUNT):
        store.put(message(number))
    work = store.let_go_before(2 * FILE)
    assert work is not None
    store.checkpoint.begin_offset = 2 * FILE
    store.checkpoint.save()  # the process dies behind the mark
    store.abandon()
    again = new_store(fs)
    assert (again.problems, again.log.min_offset) == ([], 0)


class _NoRoom(MemoryFileSystem):
    """A disk without room for the mark, until something of the log is removed."""

    dies = False

    def write_full(self, path: str) -> None:
        if path == "checkpoint" and len(self.list("commitlog")) > self.files_at_most:
            error = StoreError(f"{path}: No space left on device")
            error.disk_full = True
            raise error

    files_at_most = 1_000

    def open_segment(
        self, path: str, size: int, *, create: bool = True, may_rest: bool = False
    ) -> MemorySegment:
        self.write_full(path)
        return super().open_segment(path, size, create=create, may_rest=may_rest)

    def remove(self, path: str) -> None:
        super().remove(path)
        if self.dies and path.startswith("commitlog/"):
            raise KeyboardInterrupt


@pytest.mark.parametrize("dies", [False, True])
def test_a_disk_without_room_for_the_mark_is_freed_all_the_same(*, dies: bool) -> None:
    fs = _NoRoom()
    store = new_store(fs)
    for number in range(COUNT):
        store.put(message(number))
    store.begin_flush().run()
    files = len(fs.list("commitlog"))
    fs.files_at_most, fs.dies = files - 1, dies
    if dies:
        with pytest.raises(KeyboardInterrupt):
            delete_before(store, 2 * FILE)
        assert len(fs.list("commitlog")) == files - 1
    else:
        assert delete_before(store, 2 * FILE) == 2
        assert len(fs.list("commitlog")) == files - 2
        assert store.checkpoint.begin_offset == 2 * FILE
    fs.dies = False
    store.abandon()
    again = new_store(fs)  # and the next opening does not take it for a loss
    assert again.log.min_offset == (FILE if dies else 2 * FILE)
    assert [one for one in again.problems if "another broker removed" in one] == (
        [again.problems[0]] if dies else []
    )
    assert bodies(again)[-1] == f"body {COUNT - 1}"
    again.close()


def test_files_stay_when_the_mark_cannot_be_written() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    for number in range(COUNT):
        store.put(message(number))
    store.begin_flush().run()
    fs.faults.add_write(DiskFault("input/output error", "checkpoint", left=None))
    assert delete_before(store, 2 * FILE) == 2
    fs.faults.clear()
    store.abandon()
    again = new_store(fs)
    assert (again.problems, again.log.min_offset) == ([], 0)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_without_any_file_is_refused(*, clean: bool) -> None:
    fs = MemoryFileSystem()
    _filled(fs, clean=clean)
    _remove(fs, *(int(name) for name in fs.list("commitlog")))
    if clean:
        fs.remove("checkpoint")  # else it tells that there were durable records
    lost = f"commitlog has no files, but consume queues name {COUNT} messages in it"
    with pytest.raises(StoreDamagedError, match=lost):
        new_store(fs)
    store = new_store(fs, config=SKIP)
    assert any(line.startswith(lost) for line in store.problems)
    store.close()
    assert new_store(fs).problems == []


def test_a_store_that_lost_power_before_its_first_sync_opens() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    for number in range(COUNT):
        store.put(message(number))
    store.abandon()
    # The names of the queues' files came to the disk, that of the log's did not.
    _remove(fs, *(int(name) for name in fs.list("commitlog")))
    store = new_store(fs, load=False)
    assert store.load().entries_dropped == COUNT
    assert store.put(message(0)).queue_offset == 0


def test_without_a_mark_a_later_begin_is_told_once() -> None:
    fs = MemoryFileSystem()
    _filled(fs, clean=True)
    _remove(fs, 0)
    # As another broker writes it: the five fields, and ours behind them no longer fit.
    fs.open_segment("checkpoint", 4096).write(0, bytes(4096))
    store = new_store(fs)
    assert [line for line in store.problems if f"commitlog begins at {FILE}: another" in line]
    store.close()
    assert new_store(fs).problems == []


def test_a_missing_checkpoint_is_told_once_though_nothing_is_stored() -> None:
    fs = MemoryFileSystem()
    _filled(fs, clean=True)
    fs.remove("checkpoint")
    store = new_store(fs)
    assert store.problems == ["checkpoint is missing or empty: a clean stop writes it"]
    store.close()
    assert new_store(fs).problems == []
