"""What a sample tells about all messages like it, and how a run of timers enters the wheel."""

from __future__ import annotations

import pytest

from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.admission import timer_tail
from embedded_broker.timer.timer_run import TimedShape, TimerRun
from rocketmq_py.protocol.delay import Delay, DelayKind
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import decode_properties, encode_properties
from tests.unit.embedded_broker.timer.timer_rig import HOST, START_MS, Rig

KEY, NUMBER = "5AMPLE", "98765431"


def learned(rig: Rig, properties: dict[str, str], number: str = NUMBER) -> TimedShape | None:
    return rig.timers.runs.learn(InnerMessage("T", 0, b"", properties), KEY, number)


def test_a_sample_shows_what_is_stored_for_other_keys_and_numbers() -> None:
    properties = {"TAGS": "%b", "TIMER_DELAY_MS": NUMBER, "UNIQ_KEY": KEY}
    shape = learned(Rig(), properties)
    assert shape is not None
    assert shape.kind is DelayKind.MS
    assert shape.stored(b"AB", b"70") == b"TAGS\1%b\2TIMER_DELAY_MS\x0170\2UNIQ_KEY\1AB\2"


def test_a_start_time_stands_twice_in_what_is_stored() -> None:
    number = "918273645546372"
    shape = learned(Rig(), {"UNIQ_KEY": KEY, "__STARTDELIVERTIME": number}, number)
    assert shape is not None
    assert decode_properties(shape.stored(b"AB", b"70")) == {
        "UNIQ_KEY": "AB",
        "__STARTDELIVERTIME": "70",
        "TIMER_DELIVER_MS": "70",
    }


@pytest.mark.parametrize(
    "properties",
    [
        {"UNIQ_KEY": KEY},
        {"UNIQ_KEY": KEY, "DELAY": "3", "TIMER_DELAY_MS": NUMBER},
        {"UNIQ_KEY": KEY, "TIMER_DELAY_SEC": "3", "TIMER_DELAY_MS": NUMBER},
        {"UNIQ_KEY": KEY, "TIMER_OUT_MS": "3", "TIMER_DELAY_MS": NUMBER},
        {"UNIQ_KEY": KEY, "REAL_TOPIC": "x", "TIMER_DELAY_MS": NUMBER},
        {"UNIQ_KEY": KEY, "TIMER_DELAY_SEC": NUMBER},
        {"UNIQ_KEY": "another", "TIMER_DELAY_MS": NUMBER},
    ],
    ids=["no request", "a level", "another wins", "guarded", "named", "too far", "no key"],
)
def test_what_a_number_alone_does_not_decide_has_no_shape(properties: dict[str, str]) -> None:
    assert learned(Rig(), properties) is None


@pytest.mark.parametrize(
    "settings", [{"timerWheelEnable": "false"}, {"timerCongestNumEachSlot": "5"}], ids=str
)
def test_settings_that_ask_for_a_look_at_each_message_leave_no_shape(
    settings: dict[str, str],
) -> None:
    rig = Rig()
    rig.config.update(**settings)
    assert learned(rig, {"UNIQ_KEY": KEY, "TIMER_DELAY_MS": NUMBER}) is None


@pytest.mark.parametrize(
    ("asked_ms", "out_ms"), [(0, None), (1, -1000), (1001, 0), (259_200_001, None)]
)
def test_the_slot_of_a_request_is_that_of_admission(asked_ms: int, out_ms: int | None) -> None:
    slot_ms = Rig().timers.runs.slot_of(Delay(DelayKind.MS, asked_ms), START_MS)
    assert slot_ms == (None if out_ms is None else START_MS + 1000 + out_ms)


def enter(rig: Rig, delays_ms: list[int]) -> None:
    """Store timers as a run and hand it to the engine."""
    items, slots = [], []
    for number, delay_ms in enumerate(delays_ms):
        slot_ms = rig.timers.runs.slot_of(Delay(DelayKind.MS, delay_ms), rig.clock.now_ms)
        assert slot_ms is not None
        text = encode_properties({"UNIQ_KEY": f"R{number}", "TIMER_DELAY_MS": str(delay_ms)})
        items.append((0, 0, b"%d" % number, text + timer_tail(slot_ms, "T", 0), 0))
        slots.append(slot_ms)
    run = TimerRun(TIMER_TOPIC, 0, items, 0, HOST, out_ms=slots, real_topics=["T"] * len(items))
    assert rig.store.put(run, now_ms=rig.clock.now_ms).ok


def test_a_run_is_counted_and_each_of_it_leaves_at_its_own_time() -> None:
    rig = Rig()
    enter(rig, [5000, 1, 2500, 5000, 400_000])
    assert rig.timers.count("T") == 5
    rig.advance(1)
    assert rig.bodies() == [b"1"]
    rig.advance(4999)
    assert rig.bodies() == [b"1", b"2", b"0", b"3"]
    rig.advance(395_000)
    assert rig.bodies() == [b"1", b"2", b"0", b"3", b"4"]
    assert rig.timers.count() == 0


def test_a_run_behind_a_message_that_waits_for_the_wheel_waits_too() -> None:
    rig = Rig()
    rig.timers.stages["TimerEnqueuePutService"].pause()
    rig.timer(3000)
    rig.timers.stages["TimerEnqueuePutService"].resume()
    enter(rig, [2000, 4000])
    assert rig.timers.stages["TimerEnqueueGetService"].queue_depth == 3
    rig.advance(4000)
    assert len(rig.bodies()) == 3


def test_a_run_survives_a_crash_like_single_timers() -> None:
    rig = Rig()
    enter(rig, [2000, 4000, 4000])
    rig.flush()
    rig.crash()
    rig.advance(4000)
    assert rig.bodies() == [b"0", b"1", b"2"]
