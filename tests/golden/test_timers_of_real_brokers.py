"""Timers and levels that a real broker left pending are released by us, once and in time.

The stores are described in `stores/README.md`. Due times come from the manifests; a real broker's
levels are 3 to 113 ms later than the producer's estimate there.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.timer.outcomes import RecallOutcome
from embedded_broker.timer.wheel.slots import SLOTS_DEFAULT
from tests.archives import unpack_store
from tests.unit.embedded_broker.timer.timer_rig import Rig

NO_SIZES = {
    "mappedFileSizeCommitLog": 1_073_741_824,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "mappedFileSizeTimerLog": 104_857_600,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
}


def opened(name: str, tmp_path: Path) -> tuple[Rig, dict[str, dict[str, tuple[int, int]]]]:
    """Open a store a second before anything is due; also what the manifest says by topic."""
    unpack_store(name, tmp_path)
    expected: dict[str, dict[str, tuple[int, int]]] = {}
    for line in (tmp_path / f"{name}.tsv").read_text().splitlines():
        topic, _, queue_id, due_ms, message_id = line.split("\t")
        if due_ms != "0":
            expected.setdefault(topic, {})[message_id] = (int(due_ms), int(queue_id))
    first_ms = min(due_ms for one in expected.values() for due_ms, _ in one.values())
    fs = DirectoryFileSystem(str(tmp_path / f"{name}.store"))
    rig = Rig(fs, now_ms=first_ms - 1000, slots=SLOTS_DEFAULT, config=NO_SIZES)
    return rig, expected


def check(rig: Rig, topic: str, expected: dict[str, tuple[int, int]], late_ms: int) -> None:
    delivered = rig.messages(topic)
    ids = Counter(one.properties["UNIQ_KEY"] for one in delivered)
    assert ids == Counter(list(expected))
    for one in delivered:
        due_ms, queue_id = expected[one.properties["UNIQ_KEY"]]
        assert one.queue_id == queue_id
        assert due_ms <= one.stored_at_ms <= due_ms + late_ms


@pytest.mark.parametrize("name", ["r533-clean", "r533-crash", "r497-levels"])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_pending_is_delivered_once_at_its_time(
    name: str, restarts: bool, tmp_path: Path
) -> None:
    rig, expected = opened(name, tmp_path)
    timers = expected.pop("FIX_timer", {})
    assert rig.timers.count("FIX_timer") == len(timers) == (0 if name == "r497-levels" else 25)
    assert rig.timers.count() == len(timers)
    for step in range(8):
        rig.advance(25_000)
        if restarts:
            rig.flush()
            if step % 2:
                rig.crash()
            else:
                rig.restart()
    check(rig, "FIX_timer", timers, late_ms=0)
    check(rig, "FIX_sched", expected["FIX_sched"], late_ms=150)
    assert (rig.timers.count(), rig.timers.lost, rig.levels.skipped) == (0, {}, {})
    rig.close()


def test_everything_overdue_is_delivered_at_once_and_nothing_again(tmp_path: Path) -> None:
    rig, expected = opened("r533-crash", tmp_path)
    rig.jump(3_600_000)
    for topic, messages in expected.items():
        ids = Counter(one.properties["UNIQ_KEY"] for one in rig.messages(topic))
        assert ids == Counter(list(messages))
    rig.crash()
    rig.jump(3_600_000)
    assert len(rig.messages("FIX_timer")) == len(expected["FIX_timer"])
    rig.close()


def test_a_real_brokers_timer_can_be_recalled(tmp_path: Path) -> None:
    rig, expected = opened("r533-clean", tmp_path)
    recalled, *others = expected["FIX_timer"]
    assert rig.timers.recall(recalled) is RecallOutcome.RECALLED
    assert rig.timers.count("FIX_timer") == 24
    rig.advance(200_000)
    delivered = {one.properties["UNIQ_KEY"] for one in rig.messages("FIX_timer")}
    assert delivered == set(others)
    rig.close()
