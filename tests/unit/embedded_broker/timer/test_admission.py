"""What the put hook lets in, where it sends it, and what it refuses."""

from __future__ import annotations

from random import Random

import pytest

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.put_values import InnerMessage, PutRefusal, PutStatus
from embedded_broker.timer.admission import (
    ROOM_FOR_TIMER_PROPERTIES,
    Admission,
    strip_client_properties,
)
from rocketmq_py.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_py.protocol.properties import encode_properties
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from tests.unit.embedded_broker.timer.timer_rig import START_MS, Rig

NOW = 10_000
ILLEGAL = PutStatus.WHEEL_TIMER_MSG_ILLEGAL
DAY_3_MS = 259_200_000


def admit(
    properties: dict[str, str],
    *,
    now_ms: int = NOW,
    topic: str = "T",
    sys_flag: int = 0,
    num: int = 0,
    seed: int = 1,
    **config: object,
) -> InnerMessage | PutRefusal:
    """Give the message as it would be stored, or the refusal."""
    settings = BrokerConfig(config)
    hook = Admission(settings, slot_num=lambda _: num, random=Random(seed))
    message = InnerMessage(topic, 3, b"body", dict(properties), sys_flag=sys_flag)
    refusal = hook.before_put(message, now_ms)
    return message if refusal is None else refusal


def admitted(properties: dict[str, str], **arguments: object) -> InnerMessage:
    message = admit(properties, **arguments)  # type: ignore[arg-type]
    assert isinstance(message, InnerMessage)
    return message


def refused(properties: dict[str, str], **arguments: object) -> PutRefusal:
    refusal = admit(properties, **arguments)  # type: ignore[arg-type]
    assert isinstance(refusal, PutRefusal)
    return refusal


@pytest.mark.case("A1")
@pytest.mark.parametrize(
    ("deliver_at", "out"), [(20_500, "20000"), (20_000, "19000"), (20_001, "20000")]
)
def test_the_slot_is_the_last_one_that_ends_at_or_after_the_due_time(
    deliver_at: int, out: str
) -> None:
    message = admitted({"TIMER_DELIVER_MS": str(deliver_at)})
    assert message.properties["TIMER_OUT_MS"] == out


@pytest.mark.case("A2")
def test_a_stored_timer_names_its_slot_its_topic_and_its_request() -> None:
    rig = Rig()
    assert rig.send({"TIMER_DELAY_SEC": "5", "TAGS": "t", "KEYS": "k"}, queue_id=3).ok
    (stored,) = rig.messages(TIMER_TOPIC)
    assert stored.queue_id == 0
    assert stored.properties == {
        "UNIQ_KEY": "K1",
        "TIMER_DELAY_SEC": "5",
        "TAGS": "t",
        "KEYS": "k",
        "TIMER_OUT_MS": str(START_MS + 4000),
        "REAL_TOPIC": "T",
        "REAL_QID": "3",
    }


@pytest.mark.case("A3")
def test_seconds_win_over_milliseconds_and_absolute_times() -> None:
    message = admitted(
        {"TIMER_DELIVER_MS": "99999999", "TIMER_DELAY_MS": "1", "TIMER_DELAY_SEC": "5"}
    )
    assert message.properties["TIMER_OUT_MS"] == "14000"


@pytest.mark.case("A4")
def test_junk_in_the_winner_is_refused_and_nothing_is_stored() -> None:
    rig = Rig()
    deliver_at = str(START_MS + 5000)
    result = rig.send({"TIMER_DELAY_SEC": "x", "TIMER_DELIVER_MS": deliver_at})
    assert result.status is ILLEGAL
    assert rig.store.log.max_offset == 0


@pytest.mark.case("A5")
@pytest.mark.parametrize(
    "asked",
    [
        {"TIMER_DELIVER_MS": str(START_MS)},
        {"TIMER_DELIVER_MS": str(START_MS - 1)},
        {"TIMER_DELIVER_MS": "-5"},
        {"TIMER_DELAY_SEC": "0"},
        {"TIMER_DELAY_MS": "-1"},
    ],
)
def test_a_past_time_is_stored_in_its_topic_at_once(asked: dict[str, str]) -> None:
    rig = Rig()
    assert rig.send(asked).ok
    (stored,) = rig.messages("T")
    assert stored.properties == {"UNIQ_KEY": "K1", **asked}
    assert rig.timers.count() == 0


@pytest.mark.case("A6")
def test_exactly_the_longest_delay_is_accepted() -> None:
    assert admitted({"TIMER_DELAY_MS": str(DAY_3_MS)}).topic == TIMER_TOPIC
    refusal = refused({"TIMER_DELAY_MS": str(DAY_3_MS + 1)})
    assert refusal.status is ILLEGAL
    assert "259200000" in str(refusal.remark)


@pytest.mark.case("A7")
def test_a_longer_delay_is_refused_relative_and_absolute() -> None:
    far_ms = DAY_3_MS + 20_000
    assert refused({"TIMER_DELAY_MS": str(far_ms)}).status is ILLEGAL
    assert refused({"TIMER_DELAY_SEC": str(far_ms // 1000)}).status is ILLEGAL
    assert refused({"TIMER_DELIVER_MS": str(NOW + far_ms)}).status is ILLEGAL
    policy = {"outOfRangePolicy": "immediate"}
    assert admitted({"TIMER_DELAY_MS": str(far_ms)}, **policy).topic == "T"


@pytest.mark.case("A8")
def test_a_level_wins_and_the_timer_request_is_not_stored() -> None:
    rig = Rig()
    asked = {"DELAY": "3", "TIMER_DELIVER_MS": str(START_MS + 60_000), "TIMER_DELAY_SEC": "9"}
    assert rig.send(asked).ok
    (stored,) = rig.messages(SCHEDULE_TOPIC)
    assert stored.queue_id == 2
    assert stored.properties == {"UNIQ_KEY": "K1", "DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "0"}


@pytest.mark.case("A9")
def test_a_level_beyond_the_highest_becomes_the_highest() -> None:
    message = admitted({"DELAY": "99"})
    assert (message.topic, message.queue_id) == (SCHEDULE_TOPIC, 17)
    assert message.properties["DELAY"] == "18"


@pytest.mark.case("A10")
def test_without_a_wheel_every_request_is_refused_before_it_is_read() -> None:
    for asked in ({"TIMER_DELAY_SEC": "5"}, {"TIMER_DELAY_SEC": "-1"}, {"TIMER_DELAY_MS": "x"}):
        refusal = refused(asked, timerWheelEnable=False)
        assert refusal.status is PutStatus.WHEEL_TIMER_NOT_ENABLE
        assert "timerWheelEnable is false" in str(refusal.remark)
    assert admitted({"KEYS": "k"}, timerWheelEnable=False).topic == "T"


@pytest.mark.case("A11")
def test_numbers_are_read_as_java_reads_them() -> None:
    assert admitted({"TIMER_DELAY_SEC": "+5"}).topic == TIMER_TOPIC
    for junk in (" 5", "5.0", "", str(2**63)):
        assert refused({"TIMER_DELAY_SEC": junk}).status is ILLEGAL


@pytest.mark.case("A12")
def test_a_delay_that_overflows_is_too_far_and_not_past() -> None:
    assert refused({"TIMER_DELAY_SEC": str(2**63 - 1)}).status is ILLEGAL


@pytest.mark.case("A13")
def test_the_vendors_property_is_an_alias_that_can_be_switched_off() -> None:
    asked = {"__STARTDELIVERTIME": str(NOW + 10_000)}
    timed = admitted(asked)
    assert timed.topic == TIMER_TOPIC
    assert timed.properties["__STARTDELIVERTIME"] == asked["__STARTDELIVERTIME"]
    assert timed.properties["TIMER_DELIVER_MS"] == asked["__STARTDELIVERTIME"]
    at_once = admitted(asked, startDeliverTimeEnable=False)
    assert (at_once.topic, at_once.properties) == ("T", asked)
    assert admitted({"__STARTDELIVERTIME": "0"}).topic == "T"


@pytest.mark.case("A14")
def test_the_vendors_property_loses_against_every_other_request() -> None:
    message = admitted({"__STARTDELIVERTIME": "99999999", "TIMER_DELAY_SEC": "5"})
    assert message.properties["TIMER_OUT_MS"] == "14000"
    assert "TIMER_DELIVER_MS" not in message.properties


@pytest.mark.case("A16")
def test_what_only_the_timer_writes_is_stripped_from_client_sends() -> None:
    sent = {
        "TIMER_DELAY_SEC": "5",
        "TIMER_OUT_MS": "1",
        "TIMER_ENQUEUE_MS": "1",
        "TIMER_DEQUEUE_MS": "1",
        "TIMER_ROLL_TIMES": "1",
        "TIMER_DEL_UNIQKEY": "x",
        "TIMER_SRC_OFFSET": "1",
        "TIMER_DUE_MS": "1",
        "TIMER_ROOT_OFFSET": "1",
        "TIMER_DEL_OFFSET": "1",
    }
    properties = dict(sent)
    strip_client_properties(properties)
    assert properties == {"TIMER_DELAY_SEC": "5"}
    retried = dict(sent)
    strip_client_properties(retried, "%RETRY%G")
    assert retried == {"TIMER_DELAY_SEC": "5", "TIMER_OUT_MS": "1"}
    assert admitted(properties).topic == TIMER_TOPIC


@pytest.mark.case("A17")
def test_a_full_slot_refuses_more_and_more_rarely_until_twice_its_limit() -> None:
    rig = Rig(config={"timerCongestNumEachSlot": 100})
    results = [rig.send({"TIMER_DELAY_MS": "60000"}) for _ in range(500)]
    assert all(result.ok for result in results[:100])
    accepted = sum(result.ok for result in results)
    assert 100 < accepted <= 200
    statuses = {result.status for result in results}
    assert statuses == {PutStatus.PUT_OK, PutStatus.WHEEL_TIMER_FLOW_CONTROL}
    assert rig.timers.count() == accepted
    refusal = refused({"TIMER_DELAY_SEC": "5"}, num=200, timerCongestNumEachSlot=100)
    assert "200" in str(refusal.remark)
    assert "[100, 200]" in str(refusal.remark)


@pytest.mark.case("A18")
def test_the_rising_curve_refuses_half_in_the_middle_of_its_band() -> None:
    settings = BrokerConfig({"timerCongestNumEachSlot": 100, "timerCongestPolicy": "monotone"})
    hook = Admission(settings, slot_num=lambda _: 150, random=Random(5))
    answers = [
        hook.before_put(InnerMessage("T", 0, b"", {"TIMER_DELAY_SEC": "5"}), NOW)
        for _ in range(1000)
    ]
    assert 450 < sum(answer is not None for answer in answers) < 550


@pytest.mark.case("A26")
def test_properties_leave_room_for_what_the_timer_adds() -> None:
    def with_length(length: int) -> dict[str, str]:
        properties = {"UNIQ_KEY": "K1", "TIMER_DELAY_SEC": "5"}
        rest = length - len(encode_properties(properties)) - len("p\x01\x02")
        return {**properties, "p": "x" * rest}

    refusal = refused(with_length(32_700))
    assert refusal.status is ILLEGAL
    assert str(32_767 - ROOM_FOR_TIMER_PROPERTIES) in str(refusal.remark)
    rig = Rig()
    assert rig.send(with_length(32_000)).ok
    rig.advance(5000)
    assert len(rig.messages("T")) == 1


def test_the_precision_is_rounded_down_to_one_that_exists() -> None:
    found = [
        BrokerConfig({"timerPrecisionMs": given, "timerReleasePrecisionMs": 1}).int(
            "timerPrecisionMs"
        )
        for given in (1, 150, 200, 999, 5000)
    ]
    assert found == [100, 100, 200, 500, 1000]


def test_a_delete_message_needs_a_future_time() -> None:
    refusal = refused({"TIMER_DELIVER_MS": str(NOW), "TIMER_DEL_UNIQKEY": "T+K"})
    assert refusal.status is ILLEGAL
    assert "in the future" in str(refusal.remark)


def test_a_level_that_is_no_number_is_an_error_of_the_broker() -> None:
    assert refused({"DELAY": "x"}).status is PutStatus.UNKNOWN_ERROR


def test_transactions_wait_for_their_commit() -> None:
    asked = {"TIMER_DELAY_SEC": "5"}
    assert admitted(asked, sys_flag=TRANSACTION_PREPARED).topic == "T"
    assert admitted(asked, sys_flag=TRANSACTION_COMMIT).topic == TIMER_TOPIC
    assert admitted({"DELAY": "3"}, topic=HALF_TOPIC).topic == HALF_TOPIC


def test_what_was_in_the_timer_already_is_not_timed_again() -> None:
    asked = {"TIMER_DELAY_SEC": "5", "TIMER_OUT_MS": "1"}
    assert admitted(asked).topic == "T"
    assert admitted(asked, topic=TIMER_TOPIC).properties == asked


def test_levels_can_be_sent_through_the_wheel_whatever_the_longest_delay() -> None:
    message = admitted(
        {"DELAY": "18", "TIMER_OUT_MS": "1"}, routeDelayLevelToWheel=True, timerMaxDelaySec=5
    )
    assert message.topic == TIMER_TOPIC
    assert "DELAY" not in message.properties
    assert message.properties["TIMER_OUT_MS"] == str((NOW + 7_200_000 - 1) // 1000 * 1000)


def test_settings_can_change_while_the_broker_runs() -> None:
    config = BrokerConfig()
    hook = Admission(config, slot_num=lambda _: 0, random=Random(1))
    message = InnerMessage("T", 0, b"", {"TIMER_DELAY_SEC": "10"})
    config.update(timerMaxDelaySec=9)
    assert hook.before_put(message, NOW) is not None
    config.update(timerMaxDelaySec=10)
    assert hook.before_put(message, NOW) is None
