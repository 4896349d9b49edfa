"""The store times up to which everything is on the disk.

The file ``checkpoint``: 4,096 bytes, of which 40 are used: store time of the last message in the
commit log, in the consume queues and in full index files (milliseconds), then two positions that
only replicas use. Must not know: who syncs what. Layout as ``StoreCheckpoint``. Read on:
``recovery.py``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from embedded_broker.store.fs import FileSystem

__all__ = ["CHECKPOINT_FILE", "StoreCheckpoint"]

CHECKPOINT_FILE: Final = "checkpoint"
_SIZE: Final = 4096
_FIELDS: Final = Struct(">5q")
_SAFETY_MS: Final = 3000  # the original trusts nothing of the last three seconds


class StoreCheckpoint:
    """The five numbers; read once on ``load``, written by ``save``."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self.physic_msg_timestamp = 0
        self.logics_msg_timestamp = 0
        self.index_msg_timestamp = 0
        self.master_flushed_offset = 0
        self.confirm_phy_offset = 0

    def load(self) -> None:
        """Read the file; a missing or short one means that nothing is known to be durable."""
        if not self._fs.exists(CHECKPOINT_FILE):
            return
        data = self._fs.read_file(CHECKPOINT_FILE)
        if len(data) < _FIELDS.size:
            return
        (
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
        ) = _FIELDS.unpack_from(data)

    def save(self) -> None:
        """Write and sync the file."""
        data = _FIELDS.pack(
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
        )
        segment = self._fs.open_segment(CHECKPOINT_FILE, _SIZE)
        try:
            segment.write(0, data)
            segment.sync()
        finally:
            segment.close()

    @property
    def synced_ms(self) -> int:
        """Store time of the last message that a sync of the commit log has made durable."""
        return self.physic_msg_timestamp

    @property
    def min_timestamp(self) -> int:
        """Messages stored before this are durable in commit log and consume queues."""
        earlier = min(self.physic_msg_timestamp, self.logics_msg_timestamp)
        return max(earlier - _SAFETY_MS, 0)
