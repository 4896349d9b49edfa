"""A bounded number of open files."""

from __future__ import annotations

from embedded_broker.store.fs import MemoryFileSystem
from embedded_broker.timer.slices.dcommit_log import DCommitLog


def record(size: int, fill: bytes = b"r") -> bytes:
    return size.to_bytes(4, "big") + fill * (size - 4)


def contents(log: DCommitLog, number: int) -> list[tuple[int, bytes]]:
    return [(position, bytes(view)) for position, view in log.scan(number)]


def test_only_so_many_files_are_open_those_in_memory_longest() -> None:
    log = DCommitLog(MemoryFileSystem(), 1024, open_files_max=4)
    log.append(1, record(50))
    log.handles.keep = ["dcommitlog/1"]
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
    assert len(sync.paths) == 5
    assert len(sync.open_files) == 2
    for number in range(5, 9):
        log.append(number, record(50))
    assert len(log.handles) <= 4  # two are lent to the flush
    sync.run()
    assert fs.synced == [f"dcommitlog/{number}" for number in range(5)]
    log.sync_failed(sync)
    log.drop(0)
    again = log.begin_sync()
    assert len(again.paths) == 8
    assert len(log.handles) <= 2
    assert not log.begin_sync().paths
