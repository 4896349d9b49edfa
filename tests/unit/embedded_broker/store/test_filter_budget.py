"""The room that filters have in one hold of the door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from embedded_broker.store.consume_queue import Entry
from embedded_broker.store.filter_budget import (
    LOOK_COST,
    MESSAGE_COST,
    PROPERTY_COST,
    STEP_COST,
    FilterBudget,
    Unjudged,
)
from rocketmq_py.protocol.properties import encode_properties

ENTRY: Entry = (7, 100, 0)
STORED = encode_properties({"a": "x" * 100, "b": "y"})
READ_COST = MESSAGE_COST + len(STORED) + 3 * PROPERTY_COST
"""Of the message; what stands behind the last separator counts, too."""


class Log:
    """A log of one message."""

    def __init__(self, stored: bytes = STORED) -> None:
        self.stored = stored

    def properties(self, offset: int) -> bytes | None:
        return self.stored if offset == ENTRY[0] else None


class Looking:
    """A filter that looks at one property so often; it wants everything that has it."""

    codes: ClassVar[None] = None
    reads_properties: ClassVar[bool] = True

    def __init__(self, name: str, times: int = 1, steps: int = 0) -> None:
        self.name = name
        self.times = times
        self.steps = steps
        self.asked = 0

    def accepts(self, _entry: Entry, properties: Mapping[str, str] | None) -> bool:
        assert properties is not None
        self.asked += 1
        return [properties.get(self.name) for _ in range(self.times)][-1] is not None


def ask(
    filter_budget: FilterBudget, wanted: Looking, entry: Entry = ENTRY, stored: bytes = STORED
) -> bool:
    return filter_budget.is_wanted(wanted, entry, Log(stored))  # type: ignore[arg-type]


def test_what_is_looked_at_is_taken_from_the_room() -> None:
    filter_budget = FilterBudget(most=10_000)
    filter_budget.begin()
    assert ask(filter_budget, Looking("a", 3))
    assert filter_budget.left == 10_000 - READ_COST - 3 * (LOOK_COST + 100)
    left = filter_budget.left
    assert not ask(filter_budget, Looking("missing"))
    assert filter_budget.left == left - READ_COST - LOOK_COST
    left = filter_budget.left
    assert ask(filter_budget, Looking("b", steps=50))
    assert filter_budget.left == left - READ_COST - 50 * STEP_COST - LOOK_COST - 1


@pytest.mark.parametrize("item", [b"\x02", b"a\x01b\x02", b"a\x02"])
def test_properties_count_as_often_as_they_are_stored_though_few_are_read(item: bytes) -> None:
    filter_budget, wanted = FilterBudget(most=50_000), Looking("a")
    filter_budget.begin()
    ask(filter_budget, wanted, stored=item * 1000)
    assert 50_000 - filter_budget.left > 1000 * (PROPERTY_COST + len(item))
    with pytest.raises(Unjudged) as caught:
        ask(filter_budget, wanted, stored=item * 1000)
    assert wanted.asked == 1
    assert caught.value.judge() is (item == b"a\x01b\x02")


def test_a_filter_for_whose_steps_there_is_no_room_is_not_asked_at_all() -> None:
    filter_budget, wanted = FilterBudget(most=10_000), Looking("a", steps=10_000 // STEP_COST)
    filter_budget.begin()
    with pytest.raises(Unjudged):
        ask(filter_budget, wanted)
    assert wanted.asked == 0


def test_a_message_without_room_is_handed_out_with_what_its_filter_needs() -> None:
    filter_budget, wanted = FilterBudget(most=1000), Looking("a", 10)
    filter_budget.begin()
    with pytest.raises(Unjudged) as caught:
        ask(filter_budget, wanted)
    one = caught.value
    assert (one.entry, wanted.asked) == (ENTRY, 1)
    assert one.judge()
    assert wanted.asked == 2
    with filter_budget.knowing(ENTRY, accepts=True):
        assert ask(filter_budget, wanted)
    with filter_budget.knowing(ENTRY, accepts=False):
        assert not ask(filter_budget, wanted)


def test_the_room_is_that_of_an_entry_and_who_reads_again_gets_no_more() -> None:
    number, over = [1], []
    filter_budget = FilterBudget(lambda: number[0], lambda: over.append(number[0]), most=2200)
    filter_budget.begin()
    ask(filter_budget, Looking("b"))
    assert (filter_budget.is_over, over) == (False, [])
    filter_budget.begin()
    ask(filter_budget, Looking("b", 5))
    assert (filter_budget.is_over, over) == (True, [1])
    number[0] = 2
    assert not filter_budget.is_over
    filter_budget.begin()
    assert filter_budget.left == 2200


def test_a_record_that_is_gone_is_not_wanted_and_costs_nothing() -> None:
    filter_budget = FilterBudget(most=1000)
    filter_budget.begin()
    assert not ask(filter_budget, Looking("a"), (8, 100, 0))
    assert filter_budget.left == 1000
