"""What of a message's delays will not be kept, told before it is sent."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import DelayConflictError
from rocketmq_py.protocol.codes import MQVersion
from rocketmq_py.protocol.delay import Delay, DelayKind
from rocketmq_py.protocol.delay_doubts import (
    UNKEPT,
    concerns_delay,
    doubts,
    is_before_timers,
    may_concern_delay,
    misspelt,
    nearest_level,
    timer_asked,
    too_old,
)
from rocketmq_py.protocol.properties import encode_properties

FAR = "1900000000000"


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        pytest.param({"DELAY": "-1"}, "DELAY = -1: a negative level", id="a level below none"),
        pytest.param({"DELAY": "19"}, "DELAY = 19: .*last level, which is 18", id="above the last"),
        pytest.param({"DELAY": "abc"}, "DELAY = 'abc': not a decimal", id="no level"),
        pytest.param({"TIMER_DELAY_SEC": "-1"}, "SEC = -1: a negative delay", id="seconds"),
        pytest.param({"TIMER_DELAY_MS": "-1"}, "MS = -1: a negative delay", id="milliseconds"),
        pytest.param({"TIMER_DELIVER_MS": "-1"}, "MS = -1: a negative time", id="an instant"),
        pytest.param({"__STARTDELIVERTIME": "-1"}, "TIME = -1: a negative time", id="Aliyun's"),
        pytest.param({"TIMER_DELAY_SEC": "1.5"}, "not a decimal", id="a fraction"),
        pytest.param({"TIMER_DELIVER_MS": "1900000000"}, "seconds", id="epoch seconds"),
        pytest.param(
            {"TIMER_DELAY_SECS": "5"}, "did you mean TIMER_DELAY_SEC", id="a name misspelt"
        ),
        pytest.param({"timer_delay_ms": "5"}, "did you mean TIMER_DELAY_MS", id="in small letters"),
        pytest.param(
            {"DELAY": "3", "TIMER_DELAY_SEC": "5"}, "wins over TIMER_DELAY_SEC", id="two kinds"
        ),
        pytest.param(
            {"TIMER_DELAY_SEC": "0", "TIMER_DELAY_MS": "5"}, "wins over", id="two, the first is 0"
        ),
        pytest.param(
            {"DELAY": "0", "TIMER_DELAY_SEC": "5"}, "SEC = '5': it wins", id="two, a level of 0"
        ),
        pytest.param({"TIMER_OUT_MS": "5", "TIMER_DELAY_SEC": "5"}, "from_ext", id="timed before"),
    ],
)
def test_a_delay_that_will_not_be_kept_is_told_with_its_property(
    properties: dict[str, str], told: str
) -> None:
    (doubt,) = doubts({"TAGS": "a", **properties})
    assert doubt.property_name in properties
    with pytest.raises(type(doubt), match=told):
        raise doubt


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"TAGS": "a", "delay": "-1", "DELAYED": "abc", "timer": "x"},
        {"DELAY": "0"},
        {"DELAY": "18"},
        {"TIMER_DELAY_SEC": "0"},
        {"TIMER_DELAY_MS": "9223372036854775807"},
        {"TIMER_DELIVER_MS": "100000000000"},
        {"__STARTDELIVERTIME": "0"},
        {"__STARTDELIVERTIME": FAR, "TIMER_DELIVER_MS": FAR},
        {"TIMER_OUT_MS": "5", "TIMER_ENQUEUE_MS": "6"},
    ],
)
def test_what_is_kept_as_it_is_asked_is_no_doubt(properties: dict[str, str]) -> None:
    assert doubts(properties) == []


def test_several_doubts_are_told_and_a_conflict_first() -> None:
    first, *rest = doubts({"DELAY": "abc", "TIMER_DELAY_SEC": "-1"})
    assert isinstance(first, DelayConflictError)
    assert [doubt.property_name for doubt in rest] == ["DELAY", "TIMER_DELAY_SEC"]


@pytest.mark.parametrize(
    ("name", "concerns"),
    [
        ("DELAY", True),
        ("__STARTDELIVERTIME", True),
        ("TIMER_OUT_MS", True),
        ("TIMER_ANYTHING", True),
        ("__startdelivertime", True),
        ("delay", False),
        ("TIMER", False),
        ("MY_TIMER_DELAY", False),
    ],
)
def test_only_names_of_delays_and_what_looks_like_them_are_looked_at(
    name: str, concerns: bool
) -> None:
    assert concerns_delay(name) is concerns


@pytest.mark.parametrize("name", ["DELAY", "__startdelivertime", "TIMER_X", "Timer_Delay_Ms"])
def test_a_glance_at_encoded_properties_overlooks_none_that_concerns_a_delay(name: str) -> None:
    assert concerns_delay(name)
    among_others = encode_properties({"TAGS": "a", name: "1", "KEYS": "k"}).decode()
    assert may_concern_delay(among_others * 2)
    assert not may_concern_delay(encode_properties({"TAGS": "DELAY", "KEYS": "timer"}).decode())


@pytest.mark.parametrize("name", UNKEPT)
def test_the_table_says_of_each_number_what_is_said_of_a_message_with_it(name: str) -> None:
    edges = [edge for one in UNKEPT[name] for edge in (one.first, one.last)]
    for number in sorted({beside for edge in edges for beside in (edge - 1, edge, edge + 1)}):
        if -(1 << 63) <= number < 1 << 63:
            told = [one.reason for one in UNKEPT[name] if one.first <= number <= one.last]
            found = [doubt.reason for doubt in doubts({name: str(number)})]
            assert [one.partition(": ")[0] for one in found] == told


def test_a_name_like_none_is_told_without_a_guess() -> None:
    told = misspelt("TIMER_X")
    assert told is not None
    assert "did you mean" not in told
    assert misspelt("TIMER_OUT_MS") is None


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"TIMER_DELAY_SEC": "5"}, DelayKind.SEC),
        ({"TIMER_DELAY_MS": "5"}, DelayKind.MS),
        ({"TIMER_DELIVER_MS": FAR}, DelayKind.DELIVER_AT),
        ({"DELAY": "3", "TIMER_DELAY_SEC": "5"}, None),
        ({"TIMER_DELAY_SEC": "0"}, None),
        ({"TIMER_DELAY_SEC": "soon"}, None),
        ({"TIMER_OUT_MS": "1", "TIMER_DELAY_SEC": "5"}, None),
        ({"__STARTDELIVERTIME": FAR}, None),
        ({"TAGS": "a"}, None),
    ],
)
def test_a_timer_is_what_old_brokers_do_not_know(
    properties: dict[str, str], kind: DelayKind | None
) -> None:
    timer = timer_asked(properties)
    assert (None if timer is None else timer.kind) is kind


@pytest.mark.parametrize(
    ("version", "is_old"),
    [
        (0, False),
        (MQVersion.V4_9_4, True),
        (MQVersion.V4_9_8, True),
        (412, True),
        (MQVersion.V5_0_0, False),
        (MQVersion.V5_3_3, False),
    ],
)
def test_timers_begin_with_version_5_and_who_tells_no_version_is_not_doubted(
    version: int, is_old: bool
) -> None:
    assert is_before_timers(version) is is_old


@pytest.mark.parametrize(
    ("delay_ms", "level"),
    [(-5, 1), (0, 1), (2_999, 1), (3_000, 2), (40_000, 4), (46_000, 5), (10**12, 18)],
)
def test_the_nearest_level_is_that_of_the_nearest_time(delay_ms: int, level: int) -> None:
    assert nearest_level(delay_ms) == level


def test_an_old_broker_is_named_with_its_version_and_the_nearest_level() -> None:
    timer = Delay(DelayKind.DELIVER_AT, 1_000_000 + 600_000)
    told = str(too_old(timer, "mq:10911", MQVersion.V4_9_7, 1_000_000))
    for part in ("TIMER_DELIVER_MS", "mq:10911", "4.9.7", "level 14 (10m)", "time_level(14)"):
        assert part in told
