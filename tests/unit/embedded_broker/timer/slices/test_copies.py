"""Finding the timers of one id."""

from __future__ import annotations

import pytest

from embedded_broker.timer.recall import RecallOutcome
from embedded_broker.timer.slices.copies import find_copies, is_moved
from tests.unit.embedded_broker.timer.slices.slice_rig import SliceRig


@pytest.mark.parametrize("index", [True, False])
def test_every_timer_of_an_id_is_found_with_what_became_of_it(index: bool) -> None:
    rig = SliceRig(config={"messageIndexEnable": index})
    for delay, topic in ((1000, "A"), (50_000, "A"), (60_000, "B"), (200_000, "A")):
        rig.serial = 0
        rig.timer(delay, topic=topic)
    rig.advance(2000)
    rig.timers.reschedule("K1", rig.clock.now_ms + 90_000, "B")
    copies = find_copies(rig.timers._state, "K1")
    found = [(one.request.real_topic, one.waits, one.marked_by is not None) for one in copies]
    assert found == [
        ("A", False, False),
        ("A", True, False),
        ("B", True, True),
        ("A", True, False),
        ("B", True, False),
    ]
    assert [is_moved(one.record.properties) for one in copies] == [False] * 4 + [True]
    assert len(find_copies(rig.timers._state, "K1", "B")) == 2
    assert find_copies(rig.timers._state, "other") == []
    assert rig.timers.recall("K1", "B") is RecallOutcome.RECALLED
    assert rig.timers.count() == 2


def test_what_the_commit_log_has_let_go_is_found_in_its_slice() -> None:
    rig = SliceRig(config={"mappedFileSizeCommitLog": 4096})
    keys = [rig.timer(500_000) for _ in range(3)]
    rig.timers.recall(keys[0])
    for _ in range(60):
        rig.send()
    recent = rig.timer(500_000)
    assert rig.store.delete_before(rig.store.log.max_offset) > 0
    state = rig.timers._state
    assert [len(find_copies(state, key)) for key in (*keys, recent)] == [1] * 4
    assert [one.id for one in rig.timers.find(keys[1])] == [keys[1]]
    assert rig.timers.find(keys[0]) == []
    assert rig.timers.count() == 3
