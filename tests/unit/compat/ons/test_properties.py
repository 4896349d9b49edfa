from __future__ import annotations

from typing import Any, cast

import pytest

from compat.ons import Properties, PropertyKeyConst
from compat.ons.properties import int_of, namespace_of, switch_of
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


@pytest.mark.parametrize(
    "value", [None, ["id"], b"id", object()], ids=["None", "list", "bytes", "object"]
)
def test_a_value_that_is_no_text_number_or_switch_is_refused(value: object) -> None:
    wrong = cast("Any", value)
    properties = Properties()
    with pytest.raises(TypeError, match=r"property AccessKey: .* not \w+$"):
        properties.put(PropertyKeyConst.AccessKey, wrong)
    with pytest.raises(TypeError, match="AccessKey"):
        properties.update({PropertyKeyConst.AccessKey: wrong})
    with pytest.raises(TypeError, match="AccessKey"):
        properties.setdefault(PropertyKeyConst.AccessKey, wrong)
    with pytest.raises(TypeError, match="AccessKey"):
        Properties({PropertyKeyConst.AccessKey: wrong})
    with pytest.raises(TypeError, match="name is a str"):
        properties.put(wrong, "x")
    assert properties == {}


def test_every_way_to_set_makes_text() -> None:
    properties = Properties()
    properties.update({"a": 1}, b=2.5)
    properties.update([("c", True)])
    assert properties.setdefault("d", 4) == "4"
    assert properties.setdefault("a", 5) == "1"
    assert properties == {"a": "1", "b": "2.5", "c": "true", "d": "4"}


@pytest.mark.parametrize(
    ("given", "namespace"),
    [
        ({}, ""),
        ({"NAMESRV_ADDR": "127.0.0.1:9876"}, ""),
        ({"NAMESRV_ADDR": "http://MQ_INST_1_x.mq.example:80"}, "MQ_INST_1_x"),
        ({"NAMESRV_ADDR": "MQ_INST_1_x.mq.example:80"}, "MQ_INST_1_x"),
        ({"NAMESRV_ADDR": "http://MQ_INST_1_x.mq.example:80", "INSTANCE_ID": "mine"}, "mine"),
        ({"NAMESRV_ADDR": "http://mqi-cn-abca1.mq.example:80"}, "mqi-cn-abca1"),
        ({"NAMESRV_ADDR": "http://mqi-cn-abcb1.mq.example:80"}, ""),
        ({"INSTANCE_ID": "mqi-cn-abc"}, "mqi-cn-abc"),
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


@pytest.mark.parametrize(
    ("text", "on"), [("true", True), ("TRUE", True), ("false", False), (" ", True)]
)
def test_a_switch_is_true_or_false(text: str, *, on: bool) -> None:
    assert switch_of(Properties({"s": text}), "s", default=True) is on


def test_anything_else_is_no_switch() -> None:
    with pytest.raises(ONSClientException, match=r"property s = '1' must be true or false"):
        switch_of(Properties({"s": 1}), "s")
