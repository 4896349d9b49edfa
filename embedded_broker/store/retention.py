"""Retention rules: which files of the commit log are old enough to go, or must go to make room.

Answers: up to which offset everything is older than ``fileReservedTime`` hours, and whether old
files are removed now: at this hour, or because the disk is too full. Of a store in memory: how much
it may take, and up to where files should go. Whole files only, from the oldest on, never the
newest. Must not know: who still needs a file, who removes it. After
``DefaultMessageStore.CleanCommitLogService`` and ``MappedFileQueue.deleteExpiredFileByTime``; the
age of a file is that of its last message, by the broker's clock, where the original takes the time
of the last write. A full disk is a reason to remove old files at any hour, but never files that are
not old: the original then removes unread messages. Memory is less patient: there the files that
every group has consumed go first, then those that no group reads, whatever their age. Read on:
``embedded_broker/lifecycle/aging.py`` for who asks.
"""

from struct import Struct
from typing import Final, Protocol

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.commit_log import BLANK_SIZE_MIN, CommitLog
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.memory_budget import MemoryBudget
from embedded_broker.store.memory_fs import MemoryFileSystem
from rocketmq_py.clock import Clock
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.message_codec import MAGIC_V1, MAGIC_V2

HOUR_MS: Final = 3_600_000
_FILES_MIN: Final = 4
_SIZE_AND_MAGIC: Final = Struct(">ii")
_MAGICS: Final = frozenset({MAGIC_V1, MAGIC_V2})


CONSUMED_MOST: Final = 256 * 1024 * 1024
"""Bytes above which a store in memory lets files go that every group has consumed.

A quarter of its budget, if that is less.
"""
MEMORY_OPTIONS: Final = frozenset({"memoryStoreMaxBytes", "diskMaxUsedSpaceRatio"})


def allow_memory(fs: FileSystem, config: BrokerConfig, share: int) -> None:
    """Give a store in memory its budget, before it is opened and when one of these has changed.

    ``share`` is what it may take when no option says so.
    """
    if not isinstance(fs, MemoryFileSystem):
        return
    budget = fs.budget
    bytes_max = config.int("memoryStoreMaxBytes") or share
    room = bytes_max * config.int("diskMaxUsedSpaceRatio") // 100
    budget.allow(bytes_max, min(room, bytes_max // 4, CONSUMED_MOST))


class AgingClock(Clock, Protocol):
    """A clock that knows by how much something has aged."""

    def aged_ms(self, since_ms: int) -> int:
        """Give the milliseconds since an instant that count as age."""


class Retention:
    """The rule for one commit log. Any thread may ask, one at a time."""

    def __init__(
        self, fs: FileSystem, log: CommitLog, config: BrokerConfig, clock: AgingClock
    ) -> None:
        self._fs = fs
        self._log = log
        self._config = config
        self._clock = clock
        self._last_stored: dict[int, int] = {}
        self.budget = fs.budget if isinstance(fs, MemoryFileSystem) else MemoryBudget()
        """Of a store in memory; without a limit for any other."""
        self._check_files_fit()

    def is_time(self) -> bool:
        """Say whether old files are removed now: in the hours of ``deleteWhen``, or on a full disk.

        Hours are local ones of the broker's clock. Full means above ``diskMaxUsedSpaceRatio``.
        """
        hour = self._clock.now().astimezone().hour
        if hour in {int(one) for one in self._config.text("deleteWhen").split(";")}:
            return True
        return self._fs.used_percent > self._config.int("diskMaxUsedSpaceRatio")

    def old_end(self, files_max: int) -> int:
        """Give the offset before which every file is old; of at most so many files."""
        reserved_ms = self._config.int("fileReservedTime") * HOUR_MS
        files = self._log.files.files
        known, self._last_stored = self._last_stored, {}
        end = self._log.min_offset
        for start, _ in files[:-1][:files_max]:
            stored_ms = known.get(start)
            if stored_ms is None:
                stored_ms = self._find_last_stored(start)
            self._last_stored[start] = stored_ms
            if self._clock.aged_ms(stored_ms) < reserved_ms:
                break
            end = start + self._log.files.file_size
        return end

    def consumed_end(self) -> int:
        """Give up to where files should go of what every group has consumed; memory only."""
        return self._end_for(self.budget.pressed_at)

    def spare_end(self) -> int:
        """Give up to where files should go of what nobody waits for; memory only."""
        budget = self.budget
        return self._end_for(budget.bytes_max * self._config.int("diskMaxUsedSpaceRatio") // 100)

    def _end_for(self, most: int) -> int:
        """Give the end of the files without which the store would have so many bytes."""
        budget, files = self.budget, self._log.files
        first = self._log.min_offset
        if not budget.bytes_max or budget.used <= most:
            return first
        size = files.file_size
        last = first + (len(files.files) - 1) * size
        return min(first + -(-(budget.used - most) // size) * size, last)

    def describe(self) -> str:
        """Say what is kept, for whoever starts the broker."""
        hours, budget = self._config.int("fileReservedTime"), self.budget
        if not budget.bytes_max:
            return (
                f"for {hours} hours (fileReservedTime), longer while the disk is at most "
                f"{self._config.int('diskMaxUsedSpaceRatio')} percent full "
                "(diskMaxUsedSpaceRatio) and it is not the hour to remove old files (deleteWhen)"
            )
        return (
            f"in memory, for {hours} hours (fileReservedTime) and at most {budget.bytes_max} bytes "
            f"(memoryStoreMaxBytes); above {budget.pressed_at} bytes what every group has consumed "
            "goes first"
        )

    def _check_files_fit(self) -> None:
        """Refuse a budget that the newest files, which never go, would use up.

        A share of the default is raised: it was larger when the files were made.
        """
        least, most = _FILES_MIN * self._log.files.file_size, self.budget.bytes_max
        if 0 < most < least and not self._config.int("memoryStoreMaxBytes"):
            self.budget.allow(least, self.budget.pressed_at)
        elif 0 < most < least:
            raise ConfigError(
                "memoryStoreMaxBytes",
                most,
                f"at least {least}: {_FILES_MIN} files of the commit log, each of "
                f"{self._log.files.file_size} bytes (mappedFileSizeCommitLog)",
            )

    def _find_last_stored(self, start: int) -> int:
        """Step over the records of a full file to the last one; give its store time."""
        view = self._log.files.read_file_from(start)
        at, last = 0, -1
        while at + BLANK_SIZE_MIN <= len(view):
            size, magic = _SIZE_AND_MAGIC.unpack_from(view, at)
            if magic not in _MAGICS or size <= 0:
                break
            last = at
            at += size
        return self._log.store_timestamp(start + last) if last >= 0 else 0
