"""The timers of the wheel in due order: wherever they wait, page by page, without changing any."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from embedded_broker.store.mapped_file import MappedFileQueue
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer import listing
from embedded_broker.timer.listing import Pending, Wanted
from embedded_broker.timer.outcomes import RecallOutcome
from embedded_broker.timer.request import recall_time_ms
from embedded_broker.timer.wheel import due_heap
from embedded_broker.timer.wheel import listing as wheel_listing
from embedded_broker.timer.wheel.listing import WheelListing
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import decode_properties
from tests.unit.embedded_broker.timer.timer_rig import HOST, Endless, Rig, Short

WINDOW = {"timerRollWindowSlot": 40, "timerMaxDelaySec": 3000}


def dues(found: list[Pending], rig: Rig) -> list[tuple[str, int]]:
    return [(one.msg_id, one.due_ms - rig.clock.now_ms) for one in found]


def test_timers_in_memory_in_slots_in_hops_and_in_the_queue_are_one_row() -> None:
    rig = Rig(config=WINDOW)
    rig.timer(700_123)  # K1: two or more hops away
    rig.timer(30_050)  # K2: in its slot
    rig.timer(50_900)  # K3: in a hop slot
    rig.timer(20)  # K4: in memory
    rig.timers.stages["TimerEnqueueGetService"].pause()
    rig.timer(30_049)  # K5 to K7: still in the queue
    rig.timer(900_000)
    rig.timer(10)

    assert dues(rig.listed(), rig) == [
        ("K7", 10),
        ("K4", 20),
        ("K5", 30_049),
        ("K2", 30_050),
        ("K3", 50_900),
        ("K1", 700_123),
        ("K6", 900_000),
    ]


@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
def test_pages_join_without_a_gap_and_without_a_repeat(limit: int) -> None:
    rig, random = Rig(config=WINDOW), Random(4)
    truth = {rig.timer(delay): delay for delay in random.choices(range(1, 90_000), k=300)}

    found = dues(rig.listed(limit=limit), rig)

    assert sorted(found) == sorted(truth.items())
    assert [due for _, due in found] == sorted(truth.values())
    assert rig.timers.count() == 300


def test_many_timers_of_one_instant_are_listed_in_the_order_of_their_arrival() -> None:
    rig = Rig(config=WINDOW)
    ids = [rig.timer(20_500) for _ in range(250)]
    far = [rig.timer(60_500) for _ in range(250)]

    assert [one.msg_id for one in rig.listed(limit=40)] == ids + far
    rig.advance(19_600)
    assert [one.msg_id for one in rig.listed(limit=40)] == ids + far


def test_listing_changes_nothing() -> None:
    rig = Rig(config=WINDOW)
    for delay in (5, 900, 20_000, 100_000, 100_001):
        rig.timer(delay)
    rig.flush()
    state = rig.timers._state

    def everything() -> tuple[object, ...]:
        wheel = list(state.wheel.used_slots())
        return (
            wheel,
            list(state.wheel._waiting),
            sorted(state.due_heap.heap),
            state.log.end,
            rig.store.log.max_offset,
            state.curr_queue_offset,
            state.curr_read_ms,
            state.curr_write_ms,
            rig.timers.next_deadline(),
        )

    before = everything()

    assert len(rig.listed(limit=2)) == 5
    assert everything() == before


@pytest.mark.parametrize("delay_ms", [300, 20_000, 100_000])
@pytest.mark.parametrize("after", ["nothing", "restart", "crash", "hops"])
def test_a_recalled_timer_is_not_listed_wherever_it_waits(delay_ms: int, after: str) -> None:
    rig = Rig(config=WINDOW)
    key, kept = rig.timer(delay_ms), rig.timer(delay_ms)
    assert rig.timers.recall(key) is RecallOutcome.RECALLED

    if after == "restart":
        rig.restart()
    elif after == "crash":
        rig.crash()
    elif after == "hops" and delay_ms > 50_000:
        rig.advance(95_000)

    assert [one.msg_id for one in rig.listed()] == [kept]
    assert rig.timers.count() == 1


def test_a_recalled_timer_whose_mark_waits_in_the_queue_is_not_listed() -> None:
    rig = Rig(config=WINDOW)
    keys = [rig.timer(delay_ms) for delay_ms in (300, 20_000, 100_000)]
    rig.timers.stages["TimerEnqueueGetService"].pause()
    for key in keys:
        rig.timers.recall(key)

    assert rig.listed() == []


def test_a_mark_of_request_370_counts_as_for_the_counts() -> None:
    rig = Rig(config=WINDOW)
    key = rig.timer(20_000)
    out_ms = rig.clock.now_ms + 19_000
    handle = RecallHandle("T", "broker-a", out_ms + 1, key)
    rig.send(
        {"TIMER_DEL_UNIQKEY": f"T+{key}", "TIMER_DELIVER_MS": str(handle.timestamp_ms)},
        topic="T",
    )

    assert rig.listed() == []
    assert rig.timers.count() == 0


@pytest.mark.parametrize("crash", [True, False])
def test_what_waited_before_a_restart_is_listed_as_before(crash: bool) -> None:
    rig = Rig(config=WINDOW)
    random = Random(9)
    for delay in random.choices(range(1, 200_000), k=120):
        rig.timer(delay)
    rig.advance(50_000)
    before = rig.listed()

    if crash:
        rig.crash()
    else:
        rig.restart()

    assert rig.listed() == before
    rig.advance(30_000)
    left = [one.place for one in before if one.due_ms > rig.clock.now_ms]
    assert [one.place for one in rig.listed()] == left


def test_rolls_are_counted_and_the_time_of_acceptance_stays() -> None:
    rig = Rig(config=WINDOW)
    accepted_ms = rig.clock.now_ms
    key = rig.timer(150_123)
    rig.advance(130_000)

    (one,) = rig.listed()

    assert (one.msg_id, one.accepted_ms, one.due_ms) == (key, accepted_ms, accepted_ms + 150_123)
    assert one.rolls == 3
    assert rig.timers.find(key) == [one]


def test_a_timer_that_hops_between_two_pages_is_given_once() -> None:
    rig = Rig(config=WINDOW)
    for delay in (60_000, 70_000, 80_000, 90_000):
        rig.timer(delay)
    walk = rig.timers.pending(Wanted(limit=2))
    while not walk.done:
        walk.step(Endless())
    rig.advance(45_000)

    rest = rig.timers.pending(Wanted(after=walk.found[-1].place))
    while not rest.done:
        rest.step(Endless())

    assert [one.msg_id for one in (*walk.found, *rest.found)] == ["K1", "K2", "K3", "K4"]


def test_time_may_go_on_between_the_turns_of_one_listing() -> None:
    rig, random = Rig(config=WINDOW), Random(8)
    truth = {rig.timer(delay): delay for delay in random.choices(range(1, 200_000), k=200)}
    begin_ms = rig.clock.now_ms
    walk = rig.timers.pending(Wanted(limit=1000))
    while not walk.done:
        walk.step(Short(4))
        rig.advance(900)
    late_ms = rig.clock.now_ms - begin_ms

    found = [one.msg_id for one in walk.found]

    assert len(found) == len(set(found))
    assert [one.place for one in walk.found] == sorted(one.place for one in walk.found)
    assert {key for key, delay in truth.items() if delay > late_ms} <= set(found)


def test_a_listing_of_a_store_that_was_closed_meanwhile_ends() -> None:
    rig = Rig()
    for delay in range(10_000, 60_000, 1000):
        rig.timer(delay)
    walk = rig.timers.pending(Wanted())
    walk.step(Short(2))
    rig.close()

    while not walk.done:
        walk.step(Short(2))

    assert len(walk.found) < 50


def test_nothing_at_or_behind_the_given_time_is_listed() -> None:
    rig = Rig(config=WINDOW)
    for delay in (10, 5000, 20_000, 100_000):
        rig.timer(delay)
    now_ms = rig.clock.now_ms

    for before, number in ((10, 0), (11, 1), (5000, 1), (20_001, 3), (100_000, 3), (100_001, 4)):
        assert len(rig.listed(before_ms=now_ms + before)) == number, before


def test_a_page_of_none_is_done_at_once() -> None:
    rig = Rig()
    rig.timer(10)

    assert rig.timers.pending(Wanted(limit=0)).done


def test_a_message_that_is_no_timer_is_passed_over() -> None:
    rig = Rig()
    rig.timers.stages["TimerEnqueueGetService"].pause()
    rig.store.put(InnerMessage(TIMER_TOPIC, 0, b"x", {"UNIQ_KEY": "odd"}, born_host=HOST))
    rig.timer(5000)

    assert [one.msg_id for one in rig.listed()] == ["K1"]


def read_in(rig: Rig, monkeypatch: pytest.MonkeyPatch, **wanted: Any) -> int:
    """How many messages one page reads."""
    reads: list[int] = []
    read = MappedFileQueue.read

    def counted(files: MappedFileQueue, offset: int, length: int) -> memoryview | None:
        if files is rig.store.log.files:
            reads.append(offset)
        return read(files, offset, length)

    with monkeypatch.context() as patched:
        patched.setattr(MappedFileQueue, "read", counted)
        walk = rig.timers.pending(Wanted(**wanted))
        while not walk.done:
            walk.step(Short(2))
    return len(set(reads))


def test_a_page_reads_no_more_messages_than_it_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    for number in range(500):
        rig.timer(20_500 + number % 7, topic="A" if number % 100 else "B")

    assert read_in(rig, monkeypatch, limit=10) == 500
    assert read_in(rig, monkeypatch, limit=10) == 10
    assert read_in(rig, monkeypatch, limit=10, after=rig.listed(limit=100)[200].place) == 10
    assert read_in(rig, monkeypatch, limit=1000, topic="B") == 5
    rig.timer(20_503)
    assert read_in(rig, monkeypatch, limit=10) == 11  # and the one that came


def test_a_page_reads_no_slots_that_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    for number in range(3000):
        rig.timer(10_000 + 100 * number)

    assert read_in(rig, monkeypatch, limit=10) < 100
    assert read_in(rig, monkeypatch, limit=10) == 10


def test_nothing_is_decoded_that_nobody_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(config=WINDOW)
    keys = [rig.timer(delay_ms) for delay_ms in (10, 20_500, 60_000)]
    rig.listed()
    decoded: list[bytes] = []

    def counted(text: bytes) -> dict[str, str]:
        decoded.append(text)
        return decode_properties(text)

    for module in (listing, wheel_listing):
        monkeypatch.setattr(module, "decode_properties", counted)
    found = rig.listed(topic="T", limit=2)

    assert [one.topic for one in found] == ["T"] * 3
    assert not decoded
    assert [(one.msg_id, one.rolls) for one in found] == [(key, 0) for key in keys]
    assert len(decoded) == 3


def fresh(rig: Rig) -> list[Pending]:
    """What a listing gives that has not looked before."""
    timers = rig.timers
    heap, kept = timers._state.due_heap, timers._listing
    left, heap.left = heap.left, None
    timers._listing = WheelListing(timers._state, timers._dequeue_get)
    try:
        return rig.listed()
    finally:
        timers._listing, heap.left = kept, left


@pytest.mark.parametrize("seed", range(6))
def test_what_is_kept_agrees_with_a_fresh_look_after_any_course(seed: int) -> None:
    rig, random = Rig(config=WINDOW), Random(seed)
    stages = ("TimerEnqueueGetService", "TimerDequeuePutMessageService")
    keys: list[str] = []

    def pin(now_ms: int) -> None:
        rig.clock.now_ms = max(rig.clock.now_ms, now_ms)

    def sweep() -> None:
        until_ms = rig.clock.now_ms + random.choice((3000, 40_000))
        rig.timers.fire_through(until_ms, pin=pin, horizon_ms=until_ms, budget=Endless())
        rig.clock.now_ms = until_ms
        rig.fire()

    def by_handle() -> None:
        key = random.choice(keys)
        for one in rig.timers.find(key):
            due = {"TIMER_DELIVER_MS": str(recall_time_ms(one.properties))}
            rig.send({"UNIQ_KEY": key, "TIMER_DEL_UNIQKEY": f"T+{key}", **due})

    def pause() -> None:
        rig.timers.stages[random.choice(stages)].pause()

    def resume() -> None:
        for name in stages:
            rig.timers.stages[name].resume()

    def again() -> None:
        resume()
        rig.fire()
        random.choice((rig.crash, rig.restart))()

    delays = (5, 900, 1000, 20_000, 39_999, 70_000, 200_000)
    acts = (
        (30, lambda: keys.append(rig.timer(random.choice(delays) + random.randrange(2000)))),
        (6, lambda: rig.timers.recall(random.choice(keys))),
        (3, by_handle),
        (5, lambda: rig.timers.reschedule(
            random.choice(keys), rig.clock.now_ms + random.choice(delays)
        )),
        (2, lambda: rig.timers.fire_now(random.choice(keys))),
        (5, lambda: rig.advance(random.randrange(3000))),
        (2, lambda: rig.jump(random.choice((1500, 30_000)))),
        (2, lambda: rig.advance(random.randrange(60_000), elide=True)),
        (3, sweep),
        (1, rig.flush),
        (2, pause),
        (4, resume),
        (1, again),
    )  # fmt: skip
    keys.append(rig.timer(1000))
    for _ in range(250):
        random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()
        if random.random() < 0.3:
            rig.listed(limit=random.choice((1, 3, 50)), before_ms=rig.clock.now_ms + 5000)
        if random.random() < 0.3:
            found = rig.listed(limit=random.choice((3, 50)), turns=random.choice((1, 4, 90)))
            assert found == fresh(rig)
            assert len(found) == rig.timers.count()


def test_an_index_that_nobody_asks_for_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_heap, "_LEFT_MOST", 20)
    rig = Rig()
    for number in range(100):
        rig.timer(5000 + 50 * number)
    rig.listed()

    rig.advance(7000)

    assert rig.timers._state.due_heap.left is None
    assert len(rig.listed()) == 59


def test_the_next_timer_is_foreseen_behind_slots_hops_and_marks() -> None:
    rig = Rig(config=WINDOW)
    recalled = rig.timer(5000)
    key = rig.timer(90_321)
    rig.timers.recall(recalled)
    ahead = rig.timers.look_ahead()
    while not ahead.done:
        ahead.step(Short(3))

    head = rig.timers.next_deadline()

    assert head is not None
    assert head.due_ms < rig.clock.now_ms + 10_000
    assert ahead.first_due_ms == rig.clock.now_ms + 90_321
    assert [one.msg_id for one in ahead.found] == [key]


def test_without_timers_nothing_is_foreseen() -> None:
    ahead = Rig().timers.look_ahead()
    while not ahead.done:
        ahead.step(Endless())

    assert ahead.first_due_ms is None


@pytest.mark.parametrize("pass_ms", [0, 19_000, 20_100])
def test_a_timer_that_lies_behind_its_time_and_was_recalled_is_not_listed(pass_ms: int) -> None:
    rig = Rig(config=WINDOW)
    key, other = rig.timer(20_500), rig.timer(20_600)
    for one, delay_ms in ((key, 20_700), (other, 20_800)):
        rig.timers.reschedule(one, rig.clock.now_ms + delay_ms)
    rig.advance(pass_ms)
    assert [one.msg_id for one in rig.listed()] == [key, other]

    rig.timers.recall(key)

    assert [one.msg_id for one in rig.listed()] == [other]
    assert rig.timers.count() == 1
