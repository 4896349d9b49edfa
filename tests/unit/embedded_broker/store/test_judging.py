"""The room that filters have in one hold of the door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from embedded_broker.store.consume_queue import Entry
from embedded_broker.store.judging import LOOK_COST, MESSAGE_COST, Judging, Unjudged

ENTRY: Entry = (7, 100, 0)


class Log:
    """A log of one message."""

    def properties(self, offset: int) -> dict[str, str] | None:
        return {"a": "x" * 100, "b": "y"} if offset == ENTRY[0] else None


class Looking:
    """A filter that looks at one property so often; it wants everything that has it."""

    codes: ClassVar[None] = None
    reads_properties: ClassVar[bool] = True

    def __init__(self, name: str, times: int = 1) -> None:
        self.name = name
        self.times = times

    def accepts(self, _entry: Entry, properties: Mapping[str, str] | None) -> bool:
        assert properties is not None
        return [properties.get(self.name) for _ in range(self.times)][-1] is not None


def ask(judging: Judging, wanted: Looking, entry: Entry = ENTRY) -> bool:
    return judging.is_wanted(wanted, entry, Log())  # type: ignore[arg-type]


def test_what_is_looked_at_is_taken_from_the_room() -> None:
    judging = Judging(most=10_000)
    judging.begin()
    assert ask(judging, Looking("a", 3))
    assert judging.left == 10_000 - MESSAGE_COST - 3 * (LOOK_COST + 100)
    left = judging.left
    assert not ask(judging, Looking("missing"))
    assert judging.left == left - MESSAGE_COST - LOOK_COST


def test_a_message_without_room_is_handed_out_with_what_its_filter_needs() -> None:
    judging, wanted = Judging(most=1000), Looking("a", 10)
    judging.begin()
    with pytest.raises(Unjudged) as caught:
        ask(judging, wanted)
    one = caught.value
    assert (one.wanted, one.entry, one.properties["b"]) == (wanted, ENTRY, "y")
    with judging.knowing(ENTRY, accepts=True):
        assert ask(judging, wanted)
    with judging.knowing(ENTRY, accepts=False):
        assert not ask(judging, wanted)


def test_the_room_is_that_of_an_entry_and_who_reads_again_gets_no_more() -> None:
    number, over = [1], []
    judging = Judging(lambda: number[0], lambda: over.append(number[0]), most=1500)
    judging.begin()
    ask(judging, Looking("b"))
    assert (judging.is_over, over) == (False, [])
    judging.begin()
    ask(judging, Looking("b", 10))
    assert (judging.is_over, over) == (True, [1])
    number[0] = 2
    assert not judging.is_over
    judging.begin()
    assert judging.left == 1500


def test_a_record_that_is_gone_is_not_wanted_and_costs_nothing() -> None:
    judging = Judging(most=1000)
    judging.begin()
    assert not ask(judging, Looking("a"), (8, 100, 0))
    assert judging.left == 1000
