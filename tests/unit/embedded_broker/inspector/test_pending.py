"""What is said to wait is what a broker that opens the same files delivers, at those times."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from embedded_broker.inspector.pending import PendingTimers, Whereabouts, find_pending
from embedded_broker.inspector.reader import Severity, StoreFiles
from embedded_broker.timer.outcomes import RecallOutcome
from tests.unit.embedded_broker.inspector.store_tools import (
    fingerprint,
    manifest,
    overwrite,
    rig_in,
    unpacked,
)


def due_by_id(pending: PendingTimers) -> dict[str, int]:
    entries = [pending.entry(row) for row in range(len(pending))]
    return {one.message_id: one.due_ms for one in entries if one is not None}


@pytest.mark.parametrize("name", ["r533-clean", "r533-crash", "r497-levels"])
def test_everything_a_real_broker_left_waiting_is_found_at_its_time(
    tmp_path: Path, name: str
) -> None:
    root = unpacked(name, tmp_path)
    before = fingerprint(root)
    with StoreFiles.open(root) as files:
        pending = find_pending(files)
        expected = manifest(name, tmp_path)
        found = {one.message_id: one for row in pending.rows() if (one := pending.entry(row))}
        assert found.keys() == expected.keys()
        for message_id, (topic, due_ms) in expected.items():
            one = found[message_id]
            assert one.topic == topic
            late_ms = 0 if topic == "FIX_timer" else 113  # levels count from the store time
            assert due_ms <= one.due_ms <= due_ms + late_ms
            assert one.place is (Whereabouts.WHEEL if topic == "FIX_timer" else Whereabouts.LEVEL)
            assert one.level == (0 if topic == "FIX_timer" else 5 + int(one.keys[2:4]) % 2)
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
        entries = [pending.entry(row) for row in pending.rows()]
        found = {one.message_id: (one.place, one.topic, one.level) for one in entries if one}
    assert found == {
        near: (Whereabouts.WHEEL, "T", 0),
        queued: (Whereabouts.QUEUED, "T", 0),
        "K4": (Whereabouts.LEVEL, "Levelled", 3),
        far: (Whereabouts.HOP, "T", 0),
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


def test_rows_are_chosen_by_topic_and_time(tmp_path: Path) -> None:
    rig = rig_in(tmp_path)
    start_ms = rig.clock.now_ms
    for delay_ms, topic in ((3_000, "A"), (1_000, "B"), (2_000, "A")):
        rig.timer(delay_ms, topic=topic)
    rig.close()
    with StoreFiles.open(tmp_path) as files:
        pending = find_pending(files)
        due = [pending.due_ms[row] - start_ms for row in pending.rows()]
        assert due == [1_000, 2_000, 3_000]
        assert [pending.due_ms[row] - start_ms for row in pending.rows("A")] == [2_000, 3_000]
        assert len(pending.rows("A", start_ms + 3_000)) == 1
        assert pending.rows("unknown") == []


def test_a_message_that_is_gone_is_a_finding(tmp_path: Path) -> None:
    rig = rig_in(tmp_path)
    rig.timer(5_000)
    second = rig.timer(5_000)
    rig.close()
    log = next((tmp_path / "commitlog").iterdir())
    with StoreFiles.open(tmp_path) as files:
        pending = find_pending(files)
        first_offset = min(pending.offset)
        rows = {pending.offset[row]: row for row in range(2)}
        row = rows[first_offset]
    overwrite(log, first_offset + 4, b"\0\0\0\0")
    with StoreFiles.open(tmp_path) as files:
        assert pending.entry(row) is None
        pending = find_pending(files)
        assert due_by_id(pending).keys() == {second}
        assert [(one.severity, one.position) for one in pending.findings] == [
            (Severity.DAMAGE, first_offset)
        ]
