"""Whole stores are called whole, and every kind of damage is found where it is."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from embedded_broker.inspector.integrity import Checked, check
from embedded_broker.inspector.pending import find_pending
from embedded_broker.inspector.reader import Severity, StoreFiles
from tests.archives import unpack_store
from tests.unit.embedded_broker.inspector.store_tools import overwrite, rig_in

SLOTS = 400


def checked(root: Path) -> Checked:
    with StoreFiles.open(root) as files:
        return check(files, find_pending(files))


class Built(NamedTuple):
    """A cleanly stopped store of three timers in one slot, and where its bytes are."""

    root: Path
    slot_ms: int
    offsets: list[int]

    @property
    def log(self) -> Path:
        return next((self.root / "timerlog").iterdir())

    @property
    def slot_at(self) -> int:
        return self.slot_ms // 1000 % (2 * SLOTS) * 32


@pytest.fixture
def built(tmp_path: Path) -> Built:
    rig = rig_in(tmp_path, slots=SLOTS)
    for _ in range(3):
        rig.timer(5_000)
    rig.close()
    with StoreFiles.open(tmp_path) as files:
        assert files.wheel is not None
        (slot,) = [one for one in files.wheel.used_slots() if one.num == 3]
        return Built(tmp_path, slot.time_ms, sorted(find_pending(files).offset))


@pytest.mark.parametrize("name", ["r533-clean", "r533-crash", "r497-levels"])
def test_stores_of_real_brokers_are_whole(tmp_path: Path, name: str) -> None:
    found = checked(unpack_store(name, tmp_path))
    assert found.findings == []
    assert not found.is_damaged
    assert found.messages == (20 if name == "r497-levels" else 50)
    assert found.records == found.queue_entries == (0 if name == "r497-levels" else 25)


def test_a_store_of_ours_is_whole(built: Built) -> None:
    found = checked(built.root)
    assert (found.findings, found.slots, found.records) == ([], 1, 3)


@pytest.mark.parametrize("extra_ms", [0, 7_000])
def test_a_killed_store_is_not_called_damaged(tmp_path: Path, extra_ms: int) -> None:
    rig = rig_in(tmp_path)
    for delay_ms in range(2_000, 60_000, 1_000):
        rig.timer(delay_ms)
    rig.flush()
    for delay_ms in range(2_000, 30_000, 1_000):
        rig.timer(delay_ms)
    rig.advance(extra_ms)
    rig.abandon()
    found = checked(tmp_path)
    assert not found.is_damaged, found.findings


def in_log(at: int, data: bytes) -> Callable[[Built], None]:
    return lambda built: overwrite(built.log, at, data)


def in_slot(at: int, data: bytes) -> Callable[[Built], None]:
    return lambda built: overwrite(built.root / "timerwheel", built.slot_at + at, data)


def in_message(at: int, data: bytes) -> Callable[[Built], None]:
    def damage(built: Built) -> None:
        log = next((built.root / "commitlog").iterdir())
        overwrite(log, built.offsets[1] + at, data)

    return damage


def move_slot(built: Built) -> None:
    wheel = built.root / "timerwheel"
    slot = wheel.read_bytes()[built.slot_at : built.slot_at + 32]
    overwrite(wheel, built.slot_at + 32 * 7, slot)


def queue_entry(built: Built) -> None:
    queue = next((built.root / "consumequeue" / "rmq_sys_wheel_timer" / "0").iterdir())
    overwrite(queue, 20, struct.pack(">q", built.offsets[1] + 1))


def checkpoint(at: int, value: int) -> Callable[[Built], None]:
    return lambda built: overwrite(
        built.root / "config" / "timercheck", at, struct.pack(">q", value)
    )


def lose_checkpoint(built: Built) -> None:
    (built.root / "config" / "timercheck").unlink()
    (built.root / "config" / "timermeta").unlink()


INT64 = struct.Struct(">q")
DAMAGE: dict[str, tuple[Callable[[Built], None], str]] = {
    "a record's size": (in_log(52, b"\0\0\0\x33"), "the log ends too early"),
    "a record's magic": (in_log(52 + 12, b"\0\0\0\x10"), "broken chain"),
    "a record's slot": (in_log(52 + 24, struct.pack(">i", 9_000)), "broken chain"),
    "a record's step": (in_log(52 + 24, struct.pack(">i", 9_001)), "slot out of step"),
    "a record's previous": (in_log(52 + 4, INT64.pack(104)), "chain goes forward"),
    "a record's offset": (in_log(52 + 28, INT64.pack(3)), "record without message"),
    "a record's length": (in_log(52 + 36, struct.pack(">i", 99)), "record without message"),
    "a record's topic hash": (in_log(52 + 40, b"\0\0\0\1"), "topic hash"),
    "a slot's last position": (in_slot(16, INT64.pack(53)), "broken chain"),
    "a slot's last position beyond the log": (in_slot(16, INT64.pack(5_200)), "broken chain"),
    "a slot's place": (move_slot, "misplaced slot"),
    "a message's magic": (in_message(4, b"\0\0\0\0"), "no message of the timer topic"),
    "a message's body": (in_message(88, b"\xff"), "no message of the timer topic"),
    "a queue entry": (queue_entry, "entry without message"),
    "the queue offset": (checkpoint(16, 4), "queue offset beyond the queue"),
    "the flushed position": (checkpoint(8, 9_999), "position beyond the log"),
    "the whole check point": (lose_checkpoint, "no check point"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found(built: Built, what: str) -> None:
    damage, text = DAMAGE[what]
    damage(built)
    found = checked(built.root)
    assert found.is_damaged
    damages = [one.text for one in found.findings if one.severity is Severity.DAMAGE]
    assert any(text in one for one in damages), found.findings


@pytest.mark.parametrize(
    ("at", "data", "text"),
    [
        (8, INT64.pack(52), "first position off"),
        (24, struct.pack(">i", 7), "slot count off"),
    ],
)
def test_estimates_that_the_original_leaves_wrong_are_only_noted(
    built: Built, at: int, data: bytes, text: str
) -> None:
    in_slot(at, data)(built)
    found = checked(built.root)
    (finding,) = found.findings
    assert finding.severity is Severity.NOTE
    assert text in finding.text
    assert not found.is_damaged


def test_a_saved_count_that_is_off_is_noted(built: Built) -> None:
    text = '{"dataVersion":{},"timingCount":{"T":{"count":9,"timeStamp":1}}}'
    (built.root / "config" / "timermetrics").write_text(text)
    (finding,) = checked(built.root).findings
    assert (finding.severity, finding.text) == (Severity.NOTE, "count off: T: 3 wait, saved is 9")


@pytest.mark.parametrize("killed", [True, False])
@pytest.mark.parametrize(
    ("left", "text"), [(b"junk", "left-over bytes"), (b"\0\0\0\x34torn", "chain goes forward")]
)
def test_what_a_kill_left_behind_the_flushed_records_is_for_the_next_start_to_mend(
    built: Built, killed: bool, left: bytes, text: str
) -> None:
    overwrite(built.log, 3 * 52, left)
    if killed:
        (built.root / "abort").touch()
    found = checked(built.root)
    assert found.is_damaged is not killed
    assert any(text in one.text for one in found.findings)


def test_a_file_with_a_hole_before_the_next_one_is_damage(tmp_path: Path) -> None:
    rig = rig_in(tmp_path)
    for _ in range(50):
        rig.timer(5_000)
    rig.close()
    files = sorted((tmp_path / "timerlog").iterdir())
    assert len(files) == 3
    assert not checked(tmp_path).is_damaged
    overwrite(files[0], 5 * 52, bytes(4))
    found = checked(tmp_path)
    assert any("hole in the log" in one.text for one in found.findings)


def test_a_store_killed_before_its_first_flush_is_not_called_damaged(tmp_path: Path) -> None:
    rig = rig_in(tmp_path)
    for _ in range(3):
        rig.timer(5_000)
    rig.abandon()
    found = checked(tmp_path)
    assert not found.is_damaged, found.findings
    assert any("no check point" in one.text for one in found.findings)


def test_findings_of_one_kind_are_counted_after_the_first_twenty(tmp_path: Path) -> None:
    rig = rig_in(tmp_path)
    for _ in range(30):
        rig.timer(5_000)
    rig.close()
    log = next((tmp_path / "commitlog").iterdir())
    with StoreFiles.open(tmp_path) as files:
        offsets = list(find_pending(files).offset)
    for offset in offsets:
        overwrite(log, offset + 4, b"\0\0\0\0")
    found = checked(tmp_path)
    assert found.hidden["record without message"] == 10
    assert len([one for one in found.findings if "record without" in one.text]) == 20
