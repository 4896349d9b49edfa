"""A store that was opened on a full disk, and closed when there was room again."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.memory_fs import MemoryFileSystem, MemorySegment
from embedded_broker.store.put_values import PutStatus
from tests.unit.embedded_broker.store.store_tools import message, new_store

COUNT = 7


class _Disk(MemoryFileSystem):
    """Takes no new file below `full`; everywhere with ""."""

    full: str | None = None

    def _check(self, path: str) -> None:
        if self.full is not None and path.startswith(self.full):
            error = StoreError(f"{path}: no space left on device")
            error.disk_full = True
            raise error

    def write_file(self, path: str, data: bytes) -> None:
        self._check(path)
        super().write_file(path, data)

    def open_segment(
        self, path: str, size: int, *, create: bool = True, may_rest: bool = False
    ) -> MemorySegment:
        if create and not self.exists(path):
            self._check(path)
        return super().open_segment(path, size, create=create, may_rest=may_rest)


@pytest.mark.parametrize("ends", ["flushed before", "closed at once"])
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("full", ["", "abort", "checkpoint", "consumequeue", "index", "damaged"])
def test_nothing_is_said_to_be_wrong_with_it_when_it_is_opened_again(
    full: str, clean: bool, ends: str
) -> None:
    fs = _Disk()
    store = new_store(fs)
    for number in range(COUNT):
        store.put(message(number))
    if clean:
        store.close()
    else:
        store.abandon()
    fs.full = full
    store = new_store(fs)
    refused = store.put(message(COUNT)).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert refused or full not in {"", "abort"}
    fs.full = None
    if ends == "flushed before":
        store.begin_flush().run()
        assert store.put(message(COUNT)).ok
    store.close()
    store = new_store(fs, load=False)
    report = store.load()
    assert (report.clean, store.problems) == (True, [])
    assert store.was_ours
    assert store.message("T", 0, COUNT - 1) is not None
