from __future__ import annotations

import pytest

from rocketmq_py.consumer.subscriptions import SubscriptionTable
from tests.unit.rocketmq_py.consumer.fake_engine import FakeClock


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_nothing_named_means_all_messages(expression: str | None) -> None:
    table = SubscriptionTable(FakeClock())
    table.put("T", expression)
    subscription = table.get("T")
    assert subscription is not None
    assert (subscription.sub_string, subscription.tags_set) == ("*", frozenset())


def test_tags_are_split_and_trimmed_and_their_codes_are_javas() -> None:
    table = SubscriptionTable(FakeClock())
    table.put("T", "TagA || tt")
    subscription = table.get("T")
    assert subscription is not None
    assert subscription.tags_set == {"TagA", "tt"}
    assert subscription.code_set == {2598919, 3712}


def test_a_version_is_the_clock_and_never_smaller_than_the_one_before() -> None:
    clock = FakeClock(5000)
    table = SubscriptionTable(clock)
    table.put("T", "a")
    versions = []
    for step in (0, 100, -300):
        clock.now_ms += step
        table.raise_version("T")
        subscription = table.get("T")
        assert subscription is not None
        assert subscription.tags_set == {"a"}
        versions.append(subscription.sub_version)
    assert versions == [5001, 5100, 5101]


def test_a_second_subscription_replaces_the_first_and_a_removal_forgets_it() -> None:
    table = SubscriptionTable(FakeClock())
    table.put("T", "a")
    table.put("U", "b")
    table.put("T", "c")
    assert [(s.topic, s.sub_string) for s in table.all()] == [("T", "c"), ("U", "b")]
    table.remove("T")
    table.remove("T")
    table.raise_version("T")
    assert table.topics() == ["U"]
    assert table.get("T") is None
