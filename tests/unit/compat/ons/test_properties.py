from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from compat.ons import Properties, PropertyKeyConst
from compat.ons.properties import (
    check_known,
    credentials_of,
    int_of,
    max_delay_of,
    namespace_of,
    switch_of,
)
from rocketmq_py.errors import ONSClientException


def test_both_spellings_set_and_read_and_every_value_becomes_text() -> None:
    properties = Properties({"a": 1})
    properties.put("b", 3000)
    properties.setProperty("c", "x")
    properties.set_property("d", value=True)
    assert dict(properties) == {"a": "1", "b": "3000", "c": "x", "d": "true"}
    assert properties.getProperty("b") == "3000"
    assert properties.get_property("nothing", "default") == "default"


@pytest.mark.case("T91")
def test_names_keep_the_irregular_casing_of_the_original() -> None:
    assert PropertyKeyConst.MaxReconsumeTimes == "maxReconsumeTimes"
    assert PropertyKeyConst.ConsumeThreadNums == "ConsumeThreadNums"
    assert PropertyKeyConst.ConsumeTimeout == "consumeTimeout"
    assert PropertyKeyConst.MaxCachedMessageSizeInMiB == "maxCachedMessageSizeInMiB"


@pytest.mark.case("T91")
def test_an_unknown_name_changes_nothing_and_is_logged_for_debugging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        check_known(Properties({"languageIdentifier": "x"}))
    assert "languageIdentifier" in caplog.text


def test_what_is_not_offered_is_refused_and_not_ignored() -> None:
    with pytest.raises(ONSClientException, match="exactly-once"):
        check_known(Properties({"exactlyOnceDelivery": "true"}))


@pytest.mark.parametrize(
    ("given", "namespace"),
    [
        ({}, ""),
        ({"NAMESRV_ADDR": "127.0.0.1:9876"}, ""),
        ({"NAMESRV_ADDR": "http://MQ_INST_1_x.mq.example:80"}, "MQ_INST_1_x"),
        ({"NAMESRV_ADDR": "MQ_INST_1_x.mq.example:80"}, "MQ_INST_1_x"),
        ({"NAMESRV_ADDR": "http://MQ_INST_1_x.mq.example:80", "INSTANCE_ID": "mine"}, "mine"),
    ],
)
def test_the_instance_is_the_namespace_and_an_address_may_name_it(
    given: dict[str, str], namespace: str
) -> None:
    assert namespace_of(Properties(given)) == namespace


def test_a_number_that_is_none_is_an_error_and_not_the_default() -> None:
    assert int_of(Properties(), "n", 7) == 7
    assert int_of(Properties({"n": " 9 "}), "n", 7) == 9
    with pytest.raises(ONSClientException, match="whole number"):
        int_of(Properties({"n": "nine"}), "n", 7)


@pytest.mark.parametrize(("text", "on"), [("true", True), ("TRUE", True), ("1", False)])
def test_only_true_switches_on(text: str, *, on: bool) -> None:
    assert switch_of(Properties({"s": text}), "s") is on


def test_keys_are_optional_and_never_shown() -> None:
    assert credentials_of(Properties()) is None
    credentials = credentials_of(Properties({"AccessKey": "id", "SecretKey": "hidden"}))
    assert credentials is not None
    assert credentials.secret_key == "hidden"
    assert "hidden" not in repr(credentials)


def test_forty_days_is_the_longest_delay_unless_it_is_set() -> None:
    assert max_delay_of(Properties()) == timedelta(days=40)
    assert max_delay_of(Properties({"MaxDelayDays": 7})) == timedelta(days=7)
    with pytest.raises(ONSClientException, match="MaxDelayDays"):
        max_delay_of(Properties({"MaxDelayDays": 0}))
