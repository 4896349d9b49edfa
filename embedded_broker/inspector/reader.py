"""Files of a store as they lie there, and what the small ones among them say.

Answers: precision, positions, offsets and counts of a store that nobody recovers. What cannot be
opened becomes a finding, and the rest is read all the same. Must not know: which timer waits
(`pending.py`), whether the files agree (`integrity.py`).
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from attrs import define, field, frozen

from embedded_broker.errors import StoreError
from embedded_broker.inspector.frozen_files import FrozenFileSystem
from embedded_broker.settings.options import OPTIONS
from embedded_broker.store.commit_log import COMMIT_LOG_FOLDER, CommitLog
from embedded_broker.store.consume_queue import CONSUME_QUEUE_FOLDER, ConsumeQueue
from embedded_broker.store.directory_lock import holder_of
from embedded_broker.store.stores_below import stores_below
from embedded_broker.timer.delay_offsets import OFFSETS_FILE
from embedded_broker.timer.slices.dcommit_log import (
    DCOMMIT_LOG_FOLDER,
    DCommitLog,
    SliceLog,
    folder_of,
)
from embedded_broker.timer.slices.opening import METRICS_FILE as SLICE_METRICS_FILE
from embedded_broker.timer.slices.progress import SliceProgress
from embedded_broker.timer.wheel.checkpoint import TimerCheckpointFile, TimerMeta
from embedded_broker.timer.wheel.flush import CHECKPOINT_FILE, META_FILE
from embedded_broker.timer.wheel.slots import SLOT_SIZE, TimerWheel
from embedded_broker.timer.wheel.state import LOG_FOLDER, METRICS_FILE, WHEEL_FILE
from embedded_broker.timer.wheel.timer_log import TimerLog
from rocketmq_py.errors import BodyError, RecordError, RocketMQError
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint
from rocketmq_py.protocol.lenient_json import loads_lenient
from rocketmq_py.protocol.message_codec import MessageRecord, decode_record
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, SLICE_TIMER_TOPIC, TIMER_TOPIC

_PRECISION_DEFAULT_MS: Final = 1000
_SLOTS_LOOKED_AT: Final = 1000
_SIGNS_OF_A_STORE: Final = (COMMIT_LOG_FOLDER, WHEEL_FILE, LOG_FOLDER)

_LOOKED_INTO: Final = (
    COMMIT_LOG_FOLDER,
    DCOMMIT_LOG_FOLDER,
    LOG_FOLDER,
    WHEEL_FILE,
    "config",
    f"{CONSUME_QUEUE_FOLDER}/{TIMER_TOPIC}",
    f"{CONSUME_QUEUE_FOLDER}/{SCHEDULE_TOPIC}",
    f"{CONSUME_QUEUE_FOLDER}/{SLICE_TIMER_TOPIC}",
)

_T = TypeVar("_T")


def _no_progress() -> SliceProgress:
    """Give what counts where the sliced engine has saved nothing: nothing is over, all is read."""
    length = int(OPTIONS["timeSliceLength"].default)
    return SliceProgress(
        delay_offset=0, current_second=0, length=length, inbound=(SLICE_TIMER_TOPIC, 0)
    )


class Severity(StrEnum):
    """How bad a finding is."""

    DAMAGE = "damage"
    """Bytes that were durable are missing or wrong."""
    REPAIR = "repair"
    """What a kill leaves behind; the next start of a broker puts it in order."""
    NOTE = "note"
    """An estimate that is off, as the original leaves it too."""


@frozen
class Finding:
    """One thing that is not as it should be.

    `position` counts bytes, in a queue entries; -1 means the whole file.
    """

    severity: Severity
    file: str
    position: int
    text: str


@define(slots=True, kw_only=True)
class StoreFiles:
    """One store directory, open for reading. `close` it, or use it in a with block.

    What is missing is None or empty. `clean` says that the last owner stopped the store, `holder`
    names the process that has it open right now (Linux; elsewhere nobody is seen).
    """

    root: Path
    fs: FrozenFileSystem
    clean: bool
    holder: str | None
    commit_log: CommitLog | None = None
    wheel: TimerWheel | None = None
    log: TimerLog | None = None
    timer_queue: ConsumeQueue | None = None
    level_queues: dict[int, ConsumeQueue] = field(factory=dict)
    level_offsets: dict[int, int] = field(factory=dict)
    progress: SliceProgress = field(factory=_no_progress)
    slices: DCommitLog | None = None
    inbound: ConsumeQueue | None = None
    """The queue in which timers of the sliced engine arrive. Without delay levels that is a queue
    of the levels' topic, which then is none of `level_queues`."""
    checkpoint: TimerCheckpoint | None = None
    meta: TimerMeta | None = None
    counts: dict[str, int] = field(factory=dict)
    precision_ms: int = _PRECISION_DEFAULT_MS
    findings: list[Finding] = field(factory=list)
    is_open: bool = True

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> Self:
        """Open what is there.

        Raises `StoreError` when the directory holds no store at all, or a file that must not be
        read.
        """
        root = Path(directory)
        require_rights(root)
        fs = FrozenFileSystem(root)
        if not any(fs.exists(name) for name in _SIGNS_OF_A_STORE):
            raise StoreError(
                f"{root}: no RocketMQ store, there is neither {COMMIT_LOG_FOLDER} nor {WHEEL_FILE}"
                f"{stores_below(root, _SIGNS_OF_A_STORE)}"
            )
        files = cls(
            root=root,
            fs=fs,
            clean=not fs.exists("abort"),
            holder=holder_of(root / "lock"),
        )
        files._load()
        return files

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the handles back."""
        self.is_open = False
        for queue in (self.timer_queue, self.inbound, *self.level_queues.values()):
            if queue is not None:
                queue.files.close()
        if self.commit_log is not None:
            self.commit_log.files.close()
        for one in (self.log, self.wheel, self.slices):
            if one is not None:
                one.close()

    @property
    def read_ms(self) -> int:
        """Everything before this slot is released, by the last check point."""
        return self.checkpoint.last_read_time_ms if self.checkpoint is not None else 0

    def record(self, offset: int) -> MessageRecord | None:
        """Read a message of the commit log; None when there is none, or a torn one."""
        return None if self.commit_log is None else self.commit_log.record(offset)

    def sliced_record(self, second: int, position: int) -> MessageRecord | None:
        """Read a message of the slice of a second; None when there is none, or a torn one."""
        try:
            slices, number = self.slices, second // self.progress.length
            record = None if slices is None else slices.read(number, position)
            return None if record is None else decode_record(record)
        except (StoreError, RecordError):
            return None

    # --- opening ---------------------------------------------------------------------------

    def _load(self) -> None:
        attempt = self._attempt
        self.commit_log = attempt(COMMIT_LOG_FOLDER, self._open_commit_log)
        self.checkpoint = attempt(CHECKPOINT_FILE, self._read_checkpoint)
        self.meta = attempt(META_FILE, self._read_meta)
        if self.checkpoint is None and self.meta is not None:
            self.checkpoint = self.meta.checkpoint.copy()
        self.log = attempt(LOG_FOLDER, self._open_log)
        self.wheel = attempt(WHEEL_FILE, self._open_wheel)
        self.timer_queue = attempt(
            f"{CONSUME_QUEUE_FOLDER}/{TIMER_TOPIC}/0", lambda: self._open_queue(TIMER_TOPIC, 0)
        )
        self.counts = attempt(METRICS_FILE, self._read_counts) or {}
        self.level_offsets = attempt(OFFSETS_FILE, self._read_levels) or {}
        for name in self.fs.list(f"{CONSUME_QUEUE_FOLDER}/{SCHEDULE_TOPIC}"):
            if name.isdecimal() and (SCHEDULE_TOPIC, int(name)) != self.progress.inbound:
                self._load_level(int(name))
        if self.progress.inbound[0] != TIMER_TOPIC:  # else the wheel has taken the store over
            self.slices = attempt(DCOMMIT_LOG_FOLDER, self._open_slices)
            topic, number = self.progress.inbound
            self.inbound = attempt(
                f"{CONSUME_QUEUE_FOLDER}/{topic}/{number}", lambda: self._open_queue(topic, number)
            )

    def _load_level(self, queue_id: int) -> None:
        queue = self._attempt(
            f"{CONSUME_QUEUE_FOLDER}/{SCHEDULE_TOPIC}/{queue_id}",
            lambda: self._open_queue(SCHEDULE_TOPIC, queue_id),
        )
        if queue is not None:
            self.level_queues[queue_id + 1] = queue

    def _attempt(self, file: str, open_it: Callable[[], _T | None]) -> _T | None:
        try:
            return open_it()
        except (RocketMQError, LookupError, ValueError, TypeError, AttributeError) as error:
            text = f"cannot be read: {error}"
            self.findings.append(Finding(Severity.DAMAGE, file, -1, text))
            return None

    def _open_commit_log(self) -> CommitLog | None:
        size = self._file_size(COMMIT_LOG_FOLDER)
        if size is None:
            return None
        log = CommitLog(self.fs, size)
        log.files.load()
        return log

    def _open_log(self) -> TimerLog | None:
        size = self._file_size(LOG_FOLDER)
        if size is None:
            return None
        log = TimerLog(self.fs, LOG_FOLDER, size)
        log.load()
        return log

    def _open_wheel(self) -> TimerWheel | None:
        size = self.fs.size(WHEEL_FILE) if self.fs.exists(WHEEL_FILE) else 0
        if size == 0:
            return None
        if size % (2 * SLOT_SIZE):
            raise StoreError(f"{size} bytes, not an even number of slots of {SLOT_SIZE}")
        # With 1 for the precision a slot's time is its number; the true one is found from it.
        wheel = TimerWheel(self.fs, WHEEL_FILE, slots=size // SLOT_SIZE // 2, precision_ms=1)
        wheel.load()
        wheel.precision_ms = self.precision_ms = self._find_precision(wheel)
        return wheel

    def _find_precision(self, wheel: TimerWheel) -> int:
        """Give `timerPrecisionMs`, told by any slot whose record is still there."""
        if self.meta is not None:
            return self.meta.precision_ms
        for slot in islice(wheel.used_slots(), _SLOTS_LOOKED_AT):
            record = self.log.read(slot.last_pos) if self.log and slot.last_pos >= 0 else None
            if record is not None and slot.time_ms > 0 and record.slot_ms % slot.time_ms == 0:
                return record.slot_ms // slot.time_ms or _PRECISION_DEFAULT_MS
        return _PRECISION_DEFAULT_MS

    def _open_slices(self) -> DCommitLog | None:
        """Open the logs of the slices, to the end of their files: where each ends is not known."""
        numbers = [int(name) for name in self.fs.list(DCOMMIT_LOG_FOLDER) if name.isdecimal()]
        sizes = Counter(filter(None, (self._file_size(folder_of(number)) for number in numbers)))
        if not sizes and not self.progress.ends:
            return None
        # One file that was cut short does not speak for the others.
        log = DCommitLog(self.fs, max(sizes, key=lambda size: (sizes[size], size), default=1))
        for number in numbers:
            log.slices[number] = SliceLog(end=len(log.files_of(number)) * log.file_size)
        return log

    def _open_queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Open the entries of a queue and find both ends, which a broker does when it starts."""
        size = self._file_size(f"{CONSUME_QUEUE_FOLDER}/{topic}/{queue_id}")
        if size is None:
            return None
        queue = ConsumeQueue(self.fs, topic, queue_id, size)
        queue.look(self.commit_log.min_offset if self.commit_log is not None else 0)
        return queue

    def _file_size(self, folder: str) -> int | None:
        names = self.fs.list(folder)
        return self.fs.size(f"{folder}/{names[0]}") if names else None

    # --- small files -------------------------------------------------------------------------

    def _read_checkpoint(self) -> TimerCheckpoint | None:
        file = TimerCheckpointFile(self.fs, CHECKPOINT_FILE)
        try:
            return file.load()
        finally:
            file.close()

    def _read_meta(self) -> TimerMeta | None:
        if not self.fs.exists(META_FILE):
            return None
        return TimerMeta.decode(self.fs.read_file(META_FILE))

    def _read_counts(self) -> dict[str, int]:
        """Add up what both engines have saved: a store is one's, and the other's counts are 0."""
        found: Counter[str] = Counter()
        for name in (METRICS_FILE, SLICE_METRICS_FILE):
            counts = (self._json(name) or {}).get("timingCount") or {}
            found.update({str(topic): int(one["count"]) for topic, one in counts.items()})
        return found

    def _read_levels(self) -> dict[int, int]:
        table = self._json(OFFSETS_FILE) or {}
        self.progress = SliceProgress.from_table(table) or self.progress
        offsets = table.get("offsetTable") or {}
        return {int(level): int(offset) for level, offset in offsets.items()}

    def _json(self, path: str) -> Any | None:  # Any: a JSON edge, the callers check its shape
        """Read a table, or its backup, as a broker does; None when there is neither."""
        for name in (path, f"{path}.bak"):
            if not self.fs.exists(name):
                continue
            try:
                return loads_lenient(self.fs.read_file(name))
            except BodyError as error:
                text = f"no readable JSON: {error}"
                self.findings.append(Finding(Severity.REPAIR, name, -1, text))
        return None


def require_rights(root: Path) -> None:
    """Raise `StoreError` that names what this user may not read: it is no damage, and not empty."""
    for folder in reversed(root.absolute().parents):
        _require(folder, os.X_OK, "enter")
    _require(root, os.R_OK | os.X_OK, "list and enter")
    for name in _LOOKED_INTO:
        _require((root / name).parent, os.X_OK, "enter")
        for path in _all_below(root / name):
            if path.is_dir():
                _require(path, os.R_OK | os.X_OK, "list and enter")
            else:
                _require(path, os.R_OK, "read")


def _all_below(path: Path) -> Iterator[Path]:
    """Give a file or a folder, and then what is in it."""
    yield path
    if path.is_dir():
        for one in sorted(path.iterdir()):
            yield from _all_below(one)


def _require(path: Path, rights: int, doing: str) -> None:
    if not os.access(path, rights) and os.access(path, os.F_OK):
        what = "folder" if path.is_dir() else "file"
        raise StoreError(
            f"{path}: this user may not {doing} the {what}. Run this as the broker's user, or ask "
            "its owner for the right to read every file of the store"
        )
