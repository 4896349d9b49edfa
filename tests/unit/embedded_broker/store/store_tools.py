"""Small stores and messages for the store's tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from embedded_broker.errors import StoreError
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.fs import Buffer, FileSystem
from embedded_broker.store.memory_fs import MemoryFileSystem, MemorySegment
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage
from rocketmq_py.clock import Clock

STORE_HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
SMALL_FILES = {
    "mappedFileSizeCommitLog": 1024,
    "mappedFileSizeConsumeQueue": 100,
    "maxHashSlotNum": 8,
    "maxIndexNum": 16,
}


class HandClock:
    """A clock that the test sets."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms / 1000, tz=UTC)


def new_store(
    fs: FileSystem | None = None,
    clock: Clock | None = None,
    config: Mapping[str, object] | None = None,
    **life: bool,
) -> MessageStore:
    """A store with small files; loaded unless ``load=False``."""
    store = MessageStore(
        fs if fs is not None else MemoryFileSystem(),
        BrokerConfig({**SMALL_FILES, **(config or {})}),
        clock or HandClock(),
        STORE_HOST,
    )
    if life.get("load", True):
        store.load()
    return store


def removed(removal: Callable[[], None] | None) -> bool:
    """Run the work that removes files, if there is any."""
    if removal is not None:
        removal()
    return removal is not None


def delete_before(store: MessageStore, commit_log_offset: int) -> int:
    """Forget whole commit-log files that end before an offset, as aging does; gives how many."""
    log = store.log.files
    before = len(log.files)
    if removed(store.let_go_before(commit_log_offset)):
        for queue in store.queues.values():
            removed(queue.follow(log.min_offset))
        if store.index is not None:
            removed(store.index.let_go_before(log.min_offset))
    return before - len(log.files)


def message(number: int, topic: str = "T", queue_id: int = 0, **properties: str) -> InnerMessage:
    return InnerMessage(
        topic,
        queue_id,
        f"body {number}".encode(),
        {"UNIQ_KEY": f"ID{number:04d}", **properties},
        born_timestamp=number,
    )


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[str]:
    """The bodies of every message of a queue, read entry by entry."""
    queue = store.consume_queue(topic, queue_id)
    found = []
    for _, (offset, size, _) in queue.iterate(0) if queue is not None else ():
        record = store.record(offset)
        assert record is not None
        assert record.size == size
        found.append(record.body.decode())
    return found


class FullDisk(MemoryFileSystem):
    """Memory that takes ``left`` more writes of segments, None: any number."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.syncs: list[str] = []

    def new_segment(self, path: str, size: int) -> MemorySegment:
        return _FullDiskSegment(self, path, size)


class _FullDiskSegment(MemorySegment):
    def __init__(self, disk: FullDisk, path: str, size: int) -> None:
        super().__init__(path, size)
        self._disk = disk

    def write(self, at: int, data: Buffer) -> None:
        if self._disk.left is not None:
            if self._disk.left <= 0:
                raise StoreError(f"{self.path}: no space left on device")
            self._disk.left -= 1
        super().write(at, data)

    def sync(self) -> None:
        self._disk.syncs.append(self.path)
