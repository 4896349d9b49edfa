"""File sizes of a store.

Files that exist decide; a setting that was changed and disagrees is a ``ConfigError``, so that a
store is never opened with wrong sizes. A memory store without settings gets small files. Must not
know: what is in the files, except where an index file's shape must be told from its bytes. Read
on: ``message_store.py``.
"""

import posixpath
from collections import Counter
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from embedded_broker.errors import StoreError
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.options import OPTIONS
from embedded_broker.store.batch_queue import BATCH_ENTRY_SIZE, BATCH_QUEUE_FOLDER
from embedded_broker.store.commit_log import COMMIT_LOG_FOLDER
from embedded_broker.store.consume_queue import CONSUME_QUEUE_FOLDER, ENTRY_SIZE
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.index_file import HEADER_SIZE, IndexShape
from embedded_broker.store.key_index import INDEX_FOLDER, INDEX_NAME_DIGITS
from embedded_broker.store.memory_fs import MemoryFileSystem
from rocketmq_py.errors import ConfigError

_COMMIT_LOG: Final = "mappedFileSizeCommitLog"
_CONSUME_QUEUE: Final = "mappedFileSizeConsumeQueue"
_BATCH_QUEUE: Final = "mapperFileSizeBatchConsumeQueue"
_SLOTS: Final = "maxHashSlotNum"
_ENTRIES: Final = "maxIndexNum"
_IN_MEMORY: Final = {
    _COMMIT_LOG: 64 * 1024 * 1024,
    _CONSUME_QUEUE: 50_000 * ENTRY_SIZE,
    _BATCH_QUEUE: 10_000 * BATCH_ENTRY_SIZE,
    _SLOTS: 16_384,
    _ENTRIES: 65_536,
}
_ENTRY_SIZES: Final = {_CONSUME_QUEUE: ENTRY_SIZE, _BATCH_QUEUE: BATCH_ENTRY_SIZE}
_QUEUES_ASKED: Final = 16
_FILES_IN_BUDGET: Final = 8
_FILE_MIN: Final = 17 * 1024 * 1024
"""A file holds the largest request there is."""
_ENTRIES_PER_SLOT: Final = 4  # of the original's defaults, 5 000 000 and 20 000 000


@frozen
class StoreSizes:
    """File sizes in bytes, and the shape of index files."""

    commit_log: int
    consume_queue: int
    batch_queue: int
    index: IndexShape

    @classmethod
    def find(cls, fs: FileSystem, config: BrokerConfig) -> "StoreSizes":
        """Look at the files, then at the settings. Opens nothing for writing.

        Index files can be made again from the log, so one that says nothing is no reason to refuse
        the store.
        """
        logs = [f"{COMMIT_LOG_FOLDER}/{name}" for name in fs.list(COMMIT_LOG_FOLDER)]
        return cls(
            commit_log=_decide(fs, config, _COMMIT_LOG, logs),
            consume_queue=_decide(
                fs, config, _CONSUME_QUEUE, list(_some_queue_files(fs, CONSUME_QUEUE_FOLDER))
            ),
            batch_queue=_decide(
                fs, config, _BATCH_QUEUE, list(_some_queue_files(fs, BATCH_QUEUE_FOLDER))
            ),
            index=_index_shape(fs, config),
        )


def _decide(fs: FileSystem, config: BrokerConfig, option: str, paths: list[str]) -> int:
    """Give the length that these files have; one that was cut short does not speak for the others.

    A file's name is its offset, and so a multiple of the length.
    """
    wanted, changed = _setting(fs, config, option)
    entry_size = _ENTRY_SIZES.get(option, 1)
    wanted = -(-wanted // entry_size) * entry_size  # rounded up to whole entries, as upstream
    lengths = Counter(length for path in paths if (length := fs.size(path)))
    if not lengths or wanted in lengths:
        return wanted
    starts = [int(name) for path in paths if (name := posixpath.basename(path)).isdecimal()]
    fitting = [one for one in lengths if not any(start % one for start in starts)] or [*lengths]
    found = max(fitting, key=lambda one: (lengths[one], one))
    if changed:
        path = next(one for one in paths if fs.size(one) == found)
        raise ConfigError(option, wanted, f"it must be {found}, the length of this store's {path}")
    return found


def _setting(fs: FileSystem, config: BrokerConfig, option: str) -> tuple[int, bool]:
    """Give the value to use, and whether somebody asked for it."""
    value = config.int(option)
    changed = value not in {OPTIONS[option].default, OPTIONS[option].upstream}
    if not changed and not fs.persistent:
        value = _IN_MEMORY[option]
        budget = fs.budget.bytes_max if isinstance(fs, MemoryFileSystem) else 0
        if budget and option == _COMMIT_LOG:
            value = min(value, max(budget // _FILES_IN_BUDGET, _FILE_MIN))
    return value, changed


def _some_queue_files(fs: FileSystem, queues: str) -> Iterator[str]:
    """Give the files of the first few queues: enough to outvote one that was cut short."""
    left = _QUEUES_ASKED
    for topic in fs.list(queues):
        for queue in fs.list(f"{queues}/{topic}"):
            folder = f"{queues}/{topic}/{queue}"
            yield from (f"{folder}/{name}" for name in fs.list(folder))
            left -= 1
            if not left:
                return


def _index_shape(fs: FileSystem, config: BrokerConfig) -> IndexShape:
    """Tell slots and entries: a file's length alone does not say how it is divided."""
    slots, slots_changed = _setting(fs, config, _SLOTS)
    entries, entries_changed = _setting(fs, config, _ENTRIES)
    wanted = IndexShape(slots, entries)
    names = [name for name in fs.list(INDEX_FOLDER) if len(name) == INDEX_NAME_DIGITS]
    # The oldest file is the first to be whole.
    for path in [f"{INDEX_FOLDER}/{name}" for name in names]:
        found = _shape_of(fs, path, wanted)
        if found == wanted or (found is not None and not (slots_changed or entries_changed)):
            return found
        if found is not None:
            raise ConfigError(
                f"{_SLOTS}, {_ENTRIES}",
                (slots, entries),
                f"those that the store was written with: its {path} has {fs.size(path)} bytes",
            )
    return wanted


def _shape_of(fs: FileSystem, path: str, wanted: IndexShape) -> IndexShape | None:
    """The wanted shape or that of the original's proportions, if the file agrees with it."""
    length = fs.size(path)
    candidates = [wanted]
    likely, rest = divmod(length - HEADER_SIZE, 4 + 20 * _ENTRIES_PER_SLOT)
    if not rest and likely > 0:
        candidates.append(IndexShape(likely, likely * _ENTRIES_PER_SLOT))
    for shape in candidates:
        if shape.file_size == length and _agrees(fs, path, shape):
            return shape
    return None


def _agrees(fs: FileSystem, path: str, shape: IndexShape) -> bool:
    try:
        segment = fs.open_segment(path, shape.file_size, create=False)
    except StoreError:
        return False
    try:
        return shape.agrees_with(segment)
    finally:
        segment.close()
