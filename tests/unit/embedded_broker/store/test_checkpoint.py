from __future__ import annotations

from embedded_broker.store.checkpoint import StoreCheckpoint
from embedded_broker.store.fs import MemoryFileSystem


def test_a_missing_or_short_file_knows_nothing() -> None:
    fs = MemoryFileSystem()
    checkpoint = StoreCheckpoint(fs)
    checkpoint.load()
    assert checkpoint.min_timestamp == 0
    fs.write_file("checkpoint", b"123")
    checkpoint.load()
    assert checkpoint.physic_msg_timestamp == 0


def test_the_file_has_4096_bytes_and_three_times_in_front() -> None:
    fs = MemoryFileSystem()
    checkpoint = StoreCheckpoint(fs)
    checkpoint.physic_msg_timestamp = 1_700_000_000_000
    checkpoint.logics_msg_timestamp = 1_700_000_000_001
    checkpoint.index_msg_timestamp = 3
    checkpoint.master_flushed_offset = 4
    checkpoint.confirm_phy_offset = 5
    checkpoint.save()
    raw = fs.read_file("checkpoint")
    assert len(raw) == 4096
    assert raw[:24].hex() == "0000018bcfe568000000018bcfe568010000000000000003"
    again = StoreCheckpoint(fs)
    again.load()
    assert (again.master_flushed_offset, again.confirm_phy_offset) == (4, 5)
    assert again.min_timestamp == 1_700_000_000_000 - 3000
