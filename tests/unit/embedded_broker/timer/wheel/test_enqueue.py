"""The way of a message from the timer topic into the wheel."""

from __future__ import annotations

import pytest

from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.wheel.timer_log import TimerLogRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.tag_hash import java_hash
from tests.unit.embedded_broker.store.store_tools import delete_before
from tests.unit.embedded_broker.timer.timer_rig import START_MS, Rig


def records(rig: Rig) -> list[TimerLogRecord]:
    return [record for _, record in rig.timers._state.log.scan(0)]


def test_the_record_names_the_message_its_slot_and_its_real_topic() -> None:
    rig = Rig(now_ms=START_MS + 700)
    result = rig.send({"TIMER_DELAY_MS": "5000"}, topic="orders")
    (record,) = records(rig)
    assert record == TimerLogRecord(
        prev_pos=-1,
        magic=1,
        write_time_ms=START_MS,
        delay_ms=5000,
        offset_py=result.commit_log_offset,
        size_py=result.size,
        topic_hash=java_hash("orders"),
    )


def test_marks_lower_the_number_of_their_slot_and_carry_their_bit() -> None:
    rig = Rig()
    key = rig.timer(30_000)
    rig.timer(30_000)
    rig.timers.recall(key)
    assert [record.magic for record in records(rig)] == [1, 1, 5]
    assert rig.timers._state.wheel.get_num(START_MS + 29_000) == 1


@pytest.mark.parametrize("window", [2, 3, 10, 30])
def test_every_hop_ends_and_no_slot_is_ever_replaced_while_it_waits(window: int) -> None:
    rig = Rig(slots=100, config={"timerRollWindowSlot": window})
    for number in range(60):
        rig.timer(1000 + 7000 * number)
    rig.advance(500_000)
    assert sorted(map(int, rig.bodies())) == list(range(1, 61))
    assert rig.timers.lost == {}


def test_the_queue_is_read_from_its_first_entry_that_exists() -> None:
    rig = Rig(config={"mappedFileSizeCommitLog": 4096})
    rig.timers.stages["TimerEnqueueGetService"].pause()
    for _ in range(40):
        rig.timer(5000)
    delete_before(rig.store, 4096)
    left = rig.store.max_offset(TIMER_TOPIC, 0) - rig.store.min_offset(TIMER_TOPIC, 0)
    assert 0 < left < 40
    rig.timers.stages["TimerEnqueueGetService"].resume()
    rig.advance(5000)
    assert len(rig.bodies()) == left


def test_carried_timers_are_rolled_when_nothing_else_frees_their_place() -> None:
    rig = Rig(slots=100, config={"timerRollWindowSlot": 30})
    carried = [rig.timer(250_000 + number) for number in range(3)]
    target_ms = rig.clock.now_ms + 300_000
    # A jump that other work interrupts: the wheel has turned once when messages arrive.
    while rig.clock.now_ms < START_MS + 230_500:
        deadline = rig.timers.next_deadline()
        rig.clock.now_ms = min(
            START_MS + 230_500, deadline.due_ms if deadline else START_MS + 230_500
        )
        rig.fire(horizon_ms=target_ms)
    assert rig.timers._state.due_heap.held
    for _ in range(3):
        rig.timer(20_000)
    held_slot_ms = next(iter(rig.timers._state.due_heap.held))
    rig.clock.now_ms = held_slot_ms + 200 * 1000 + 300
    rig.fire(horizon_ms=target_ms)
    rig.timer(400)
    rig.fire(horizon_ms=target_ms)
    rig.crash()
    rig.advance(100_000)
    delivered = [one.properties["UNIQ_KEY"] for one in rig.messages()]
    assert sorted(delivered) == sorted({*carried, "K4", "K5", "K6", "K7"})


def test_a_message_of_another_queue_of_the_timer_topic_is_no_timer_of_ours() -> None:
    rig = Rig()
    properties = {"TIMER_OUT_MS": str(START_MS), "REAL_TOPIC": "T", "REAL_QID": "0"}
    rig.store.put(InnerMessage(TIMER_TOPIC, 1, b"", properties))
    assert rig.timers.count() == 0
    rig.advance(5000)
    assert rig.bodies() == []
