"""What another broker has released is not released again, wherever it is when the roles change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from embedded_broker.store.put_values import PutStatus
from embedded_broker.timer.delivery import released_copy
from embedded_broker.timer.outcomes import TimerProgress
from embedded_broker.timer.request import TimerMessage
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.timer_log import LogEntry, TimerLog, TimerLogRecord
from embedded_broker.timer.wheel.upkeep import recount
from tests.unit.embedded_broker.store.store_tools import delete_before
from tests.unit.embedded_broker.timer.timer_rig import START_MS, FailingPuts, Rig

ALWAYS = 1 << 30


def hand_over(rig: Rig, queue_offset: int) -> int:
    """Let a slave act for the store, which had so much of it and is as far as the clock."""
    rig.timers.set_should_running_dequeue(False)
    passed = rig.timers.pass_released(TimerProgress(rig.clock.now_ms, queue_offset))
    rig.timers.set_should_running_dequeue(True)
    return passed


def follow(rig: Rig, *released: str) -> None:
    """Follow a master that has released these timers, and take over from it."""
    queue = rig.timers._state.queue
    for _, (offset, _, _) in list(queue.iterate(0)):
        record = rig.store.record(offset)
        assert record is not None
        is_mark = "TIMER_DEL_UNIQKEY" in record.properties
        if not is_mark and record.properties["UNIQ_KEY"] in released:
            topic, now_ms = record.properties["REAL_TOPIC"], rig.clock.now_ms
            copy = released_copy(record, topic, 0, enqueue_ms=now_ms, now_ms=now_ms)
            assert rig.store.put(copy).ok
    rig.timers.set_should_running_dequeue(True)


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
    rig.store.hooks.listed.append(refusal)
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


@pytest.mark.parametrize("is_slave", [False, True])
def test_what_another_broker_released_is_counted_no_more_and_what_was_recalled_only_once(
    is_slave: bool,
) -> None:
    rig = Rig(config={"timerRollWindowSlot": 20})
    far = rig.timer(90_000, topic="A")
    released = [rig.timer(3000, topic=topic) for topic in ("A", "A", "B", "C")]
    released.append(rig.timer(3000, topic="A"))
    rig.timers.recall(released[-1])  # while it left
    rig.timer(3000, topic="B")
    rig.timer(500, topic="C")
    rig.timers.recall(far)
    rig.timer(90_000, topic="A")
    rig.timers.set_should_running_dequeue(False)
    rig.timer(90_000, topic="C")
    rig.clock.now_ms += 3000
    if is_slave:
        follow(rig, *released)
        expected, bodies = {"A": 1, "B": 1, "C": 2}, [4, 2, 3]
    else:
        assert hand_over(rig, queue_offset=20) == 7
        expected, bodies = {"A": 1, "C": 1}, [1, 0, 1]
    counts = {topic: rig.timers.count(topic) for topic in "ABC" if rig.timers.count(topic)}
    assert counts == expected == recount(rig.timers._state)
    rig.advance(100_000)
    assert [len(rig.bodies(topic)) for topic in "ABC"] == bodies
    assert rig.timers.count() == 0


@pytest.mark.parametrize("is_slave", [False, True])
def test_a_change_of_role_looks_at_no_timer_that_is_due_later(
    is_slave: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig()
    near = [rig.timer(3000), rig.timer(3000)]
    for number in range(100):
        rig.timer(60_000 + number * 1000)
    rig.timers.set_should_running_dequeue(False)
    rig.clock.now_ms += 3000
    last_ms = rig.clock.now_ms
    seen: set[int] = set()
    walk, chain = TimerLog.walk, TimerLog.chain

    def noted_walk(
        log: TimerLog, position: int, slot_ms: int, most: int, found: list[LogEntry]
    ) -> int:
        seen.add(slot_ms)
        return walk(log, position, slot_ms, most, found)

    def noted_chain(
        log: TimerLog, last_pos: int, slot_ms: int
    ) -> Iterator[tuple[int, TimerLogRecord]]:
        seen.add(slot_ms)
        return chain(log, last_pos, slot_ms)

    monkeypatch.setattr(TimerLog, "walk", noted_walk)
    monkeypatch.setattr(TimerLog, "chain", noted_chain)
    if is_slave:
        follow(rig, near[0])
    else:
        assert hand_over(rig, queue_offset=102) == 2
    assert rig.timers.count() == (101 if is_slave else 100)
    assert max(seen) <= last_ms


@pytest.mark.parametrize("until_ms", [5000, 5110, 9999, 20_500])
def test_exactly_what_was_due_by_then_was_released_also_from_hops_and_when_it_was_moved(
    until_ms: int,
) -> None:
    rig = Rig(config={"timerRollWindowSlot": 10})
    due_ms = {b"%d" % number: number * 730 for number in range(1, 41)}
    keys = [rig.timer(delay_ms) for delay_ms in due_ms.values()]
    for key, to_ms in zip(keys[20:24], (4300, 5900, 9800, 20_100), strict=True):
        rig.timers.reschedule(key, START_MS + to_ms)
        due_ms[key.removeprefix("K").encode()] = to_ms
    rig.timers.set_should_running_dequeue(False)
    rig.clock.now_ms += 40_000
    rig.timers.pass_released(TimerProgress(START_MS + until_ms, 1000))
    rig.timers.set_should_running_dequeue(True)
    rig.advance(1000)
    assert sorted(rig.bodies()) == sorted(body for body, at in due_ms.items() if at > until_ms)
    assert rig.timers.count() == 0


def test_a_slot_that_was_over_is_passed_without_reading_its_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    for _ in range(100):
        rig.timer(5000)
    rig.clock.now_ms += 10_000
    read: list[int] = []
    message = TimerState.message

    def noted(state: TimerState, offset: int, size: int, number: int = -1) -> TimerMessage | None:
        read.append(offset)
        return message(state, offset, size, number)

    monkeypatch.setattr(TimerState, "message", noted)
    assert hand_over(rig, queue_offset=100) == 100
    assert read == []
    rig.advance(1000)
    assert (rig.bodies(), rig.timers.count()) == ([], 0)


def test_a_listing_that_was_kept_leaves_out_what_another_broker_released() -> None:
    rig = Rig()
    for delay_ms in (500, 3000, 20_000, 50_000):
        rig.timer(delay_ms)
    assert len(rig.listed()) == 4
    rig.timers.set_should_running_dequeue(False)
    rig.clock.now_ms += 30_000

    rig.timers.pass_released(TimerProgress(START_MS + 30_000, ALWAYS))

    assert [one.msg_id for one in rig.listed()] == ["K4"]
