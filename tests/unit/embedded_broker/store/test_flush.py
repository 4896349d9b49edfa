from __future__ import annotations

from pathlib import Path

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.memory_fs import MemorySegment
from tests.unit.embedded_broker.store.store_tools import FullDisk, HandClock, message, new_store


def test_the_log_is_synced_before_the_queues_and_the_checkpoint_comes_last() -> None:
    fs = FullDisk()
    store = new_store(fs)
    for number in range(3):
        store.put(message(number, "T", number % 2))
    fs.syncs.clear()
    store.begin_flush().run()
    assert fs.syncs[0] == "commitlog/00000000000000000000"
    assert sorted(fs.syncs[1:3]) == [
        f"consumequeue/T/{queue}/00000000000000000000" for queue in (0, 1)
    ]
    assert fs.syncs[3:] == ["checkpoint"]
    assert store.flushed_offset == store.log.max_offset


def test_what_came_after_the_begin_is_not_counted_as_durable() -> None:
    clock = HandClock(1000)
    store = new_store(clock=clock)
    store.put(message(1))
    work = store.begin_flush()
    end = store.log.max_offset
    clock.now_ms = 2000
    store.put(message(2))
    work.run()
    assert store.flushed_offset == end
    assert store.checkpoint.physic_msg_timestamp == 1000
    store.begin_flush().run()
    assert store.flushed_offset == store.log.max_offset
    assert store.checkpoint.logics_msg_timestamp == 2000


def test_nothing_new_means_nothing_to_sync() -> None:
    fs = FullDisk()
    store = new_store(fs)
    store.put(message(1))
    store.begin_flush().run()
    fs.syncs.clear()
    store.begin_flush().run()
    assert fs.syncs == []


def test_a_failed_sync_is_tried_again_and_promises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs = FullDisk()
    store = new_store(fs)
    store.put(message(1))

    def broken(segment: MemorySegment) -> None:
        raise StoreError(f"{segment.path}: cannot sync")

    with monkeypatch.context() as patch:
        patch.setattr("tests.unit.embedded_broker.store.store_tools._FullDiskSegment.sync", broken)
        with pytest.raises(StoreError, match="cannot sync"):
            store.begin_flush().run()
    assert store.flushed_offset == 0
    assert store.checkpoint.physic_msg_timestamp == 0
    fs.syncs.clear()
    store.begin_flush().run()
    assert fs.syncs[:2] == [
        "commitlog/00000000000000000000",
        "consumequeue/T/0/00000000000000000000",
    ]


def test_a_store_on_a_disk_indexes_while_it_flushes(tmp_path: Path) -> None:
    store = new_store(DirectoryFileSystem(tmp_path))
    for number in range(20):
        store.put(message(number))
    store.begin_flush().run()
    assert len(list((tmp_path / "index").iterdir())) == 2
    assert store.index is not None
    assert store.index.indexed_to == store.log.max_offset
    assert store.checkpoint.index_msg_timestamp == store.last_store_timestamp
    store.close()
