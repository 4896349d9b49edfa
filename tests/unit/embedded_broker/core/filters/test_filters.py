"""How a subscription becomes a filter."""

from __future__ import annotations

import pytest

from embedded_broker.core import filters as module
from embedded_broker.core.filters import Filter, Filters, TagFilter
from embedded_broker.core.refusals import Reason, Refused


def test_an_unknown_type_of_expression_is_refused_by_name() -> None:
    for ask in (Filters().of, Filters().check):
        with pytest.raises(
            Refused, match="LUA is no type of expression: TAG and SQL92 are"
        ) as caught:
            ask("LUA", "a > 5")
        assert caught.value.reason is Reason.SUBSCRIPTION_PARSE_FAILED


def test_a_missing_expression_type_means_tags() -> None:
    filters = Filters()
    assert filters.of(None, "a") == filters.of("", "a") == filters.of("TAG", "a") != None  # noqa: E711


def test_a_tag_expression_of_separators_only_is_refused() -> None:
    with pytest.raises(Refused, match="names no tag") as caught:
        Filters().of("TAG", "||")
    assert caught.value.reason is Reason.SUBSCRIPTION_PARSE_FAILED


def test_filters_of_another_type_come_from_its_maker_and_are_made_once() -> None:
    made: list[str] = []

    def maker(expression: str, codes: frozenset[int]) -> Filter | None:
        made.append(expression)
        return TagFilter(codes)

    filters = Filters()
    filters.makers["MINE"] = maker
    found = [filters.made("MINE", "x", frozenset({3})) for _ in range(2)]
    assert found == [TagFilter(frozenset({3}))] * 2
    assert made == ["x"]


def test_only_so_many_filters_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT_MAX", 2)
    filters = Filters()
    for tag in "abc":
        filters.of("TAG", tag)
    assert list(filters._made) == [("TAG", "c", frozenset())]
