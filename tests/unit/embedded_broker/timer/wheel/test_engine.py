"""When timers leave the wheel, in which order, and what holds them back."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from embedded_broker.store.fault_points import DiskFault
from embedded_broker.store.message_run import Arrivals
from embedded_broker.store.put_values import InnerMessage, PutStatus
from embedded_broker.timer.delivery import NEVER_ENQUEUED_MS
from embedded_broker.timer.wheel.slots import SLOTS_DEFAULT
from rocketmq_py.protocol.names import TIMER_TOPIC
from tests.unit.embedded_broker.store.store_tools import delete_before
from tests.unit.embedded_broker.timer.timer_rig import HOST, START_MS, FailingPuts, Rig, Short

DAY_MS = 86_400_000
EXACT = {"timerPrecisionMs": 1000, "timerReleasePrecisionMs": 1}


def fail(rig: Rig, status: PutStatus, times: int) -> FailingPuts:
    hook = FailingPuts(status, times)
    rig.store.hooks.listed.append(hook)
    return hook


# --- time --------------------------------------------------------------------------------------


@pytest.mark.case("P2")
@pytest.mark.parametrize("release_ms", [1, 100, 1000])
def test_nothing_is_early_and_nothing_is_later_than_one_release_step(release_ms: int) -> None:
    random = Random(release_ms)
    rig = Rig(now_ms=START_MS + 137, config={**EXACT, "timerReleasePrecisionMs": release_ms})
    delays = [random.randrange(1, 4000) for _ in range(160)]
    delays += [1000 * random.randrange(1, 5) - 137 for _ in range(40)]
    due = {}
    for delay_ms in delays:
        key = rig.timer(delay_ms)
        due[key] = rig.clock.now_ms + delay_ms
    for _ in range(5000 + 137):
        rig.clock.now_ms += 1
        rig.fire()
    delivered = {one.properties["UNIQ_KEY"]: one.stored_at_ms for one in rig.messages()}
    lateness = [delivered[key] - due[key] for key in due]
    assert min(lateness) >= 0
    assert max(lateness) < release_ms


def test_timers_leave_in_the_order_of_their_due_times_then_of_their_arrival() -> None:
    rig = Rig(config=EXACT)
    for delay_ms in (3000, 1500, 1500, 2999, 1):
        rig.timer(delay_ms)
    rig.advance(10_000)
    assert rig.bodies() == [b"5", b"2", b"3", b"4", b"1"]
    stored = [one.stored_at_ms - START_MS for one in rig.messages()]
    assert stored == [1, 1500, 1500, 2999, 3000]


@pytest.mark.case("P1")
def test_counts_by_topic_while_pending_and_zero_after_delivery() -> None:
    rig = Rig(config={"timerPrecisionMs": 500})
    topics = [f"T{number}" for number in range(10)]
    for topic in topics:
        for _ in range(3):
            rig.send({"TIMER_DELAY_SEC": "3"}, topic=topic)
        for _ in range(2):
            rig.send({"TIMER_DELIVER_MS": str(START_MS + 3000)}, topic=topic)
    assert [rig.timers.count(topic) for topic in topics] == [5] * 10
    assert rig.timers.count() == 50
    rig.advance(3000)
    assert [len(rig.messages(topic)) for topic in topics] == [5] * 10
    assert rig.timers.count() == 0


@pytest.mark.case("P3")
def test_a_past_time_is_visible_without_any_clock_step() -> None:
    rig = Rig()
    for _ in range(3):
        assert rig.send({"TIMER_DELIVER_MS": str(START_MS - 2000)}).ok
        assert len(rig.messages()) == rig.serial


@pytest.mark.case("P6")
def test_a_slot_is_released_in_the_order_of_enqueueing() -> None:
    rig = Rig(defaults="upstream", config={"timerReleasePrecisionMs": 1000})
    for number in range(1000):
        rig.timer(2000 - number % 7)
    rig.advance(3000)
    assert rig.bodies() == [b"%d" % number for number in range(1, 1001)]


@pytest.mark.case("P7")
def test_five_thousand_timers_of_one_slot_leave_once_in_small_turns() -> None:
    rig = Rig(config={"mappedFileSizeTimerLog": 65536, "mappedFileSizeCommitLog": 1 << 22})
    for _ in range(5000):
        rig.timer(2500)
    rig.clock.now_ms += 3000
    turns = 0
    while rig.timers.count():
        rig.fire(budget=Short(50))
        turns += 1
    assert turns > 50
    bodies = rig.bodies()
    assert len(bodies) == len(set(bodies)) == 5000


@pytest.mark.case("P30")
def test_an_empty_store_reads_at_the_present_slot() -> None:
    rig = Rig(now_ms=START_MS + 700)
    assert rig.recovery.read_time_ms == START_MS
    assert rig.timers.next_deadline() is None


@pytest.mark.case("P31")
def test_a_clock_that_jumps_an_hour_delivers_everything_overdue_once() -> None:
    rig = Rig(slots=10_000)
    for seconds in range(1, 100):
        rig.timer(seconds * 60_000)
    assert rig.jump(3_600_000) == 60
    assert rig.jump(0) == 0
    assert rig.bodies() == [b"%d" % number for number in range(1, 61)]
    rig.advance(3_600_000)
    assert len(rig.bodies()) == 99


@pytest.mark.case("P32")
def test_a_clock_that_goes_back_an_hour_still_delivers_at_the_asked_time() -> None:
    rig = Rig(slots=10_000)
    rig.timer(5000)
    rig.advance(1000)
    rig.clock.now_ms -= 3_600_000
    rig.timer(1000)
    assert rig.advance(999) == 0
    assert rig.advance(1) == 1
    assert rig.bodies() == [b"2"]
    rig.advance(3_600_000 + 4000)
    assert rig.bodies() == [b"2", b"1"]


# --- the wheel ---------------------------------------------------------------------------------


@pytest.mark.case("P5")
def test_records_of_a_slot_form_a_chain_and_the_slot_names_its_ends() -> None:
    rig = Rig()
    for _ in range(3):
        rig.timer(30_000)
    state = rig.timers._state
    slot_ms = START_MS + 29_000
    slot = state.wheel.get_slot(slot_ms)
    chain = list(state.log.chain(slot.last_pos, slot_ms))
    positions = [position for position, _ in chain]
    assert positions == [104, 52, 0]
    assert [record.prev_pos for _, record in chain] == [52, 0, -1]
    assert {record.magic for _, record in chain} == {1}
    assert (slot.first_pos, slot.last_pos, slot.num) == (0, 104, 3)


@pytest.mark.case("P8")
def test_a_timer_beyond_the_roll_window_is_rolled_once_and_keeps_its_id() -> None:
    rig = Rig(config={"timerPrecisionMs": 500, "timerRollWindowSlot": 2})
    key = rig.timer(4 * 500)
    rig.advance(1999)
    assert rig.messages() == []
    rig.advance(1)
    (delivered,) = rig.messages()
    assert delivered.properties["TIMER_ROLL_TIMES"] == "1"
    assert delivered.properties["UNIQ_KEY"] == key
    assert delivered.properties["TIMER_DUE_MS"] == str(START_MS + 2000)
    copies = rig.messages(TIMER_TOPIC)
    assert len(copies) == 2
    assert {copy.properties["TIMER_OUT_MS"] for copy in copies} == {str(START_MS + 1500)}


@pytest.mark.case("P9")
@pytest.mark.parametrize(
    ("slots_away", "hop", "magic"), [(5, 5, 1), (6, 3, 3), (7, 3, 3), (8, 6, 3), (13, 6, 3)]
)
def test_the_hop_of_a_far_timer(slots_away: int, hop: int, magic: int) -> None:
    rig = Rig(config={"timerPrecisionMs": 500, "timerRollWindowSlot": 6})
    rig.timer((slots_away + 1) * 500)
    record = rig.timers._state.log.read(0)
    assert record is not None
    assert (record.magic, record.delay_ms) == (magic, hop * 500)


@pytest.mark.case("P10")
@pytest.mark.parametrize("offset_ms", [0, 1, 999])
def test_forty_days_take_nineteen_or_twenty_rolls(offset_ms: int) -> None:
    rig = Rig(
        slots=SLOTS_DEFAULT, now_ms=START_MS + offset_ms, config={"timerMaxDelaySec": 3456000}
    )
    rig.timer(40 * DAY_MS)
    rig.advance(40 * DAY_MS - 1)
    assert rig.messages() == []
    rig.advance(1)
    (delivered,) = rig.messages()
    assert delivered.properties["TIMER_ROLL_TIMES"] in {"19", "20"}
    assert len({copy.properties["TIMER_OUT_MS"] for copy in rig.messages(TIMER_TOPIC)}) == 1


def test_a_jump_over_forty_days_carries_the_timer_instead_of_rolling_it() -> None:
    rig = Rig(slots=SLOTS_DEFAULT, config={"timerMaxDelaySec": 3456000})
    rig.timer(40 * DAY_MS)
    assert rig.advance(40 * DAY_MS, elide=True) == 1
    (delivered,) = rig.messages()
    assert delivered.stored_at_ms == START_MS + 40 * DAY_MS
    assert "TIMER_ROLL_TIMES" not in delivered.properties
    assert len(rig.messages(TIMER_TOPIC)) == 1


@pytest.mark.case("C21")
@pytest.mark.parametrize("days", [14, 40, 41])
def test_a_real_jump_over_rolling_timers_delivers_all_once(days: int) -> None:
    rig = Rig(slots=SLOTS_DEFAULT, config={"timerMaxDelaySec": 3456000})
    for day in range(1, 41):
        rig.timer(day * DAY_MS)
    rig.advance(DAY_MS // 2)
    rig.jump(days * DAY_MS)
    rig.advance(41 * DAY_MS)
    assert sorted(map(int, rig.bodies())) == list(range(1, 41))
    assert rig.timers.count() == 0


@pytest.mark.case("P11")
@pytest.mark.parametrize("window", [1, 604_800, 604_741, 604_740])
def test_an_impossible_roll_window_becomes_the_longest_possible(window: int) -> None:
    rig = Rig(slots=SLOTS_DEFAULT, config={"timerRollWindowSlot": window})
    assert rig.timers._state.roll_window == 604_740


def test_a_message_that_arrives_after_a_quiet_time_is_no_further_away_than_it_is() -> None:
    rig = Rig(config={"timerRollWindowSlot": 10})
    rig.clock.now_ms += 3_600_000
    rig.timer(9000)
    record = rig.timers._state.log.read(0)
    assert record is not None
    assert record.magic == 1


def test_a_message_that_arrives_while_timers_are_overdue_waits_its_turn() -> None:
    rig = Rig()
    rig.timer(5000)
    rig.clock.now_ms += 60_000
    rig.timer(5000)
    stage = rig.timers.stages["TimerEnqueueGetService"]
    assert (stage.queue_depth, stage.lag_ms(rig.clock.now_ms + 7)) == (1, 7)
    assert rig.timers.count() == 2
    deadline = rig.timers.next_deadline()
    assert deadline is not None
    assert deadline.due_ms <= rig.clock.now_ms
    assert rig.fire() == 1
    assert stage.queue_depth == 0


# --- what is delivered ---------------------------------------------------------------------------


@pytest.mark.case("A25")
def test_a_delivered_message_differs_from_the_sent_one_only_by_what_the_timer_adds() -> None:
    rig = Rig()
    sent = {"TIMER_DELAY_MS": "2500", "TAGS": "t", "KEYS": "k1 k2", "__SHARDINGKEY": "s"}
    rig.clock.now_ms += 400
    rig.send(sent, queue_id=3)
    rig.advance(2500)
    (delivered,) = rig.messages()
    slot_ms = START_MS + 2000
    (stored,) = rig.messages(TIMER_TOPIC)
    assert delivered.queue_id == 3
    assert delivered.body == stored.body == b"1"
    assert delivered.record.commit_log_offset != stored.record.commit_log_offset  # its msgId
    assert (stored.stored_at_ms, delivered.stored_at_ms) == (START_MS + 400, START_MS + 2900)
    assert delivered.record.born_timestamp == START_MS + 395
    assert delivered.record.born_host == HOST
    assert delivered.properties == {
        **sent,
        "UNIQ_KEY": "K1",
        "TIMER_OUT_MS": str(slot_ms),
        "REAL_TOPIC": "T",
        "REAL_QID": "3",
        "TIMER_ENQUEUE_MS": str(START_MS),
        "TIMER_DEQUEUE_MS": str(START_MS + 2900),
        "TIMER_SRC_OFFSET": "0",
    }


@pytest.mark.case("P33")
def test_a_delivered_timer_that_fails_is_retried_by_level_and_never_timed_again() -> None:
    rig = Rig()
    rig.timer(5000)
    rig.advance(5000)
    (delivered,) = rig.messages()
    back = dict(delivered.properties)
    back["DELAY"] = "3"
    assert rig.store.put(InnerMessage("%RETRY%G", 0, delivered.body, back)).ok
    assert rig.timers.count() == 0
    rig.advance(9999)
    assert rig.messages("%RETRY%G") == []
    rig.advance(1)
    (retried,) = rig.messages("%RETRY%G")
    dead = {name: value for name, value in retried.properties.items() if name != "DELAY"}
    dead["TIMER_DELAY_MS"] = "5000"
    assert rig.store.put(InnerMessage("%DLQ%G", 0, retried.body, dead)).ok
    assert len(rig.messages("%DLQ%G")) == 1
    assert len(rig.messages(TIMER_TOPIC)) == 1


@pytest.mark.case("P24")
def test_a_body_of_the_largest_size_passes() -> None:
    rig = Rig(config={"mappedFileSizeCommitLog": 16 << 20})
    body = bytes(4_194_304)
    rig.store.put(InnerMessage("T", 0, body, {"TIMER_DELAY_MS": "1000"}))
    rig.advance(1000)
    assert [len(found) for found in rig.bodies()] == [len(body)]


# --- stops, switches, failures -----------------------------------------------------------------


@pytest.mark.case("P4")
def test_a_message_that_was_enqueued_too_late_is_delivered_past_the_wheel() -> None:
    rig = Rig()
    rig.timers.stages["TimerEnqueueGetService"].pause()
    rig.timer(1500)
    rig.advance(10_000)
    assert rig.messages() == []
    rig.timers.stages["TimerEnqueueGetService"].resume()
    rig.fire()
    (delivered,) = rig.messages()
    assert delivered.properties["TIMER_ENQUEUE_MS"] == str(NEVER_ENQUEUED_MS)
    assert rig.timers.count() == 0
    assert rig.timers._state.log.end == 0


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("room", [0, 40])
def test_a_timer_that_the_timer_log_refuses_is_accepted_and_enters_it_later(
    room: int, crashes: bool
) -> None:
    rig = Rig()
    rig.timer(70_000)
    fault = DiskFault("no room", "timerlog", room=room)
    rig.fs.faults.add_write(fault)
    rig.timer(50_000)
    rig.timer(60_000)
    assert fault.hits == 1
    assert rig.timers.count() == 3
    assert rig.timers.stages["TimerEnqueueGetService"].queue_depth == 2
    if crashes:
        rig.crash()
    rig.advance(100_000)
    assert [(one.body, one.stored_at_ms - START_MS) for one in rig.messages()] == [
        (b"2", 50_000),
        (b"3", 60_000),
        (b"1", 70_000),
    ]


@pytest.mark.case("P25")
def test_stopped_dequeueing_delivers_nothing_and_then_everything() -> None:
    rig = Rig()
    for delay_ms in (1000, 2000, 3000):
        rig.timer(delay_ms)
    rig.config.update(timerStopDequeue=True)
    rig.advance(5000)
    rig.timer(1000)
    rig.advance(5000)
    assert rig.messages() == []
    rig.config.update(timerStopDequeue=False)
    rig.fire()
    assert rig.bodies() == [b"1", b"2", b"3", b"4"]


@pytest.mark.case("P26")
def test_stopped_enqueueing_accepts_and_lags() -> None:
    rig = Rig()
    rig.config.update(timerStopEnqueue=True)
    rig.timer(1000)
    rig.advance(5000)
    assert rig.timers.stages["TimerEnqueueGetService"].queue_depth == 1
    assert rig.messages() == []
    rig.config.update(timerStopEnqueue=False)
    rig.fire()
    assert rig.bodies() == [b"1"]


@pytest.mark.case("P27")
def test_nothing_leaves_before_the_broker_may_let_it_disappear() -> None:
    rig = Rig(config={"disappearTimeAfterStart": 5000})
    rig.timer(1000)
    rig.clock.now_ms += 60_000
    rig.restart()
    rig.advance(4999)
    assert rig.messages() == []
    rig.advance(1)
    assert rig.bodies() == [b"1"]


@pytest.mark.case("P19")
def test_a_put_that_fails_is_tried_until_it_succeeds() -> None:
    rig = Rig()
    waits: list[int] = []
    hook = fail(rig, PutStatus.SERVICE_NOT_AVAILABLE, 5)

    def wait(wait_ms: int, call: Callable[[], None]) -> None:
        waits.append(wait_ms)
        call()

    rig.timers.retry.session_timer = wait
    rig.timer(1000)
    rig.advance(1000)
    assert hook.attempts == 6
    assert waits == [500] * 5
    assert rig.bodies() == [b"1"]


def test_without_a_session_timer_the_message_clock_waits() -> None:
    rig = Rig()
    fail(rig, PutStatus.OS_PAGE_CACHE_BUSY, 2)
    rig.timer(1000)
    rig.timer(1001)
    rig.advance(1999)
    assert rig.messages() == []
    rig.advance(1)
    assert rig.bodies() == [b"1", b"2"]


@pytest.mark.case("P20")
def test_upstreams_three_attempts_drop_the_message_and_spare_the_next() -> None:
    rig = Rig(config={"timerEnableRetryUntilSuccess": False})
    hook = fail(rig, PutStatus.SERVICE_NOT_AVAILABLE, 3)
    rig.timer(1000)
    rig.timer(1001)
    rig.advance(5000)
    assert hook.attempts == 4
    assert rig.bodies() == [b"2"]
    assert (rig.timers.dropped, rig.timers.lost) == (1, {"gave up": 1})
    assert rig.timers.count() == 0


@pytest.mark.case("P21")
def test_a_message_that_can_never_be_put_is_dropped_at_once() -> None:
    rig = Rig()
    hook = fail(rig, PutStatus.MESSAGE_ILLEGAL, 1)
    rig.timer(1000)
    rig.advance(5000)
    assert hook.attempts == 1
    assert rig.messages() == []
    assert rig.timers.lost == {"refused": 1}


@pytest.mark.case("P22")
@pytest.mark.parametrize(("skip", "bodies"), [(True, [b"2"]), (False, [b"1", b"2"])])
def test_an_unknown_error_is_skipped_or_retried(skip: bool, bodies: list[bytes]) -> None:
    rig = Rig(config={"timerSkipUnknownError": skip})
    fail(rig, PutStatus.UNKNOWN_ERROR, 1)
    rig.timer(1000)
    rig.timer(1001)
    rig.advance(5000)
    assert rig.bodies() == bodies
    assert rig.timers.dropped == skip


@pytest.mark.case("P23")
def test_unreadable_messages_of_the_timer_topic_are_counted_and_passed_over() -> None:
    rig = Rig()
    out = str(START_MS + 1000)
    for properties in (
        {"REAL_TOPIC": "T", "REAL_QID": "0"},
        {"TIMER_OUT_MS": out, "REAL_TOPIC": "T", "REAL_QID": "x"},
        {"TIMER_OUT_MS": out, "REAL_QID": "0"},
    ):
        assert rig.store.put(InnerMessage(TIMER_TOPIC, 0, b"bad", properties)).ok
    rig.timer(1000)
    assert rig.timers.count() == 1
    rig.advance(5000)
    assert rig.bodies() == [b"1"]
    assert rig.timers.lost == {"malformed": 3}


# --- looking in --------------------------------------------------------------------------------


def test_the_seven_services_are_there_by_name() -> None:
    rig = Rig()
    assert list(rig.timers.stages) == [
        "TimerEnqueueGetService",
        "TimerEnqueuePutService",
        "TimerDequeueGetService",
        "TimerDequeueGetMessageService",
        "TimerDequeuePutMessageService",
        "TimerDequeueWarmService",
        "TimerFlushService",
    ]
    rig.timer(500)
    depths = {name: stage.queue_depth for name, stage in rig.timers.stages.items()}
    assert depths.pop("TimerDequeuePutMessageService") == 1
    assert set(depths.values()) == {0}
    now_ms = rig.clock.now_ms + 1500
    lags = {name: stage.lag_ms(now_ms) for name, stage in rig.timers.stages.items()}
    assert lags["TimerDequeuePutMessageService"] == 1000
    assert lags["TimerDequeueGetService"] == 1000


def test_deadlines_are_exact_for_loaded_slots_and_early_enough_for_others() -> None:
    rig = Rig()
    assert rig.timers.next_deadline() is None
    rig.timer(60_300)
    deadline = rig.timers.next_deadline()
    assert deadline is not None
    assert deadline.due_ms == START_MS + 59_000
    rig.clock.now_ms = deadline.due_ms
    assert rig.fire() == 0
    deadline = rig.timers.next_deadline()
    assert deadline is not None
    assert deadline == (START_MS + 60_300, "timer")


def test_a_closed_store_fires_nothing_and_ignores_arrivals() -> None:
    rig = Rig()
    rig.timer(1000)
    rig.close()
    rig.timers.close()
    assert rig.timers.next_deadline() is None
    assert rig.jump(5000) == 0
    rig.timers.on_arrival(Arrivals(TIMER_TOPIC, 0, 5, [(0, 0, 0)], 0))


def test_loading_a_big_slot_goes_on_where_the_budget_ended() -> None:
    rig = Rig(config={"mappedFileSizeTimerLog": 65536})
    for _ in range(300):
        rig.timer(30_500)
    rig.clock.now_ms += 29_000
    turns = 0
    while rig.timers._dequeue_get.is_loading or turns == 0:
        rig.fire(budget=Short(2))
        turns += 1
    assert turns > 5
    rig.advance(1500)
    assert rig.bodies() == [b"%d" % number for number in range(1, 301)]


def test_a_message_whose_record_vanished_is_counted_and_others_are_delivered() -> None:
    rig = Rig(config={"mappedFileSizeCommitLog": 4096})
    for _ in range(40):
        rig.timer(60_000)
    delete_before(rig.store, 4096)
    rig.advance(60_000)
    delivered = len(rig.messages())
    assert 0 < delivered < 40
    assert rig.timers.lost == {"unreadable": 40 - delivered}
