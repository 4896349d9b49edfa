"""Handles and offsets of POP: the texts are those of a real 5.3.3 broker and its Java client."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_py.protocol.pop_handles import (
    GroupAndTopic,
    OrderCount,
    OrderCounts,
    PopHandle,
    PopPortion,
    message_offsets,
    message_offsets_text,
    normal_topic,
    order_counts_text,
    pop_retry_topic,
    pops_of_retry_topic,
    real_topic,
    retry_flag,
    start_offsets,
    start_offsets_text,
)

TEXT = "7 1700000000000 60000 3 1 broker-a 0 9"


@pytest.mark.case("W103")
def test_a_handle_has_eight_items_and_reads_as_it_is_written() -> None:
    handle = PopHandle.parse(TEXT)
    assert handle == PopHandle(7, 1_700_000_000_000, 60_000, 3, "1", "broker-a", 0, 9)
    assert handle.text() == TEXT
    assert not handle.is_ordered
    assert PopHandle.parse("7 1 2 999 0 b").is_ordered


def test_what_a_proxy_appends_is_left_alone() -> None:
    assert PopHandle.parse(f"{TEXT} 4711") == PopHandle.parse(TEXT)


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("", "it has 1 items"),
        ("1 2 3 4 0", "it has 5 items"),
        ("x 2 3 4 0 b", "item 1 is 'x'"),
        ("1 2 3 9223372036854775808 0 b", "item 4"),
        ("1 2 3 4 0 b 1 y", "item 8 is 'y'"),
        ("1_0 2 3 4 0 b", "item 1"),
    ],
)
def test_a_text_that_is_no_handle_says_why(text: str, piece: str) -> None:
    with pytest.raises(ValueError, match=piece):
        PopHandle.parse(text)


def test_topics_of_what_came_back() -> None:
    assert pop_retry_topic("T", "G") == "%RETRY%G_T"
    assert pop_retry_topic("T", "G", v2=True) == "%RETRY%G+T"
    for v2 in (False, True):
        topic = pop_retry_topic("T_x", "G", v2=v2)
        assert normal_topic(topic, "G") == "T_x"
        assert real_topic("T_x", "G", retry_flag(topic)) == topic
    assert (normal_topic("T", "G"), retry_flag("T"), real_topic("T", "G", "0")) == ("T", "0", "T")
    with pytest.raises(ValueError, match="the retry flag is '3'"):
        real_topic("T", "G", "3")


def test_offsets_of_an_answer() -> None:
    portions = [PopPortion("T", 1, 0, [0, 1]), PopPortion("%RETRY%G_T", 0, 3, [3, 5])]
    assert start_offsets_text(portions) == "0 1 0;1 0 3"
    assert message_offsets_text(portions) == "0 1 0,1;1 0 3,5"
    assert (start_offsets_text([]), message_offsets_text([])) == ("", "")
    counts = [OrderCount("O", 0, 0, 1), OrderCount("O", 0, 1, 1), OrderCount("O", 0, None, 1)]
    assert order_counts_text(counts) == "0 qo0%0 1;0 qo0%1 1;0 0 1"
    read = OrderCounts(order_counts_text([*counts, OrderCount("O", 1, 4, 3)]))
    assert [read.of(("0", 0), 0), read.of(("0", 0), 9), read.of(("0", 1), 4)] == [1, 1, 3]
    assert [read.of(("0", 1), 5), read.of(("1", 0), 0)] == [0, 0]


def test_a_client_reads_the_offsets_of_an_answer() -> None:
    portions = [PopPortion("T", 1, 0, [0, 1]), PopPortion("%RETRY%G+T", 0, 3, [5])]
    assert start_offsets(start_offsets_text(portions)) == {("0", 1): 0, ("2", 0): 3}
    assert message_offsets(message_offsets_text(portions)) == {("0", 1): [0, 1], ("2", 0): [5]}
    assert (start_offsets(""), message_offsets("")) == ({}, {})


@pytest.mark.parametrize("read", [start_offsets, message_offsets, OrderCounts])
@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("0 1", "'0 1' has 2 items, not 3"),
        ("0 1 2;", "'' has 1 items"),
        ("0 1 2 3", "has 4 items"),
        ("0 1 x", "'x'"),
        ("0 1 9223372036854775808", "64-bit"),
        ("0 1 2;0 1 3", "'0 1 3' is the second about its queue"),
    ],
)
def test_offsets_that_cannot_be_read_are_named(
    read: Callable[[str], object], text: str, piece: str
) -> None:
    with pytest.raises(ValueError, match=piece):
        read(text)


def test_a_retry_topic_tells_every_group_and_topic_it_may_be_of() -> None:
    for group, topic in (("shop", "orders"), ("my_shop", "new_orders"), ("a__b", "_c")):
        pop = GroupAndTopic(group, topic)
        newer, older = (pop_retry_topic(topic, group, v2=v2) for v2 in (True, False))
        assert list(pops_of_retry_topic(newer)) == [(pop, True)]
        assert (pop, False) in pops_of_retry_topic(older)
    assert list(pops_of_retry_topic("%RETRY%shop")) == []


def test_names_longer_than_there_can_be_are_no_group_and_topic() -> None:
    longest = pop_retry_topic("t" * 127, "g" * 255)
    assert list(pops_of_retry_topic(longest)) == [(("g" * 255, "t" * 127), False)]
    assert list(pops_of_retry_topic(pop_retry_topic("t" * 128, "g"))) == []
    assert list(pops_of_retry_topic(pop_retry_topic("t", "g" * 256))) == []
    assert len(list(pops_of_retry_topic("%RETRY%" + "_" * 60_000))) <= 128
