"""What is said to wait is what a broker that opens the same files delivers, at those times."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.inspector.columns import PendingTimers, Whereabouts
from embedded_broker.inspector.pending import find_pending
from embedded_broker.inspector.reader import Finding, Severity, StoreFiles
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.timer.listing import ListPosition, Pending, Walk, Wanted
from embedded_broker.timer.outcomes import RecallOutcome
from tests.archives import unpack_store
from tests.unit.embedded_broker.inspector.store_tools import (
    fingerprint,
    manifest,
    overwrite,
    rig_in,
)
from tests.unit.embedded_broker.timer.slices.slice_rig import SliceRig
from tests.unit.embedded_broker.timer.timer_rig import Endless


def walked(source: PendingTimers, **wanted: Any) -> list[Pending]:
    walk = Walk(source, Wanted(**{"limit": 1_000_000, **wanted}))
    while not walk.done:
        walk.step(Endless())
    return walk.found


def due_by_id(pending: PendingTimers) -> dict[str, int]:
    return {one.msg_id: one.due_ms for one in walked(pending)}


@pytest.mark.parametrize("name", ["r533-clean", "r533-crash", "r497-levels"])
def test_everything_a_real_broker_left_waiting_is_found_at_its_time(
    tmp_path: Path, name: str
) -> None:
    root = unpack_store(name, tmp_path)
    before = fingerprint(root)
    with StoreFiles.open(root) as files:
        pending = find_pending(files)
        expected = manifest(name, tmp_path)
        found = {one.msg_id: one for one in walked(pending)}
        assert found.keys() == expected.keys()
        for msg_id, (topic, due_ms) in expected.items():
            one = found[msg_id]
            assert one.topic == topic
            late_ms = 0 if topic == "FIX_timer" else 113  # levels count from the store time
            assert due_ms <= one.due_ms <= due_ms + late_ms
            where = pending.whereabouts(one)
            assert where is (Whereabouts.WHEEL if topic == "FIX_timer" else Whereabouts.LEVEL)
        assert pending.findings == []
    assert fingerprint(root) == before


@pytest.mark.parametrize("seed", range(12))
def test_a_killed_store_of_ours_delivers_exactly_what_was_found(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    rig = rig_in(tmp_path, slots=150, config={"timerRollWindowSlot": 20})
    waiting: list[str] = []
    for _ in range(60):
        action = random.random()
        if action < 0.55:
            waiting.append(rig.timer(random.choice((1, 1_500, 9_000, 55_000, 100_000))))
        elif action < 0.65 and waiting:
            assert rig.timers.recall(random.choice(waiting)) in RecallOutcome
        elif action < 0.75:
            rig.flush()
        else:
            rig.advance(random.choice((300, 1_000, 7_700)), elide=random.random() < 0.5)
    if seed % 3 == 0:
        rig.flush()
    rig.abandon()
    with StoreFiles.open(tmp_path) as files:
        pending = find_pending(files)
        found = due_by_id(pending)
        assert len(found) == len(pending)
        assert [one for one in pending.findings if one.severity is Severity.DAMAGE] == []
    rig.open()
    already = {one.properties["UNIQ_KEY"] for one in rig.messages()}
    opened_ms = rig.clock.now_ms
    rig.advance(200_000)
    delivered = {
        one.properties["UNIQ_KEY"]: one.stored_at_ms
        for one in rig.messages()
        if one.properties["UNIQ_KEY"] not in already
    }
    assert delivered == {key: max(due_ms, opened_ms) for key, due_ms in found.items()}
    rig.close()


def test_hops_queue_entries_and_levels_are_told_apart(tmp_path: Path) -> None:
    rig = rig_in(tmp_path, slots=150, config={"timerRollWindowSlot": 20})
    far = rig.timer(90_000)
    near = rig.timer(5_000)
    rig.flush()
    rig.timers.stages["TimerEnqueueGetService"].pause()
    queued = rig.timer(6_000)
    rig.send({"DELAY": "3"}, topic="Levelled")
    rig.abandon()
    with StoreFiles.open(tmp_path) as files:
        pending = find_pending(files)
        found = {one.msg_id: (pending.whereabouts(one), one.topic) for one in walked(pending)}
    assert found == {
        near: (Whereabouts.WHEEL, "T"),
        queued: (Whereabouts.QUEUED, "T"),
        "K4": (Whereabouts.LEVEL, "Levelled"),
        far: (Whereabouts.HOP, "T"),
    }
    assert list(found) == [near, queued, "K4", far]


def test_a_recalled_timer_and_its_mark_do_not_wait(tmp_path: Path) -> None:
    rig = rig_in(tmp_path)
    recalled, kept = rig.timer(5_000), rig.timer(5_000)
    assert rig.timers.recall(recalled) is RecallOutcome.RECALLED
    rig.abandon()
    with StoreFiles.open(tmp_path) as files:
        pending = find_pending(files)
        assert due_by_id(pending).keys() == {kept}
        assert (pending.recalled, pending.marks) == (1, 1)


def test_rows_are_chosen_by_topic_and_time_without_a_look_at_messages(tmp_path: Path) -> None:
    rig = rig_in(tmp_path)
    start_ms = rig.clock.now_ms
    for delay_ms, topic in ((3_000, "A"), (1_000, "B"), (2_000, "A")):
        rig.timer(delay_ms, topic=topic)
    rig.close()
    with StoreFiles.open(tmp_path) as files:
        pending = find_pending(files)
        files.commit_log = None

        def due(**wanted: Any) -> list[int]:
            return [pending.due_ms[row] - start_ms for row in pending.rows(Wanted(**wanted))]

        assert due() == [1_000, 2_000, 3_000]
        assert due(topic="A") == [2_000, 3_000]
        assert due(topic="A", before_ms=start_ms + 3_000) == [2_000]
        assert due(after=ListPosition(start_ms + 2_000, -1)) == [2_000, 3_000]
        assert due(after=ListPosition(start_ms + 2_000, 2**62)) == [3_000]
        assert due(topic="unknown") == []


def test_a_message_that_is_gone_is_a_finding(tmp_path: Path) -> None:
    rig = rig_in(tmp_path)
    rig.timer(5_000)
    second = rig.timer(5_000)
    rig.close()
    log = next((tmp_path / "commitlog").iterdir())
    with StoreFiles.open(tmp_path) as files:
        pending = find_pending(files)
        first_offset = min(pending.offset)
        overwrite(log, first_offset + 4, b"\0\0\0\0")
        assert [one.msg_id for one in walked(pending)] == [second]  # somebody changed it meanwhile
    with StoreFiles.open(tmp_path) as files:
        pending = find_pending(files)
        assert due_by_id(pending).keys() == {second}
        assert [(one.severity, one.position) for one in pending.findings] == [
            (Severity.DAMAGE, first_offset)
        ]


# --- the sliced engine ---------------------------------------------------------------------------


def slice_files(root: Path) -> list[Path]:
    return sorted((root / "dcommitlog").glob("*/*"))


def where(root: Path) -> tuple[dict[str, Whereabouts], list[Finding]]:
    with StoreFiles.open(root) as files:
        pending = find_pending(files)
        found = {one.msg_id: pending.whereabouts(one) for one in walked(pending)}
        return found, [*files.findings, *pending.findings]


def test_late_timers_and_those_in_the_queue_are_told_from_those_of_slices(tmp_path: Path) -> None:
    rig = SliceRig(DirectoryFileSystem(tmp_path))
    rig.advance(25_000)
    rig.clock.now_ms -= 10_000
    late, recalled = rig.timer(3_000), rig.timer(3_000)
    rig.timers.recall(recalled)
    ahead = rig.timer(300_000)
    rig.flush()
    rig.timers.stages["SliceDispatchService"].pause()
    queued = rig.timer(200_000)
    rig.abandon()
    slice_, in_queue = Whereabouts.SLICE, Whereabouts.QUEUED
    assert where(tmp_path) == ({late: in_queue, queued: in_queue, ahead: slice_}, [])


def test_a_torn_record_of_a_slice_does_not_count_and_its_message_waits_in_the_queue(
    tmp_path: Path,
) -> None:
    rig = SliceRig(DirectoryFileSystem(tmp_path))
    whole = rig.timer(100_000)
    rig.flush()
    torn = rig.timer(100_000)
    rig.abandon()
    (file,) = slice_files(tmp_path)
    overwrite(file, file.read_bytes().rindex(torn.encode()), b"\0\0")
    assert where(tmp_path) == ({whole: Whereabouts.SLICE, torn: Whereabouts.QUEUED}, [])
    rig.open()
    assert [one.msg_id for one in rig.listed()] == [whole, torn]
    rig.close()


@pytest.mark.parametrize("damage", ["zeros", "cut short", "empty folder", "gone"])
def test_a_slice_that_lost_what_was_synced_is_a_finding(tmp_path: Path, damage: str) -> None:
    rig = SliceRig(DirectoryFileSystem(tmp_path))
    rig.timer(100_000)
    kept = rig.timer(300_000)
    rig.close()
    first, _ = slice_files(tmp_path)
    if damage == "zeros":
        overwrite(first, 0, b"\0" * 8)
    elif damage == "cut short":
        first.write_bytes(first.read_bytes()[:100])
    else:
        first.unlink()
        if damage == "gone":
            first.parent.rmdir()
    found, findings = where(tmp_path)
    assert found == {kept: Whereabouts.SLICE}
    (finding,) = findings
    assert (finding.severity, finding.file) == (Severity.DAMAGE, f"dcommitlog/{first.parent.name}")


def test_without_its_progress_a_sliced_store_is_read_from_its_first_slice(tmp_path: Path) -> None:
    rig = SliceRig(DirectoryFileSystem(tmp_path), config={"timeSliceLength": 1800})
    waits = rig.timer(10_000_000)
    rig.close()
    for file in (tmp_path / "config").glob("delayOffset.json*"):
        file.unlink()
    assert where(tmp_path) == ({waits: Whereabouts.SLICE}, [])


def test_a_store_that_the_wheel_took_over_has_no_slices(tmp_path: Path) -> None:
    clock = VirtualClock()
    with EmbeddedBroker(
        tcp=False, topics=["T"], clock=clock, store=tmp_path, engine="sliced"
    ) as broker:
        broker.send("T", b"x", delay=5)
        clock.advance(10)
    with EmbeddedBroker(tcp=False, clock=clock, store=tmp_path) as broker:
        waits = broker.send("T", b"y", delay=5).msg_id
    assert where(tmp_path) == ({waits: Whereabouts.WHEEL}, [])


def test_that_every_slice_is_gone_is_a_finding(tmp_path: Path) -> None:
    rig = SliceRig(DirectoryFileSystem(tmp_path))
    rig.timer(100_000)
    rig.close()
    shutil.rmtree(tmp_path / "dcommitlog")
    found, findings = where(tmp_path)
    assert (found, [one.severity for one in findings]) == ({}, [Severity.DAMAGE])
