"""Delay: asking, precedence, the wheel's arithmetic, levels."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rocketmq_py.errors import ConfigError, DelayValueError
from rocketmq_py.protocol import delay as delays
from rocketmq_py.protocol.delay import Delay, DelayKind, DelayLevel
from rocketmq_py.protocol.properties import Prop

NOW = 1_700_000_000_000


# --- asking ---


@pytest.mark.case("T48")
@pytest.mark.parametrize("kind", list(DelayKind))
@pytest.mark.parametrize("value", [1.0, True, "5", None, timedelta(1)])
def test_only_an_int_is_a_delay(kind: DelayKind, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{kind.value} takes an int"):
        Delay.of(kind, value)


@pytest.mark.case("T44")
@pytest.mark.parametrize(
    "kind", [DelayKind.SEC, DelayKind.MS, DelayKind.DELIVER_AT, DelayKind.START_DELIVER]
)
def test_a_time_may_be_zero_but_not_negative(kind: DelayKind) -> None:
    assert Delay.of(kind, 0).text == "0"
    with pytest.raises(DelayValueError, match="negative") as caught:
        Delay.of(kind, -1)
    assert kind.value == caught.value.property_name


@pytest.mark.case("T46")
@pytest.mark.parametrize(
    ("kind", "largest"),
    [
        (DelayKind.SEC, (2**63 - 1) // 1000),
        (DelayKind.MS, 2**63 - 1),
        (DelayKind.DELIVER_AT, 2**63 - 1),
        (DelayKind.START_DELIVER, 2**63 - 1),
    ],
)
def test_a_time_that_would_overflow_is_refused(kind: DelayKind, largest: int) -> None:
    assert largest == Delay.of(kind, largest).value
    with pytest.raises(DelayValueError, match=str(largest)):
        Delay.of(kind, largest + 1)


@pytest.mark.case("T46")
def test_two_to_the_62_seconds_are_refused() -> None:
    with pytest.raises(ValueError, match="largest possible"):
        Delay.of(DelayKind.SEC, 2**62)


@pytest.mark.case("T44")
def test_a_level_may_be_negative_but_must_fit_32_bits() -> None:
    assert Delay.of(DelayKind.LEVEL, -1).text == "-1"
    assert Delay.of(DelayKind.LEVEL, 999).value == 999
    for level in (2**31, -(2**31) - 1):
        with pytest.raises(DelayValueError, match="32-bit"):
            Delay.of(DelayKind.LEVEL, level)


@pytest.mark.parametrize(
    ("span", "milliseconds"),
    [
        (timedelta(0), 0),
        (timedelta(seconds=10), 10_000),
        (timedelta(microseconds=1), 1),
        (timedelta(milliseconds=5, microseconds=1), 6),
        (timedelta(days=40), 3_456_000_000),
    ],
)
def test_a_span_is_rounded_up_to_a_millisecond(span: timedelta, milliseconds: int) -> None:
    assert Delay(DelayKind.MS, milliseconds) == Delay.after(span)


@pytest.mark.case("T48")
def test_spans_and_instants_of_other_types_are_refused() -> None:
    span: Any = 5.0
    with pytest.raises(TypeError, match="timedelta"):
        Delay.after(span)
    with pytest.raises(TypeError, match="datetime"):
        Delay.at(span)
    with pytest.raises(DelayValueError, match="negative"):
        Delay.after(timedelta(milliseconds=-1))


@pytest.mark.case("T48")
def test_a_datetime_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        Delay.at(datetime(2030, 1, 1))  # noqa: DTZ001 - the point of the test


def test_an_instant_is_the_same_in_every_zone_and_rounded_up() -> None:
    berlin = timezone(timedelta(hours=1))
    assert Delay.at(datetime(2024, 1, 1, tzinfo=UTC)).value == 1_704_067_200_000
    assert Delay.at(datetime(2024, 1, 1, 1, tzinfo=berlin)).value == 1_704_067_200_000
    assert Delay.at(datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)).value == 1_704_067_200_001
    with pytest.raises(DelayValueError, match="negative"):
        Delay.at(datetime(1969, 12, 31, tzinfo=UTC))


def test_a_request_is_given_back_as_span_or_instant() -> None:
    assert timedelta(seconds=5) == Delay(DelayKind.SEC, 5).to_timedelta()
    assert timedelta(milliseconds=5) == Delay(DelayKind.MS, 5).to_timedelta()
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    assert moment == Delay(DelayKind.DELIVER_AT, 1_704_067_200_000).to_datetime()
    assert moment == Delay(DelayKind.START_DELIVER, 1_704_067_200_000).to_datetime()
    for kind in (DelayKind.LEVEL, DelayKind.DELIVER_AT):
        with pytest.raises(DelayValueError, match="no span"):
            Delay(kind, 5).to_timedelta()
    with pytest.raises(DelayValueError, match="no instant"):
        Delay(DelayKind.SEC, 5).to_datetime()
    with pytest.raises(DelayValueError, match="no timedelta"):
        Delay(DelayKind.MS, 2**63 - 1).to_timedelta()
    with pytest.raises(DelayValueError, match="no datetime"):
        Delay(DelayKind.DELIVER_AT, 2**63 - 1).to_datetime()


@pytest.mark.parametrize(
    ("delay", "due"),
    [
        (Delay(DelayKind.SEC, 5), NOW + 5000),
        (Delay(DelayKind.MS, 5), NOW + 5),
        (Delay(DelayKind.DELIVER_AT, 5), 5),
        (Delay(DelayKind.START_DELIVER, 6), 6),
        (Delay(DelayKind.LEVEL, 3), NOW + 10_000),
        (Delay(DelayKind.LEVEL, 99), NOW + 7_200_000),
        (Delay(DelayKind.SEC, 2**63 - 1), NOW + (2**63 - 1) * 1000),
    ],
)
def test_a_request_is_due_by_its_kind(delay: Delay, due: int) -> None:
    assert due == delay.due_ms(NOW)


def test_relative_requests_are_those_that_count_from_arrival() -> None:
    relative = [kind for kind in DelayKind if kind.is_relative]
    assert relative == [DelayKind.LEVEL, DelayKind.SEC, DelayKind.MS]


@pytest.mark.parametrize(
    ("epoch_ms", "suspicious"),
    [
        (0, False),
        (1, True),
        (1_700_000_000, True),
        (99_999_999_999, True),
        (100_000_000_000, False),
        (NOW, False),
    ],
)
def test_epoch_seconds_are_recognised(epoch_ms: int, suspicious: bool) -> None:
    assert suspicious is delays.looks_like_seconds(epoch_ms)


def test_spans_are_never_taken_for_seconds_of_an_epoch() -> None:
    for kind in (DelayKind.LEVEL, DelayKind.SEC, DelayKind.MS):
        delays.refuse_seconds(kind, 1_700_000_000)


# --- reading ---


@pytest.mark.case("A11")
@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("+5", 5),
        ("5", 5),
        ("-5", -5),
        ("0", 0),
        ("-0", 0),
        ("007", 7),
        ("0" * 5000 + "7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_a_signed_64_bit_decimal_is_read(text: str, number: int) -> None:
    assert number == delays.parse_number(text)


@pytest.mark.case("A11")
@pytest.mark.parametrize(
    "text",
    [
        *(" 5", "5 ", "5.0", "", "1e3", "0x5", "1_000", "+", "-", "+-5", "--5", "ten", "\u0665"),
        *("9223372036854775808", "-9223372036854775809", "9" * 5000, "\u00b2", "5\n"),
    ],
)
def test_anything_else_is_no_delay_value(text: str) -> None:
    with pytest.raises(DelayValueError) as caught:
        delays.effective_delay({Prop.TIMER_DELAY_SEC: text})
    assert caught.value.property_name == Prop.TIMER_DELAY_SEC


def test_a_message_without_delay_has_none() -> None:
    for properties in ({}, {"TAGS": "a"}, {"TIMER_OUT_MS": "5"}, {"TIMER_DELAY_LEVEL": "3"}):
        assert delays.effective_delay(properties) is None
        assert not delays.has_delay(properties)
        assert delays.conflicts(properties) == []


FAR = str(NOW + 90_000)


@pytest.mark.parametrize(
    ("properties", "kind", "value"),
    [
        ({"TIMER_DELAY_SEC": "5", "TIMER_DELAY_MS": "1"}, DelayKind.SEC, 5),
        (
            {"TIMER_DELIVER_MS": FAR, "TIMER_DELAY_MS": "1", "TIMER_DELAY_SEC": "5"},
            DelayKind.SEC,
            5,
        ),
        ({"TIMER_DELIVER_MS": FAR, "TIMER_DELAY_MS": "60000"}, DelayKind.MS, 60_000),
        ({"__STARTDELIVERTIME": "7", "TIMER_DELIVER_MS": FAR}, DelayKind.DELIVER_AT, NOW + 90_000),
        ({"__STARTDELIVERTIME": "7"}, DelayKind.START_DELIVER, 7),
        ({"__STARTDELIVERTIME": "7", "TIMER_DELAY_SEC": "5"}, DelayKind.SEC, 5),
        ({"DELAY": "3", "TIMER_DELIVER_MS": FAR}, DelayKind.LEVEL, 3),
        ({"DELAY": "3", "TIMER_OUT_MS": "5"}, DelayKind.LEVEL, 3),
        ({"DELAY": "0", "TIMER_DELAY_SEC": "5"}, DelayKind.SEC, 5),
        ({"DELAY": "-1", "TIMER_DELAY_SEC": "5"}, DelayKind.SEC, 5),
        ({"DELAY": "3", "TIMER_DELAY_SEC": "x"}, DelayKind.LEVEL, 3),
        ({"TIMER_DELAY_SEC": "5", "TIMER_DELAY_MS": "x"}, DelayKind.SEC, 5),
    ],
)
def test_the_first_request_in_the_fixed_order_wins_and_losers_are_not_read(
    properties: dict[str, str], kind: DelayKind, value: int
) -> None:
    assert Delay(kind, value) == delays.effective_delay(properties)


def test_junk_in_the_winner_does_not_fall_back_to_a_loser() -> None:
    with pytest.raises(DelayValueError, match="TIMER_DELAY_SEC = 'x'"):
        delays.effective_delay({"TIMER_DELAY_SEC": "x", "TIMER_DELIVER_MS": FAR})


def test_a_message_that_was_in_the_timer_is_not_delayed_again() -> None:
    properties = {"TIMER_OUT_MS": "5", "TIMER_DELAY_SEC": "x", "__STARTDELIVERTIME": FAR}
    assert delays.effective_delay(properties) is None


def test_the_start_time_counts_only_where_it_is_honoured() -> None:
    properties = {"__STARTDELIVERTIME": FAR}
    assert delays.effective_delay(properties, start_deliver=False) is None
    assert delays.effective_delay({"__STARTDELIVERTIME": "0"}) is None
    with pytest.raises(DelayValueError, match="__STARTDELIVERTIME"):
        delays.effective_delay({"__STARTDELIVERTIME": "soon"})


@pytest.mark.parametrize("text", ["x", "", "2147483648", "1.5"])
def test_a_level_that_is_no_32_bit_number_is_refused(text: str) -> None:
    with pytest.raises(DelayValueError, match="DELAY"):
        delays.effective_delay({"DELAY": text})


@pytest.mark.parametrize(
    ("properties", "delayed"),
    [
        ({"DELAY": "0"}, False),
        ({"DELAY": "-3"}, False),
        ({"DELAY": "1"}, True),
        ({"DELAY": "junk"}, True),
        ({"__STARTDELIVERTIME": "0"}, False),
        ({"__STARTDELIVERTIME": "1"}, True),
        ({"TIMER_DELAY_SEC": "0"}, True),
        ({"TIMER_DELAY_MS": "junk"}, True),
        ({"TIMER_DELIVER_MS": "1"}, True),
    ],
)
def test_any_request_readable_or_not_is_a_delay(properties: dict[str, str], delayed: bool) -> None:
    assert delayed is delays.has_delay(properties)


@pytest.mark.parametrize(
    ("properties", "names"),
    [
        ({"DELAY": "3"}, []),
        ({"DELAY": "0", "TIMER_DELAY_SEC": "60"}, ["TIMER_DELAY_SEC", "DELAY"]),
        ({"TIMER_DELAY_SEC": "0", "TIMER_DELAY_MS": "9"}, ["TIMER_DELAY_SEC", "TIMER_DELAY_MS"]),
        ({"DELAY": "0", "TIMER_OUT_MS": "1"}, []),
        ({"DELAY": "3", "TIMER_DELAY_SEC": "60"}, ["DELAY", "TIMER_DELAY_SEC"]),
        (
            {"TIMER_DELIVER_MS": "1", "TIMER_DELAY_MS": "1", "TIMER_DELAY_SEC": "1"},
            ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"],
        ),
        ({"TIMER_OUT_MS": "1", "TIMER_DELAY_SEC": "1"}, ["TIMER_OUT_MS", "TIMER_DELAY_SEC"]),
        (
            {"TIMER_OUT_MS": "1", "TIMER_DELAY_SEC": "1", "DELAY": "1"},
            ["DELAY", "TIMER_OUT_MS", "TIMER_DELAY_SEC"],
        ),
        (
            {"__STARTDELIVERTIME": "9", "TIMER_DELAY_SEC": "1"},
            ["TIMER_DELAY_SEC", "__STARTDELIVERTIME"],
        ),
        ({"__STARTDELIVERTIME": "9", "TIMER_DELIVER_MS": "9"}, []),
        (
            {"__STARTDELIVERTIME": "9", "TIMER_DELIVER_MS": "8"},
            ["TIMER_DELIVER_MS", "__STARTDELIVERTIME"],
        ),
        ({"__STARTDELIVERTIME": "0", "TIMER_DELIVER_MS": "0"}, []),
    ],
)
def test_contradicting_requests_are_named_winner_first(
    properties: dict[str, str], names: list[str]
) -> None:
    assert names == delays.conflicts(properties)


@pytest.mark.parametrize("mode", ["auto", "always"])
def test_a_start_time_alone_is_translated_in_the_copy_that_is_sent(mode: Any) -> None:
    properties = {"__STARTDELIVERTIME": FAR, "TAGS": "a"}
    sent = delays.translate_start_deliver(properties, mode)
    assert properties | {"TIMER_DELIVER_MS": FAR} == sent
    assert properties == {"__STARTDELIVERTIME": FAR, "TAGS": "a"}


def test_a_start_time_is_sent_as_it_is_where_translation_is_off() -> None:
    properties = {"__STARTDELIVERTIME": FAR}
    assert delays.translate_start_deliver(properties, "never") is properties
    assert delays.translate_start_deliver(properties, "auto", vendor_cloud=True) is properties
    always = delays.translate_start_deliver(properties, "always", vendor_cloud=True)
    assert always["TIMER_DELIVER_MS"] == FAR


@pytest.mark.parametrize(
    "other", [{"DELAY": "3"}, {"TIMER_DELAY_SEC": "1"}, {"TIMER_OUT_MS": "1"}, {}]
)
def test_a_start_time_beside_another_request_is_not_translated(other: dict[str, str]) -> None:
    start = "0" if not other else FAR
    properties = {"__STARTDELIVERTIME": start, **other}
    assert delays.translate_start_deliver(properties) is properties


def test_what_is_no_number_is_not_translated() -> None:
    properties = {"__STARTDELIVERTIME": "soon"}
    assert delays.translate_start_deliver(properties) is properties


# --- the wheel ---


@pytest.mark.case("A1")
@pytest.mark.parametrize(
    ("deliver_at", "slot"), [(20_500, 20_000), (20_000, 19_000), (20_001, 20_000)]
)
def test_the_slot_is_the_last_one_that_ends_at_or_after_the_due_time(
    deliver_at: int, slot: int
) -> None:
    assert slot == delays.timer_out_ms(deliver_at, 1000)


@pytest.mark.parametrize(
    ("properties", "stored", "precision", "due"),
    [
        ({"TIMER_DELIVER_MS": "20500"}, 0, 1, 20_500),
        ({"TIMER_DELIVER_MS": "20500"}, 0, 100, 20_500),
        ({"TIMER_DELIVER_MS": "20501"}, 0, 100, 20_600),
        ({"TIMER_DELIVER_MS": "20001"}, 0, 1000, 21_000),
        ({"TIMER_DELIVER_MS": "21000"}, 0, 1, 21_000),
        ({"__STARTDELIVERTIME": "20500"}, 0, 1, 20_500),
        ({"TIMER_DELAY_SEC": "10"}, 10_250, 1, 20_250),
        ({"TIMER_DELAY_MS": "10"}, 20_000, 1, 20_010),
        # Our own roll noted the time; the request would count from the new copy's store time.
        (
            {"TIMER_DELAY_SEC": "10", "TIMER_ROLL_TIMES": "1", "TIMER_DUE_MS": "20123"},
            15_000,
            1,
            20_123,
        ),
        ({"TIMER_DELIVER_MS": "20500", "TIMER_ROLL_TIMES": "2"}, 15_000, 1, 20_500),
        # Nothing usable: the end of the slot.
        ({"TIMER_DELAY_SEC": "5", "TIMER_ROLL_TIMES": "1"}, 15_250, 1, 21_000),
        ({}, 0, 1, 21_000),
        ({"TIMER_DELAY_SEC": "junk"}, 0, 1, 21_000),
        ({"TIMER_DUE_MS": "junk"}, 0, 1, 21_000),
        ({"TIMER_DELIVER_MS": "20000"}, 0, 1, 21_000),
        ({"TIMER_DELIVER_MS": "99999"}, 0, 1, 21_000),
        # A level does not bring a message into the wheel, so it says nothing about it.
        ({"DELAY": "3", "TIMER_DELIVER_MS": "20500"}, 0, 1, 20_500),
    ],
)
def test_a_record_is_due_inside_its_slot(
    properties: dict[str, str], stored: int, precision: int, due: int
) -> None:
    stamped = {**properties, "TIMER_OUT_MS": "20000"}
    assert due == delays.release_due_ms(stamped, stored, 20_000, 1000, precision)


# --- levels ---


@pytest.mark.case("L1")
def test_the_default_levels_are_eighteen_from_a_second_to_two_hours() -> None:
    levels = delays.parse_levels(delays.DEFAULT_LEVELS)
    assert levels == delays.DEFAULT_LEVELS_MS
    assert len(levels) == 18
    assert (levels[3 - 1], levels[18 - 1]) == (10_000, 7_200_000)
    assert delays.parse_levels("3d 5s") == (259_200_000, 5000)


@pytest.mark.case("L1")
@pytest.mark.parametrize("text", ["5x", "", " ", "s", "1s  5s", " 1s", "1s,5s", "1.5s", "1S"])
def test_a_level_that_cannot_be_read_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        delays.parse_levels(text)


def test_blanks_at_the_end_of_the_levels_do_not_matter() -> None:
    assert delays.parse_levels("1s  ") == (1000,)


@pytest.mark.parametrize("level", list(DelayLevel))
def test_the_name_of_a_level_says_its_time(level: DelayLevel) -> None:
    unit = {"S": "s", "M": "m", "H": "h"}[level.name[0]]
    assert delays.parse_levels(level.name[1:] + unit) == (delays.DEFAULT_LEVELS_MS[level - 1],)


def test_a_level_above_the_highest_is_lowered_to_it() -> None:
    assert [delays.clamp_level(level) for level in (3, 18, 99)] == [3, 18, 18]
    assert delays.clamp_level(99, (1000, 5000)) == 2


@pytest.mark.case("L9")
def test_an_unknown_level_waits_a_second() -> None:
    assert delays.level_due_ms(999, NOW) == NOW + 1000
    assert delays.level_due_ms(0, NOW) == NOW + 1000
    assert delays.level_due_ms(2, NOW) == NOW + 5000


@pytest.mark.parametrize(
    ("wanted", "times", "level"), [(0, 0, 3), (0, 1, 4), (0, 15, 18), (5, 0, 5), (5, 15, 5)]
)
def test_a_failed_message_waits_by_the_number_of_its_tries(
    wanted: int, times: int, level: int
) -> None:
    assert level == delays.retry_level(wanted, times)


@pytest.mark.parametrize(
    ("noted", "due"),
    [
        ("20001", 20_001),
        ("20000", 20_000),  # of the slot before: a moved copy that stays out of its own one
        ("19001", 19_001),
        ("19000", 21_000),  # further back nobody looks: it leaves with its slot
        ("21001", 21_000),
    ],
)
def test_a_noted_time_lies_in_the_slot_or_in_the_one_before(noted: str, due: int) -> None:
    assert delays.release_due_ms({"TIMER_DUE_MS": noted}, 0, 20_000, 1000, 1) == due


def test_a_requested_time_never_lies_before_the_slot() -> None:
    assert delays.release_due_ms({"TIMER_DELIVER_MS": "20000"}, 0, 20_000, 1000, 1) == 21_000


@pytest.mark.parametrize(
    ("delay", "remedy"),
    [
        (90, r"timedelta\(seconds=90\)"),
        (1.5, r"timedelta\(seconds=1.5\)"),
        ("30m", "set_delay_time_ms"),
        (datetime(2030, 1, 1, tzinfo=UTC), "deliver_at"),
    ],
)
def test_a_delay_that_is_no_timedelta_is_told_how_it_is_written(delay: Any, remedy: str) -> None:
    with pytest.raises(TypeError, match=f"delay takes a timedelta, not .*{remedy}"):
        Delay.after(delay)


@pytest.mark.parametrize(
    ("moment", "remedy"), [(1_900_000_000_000, "set_deliver_time_ms"), (timedelta(1), "as delay")]
)
def test_an_instant_that_is_no_datetime_is_told_how_it_is_written(moment: Any, remedy: str) -> None:
    with pytest.raises(TypeError, match=f"deliver_at takes a datetime, not .*{remedy}"):
        Delay.at(moment)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (DelayKind.LEVEL, "DelayLevel"),
        (DelayKind.SEC, "delay=timedelta"),
        (DelayKind.DELIVER_AT, "deliver_at=datetime"),
        (DelayKind.START_DELIVER, "deliver_at=datetime"),
    ],
)
def test_a_number_of_a_wrong_type_is_told_what_python_programs_write(
    kind: DelayKind, form: str
) -> None:
    value: Any = "3"
    with pytest.raises(TypeError, match=form):
        Delay.of(kind, value)


def test_the_longest_delay_and_the_last_instant_of_python_can_be_asked_for_and_read_back() -> None:
    assert Delay.after(timedelta.max).to_timedelta() <= timedelta.max
    last = datetime.max.replace(tzinfo=UTC)
    assert Delay.at(last).to_datetime() <= last
