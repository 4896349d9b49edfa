"""What another broker has released is not released again, wherever it is when the roles change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded_broker.store.inner import PutStatus
from embedded_broker.timer.outcomes import TimerProgress
from tests.unit.embedded_broker.store.store_tools import delete_before
from tests.unit.embedded_broker.timer.timer_rig import FailingPuts, Rig

ALWAYS = 1 << 30


def hand_over(rig: Rig, queue_offset: int) -> int:
    """Let a slave act for the store, which had so much of it and is as far as the clock."""
    rig.timers.set_should_running_dequeue(False)
    passed = rig.timers.pass_released(TimerProgress(rig.clock.now_ms, queue_offset))
    rig.timers.set_should_running_dequeue(True)
    return passed


def in_wheel(rig: Rig) -> None:
    """Keep a timer in the files: its time is past, and nobody has looked yet."""
    rig.timer(3000)
    rig.clock.now_ms += 5000
    assert not rig.timers._state.due_heap.heap


def loaded(rig: Rig) -> None:
    """Keep a timer whose slot is in memory, because its time was near."""
    rig.timer(1500)
    rig.advance(5000)
    assert len(rig.timers._state.due_heap.heap) == 1


def unread(rig: Rig) -> None:
    """Keep a timer in the queue of the timer topic until its time is past."""
    rig.timers.stages["TimerEnqueueGetService"].pause()
    rig.timer(1500)
    rig.advance(5000)


def late(rig: Rig) -> None:
    """Keep a timer in memory that came behind the read pointer and never entered the wheel."""
    unread(rig)
    rig.timers.stages["TimerEnqueueGetService"].resume()
    rig.fire()
    assert rig.timers._state.due_heap.first_late_queue_offset() == 0


def carried(rig: Rig) -> None:
    """Keep a timer in memory that a jump of the clock has carried past its hop."""
    rig.timer(15_000)
    rig.advance(20_000, elide=True)
    assert rig.timers._state.due_heap.held


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("kept", [in_wheel, loaded, unread, late, carried])
def test_a_timer_is_released_by_one_broker_wherever_it_is_kept(
    kept: Callable[[Rig], None], crash: bool
) -> None:
    rig = Rig(config={"timerRollWindowSlot": 10})
    refusal = FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, ALWAYS)
    rig.store.put_hooks.append(refusal)
    kept(rig)
    assert hand_over(rig, queue_offset=1) == 1
    assert rig.timers.count() == 0
    refusal.left = 0
    rig.timers.stages["TimerEnqueueGetService"].resume()
    rig.timer(1000)
    if crash:
        rig.flush()
        rig.crash()
    rig.advance(60_000)
    assert rig.bodies() == [b"2"]
    assert rig.timers.count() == 0


def test_timers_behind_an_entry_that_retention_has_removed_were_not_released_elsewhere() -> None:
    rig = Rig(config={"mappedFileSizeCommitLog": 4096, "mappedFileSizeConsumeQueue": 200})
    for _ in range(30):
        rig.timer(1000)
    rig.advance(2000)
    delete_before(rig.store, rig.store.log.max_offset)
    assert rig.timers._state.queue.min_offset > 5
    for delay_ms in (1500, 1000):
        rig.timer(delay_ms)
    rig.timers.set_should_running_dequeue(False)
    rig.clock.now_ms += 60_000
    assert hand_over(rig, queue_offset=5) == 0
    rig.advance(1000)
    assert rig.bodies()[-2:] == [b"32", b"31"]
    assert rig.timers.count() == 0
