"""The quick ways of the timer store give the same bytes as the slow ones that they replace."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from embedded_broker.clocks.timeline import Budget
from embedded_broker.errors import StoreError
from embedded_broker.store.fs import Segment
from embedded_broker.store.put_values import InnerMessage, PutRefusal, PutStatus
from embedded_broker.timer.wheel.timer_log import BROKEN, LogEntry
from rocketmq_py.protocol.properties import encode_properties
from tests.unit.embedded_broker.timer.timer_rig import START_MS, Endless, FailingPuts, Rig, Short


class Curious:
    """A put hook that wants to see every message, so that nothing is copied whole."""

    name = "curious"

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutRefusal | None:
        del msg, now_ms
        return None


def busy(*, curious: bool) -> Rig:
    """Timers of every kind, on several queues, some with tags, some rolled, some recalled."""
    rig = Rig(config={"timerRollWindowSlot": 60, "timerMaxDelaySec": 3000})
    if curious:
        rig.store.hooks.listed.append(Curious())
    chance = Random(3)
    for number in range(300):
        properties = {
            "TIMER_DELAY_MS": str(chance.randrange(100, 200_000)),
            "TAGS": f"t{number % 3}",
        }
        if number % 2:
            del properties["TAGS"]
        rig.send(properties, topic=f"T{number % 4}", queue_id=number % 3)
        if not number % 20:
            rig.advance(chance.randrange(3000), elide=bool(number % 40))
        if not number % 17:
            rig.timers.recall(f"K{chance.randrange(rig.serial) + 1}")
    rig.advance(120_000)
    rig.advance(250_000, elide=True)
    return rig


def test_timers_released_together_lie_as_if_released_one_by_one() -> None:
    together, single = busy(curious=False), busy(curious=True)
    end = single.store.log.max_offset
    assert end == together.store.log.max_offset
    assert sum(len(single.messages(f"T{number}")) for number in range(4)) > 200
    for (_, expected), (_, actual) in zip(
        single.store.log.files.chunks(0, end), together.store.log.files.chunks(0, end), strict=True
    ):
        assert bytes(expected) == bytes(actual)
    for key, queue in single.store.queues.items():
        entries = list(queue.iterate(0))
        assert entries == list(together.store.queues[key].iterate(0)), key
    assert single.timers.metrics.snapshot()["timingCount"].keys() == (
        together.timers.metrics.snapshot()["timingCount"].keys()
    )
    assert (single.timers.count(), together.timers.count()) == (0, 0)
    times = [one.properties.get("TIMER_ROLL_TIMES") for one in together.messages("T1")]
    assert {None, "1", "2"} <= set(times)


def test_a_refused_write_of_many_is_tried_again_and_loses_nothing() -> None:
    rig = Rig()
    for _ in range(50):
        rig.timer(2000)
    refusing = FailingPuts(PutStatus.CREATE_MAPPED_FILE_FAILED, 2)
    rig.store.hooks.listed.append(refusing)
    rig.advance(2000)
    assert rig.bodies() == []
    rig.store.hooks.listed.remove(refusing)
    rig.advance(5000)
    assert rig.bodies() == [b"%d" % number for number in range(1, 51)]


def test_a_walk_gives_what_the_chain_gives() -> None:
    rig = Rig()
    for number in range(60):
        rig.timer(30_000 + number % 3 * 1000)
    log = rig.timers._state.log
    slots = [slot for slot in rig.timers._state.wheel.used_slots() if slot.num]
    assert len(slots) == 3
    for slot in slots:
        expected = [tuple(record) for _, record in log.chain(slot.last_pos, slot.time_ms)]
        found: list[LogEntry] = []
        position = slot.last_pos
        while position >= 0:
            position = log.walk(position, slot.time_ms, 7, found)
        assert position == -1
        assert expected == [entry[1:-1] for entry in found]
        assert log.walk(slot.last_pos, slot.time_ms + 1000, 7, []) == BROKEN
        assert log.walk(log.end, slot.time_ms, 7, []) == BROKEN


def test_a_scan_in_parts_gives_the_records_that_a_scan_gives() -> None:
    rig = busy(curious=False)
    log = rig.store.log
    expected = [
        (
            one.commit_log_offset,
            one.size,
            one.topic,
            one.queue_id,
            one.queue_offset,
            one.sys_flag,
            one.store_timestamp,
            one.properties_bytes,
        )
        for one in log.scan(0)
    ]
    assert len(expected) > 500
    assert expected == list(log.scan_parts(0))
    middle, _, *_ = expected[len(expected) // 2]
    assert [one for one in expected if one[0] < middle] == list(log.scan_parts(0, middle))
    log.files.write(middle + 100, b"\0\0\0\0")
    assert [one.commit_log_offset for one in log.scan(0)] == [one[0] for one in log.scan_parts(0)]


@pytest.mark.parametrize(
    "stored", [b"UNIQ_KEY\x01K\x02TIMER_DELAY_MS\x011000\x02", b"A\x01\x02", None]
)
def test_an_accepted_timer_is_stored_with_all_its_properties(stored: bytes | None) -> None:
    rig = Rig()
    properties = {"UNIQ_KEY": "K", "TIMER_DELAY_MS": "1000"}
    message = InnerMessage("T", 3, b"", properties, properties_bytes=stored)
    assert rig.store.put(message).ok
    record = rig.store.record(0)
    assert record is not None
    assert record.properties["REAL_TOPIC"] == "T"
    assert record.properties["REAL_QID"] == "3"
    assert record.properties["TIMER_OUT_MS"] == str(START_MS)
    assert encode_properties(record.properties) == record.properties_bytes
    assert record.properties.keys() >= properties.keys()


def test_firing_through_is_firing_at_every_deadline() -> None:
    def filled() -> Rig:
        rig = Rig()
        for number in range(40):
            rig.timer(500 * number + 7)
        return rig

    stepped, through = filled(), filled()
    stepped.advance(30_000)
    pinned: list[int] = []

    def pin(due_ms: int) -> None:
        pinned.append(due_ms)
        through.clock.now_ms = max(through.clock.now_ms, due_ms)

    limit_ms = START_MS + 30_000
    fired = through.timers.fire_through(limit_ms, pin=pin, horizon_ms=0, budget=Endless())
    assert fired == 40
    assert pinned == sorted(pinned)
    assert [(one.stored_at_ms, one.body) for one in stepped.messages()] == [
        (one.stored_at_ms, one.body) for one in through.messages()
    ]


def pass_over(
    rig: Rig, milliseconds: int, *, elide: bool = False, budgets: Random | None = None
) -> int:
    """Jump as a virtual clock does: many deadlines in one call, in turns of one budget."""
    target_ms = rig.clock.now_ms + milliseconds
    horizon_ms = target_ms if elide else 0

    def pin(due_ms: int) -> None:
        rig.clock.now_ms = max(rig.clock.now_ms, due_ms)

    fired = 0
    for _ in range(1_000_000):
        due = rig.timers.next_deadline()
        level = rig.levels.next_deadline()
        if level is not None and level.due_ms <= target_ms:
            raise AssertionError("levels are fired by nobody here")
        if due is None or due.due_ms > target_ms:
            break
        budget: Budget = Endless() if budgets is None else Short(budgets.randint(1, 9))
        fired += rig.timers.fire_through(
            target_ms, pin=pin, horizon_ms=max(horizon_ms, due.due_ms), budget=budget
        )
    else:
        raise AssertionError("a deadline does not move on")
    rig.clock.now_ms = target_ms
    return fired + rig.fire(horizon_ms=horizon_ms)


def test_a_jump_moves_on_although_every_budget_is_used_up_at_once() -> None:
    rig = Rig()
    for number in range(40):
        rig.timer(5000 + 700 * (number // 20))  # more of one slot than a pass takes
    limit_ms = START_MS + 30_000
    for _ in range(1000):
        due = rig.timers.next_deadline()
        if due is None or due.due_ms > limit_ms:
            break
        rig.clock.now_ms = max(rig.clock.now_ms, due.due_ms)
        rig.timers.fire_through(limit_ms, pin=lambda _due: None, horizon_ms=0, budget=Short(1))
    assert len(rig.messages()) == 40


def everything(rig: Rig) -> dict[str, Any]:
    """All that two ways of getting somewhere could leave in different ways."""
    state = rig.timers._state
    wheel, due_heap, log = state.wheel, state.due_heap, rig.store.log
    return {
        "commit log": [(at, bytes(part)) for at, part in log.files.chunks(0, log.max_offset)],
        "queues": {key: list(queue.iterate(0)) for key, queue in rig.store.queues.items()},
        "timer log": list(state.log.scan(state.log.begin)),
        "slots": list(wheel.used_slots()),
        "waiting": (bytes(wheel._waiting), list(wheel._far)),
        "next": wheel.next_waiting(state.curr_read_ms),
        "pointers": (state.curr_read_ms, state.curr_write_ms, state.curr_queue_offset),
        "scan from": due_heap.release_scan_pos(log.max_offset),
        "loaded": (due_heap.loaded, due_heap.held),
        "heap": sorted(due_heap.heap),
        "counts": state.metrics.snapshot()["timingCount"],
        "lost": state.lost,
        "counters": {name: stage.counters for name, stage in rig.timers.stages.items()},
        "time": (rig.clock.now_ms, rig.store.last_store_timestamp),
    }


def scattered(seed: int) -> Rig:
    """Timers in slots of their own, and here and there one that is not plain."""
    rig = Rig(
        config={
            "timerRollWindowSlot": 100,
            "timerMaxDelaySec": 3000,
            "mappedFileSizeCommitLog": 8000 + 1000 * (seed % 3),
            "timerReleasePrecisionMs": (1, 250)[seed % 2],
        }
    )
    chance = Random(seed)
    for number in range(150):
        delay_ms = chance.randrange(1, 400_000)
        name, value = chance.choice(
            [
                ("TIMER_DELAY_MS", delay_ms),
                ("TIMER_DELAY_SEC", delay_ms // 1000 + 1),
                ("TIMER_DELIVER_MS", rig.clock.now_ms + delay_ms),
                ("TIMER_DELIVER_MS", rig.clock.now_ms + delay_ms // 1000 * 1000 + 1000),
            ]
        )
        properties = {name: str(value)}
        if not number % 7:
            properties["TAGS"] = f"t{number % 3}"
        if not number % 31:
            properties["TIMER_DELAY_MS"] = str(delay_ms // 2 + 1)  # a second, perhaps a loser
        if not number % 29:
            properties["__STARTDELIVERTIME"] = str(rig.clock.now_ms + delay_ms)
        if not number % 37:
            properties["A"] = "TIMER_DELAY_MS\x017\x01"
        rig.send(properties, topic=f"T{number % 3}", queue_id=number % 2)
        if not number % 11:
            rig.advance(chance.randrange(700))
        if seed % 4 == 1 and not number % 40:
            rig.timers.recall(f"K{chance.randrange(rig.serial) + 1}")
        if seed % 4 == 2 and not number % 50:
            rig.timers.reschedule(f"K{chance.randrange(rig.serial) + 1}", rig.clock.now_ms + 9_500)
    if seed % 5 == 3:  # a whole crowd in one slot
        for _ in range(40):
            rig.timer(77_000)
    return rig


@pytest.mark.parametrize("seed", range(12))
def test_passing_over_slots_leaves_what_stepping_from_deadline_to_deadline_leaves(
    seed: int,
) -> None:
    stepped, passed, turned = scattered(seed), scattered(seed), scattered(seed)
    chance, budgets = Random(seed), Random(seed + 100)
    for elide in (False, True, seed % 2 == 0, None):
        span_ms = chance.randrange(20_000, 150_000) if elide is not None else 500_000
        expected = stepped.advance(span_ms, elide=bool(elide))
        assert expected == pass_over(passed, span_ms, elide=bool(elide))
        assert expected == pass_over(turned, span_ms, elide=bool(elide), budgets=budgets)
        state, in_turns = everything(stepped), everything(turned)
        assert state == everything(passed)
        # A hop beside others in one write does not change the time of a count, one alone does.
        assert _numbers(state.pop("counts")) == _numbers(in_turns.pop("counts"))
        assert state == in_turns
    counters = [rig.timers._state.metrics.counter for rig in (stepped, passed)]
    assert counters[0] == counters[1]
    assert sum(len(stepped.messages(f"T{number}")) for number in range(3)) > 100


def _numbers(counts: dict[str, dict[str, int]]) -> dict[str, int]:
    return {topic: count["count"] for topic, count in counts.items()}


def test_a_crash_after_a_pass_finds_what_a_crash_after_steps_finds() -> None:
    stepped, passed = scattered(4), scattered(4)
    for flush in (True, False):
        stepped.advance(60_000)
        pass_over(passed, 60_000)
        if flush:
            stepped.flush()
            passed.flush()
    assert stepped.crash() == passed.crash()
    assert everything(stepped) == everything(passed)
    stepped.advance(400_000)
    pass_over(passed, 400_000)
    assert everything(stepped) == everything(passed)
    assert stepped.timers.count() == 0


class RefusedWrites:
    """Refuses some writes to the commit log, as a full disk does."""

    def __init__(self, rig: Rig, numbers: set[int]) -> None:
        self._segment: Segment | None = rig.store.log.files._last
        self._numbers = numbers
        self.seen = 0

    def write(self, at: int, data: bytes) -> None:
        self.seen += 1
        if self.seen in self._numbers:
            raise StoreError("no space left")
        assert self._segment is not None
        self._segment.write(at, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._segment, name)


def test_a_refused_write_of_a_pass_leaves_everything_as_it_was_and_is_made_up_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def filled() -> Rig:
        rig = Rig(config={"mappedFileSizeCommitLog": 1 << 20})
        for number in range(60):
            rig.timer(1500 * number + 700)
        rig.advance(2500)
        return rig

    stepped, passed = filled(), filled()
    disk = RefusedWrites(passed, {1})
    monkeypatch.setattr(passed.store.log.files, "_last", disk)
    before = everything(passed)
    pinned: list[int] = []
    sweep = passed.timers._sweep
    assert sweep.may_begin()
    assert sweep.run(passed.clock.now_ms + 50_000, pinned.append, Endless()) == 0
    assert (disk.seen, pinned) == (1, [])
    assert before == everything(passed)
    stepped.advance(200_000)
    pass_over(passed, 200_000)
    assert everything(stepped) == everything(passed)
    assert len(passed.messages()) == 60


def test_timers_of_many_slots_leave_in_few_writes() -> None:
    rig = Rig()
    for number in range(200):
        rig.timer(1300 * number + 700)
    disk = RefusedWrites(rig, set())
    rig.store.log.files._last = disk  # type: ignore[assignment]
    assert pass_over(rig, 300_000) == 200
    assert disk.seen < 10
