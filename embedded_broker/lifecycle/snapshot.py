"""Snapshot: a copy of a running broker's store, a directory that ``store=path`` opens.

Answers: ``broker.snapshot(path)``. What the copy shows is one instant. Under the door, in the entry
that also captures a flush, it is noted where every log ends and what the tables hold; then, on the
flush thread, the flush is written and the files are copied: logs up to the noted ends, everything
else as the flush left it, since nobody else writes it meanwhile. The key index is left out; it is
made again. Must not know: what the bytes mean. Read on: ``embedded_broker/lifecycle/flusher.py``.
"""

from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from embedded_broker.clocks.clock import VirtualClock
from embedded_broker.lifecycle.flusher import Flusher
from embedded_broker.lifecycle.new_folder import (
    STORE_NAMES,
    copy_file,
    copy_whole,
    files_below,
    new_folder,
)
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.store.config_files import JsonConfigFile
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.key_index import INDEX_FOLDER
from embedded_broker.store.message_store import ABORT_FILE, LOCK_FILE

CLOCK_PATH: Final = "config/virtualClock.json"
SNAPSHOT_S: Final = 600.0
CONFIG_FOLDER: Final = "config"
_LOGS: Final = ("batchconsumequeue/", "commitlog/", "consumequeue/", "dcommitlog/", "timerlog/")
_LEFT_OUT: Final = frozenset({ABORT_FILE, LOCK_FILE, INDEX_FOLDER})


def clock_document(clock: VirtualClock) -> dict[str, object]:
    """Give what the store keeps of a virtual clock."""
    return {"nowMs": clock.now_ms, "leaps": clock.jumps.to_list()}


def take_snapshot(parts: BrokerParts, flusher: Flusher, path: str | PathLike[str]) -> Path:
    """Copy the store to a directory that does not exist, or is empty. Outside the door.

    The directory appears under its name when it is whole. Raises ``StoreError``.
    """
    with new_folder(path, "snapshot") as beside:
        taking = _Taking(parts, flusher, DirectoryFileSystem(beside))
        flusher.do_and_wait(taking.run, SNAPSHOT_S, "the snapshot was not ready")
    return Path(fspath(path)).absolute()


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
                for path in files_below(self._source, name):
                    self._copy_file(path)
        for path, document in self._documents.items():
            JsonConfigFile(self._target, path).save(document)

    def _copy_file(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        if folder == CONFIG_FOLDER:
            if path not in self._documents and not name.endswith((".bak", ".tmp")):
                copy_whole(self._source, self._target, path)
            return
        end = None
        if path.startswith(_LOGS):
            if folder not in self._ends:
                return  # it began after the instant
            end = self._ends[folder] - int(name)
            if end <= 0:
                return
        copy_file(self._source, self._target, path, end)
