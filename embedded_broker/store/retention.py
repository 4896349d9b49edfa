"""Which files of the commit log are old enough to be removed.

Answers: up to which offset everything is older than ``fileReservedTime`` hours, and whether old
files are removed now: at this hour, or because the disk is too full. Whole files only, from the
oldest on, never the newest. Must not know: who still needs a file, who removes it. After
``DefaultMessageStore.CleanCommitLogService`` and ``MappedFileQueue.deleteExpiredFileByTime``; the
age of a file is that of its last message, by the broker's clock, where the original takes the time
of the last write. A full disk is a reason to remove old files at any hour, but never files that are
not old: the original then removes unread messages. Read on: ``embedded_broker/lifecycle/aging.py``
for who asks.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Protocol

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.commit_log import BLANK_SIZE_MIN, CommitLog
from embedded_broker.store.fs import FileSystem
from rocketmq_py.clock import Clock
from rocketmq_py.protocol.message_codec import MAGIC_V1, MAGIC_V2

__all__ = ["AgingClock", "Retention"]

HOUR_MS: Final = 3_600_000
_SIZE_AND_MAGIC: Final = Struct(">ii")
_MAGICS: Final = frozenset({MAGIC_V1, MAGIC_V2})


class AgingClock(Clock, Protocol):
    """A clock that knows by how much something has aged."""

    def aged_ms(self, since_ms: int) -> int:
        """Give the milliseconds since an instant that count as age."""
        ...


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
