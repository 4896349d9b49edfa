"""The course of time through the slices."""

from __future__ import annotations

from random import Random

from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, SliceRig

DAY_MS = 86_400_000


def second_of(delay_ms: int) -> int:
    return -(-(START_MS + delay_ms) // 1000) * 1000


def test_the_next_deadline_is_a_second_or_the_moment_to_load_a_slice() -> None:
    rig = SliceRig()
    assert rig.timers.next_deadline() is None
    rig.timer(200_000)
    deadline = rig.timers.next_deadline()
    assert deadline is not None
    begins_ms = (START_MS + 200_000) // 60_000 * 60_000
    assert (deadline.due_ms, deadline.what) == (begins_ms - 5000, "time slice to load")
    rig.advance(deadline.due_ms - rig.clock.now_ms)
    deadline = rig.timers.next_deadline()
    assert deadline is not None
    assert (deadline.due_ms, deadline.what) == (START_MS + 200_000, "timer")


def test_a_jump_over_many_slices_releases_everything_in_due_order() -> None:
    rig = SliceRig()
    random = Random(1)
    delays = [random.randrange(1, 2 * DAY_MS) for _ in range(300)]
    for delay in delays:
        rig.timer(delay)
    rig.jump(2 * DAY_MS)
    order = sorted(range(300), key=lambda number: (second_of(delays[number]), number))
    assert rig.bodies() == [b"%d" % (number + 1) for number in order]


def test_what_is_due_and_not_fired_yet_survives_arrivals_a_flush_and_a_crash() -> None:
    rig = SliceRig()
    rig.timer(1000)
    rig.timer(45_000)
    for _ in range(3):
        rig.clock.now_ms += 30_000  # nobody fires
        rig.timer(5000)
        rig.flush()
        rig.crash()
    assert rig.timers.count() == 5
    rig.advance(10_000)
    assert rig.bodies() == [b"1", b"3", b"2", b"4", b"5"]
