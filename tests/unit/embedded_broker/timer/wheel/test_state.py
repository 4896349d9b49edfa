"""What the services share."""

from __future__ import annotations

from embedded_broker.timer.request import TimerMessage, parse_request
from embedded_broker.timer.wheel.due_heap import EntryKind
from rocketmq_py.protocol.names import TIMER_TOPIC
from tests.unit.embedded_broker.timer.timer_rig import START_MS, Rig


def test_only_a_message_of_the_timer_topic_of_the_right_size_is_one() -> None:
    rig = Rig()
    other = rig.send()
    timer = rig.send({"TIMER_DELAY_MS": "5000"})
    state = rig.timers._state
    record = state.timer_record(timer.commit_log_offset, timer.size)
    assert record is not None
    assert record.topic == TIMER_TOPIC
    assert state.timer_record(timer.commit_log_offset, timer.size + 1) is None
    assert state.timer_record(other.commit_log_offset, other.size) is None
    assert state.timer_record(timer.commit_log_offset + 1, timer.size) is None


def test_slot_boundaries_are_multiples_of_the_precision() -> None:
    state = Rig(config={"timerPrecisionMs": 200}).timers._state
    assert [state.floor(time_ms) for time_ms in (399, 400, 599, -1)] == [200, 400, 400, -200]


def test_a_message_in_an_earlier_slot_than_its_own_hops() -> None:
    rig = Rig()
    rig.send({"TIMER_DELAY_MS": "60000"})
    state = rig.timers._state
    queued = rig.messages(TIMER_TOPIC)[0]
    request = parse_request(queued.properties)
    assert request is not None
    message = TimerMessage(0, 100, START_MS, queued.properties, request)
    state.take(1, START_MS, START_MS, message)
    assert state.due_heap.pop().kind is EntryKind.ROLL


def test_a_timer_whose_message_is_gone_is_taken_out_of_the_count_by_its_hash() -> None:
    state = Rig().timers._state
    state.metrics.add("T", 1, START_MS)
    state.uncount(84)
    state.uncount(84)
    assert state.metrics.count("T") == 0
