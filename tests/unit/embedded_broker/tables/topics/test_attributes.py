"""The `+key=value,-key` language of request 17."""

from __future__ import annotations

import pytest

from embedded_broker.tables.topics.attributes import (
    TopicAttributeError,
    apply_attributes,
    parse_attributes,
)


def test_signs_say_what_to_do() -> None:
    assert parse_attributes("+message.type=FIFO,-queue.type") == {
        "+message.type": "FIFO",
        "-queue.type": "",
    }
    assert parse_attributes("") == parse_attributes(None) == {}


@pytest.mark.parametrize(
    "text", ["message.type=FIFO", "+message.type", "+=x", "-", "+a=1,-a", "+a+b=1", ",", "+a-b=1"]
)
def test_texts_that_say_nothing_clear_are_refused(text: str) -> None:
    with pytest.raises(TopicAttributeError):
        parse_attributes(text)


def test_attributes_are_set_changed_and_removed() -> None:
    created = apply_attributes(None, {"+message.type": "FIFO", "+queue.type": "SimpleCQ"})
    assert created == {"message.type": "FIFO", "queue.type": "SimpleCQ"}
    changed = apply_attributes(created, {"+message.type": "DELAY"})
    assert changed == {"message.type": "DELAY", "queue.type": "SimpleCQ"}
    assert apply_attributes(changed, {"-message.type": ""}) == {"queue.type": "SimpleCQ"}


@pytest.mark.parametrize(
    ("current", "changes", "named"),
    [
        (None, {"+colour": "red"}, "colour"),
        (None, {"+message.type": "Delay"}, "Delay"),
        (None, {"+cleanup.policy": "COMPACTION"}, "not supported here"),
        ({"queue.type": "SimpleCQ"}, {"+queue.type": "SimpleCQ"}, "fixed"),
        (None, {"-message.type": ""}, "not set"),
        ({}, {"-message.type": ""}, "not set"),
    ],
)
def test_what_cannot_be_applied_is_named(
    current: dict[str, str] | None, changes: dict[str, str], named: str
) -> None:
    with pytest.raises(TopicAttributeError, match=named):
        apply_attributes(current, changes)
