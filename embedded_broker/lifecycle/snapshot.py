"""A copy of a running broker's store: a directory that ``store=path`` opens.

Answers: ``broker.snapshot(path)``. What the copy shows is one instant. Under the door, in the entry
that also captures a flush, it is noted where every log ends and what the tables hold; then, on the
flush thread, the flush is written and the files are copied: logs up to the noted ends, everything
else as the flush left it, since nobody else writes it meanwhile. The key index is left out; it is
made again. Must not know: what the bytes mean. Read on: ``embedded_broker/lifecycle/flusher.py``.
"""

from collections.abc import Iterator
from os import PathLike, fspath
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from embedded_broker.clocks.clock import VirtualClock
from embedded_broker.errors import StoreError
from embedded_broker.lifecycle.flusher import Flusher
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.store.config_files import JsonConfigFile
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.key_index import INDEX_FOLDER
from embedded_broker.store.message_store import ABORT_FILE, LOCK_FILE

CLOCK_PATH: Final = "config/virtualClock.json"
STORE_NAMES: Final = (
    "abort",
    "batchconsumequeue",
    "checkpoint",
    "commitlog",
    "config",
    "consumequeue",
    "dcommitlog",
    "index",
    "timerlog",
    "timerwheel",
)
"""Files and folders that belong to a store; a directory may hold others, which are left alone."""
SNAPSHOT_S: Final = 600.0
CONFIG_FOLDER: Final = "config"
_CHUNK: Final = 1 << 16
_ZEROS: Final = bytes(_CHUNK)
_LOGS: Final = ("batchconsumequeue/", "commitlog/", "consumequeue/", "dcommitlog/", "timerlog/")
_LEFT_OUT: Final = frozenset({ABORT_FILE, LOCK_FILE, INDEX_FOLDER})


def clock_document(clock: VirtualClock) -> dict[str, object]:
    """Give what the store keeps of a virtual clock."""
    return {"nowMs": clock.now_ms, "leaps": clock.jumps.to_list()}


def take_snapshot(parts: BrokerParts, flusher: Flusher, path: str | PathLike[str]) -> Path:
    """Copy the store to a directory that does not exist, or is empty. Outside the door.

    The directory appears under its name when it is whole. Raises ``StoreError``.
    """
    target = Path(fspath(path)).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StoreError(f"{target}: a snapshot needs a directory that is new or empty")
    beside = target.with_name(target.name + ".part")
    if beside.exists():
        raise StoreError(f"{beside} exists: remove it if an interrupted snapshot left it")
    taking = _Taking(parts, flusher, DirectoryFileSystem(beside))
    try:
        flusher.do_and_wait(taking.run, SNAPSHOT_S, "the snapshot was not ready")
        beside.replace(target)
    except BaseException:
        rmtree(beside, ignore_errors=True)
        raise
    return target


class _Taking:
    """One snapshot under way."""

    def __init__(self, parts: BrokerParts, flusher: Flusher, target: FileSystem) -> None:
        self._parts = parts
        self._flusher = flusher
        self._source = parts.store.fs
        self._target = target
        self._ends: dict[str, int] = {}
        self._documents: dict[str, Any] = {}  # JSON values

    def run(self) -> None:
        """Flush and copy. On the flush thread."""
        self._flusher.cycle(everything=True, also=self._note)
        self._copy()

    def _note(self) -> None:
        """Note the instant. Under the door, in the entry that captures the flush."""
        parts = self._parts
        files = [parts.store.log.files, *(queue.files for queue in parts.store.queues.values())]
        self._ends = {one.directory: one.max_offset for one in files}
        self._ends.update(parts.timers.log_ends())
        self._documents = parts.table_files.documents()
        if isinstance(parts.clock, VirtualClock):
            self._documents[CLOCK_PATH] = clock_document(parts.clock)

    def _copy(self) -> None:
        for name in STORE_NAMES:
            if name not in _LEFT_OUT:
                for path in _files_below(self._source, name):
                    self._copy_file(path)
        for path, document in self._documents.items():
            JsonConfigFile(self._target, path).save(document)

    def _copy_file(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        if folder == CONFIG_FOLDER:
            if path not in self._documents and not name.endswith((".bak", ".tmp")):
                self._target.write_file(path, self._source.read_file(path))
                self._target.sync_file(path)
            return
        size = self._source.size(path)
        end = size
        if path.startswith(_LOGS):
            if folder not in self._ends:
                return  # it began after the instant
            end = min(size, self._ends[folder] - int(name))
            if end <= 0:
                return
        source = self._source.open_segment(path, size, create=False)
        copy = self._target.open_segment(path, size)
        try:
            for at in range(0, min(end, source.data_end()), _CHUNK):
                chunk = source.read(at, min(_CHUNK, end - at))
                if chunk != _ZEROS[: len(chunk)]:
                    copy.write(at, chunk)
            copy.sync()
        finally:
            copy.close()
            if self._source.persistent:
                source.close()
        self._target.sync_dir(folder)


def _files_below(fs: FileSystem, path: str) -> Iterator[str]:
    """Give every file of a tree, or the file itself."""
    names = fs.list(path)
    if not names and fs.exists(path) and not _is_folder(fs, path):
        yield path
    for name in names:
        yield from _files_below(fs, f"{path}/{name}")


def _is_folder(fs: FileSystem, path: str) -> bool:
    """Say whether something without entries is a folder: only a directory store has such."""
    return isinstance(fs, DirectoryFileSystem) and (fs.root / path).is_dir()
