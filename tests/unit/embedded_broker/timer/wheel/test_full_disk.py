"""A disk that takes nothing while timers are taken back: refused as a whole, or done later."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.fault_points import DiskFault
from embedded_broker.timer.outcomes import RecallOutcome
from tests.unit.embedded_broker.timer.slices.slice_rig import SliceRig
from tests.unit.embedded_broker.timer.timer_rig import START_MS, Rig


@pytest.fixture(params=[Rig, SliceRig])
def rig(request: pytest.FixtureRequest) -> Rig:
    made: Rig = request.param()
    return made


def fill(rig: Rig, folder: str) -> None:
    rig.fs.faults.add_write(DiskFault("full", folder, left=None))


def test_a_recall_that_cannot_be_stored_says_so_and_the_timer_stays(rig: Rig) -> None:
    key = rig.timer(5000)
    fill(rig, "commitlog")
    with pytest.raises(StoreError, match="'K1' is not recalled"):
        rig.timers.recall(key)
    assert [one.msg_id for one in rig.listed()] == [key]
    assert rig.timers.count() == 1
    rig.fs.faults.clear()
    assert rig.timers.recall(key) is RecallOutcome.RECALLED
    rig.advance(10_000)
    assert rig.bodies() == []


def test_a_recall_of_what_does_not_wait_needs_no_disk(rig: Rig) -> None:
    key = rig.timer(5000)
    rig.advance(6000)
    assert rig.timers.recall("nobody") is RecallOutcome.UNKNOWN
    fill(rig, "commitlog")
    assert rig.timers.recall(key) is RecallOutcome.ALREADY_DUE
    assert rig.timers.recall("nobody") is RecallOutcome.UNKNOWN


def recalled_without_index(rig: Rig) -> str:
    """Take K1 back and let the index take no more: nobody can tell whom the mark hits."""
    keys = [rig.timer(delay_ms) for delay_ms in (5000, 6000, 60_000)]
    assert rig.timers.recall(keys[0]) is RecallOutcome.RECALLED
    fill(rig, "index")
    with pytest.raises(StoreError):
        rig.timers.count()
    return keys[1]


def test_releases_wait_while_the_victim_of_a_mark_cannot_be_found(rig: Rig) -> None:
    recalled_without_index(rig)
    rig.clock.now_ms = START_MS + 20_000
    assert rig.fire() == 0
    assert rig.bodies() == []
    deadline = rig.timers.next_deadline()
    assert deadline is not None
    assert deadline.due_ms == START_MS + 20_500
    rig.fs.faults.clear()
    rig.advance(500)
    assert rig.bodies() == [b"2"]
    assert rig.timers.count() == 1


@pytest.mark.parametrize("clean", [False, True])
def test_a_flush_meanwhile_does_not_fail_and_the_next_life_counts_right(
    rig: Rig, clean: bool
) -> None:
    recalled_without_index(rig)
    rig.timers.begin_flush(clean=clean).run()
    rig.abandon()
    rig.fs.faults.clear()
    rig.open()
    assert rig.timers.count() == 2
    rig.advance(100_000)
    assert rig.bodies() == [b"2", b"3"]
    assert rig.timers.count() == 0
