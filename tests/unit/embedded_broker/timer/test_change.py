"""Pending timers that get another time: once, at the last time asked, crash or not."""

from __future__ import annotations

from random import Random

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.put_values import InnerMessage, PutStatus
from embedded_broker.timer.change import moved_copy
from embedded_broker.timer.outcomes import MoveOutcome, RecallOutcome
from embedded_broker.timer.request import parse_request
from embedded_broker.timer.wheel.change import find_copies, slot_for
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop
from tests.unit.embedded_broker.timer.timer_rig import HOST, START_MS, FailingPuts, Rig

WINDOW = {"timerRollWindowSlot": 40, "timerMaxDelaySec": 3000}


def due_in(rig: Rig, key: str) -> list[int]:
    """In how many ms each waiting timer with this id is due."""
    return [one.due_ms - rig.clock.now_ms for one in rig.timers.find(key)]


def move(rig: Rig, key: str, delay_ms: int) -> None:
    outcome = rig.timers.reschedule(key, rig.clock.now_ms + delay_ms)
    assert outcome is MoveOutcome.MOVED
    rig.fire()


def delivered_at(rig: Rig) -> list[tuple[str, int]]:
    return [
        (one.properties[Prop.UNIQ_KEY], one.record.store_timestamp) for one in rig.messages("T")
    ]


# --- where the copy lies -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marked", "removes_all", "slot_ms"),
    [
        ((), (), 5000),
        ((4000,), (), 5000),
        ((5000,), (), 6000),
        ((5000, 6000), (), 5000),
        ((5000, 6000), (5000,), 6000),
        ((5000, 6000), (6000,), 5000),
        ((5000, 6000, 7000), (5000, 6000), 8000),
    ],
)
def test_a_copy_stays_out_of_slots_with_marks_of_its_id(
    marked: tuple[int, ...], removes_all: tuple[int, ...], slot_ms: int
) -> None:
    assert slot_for(5300, 1000, marked, removes_all) == slot_ms


@pytest.mark.parametrize("times", [(20_600,), (90_000, 20_600), (20_700, 90_000, 10_000)])
def test_a_real_broker_would_not_drop_what_was_moved(times: tuple[int, ...]) -> None:
    """Its marks remove every copy of the id in their slot, whatever ours say besides."""
    rig = Rig()
    key = rig.timer(20_500)
    for delay_ms in times:
        move(rig, key, delay_ms)

    (copy,) = [one for one in find_copies(rig.timers._state, key) if one.marked_by is None]
    slots = {
        record.slot_ms for _, record in rig.timers._state.log.scan(0) if record.magic & MAGIC_DELETE
    }

    assert copy.request.out_ms not in slots
    assert due_in(rig, key) == [times[-1]]


def test_a_copy_in_a_later_slot_is_listed() -> None:
    rig = Rig()
    key = rig.timer(20_500)
    move(rig, key, 20_700)

    assert [one.msg_id for one in rig.listed()] == [key]


def test_a_moved_copy_begins_a_life_of_its_own() -> None:
    rig = Rig(config=WINDOW)
    key = rig.timer(90_000)
    rig.advance(50_000)
    (copy,) = find_copies(rig.timers._state, key)
    assert Prop.TIMER_ROOT_OFFSET in copy.record.properties

    moved = moved_copy(copy, due_ms=123_456, out_ms=123_000)

    assert (moved.topic, moved.queue_id, moved.body) == (TIMER_TOPIC, 0, b"1")
    assert moved.properties[Prop.TIMER_DUE_MS] == "123456"
    assert moved.properties[Prop.TIMER_OUT_MS] == "123000"
    assert moved.properties[Prop.TIMER_DEL_OFFSET] == str(copy.root)
    assert moved.properties[Prop.TIMER_DELAY_MS] == "90000"
    for name in ("TIMER_ROLL_TIMES", "TIMER_ROOT_OFFSET", "TIMER_SRC_OFFSET", "TIMER_ENQUEUE_MS"):
        assert name not in moved.properties


# --- moves -------------------------------------------------------------------------------------


@pytest.mark.case("K10")
@pytest.mark.parametrize("crash", ["never", "after every move", "before the due time"])
@pytest.mark.parametrize("defaults", ["embedded", "upstream"])
@pytest.mark.parametrize(
    "times",
    [
        pytest.param((25_000,), id="later"),
        pytest.param((3_250,), id="earlier"),
        pytest.param((10_800,), id="within one slot, later"),
        pytest.param((10_200,), id="within one slot, earlier"),
        pytest.param((10_800, 10_100, 10_900), id="within one slot, three times"),
        pytest.param((25_000, 10_400), id="back to the first slot"),
        pytest.param((10_700, 25_000, 10_600, 3_000, 10_100), id="to and fro"),
        pytest.param((400, 10_500), id="into the slot that is read now, and back"),
        pytest.param((120_000, 130_000, 120_500), id="over hops"),
        pytest.param((120_000, 10_250), id="over hops and back"),
    ],
)
def test_a_moved_timer_leaves_once_at_the_last_time_asked(
    times: tuple[int, ...], defaults: str, crash: str
) -> None:
    rig = Rig(config=WINDOW, defaults=defaults)
    key, other = rig.timer(10_500), rig.timer(10_500)
    begin_ms = rig.clock.now_ms
    for delay_ms in times:
        move(rig, key, delay_ms)
        if crash == "after every move":
            rig.crash()
        assert rig.timers.count() == 2
    if crash == "before the due time":
        rig.advance(min(times[-1], 10_500) - 90)
        rig.crash()

    rig.advance(200_000)

    precision_ms = 1 if defaults == "embedded" else 1000
    expected = {
        one: begin_ms + -(-due // precision_ms) * precision_ms
        for one, due in ((key, times[-1]), (other, 10_500))
    }
    assert sorted(delivered_at(rig)) == sorted(expected.items())
    assert rig.timers.count() == 0
    assert rig.timers.lost == {}


@pytest.mark.case("K10")
@pytest.mark.parametrize("delay_ms", [300, 10_500, 90_000])
@pytest.mark.parametrize("defaults", ["embedded", "upstream"])
def test_fire_now_delivers_at_once_wherever_the_timer_waits(delay_ms: int, defaults: str) -> None:
    rig = Rig(config=WINDOW, defaults=defaults)
    key, other = rig.timer(delay_ms), rig.timer(delay_ms)
    rig.advance(250)

    assert rig.timers.fire_now(key) is MoveOutcome.MOVED
    rig.fire()

    assert delivered_at(rig) == [(key, rig.clock.now_ms)]
    assert rig.timers.count() == 1
    rig.crash()
    rig.advance(200_000)
    assert [one for one, _ in delivered_at(rig)] == [key, other]


def test_a_past_time_is_now() -> None:
    rig = Rig()
    key = rig.timer(10_000)
    rig.advance(5000)

    assert rig.timers.reschedule(key, rig.clock.now_ms - 4000) is MoveOutcome.MOVED
    rig.fire()

    assert delivered_at(rig) == [(key, rig.clock.now_ms)]


def test_fire_now_waits_while_releasing_is_stopped() -> None:
    rig = Rig()
    key = rig.timer(10_000)
    rig.timers.stages["TimerDequeuePutMessageService"].pause()

    rig.timers.fire_now(key)
    rig.fire()
    assert delivered_at(rig) == []
    assert rig.timers.count() == 1
    rig.timers.stages["TimerDequeuePutMessageService"].resume()
    rig.fire()

    assert delivered_at(rig) == [(key, rig.clock.now_ms)]


def test_every_timer_with_the_id_is_moved_but_only_of_the_topic_named() -> None:
    rig = Rig()
    for topic in ("T", "T", "U"):
        rig.send({"TIMER_DELAY_MS": "5000", "UNIQ_KEY": "shared"}, topic=topic)

    assert rig.timers.reschedule("shared", rig.clock.now_ms + 20_000, "T") is MoveOutcome.MOVED
    rig.advance(6000)
    assert (len(rig.messages("T")), len(rig.messages("U"))) == (0, 1)
    rig.advance(20_000)

    assert (len(rig.messages("T")), len(rig.messages("U"))) == (2, 1)


def test_what_does_not_wait_is_not_moved() -> None:
    rig = Rig()
    delivered, recalled = rig.timer(1000), rig.timer(9000)
    rig.timers.recall(recalled)
    rig.advance(2000)

    later_ms = rig.clock.now_ms + 5000
    assert rig.timers.reschedule(delivered, later_ms) is MoveOutcome.ALREADY_DUE
    assert rig.timers.reschedule(recalled, later_ms) is MoveOutcome.UNKNOWN
    assert rig.timers.fire_now("nobody") is MoveOutcome.UNKNOWN
    rig.advance(20_000)
    assert [key for key, _ in delivered_at(rig)] == [delivered]


def test_a_moved_timer_can_be_recalled_and_keeps_the_time_of_its_acceptance() -> None:
    rig = Rig(config=WINDOW)
    key, accepted_ms = rig.timer(10_000), rig.clock.now_ms
    rig.advance(2000)
    move(rig, key, 90_000)
    rig.advance(60_000)

    (one,) = rig.listed()
    assert (one.accepted_ms, one.rolls) == (accepted_ms, 1)
    assert rig.timers.recall(key) is RecallOutcome.RECALLED
    assert rig.timers.recall(key) is RecallOutcome.UNKNOWN
    rig.advance(90_000)

    assert delivered_at(rig) == []


def test_what_the_disk_refuses_changes_nothing() -> None:
    rig = Rig()
    key = rig.timer(10_000)
    refusing = FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, 1, TIMER_TOPIC)
    rig.store.hooks.listed.append(refusing)

    with pytest.raises(StoreError, match="keeps its time"):
        rig.timers.reschedule(key, rig.clock.now_ms + 20_000)

    assert due_in(rig, key) == [10_000]
    rig.advance(10_000)
    assert len(rig.messages("T")) == 1


def test_a_recall_that_the_disk_refuses_recalls_nothing() -> None:
    rig = Rig()
    key = rig.timer(10_000)
    rig.store.hooks.listed.append(FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, 1, TIMER_TOPIC))

    with pytest.raises(StoreError, match="is not recalled"):
        rig.timers.recall(key)
    assert rig.timers.count() == 1


# --- copy and mark -----------------------------------------------------------------------------


def only_the_copy(rig: Rig, key: str, delay_ms: int) -> None:
    """Store what is left when a power loss takes the mark alone."""
    (copy,) = find_copies(rig.timers._state, key)
    due_ms = rig.clock.now_ms + delay_ms
    out_ms = (due_ms - 1) // 1000 * 1000
    moved = moved_copy(copy, due_ms=due_ms, out_ms=out_ms)
    assert rig.store.put(moved).ok


@pytest.mark.case("K10")
@pytest.mark.parametrize("delay_ms", [2_000, 30_000])
@pytest.mark.parametrize("down_ms", [0, 60_000])
def test_a_power_loss_between_copy_and_mark_does_not_double_the_timer(
    delay_ms: int, down_ms: int
) -> None:
    rig = Rig()
    key = rig.timer(10_000)
    only_the_copy(rig, key, delay_ms)

    rig.abandon()
    rig.clock.now_ms += down_ms
    rig.open()
    head = rig.timers.next_deadline()
    assert head is not None
    assert head.due_ms <= rig.clock.now_ms  # at once, not when the first of the two is due
    rig.fire()
    assert rig.timers.count() == (0 if down_ms else 1)
    rig.crash()
    rig.advance(60_000)

    assert [one for one, _ in delivered_at(rig)] == [key]


def test_a_timer_is_moved_once_more_before_its_missing_mark_is_stored() -> None:
    rig = Rig()
    key = rig.timer(30_000)
    only_the_copy(rig, key, 40_000)
    rig.crash()
    assert rig.timers.reschedule(key, START_MS + 50_000) is MoveOutcome.MOVED
    rig.advance(100_000)
    assert delivered_at(rig) == [(key, START_MS + 50_000)]


def test_a_missing_mark_is_stored_although_nothing_may_leave_yet() -> None:
    rig = Rig(config={"disappearTimeAfterStart": 5000})
    key = rig.timer(30_000)
    only_the_copy(rig, key, 40_000)
    rig.crash()
    rig.advance(0)
    other = rig.timer(20_000)
    rig.crash()
    rig.advance(100_000)
    assert [one for one, _ in delivered_at(rig)] == [other, key]


def test_a_mark_that_cannot_be_stored_now_is_stored_later() -> None:
    rig = Rig()
    key = rig.timer(10_000)
    only_the_copy(rig, key, 30_000)
    rig.crash()
    rig.store.hooks.listed.append(FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, 1, TIMER_TOPIC))

    rig.advance(60_000)

    assert [one for one, _ in delivered_at(rig)] == [key]


def test_a_copy_and_its_mark_that_fit_no_file_together_are_stored_apart() -> None:
    rig = Rig(config={"mappedFileSizeCommitLog": 4096})
    body = bytes(3700)
    rig.store.put(
        InnerMessage("T", 0, body, {"UNIQ_KEY": "K", "TIMER_DELAY_MS": "9000"}, born_host=HOST)
    )

    assert rig.timers.reschedule("K", rig.clock.now_ms + 20_000) is MoveOutcome.MOVED
    assert rig.timers.count() == 1
    rig.advance(60_000)

    assert [one.record.store_timestamp for one in rig.messages("T")] == [rig.clock.now_ms - 40_000]


def test_copy_and_mark_lie_next_to_each_other_in_this_order() -> None:
    rig = Rig()
    key = rig.timer(10_000)
    move(rig, key, 20_000)

    first, copy, mark = list(rig.store.scan(0))

    assert first.commit_log_offset < copy.commit_log_offset < mark.commit_log_offset
    request = parse_request(mark.properties)
    assert request is not None
    assert request.deletes == f"T+{key}"
    assert mark.properties[Prop.TIMER_DEL_OFFSET] == str(first.commit_log_offset)


# --- everything together -----------------------------------------------------------------------


@pytest.mark.case("K10")
@pytest.mark.parametrize("seed", range(12))
def test_listing_counts_and_deliveries_agree_with_the_truth(seed: int) -> None:
    """Random sends, moves, recalls, jumps, crashes: what waits is known exactly at every moment."""
    random = Random(seed)
    rig = Rig(slots=200, config=WINDOW)
    truth: dict[str, int] = {}
    for _ in range(90):
        now_ms = rig.clock.now_ms
        some_ms = now_ms + random.randrange(1, random.choice((3000, 100_000, 2_000_000)))
        known = random.choice(list(truth)) if truth else None
        what = random.random()
        if what < 0.55 or known is None:
            truth[rig.timer(some_ms - now_ms)] = some_ms
        elif what < 0.62:
            assert rig.timers.recall(known) is RecallOutcome.RECALLED
            del truth[known]
        elif what < 0.82:
            near_ms = truth[known] + random.randrange(-900, 900)
            truth[known] = random.choice((some_ms, near_ms))
            move(rig, known, truth[known] - now_ms)
        elif what < 0.94:
            rig.advance(random.choice((1, 500, 3000, 50_000)), elide=random.random() < 0.5)
        elif what < 0.97:
            rig.crash()
        else:
            rig.restart()
        truth = {key: due_ms for key, due_ms in truth.items() if due_ms > rig.clock.now_ms}
        listed = [(one.msg_id, one.due_ms) for one in rig.listed(limit=random.choice((1, 9, 100)))]
        assert sorted(listed) == sorted(truth.items())
        assert [due_ms for _, due_ms in listed] == sorted(truth.values())
        assert rig.timers.count() == len(truth)
    rig.advance(2_100_000, elide=True)

    keys = [key for key, _ in delivered_at(rig)]
    assert len(keys) == len(set(keys))
    assert truth.items() <= dict(delivered_at(rig)).items()
