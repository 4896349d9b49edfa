"""Store check point: the store times up to which everything is on the disk.

The file ``checkpoint``: 4,096 bytes, of which the original uses 40: store time of the last message
in the commit log, in the consume queues and in full index files (milliseconds), then two positions
that only replicas use. Behind them lie our seals, each with a check sum of all before it: the
offset up to which the commit log was synced, the one at which it begins, and after a clean stop a
mark of what the consume queues hold. Another broker that writes the file breaks them. Must not
know: who syncs or removes what. Layout as ``StoreCheckpoint``. Read on: ``recovery.py``.
"""

from struct import Struct
from threading import Lock
from typing import Final
from zlib import crc32

from embedded_broker.store.damaged_folder import set_aside
from embedded_broker.store.fs import FileSystem

CHECKPOINT_FILE: Final = "checkpoint"
_SIZE: Final = 4096
_FIELDS: Final = Struct(">5q")
_SEAL: Final = Struct(">qI")
_BEGIN_AT: Final = _FIELDS.size + _SEAL.size
_QUEUES_AT: Final = _BEGIN_AT + _SEAL.size
_SAFETY_MS: Final = 3000  # the original trusts nothing of the last three seconds


class StoreCheckpoint:
    """The numbers; read once on ``load``, written by ``save``.

    ``flushed_offset``: the commit log was synced up to there. ``begin_offset``: no file from there
    on was removed. ``queues_mark``: as ``mark_of`` the consume queues was at a clean stop. -1 when
    that is not known, because another broker has written the file. Any thread may save.
    """

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._saving = Lock()
        self.physic_msg_timestamp = 0
        self.logics_msg_timestamp = 0
        self.index_msg_timestamp = 0
        self.master_flushed_offset = 0
        self.confirm_phy_offset = 0
        self.flushed_offset = -1
        self.begin_offset = -1
        self.queues_mark = -1

    def load(self) -> str | None:
        """Read the file; a missing or short one means that nothing is known to be durable.

        Gives what is wrong with it. Times that the seal does not agree with are not used.
        """
        if not self._fs.exists(CHECKPOINT_FILE):
            return None
        data = self._fs.read_file(CHECKPOINT_FILE)
        if len(data) not in {0, _SIZE}:
            kept = set_aside(self._fs, CHECKPOINT_FILE)
            return f"{CHECKPOINT_FILE} had {len(data)} instead of {_SIZE} bytes: moved to {kept}"
        if not data:
            return f"{CHECKPOINT_FILE} was empty and is not used"
        flushed, check_sum = _SEAL.unpack_from(data, _FIELDS.size)
        if flushed or check_sum:
            if crc32(data[: _FIELDS.size + 8]) != check_sum:
                return (
                    f"{CHECKPOINT_FILE} is not used: it is damaged, or another broker has "
                    "written it"
                )
            self.flushed_offset = flushed
            begin, check_sum = _SEAL.unpack_from(data, _BEGIN_AT)
            if crc32(data[: _BEGIN_AT + 8]) == check_sum:
                self.begin_offset = begin
                mark, check_sum = _SEAL.unpack_from(data, _QUEUES_AT)
                if crc32(data[: _QUEUES_AT + 8]) == check_sum:
                    self.queues_mark = mark
        (
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
        ) = _FIELDS.unpack_from(data)
        return None

    def save(self) -> None:
        """Write and sync the file."""
        with self._saving:
            self._save()

    def _save(self) -> None:
        data = _FIELDS.pack(
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
        )
        data += max(self.flushed_offset, 0).to_bytes(8)
        data += crc32(data).to_bytes(4)
        if self.begin_offset >= 0:
            data += self.begin_offset.to_bytes(8)
            data += crc32(data).to_bytes(4)
            mark = bytes(_SEAL.size)
            if self.queues_mark >= 0:
                mark = self.queues_mark.to_bytes(8)
                mark += crc32(data + mark).to_bytes(4)
            data += mark
        is_new = not self._fs.exists(CHECKPOINT_FILE)
        segment = self._fs.open_segment(CHECKPOINT_FILE, _SIZE)
        try:
            segment.write(0, data)
            segment.sync()
        finally:
            segment.close()
        if is_new:
            self._fs.sync_dir("")

    def note_times(self, store_timestamp: int) -> None:
        """Note that all messages are durable, and the store time of the newest one."""
        self.physic_msg_timestamp = max(self.physic_msg_timestamp, store_timestamp)
        self.logics_msg_timestamp = max(self.logics_msg_timestamp, store_timestamp)

    def knows_durable(self, offset: int, newest_ms: int) -> bool:
        """Whether the log was durable behind an offset once; ``newest_ms`` is what it has now."""
        if self.flushed_offset >= 0:
            return self.flushed_offset > offset
        return self.physic_msg_timestamp > newest_ms

    @property
    def min_timestamp(self) -> int:
        """Messages stored before this are durable in commit log and consume queues."""
        earlier = min(self.physic_msg_timestamp, self.logics_msg_timestamp)
        return max(earlier - _SAFETY_MS, 0)
