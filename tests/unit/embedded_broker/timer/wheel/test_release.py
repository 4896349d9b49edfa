"""What a released and a rolled copy look like."""

from __future__ import annotations

from embedded_broker.store.put_values import InnerMessage, PutStatus
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import encode_properties
from tests.unit.embedded_broker.timer.timer_rig import START_MS, FailingPuts, Rig


def test_a_rolled_copy_names_its_source_its_first_copy_and_the_exact_time() -> None:
    rig = Rig(config={"timerRollWindowSlot": 10, "timerReleasePrecisionMs": 1000})
    rig.timer(25_300)
    rig.advance(30_000)
    first, second, third = rig.messages(TIMER_TOPIC)
    for number, copy, source in ((1, second, first), (2, third, second)):
        assert copy.properties["TIMER_ROLL_TIMES"] == str(number)
        assert copy.properties["TIMER_SRC_OFFSET"] == str(source.record.commit_log_offset)
        assert copy.properties["TIMER_ROOT_OFFSET"] == str(first.record.commit_log_offset)
        assert copy.properties["TIMER_DUE_MS"] == str(START_MS + 25_300)
        assert copy.record.body == first.record.body
    (delivered,) = rig.messages()
    assert delivered.stored_at_ms == START_MS + 26_000
    assert delivered.properties["TIMER_SRC_OFFSET"] == str(third.record.commit_log_offset)


def test_a_stored_text_without_final_separator_is_completed() -> None:
    rig = Rig()
    properties = {
        "UNIQ_KEY": "K1",
        "TIMER_DELAY_MS": "1500",
        "TIMER_OUT_MS": str(START_MS + 1000),
        "REAL_TOPIC": "T",
        "REAL_QID": "2",
    }
    stored = encode_properties(properties).removesuffix(b"\x02")
    message = InnerMessage(TIMER_TOPIC, 0, b"x", properties, properties_bytes=stored)
    assert rig.store.put(message).ok
    rig.advance(1500)
    (delivered,) = rig.messages()
    assert delivered.stored_at_ms == START_MS + 1500
    assert {**properties, "TIMER_SRC_OFFSET": "0"}.items() <= delivered.properties.items()


def test_a_roll_that_fails_is_tried_again_and_the_timer_is_delivered() -> None:
    rig = Rig(config={"timerRollWindowSlot": 10})
    rig.timer(25_000)
    hook = FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, 2, TIMER_TOPIC)
    rig.store.hooks.listed.append(hook)
    rig.advance(30_000)
    assert hook.attempts == 4
    assert rig.bodies() == [b"1"]
    assert rig.timers.count() == 0


def test_how_many_were_released_rolled_and_recalled_is_counted() -> None:
    rig = Rig(config={"timerRollWindowSlot": 10})
    key = rig.timer(5000)
    rig.timer(5000)
    rig.timer(15_000)
    rig.timers.recall(key)
    rig.advance(20_000)
    stage = rig.timers._put_message
    assert (stage.released, stage.rolled, stage.recalled) == (2, 1, 1)


def test_a_real_brokers_rolled_copy_is_matched_by_its_key_alone() -> None:
    rig = Rig()
    properties = {
        "UNIQ_KEY": "K1",
        "TIMER_DELAY_MS": "9000000",
        "TIMER_OUT_MS": str(START_MS + 1000),
        "TIMER_ROLL_TIMES": "3",
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
    }
    assert rig.store.put(InnerMessage(TIMER_TOPIC, 0, b"x", dict(properties))).ok
    mark = {
        **properties,
        "TIMER_DEL_UNIQKEY": "T+K1",
        "TIMER_DEL_OFFSET": "123456",
    }
    assert rig.store.put(InnerMessage(TIMER_TOPIC, 0, b"0", mark)).ok
    rig.advance(5000)
    assert rig.bodies() == []
