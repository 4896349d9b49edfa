"""Tag expressions as filters."""

from __future__ import annotations

import pytest

from embedded_broker.core.filters.tags import NO_TAG, TagFilter, tag_filter
from rocketmq_py.errors import BodyError


def test_tag_codes_come_from_the_client_or_are_computed() -> None:
    assert tag_filter("*", frozenset()) is None
    assert tag_filter("", frozenset()) is None
    assert tag_filter("TagA", frozenset()) == TagFilter(frozenset({2598919}))
    assert tag_filter("TagA", frozenset({7})) == TagFilter(frozenset({7}))


def test_an_expression_without_any_tag_is_an_error() -> None:
    with pytest.raises(BodyError, match="names no tag"):
        tag_filter("||", frozenset())


def test_the_entry_alone_tells_whether_a_message_is_wanted() -> None:
    wanted = TagFilter(frozenset({7}))
    assert [wanted.accepts((0, 100, code), None) for code in (7, 8)] == [True, False]
    assert not wanted.reads_properties
    assert not NO_TAG.accepts((0, 100, 7), None)
