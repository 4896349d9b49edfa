from __future__ import annotations

import pytest

from embedded_broker.store.checkpoint import StoreCheckpoint
from embedded_broker.store.memory_fs import MemoryFileSystem


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


def _saved() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    checkpoint = StoreCheckpoint(fs)
    checkpoint.physic_msg_timestamp = checkpoint.logics_msg_timestamp = 1_700_000_000_000
    checkpoint.flushed_offset = 5000
    checkpoint.save()
    return fs


@pytest.mark.parametrize("bit", range(0, 52 * 8, 3))
def test_a_flipped_bit_makes_the_file_say_nothing(bit: int) -> None:
    fs = _saved()
    segment = fs.open_segment("checkpoint", 4096)
    segment.write(bit // 8, bytes([segment.view(bit // 8, 1)[0] ^ 1 << bit % 8]))
    checkpoint = StoreCheckpoint(fs)
    wrong = checkpoint.load()
    assert wrong is not None
    assert "checkpoint is not used" in wrong
    assert (checkpoint.physic_msg_timestamp, checkpoint.flushed_offset) == (0, -1)


def test_a_file_of_another_length_is_set_aside() -> None:
    fs = _saved()
    fs.write_file("checkpoint", fs.read_file("checkpoint")[:100])
    checkpoint = StoreCheckpoint(fs)
    wrong = checkpoint.load()
    assert wrong == ("checkpoint had 100 instead of 4096 bytes: moved to damaged/0001-checkpoint")
    checkpoint.save()
    assert fs.size("checkpoint") == 4096


def test_what_another_broker_wrote_is_believed() -> None:
    fs = MemoryFileSystem()
    fs.write_file("checkpoint", (9000).to_bytes(8) * 2 + bytes(4080))
    checkpoint = StoreCheckpoint(fs)
    assert checkpoint.load() is None
    assert (checkpoint.physic_msg_timestamp, checkpoint.flushed_offset) == (9000, -1)
    assert checkpoint.knows_durable(0, 8999)
    assert not checkpoint.knows_durable(0, 9000)


def test_the_begin_of_the_log_is_kept_and_not_believed_when_another_broker_wrote() -> None:
    fs = _saved()
    assert _loaded(fs).begin_offset == -1
    checkpoint = _loaded(fs)
    checkpoint.begin_offset = 3072
    checkpoint.save()
    assert (_loaded(fs).begin_offset, _loaded(fs).flushed_offset) == (3072, 5000)
    fs.open_segment("checkpoint", 4096).write(0, (9000).to_bytes(8))
    assert (_loaded(fs).begin_offset, _loaded(fs).flushed_offset) == (-1, -1)


@pytest.mark.parametrize("bit", range(52 * 8, 64 * 8, 5))
def test_a_flipped_bit_makes_the_begin_unknown(bit: int) -> None:
    fs = _saved()
    checkpoint = _loaded(fs)
    checkpoint.begin_offset = 3072
    checkpoint.save()
    segment = fs.open_segment("checkpoint", 4096)
    segment.write(bit // 8, bytes([segment.view(bit // 8, 1)[0] ^ 1 << bit % 8]))
    assert (_loaded(fs).begin_offset, _loaded(fs).flushed_offset) == (-1, 5000)


def test_a_log_that_was_synced_up_to_an_offset_was_not_durable_behind_it() -> None:
    checkpoint = _loaded(_saved())
    assert checkpoint.knows_durable(4999, 0)
    assert not checkpoint.knows_durable(5000, 0)


def _loaded(fs: MemoryFileSystem) -> StoreCheckpoint:
    checkpoint = StoreCheckpoint(fs)
    checkpoint.load()
    return checkpoint
