"""timercheck and timermeta."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedded_broker.errors import StoreDamagedError
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.timer.wheel.checkpoint import TimerCheckpointFile, TimerMeta, TimerMetaFile
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint

PATH = "config/timercheck"
GOLDEN = (
    "00000000000003e8 000000000000044c 00000000000004b0 0000000000000514"
    "0000000000000578 00000000000005dc 0000000000000640"
)
VALUES = TimerCheckpoint(1000, 1100, 1200, 1300, 1400, 1500, 1600)
META = TimerMeta(
    precision_ms=1000,
    slots_total=400,
    wheel_covered_pos=1100,
    release_scan_pos=77,
    displaced_until_ms=5,
    checkpoint=VALUES,
    removed=frozenset({3, 4}),
    clean_end=(1, 2, 3),
)


@pytest.mark.case("F13")
def test_the_checkpoint_file_is_4096_bytes_with_the_golden_prefix() -> None:
    fs = MemoryFileSystem()
    assert TimerCheckpointFile(fs, PATH).load() is None
    assert TimerCheckpoint() == TimerCheckpoint(0, 0, 0, 0, 0, 0, 0)
    file = TimerCheckpointFile(fs, PATH)
    file.write(VALUES)
    file.close()
    assert TimerCheckpointFile(fs, PATH).load() == VALUES
    stored = fs.read_file(PATH)
    assert len(stored) == 4096
    assert stored == bytes.fromhex(GOLDEN) + bytes(4040)


@pytest.mark.case("F14")
def test_the_wire_form_has_seven_fields_and_the_old_one_four() -> None:
    wire = VALUES.encode()
    assert wire == bytes.fromhex(GOLDEN)
    assert TimerCheckpoint.decode(wire) == VALUES
    assert TimerCheckpoint.decode(wire[:32]) == TimerCheckpoint(1000, 1100, 1200, 1300)
    with pytest.raises(RecordError, match="31 bytes"):
        TimerCheckpoint.decode(wire[:31])


def test_positions_are_the_same_whatever_the_counter() -> None:
    assert evolve(VALUES, counter=0).same_positions(VALUES)
    assert not evolve(VALUES, master_timer_queue_offset=0).same_positions(VALUES)


def test_an_empty_checkpoint_file_counts_as_none() -> None:
    fs = MemoryFileSystem()
    fs.write_file(PATH, b"")
    assert TimerCheckpointFile(fs, PATH).load() is None


def test_timermeta_is_written_whole_and_read_back() -> None:
    fs = MemoryFileSystem()
    file = TimerMetaFile(fs, "config/timermeta")
    assert file.load() is None
    file.write(META)
    assert file.load() == META
    assert fs.files() == ["config/timermeta"]
    file.write(evolve(META, clean_end=None, removed=frozenset()))
    loaded = file.load()
    assert loaded is not None
    assert (loaded.clean_end, loaded.removed) == (None, frozenset())


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b'{"checkpoint":{}}', b'"x"', b"null"])
def test_a_damaged_timermeta_is_not_used(damaged: bytes) -> None:
    fs = MemoryFileSystem()
    fs.write_file("config/timermeta", damaged)
    assert TimerMetaFile(fs, "config/timermeta").load() is None


def test_a_file_of_another_length_is_damage_and_set_aside_by_the_next_write() -> None:
    fs = MemoryFileSystem()
    fs.write_file(PATH, b"short")
    file = TimerCheckpointFile(fs, PATH)
    with pytest.raises(StoreDamagedError, match=f"{PATH} has 5 instead of 4096 bytes"):
        file.load()
    assert fs.read_file(PATH) == b"short"
    file.write(VALUES)
    assert file.load() == VALUES
    assert [fs.read_file(f"damaged/{name}") for name in fs.list("damaged")] == [b"short"]
