"""What the marks of a test add up to, and the seeds of a run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from embedded_broker import TopicSpec
from embedded_broker.kit.backend import Ability, BackendSpec
from embedded_broker.kit.mark_options import BEGINNING, RunOptions, mark_options_of
from rocketmq_py.errors import ConfigError


def of(*marks: Mapping[str, object]) -> object:
    return mark_options_of(((), mark) for mark in marks)


def test_no_mark_asks_for_nothing() -> None:
    mark_options = mark_options_of([])
    assert mark_options.settings == {}
    assert (mark_options.topics, mark_options.needs, mark_options.start) == ((), (), BEGINNING)


def test_the_nearest_mark_decides_and_lists_add_up() -> None:
    start = datetime(2040, 1, 1, tzinfo=UTC)
    mark_options = mark_options_of(
        [
            ((), {"topics": ["A"], "config": {"x": 1}, "start": start, "timers": True}),
            ((), {"topics": ["B", "A"], "config": {"x": 2, "y": 3}, "profile": "rocketmq-4.9"}),
        ]
    )
    assert mark_options.topics == (TopicSpec("A"), TopicSpec("B"))
    assert mark_options.config == {"x": 1, "y": 3}
    assert mark_options.needs == (Ability.TIMERS,)
    assert mark_options.settings == {
        "profile": "rocketmq-4.9",
        "config": {"x": 1, "y": 3},
        "start": start,
    }


def test_topics_may_be_specs_and_an_ability_may_be_switched_off() -> None:
    mark_options = mark_options_of(
        [((), {"topics": [TopicSpec("A", queues=1)], "virtual_clock": False})]
    )
    assert mark_options.topics == (TopicSpec("A", queues=1),)
    assert mark_options.wall_clock
    assert mark_options.needs == ()
    assert mark_options.settings == {"virtual_clock": False}


def test_topics_may_say_how_many_queues_they_have_and_the_nearest_mark_decides() -> None:
    mark_options = mark_options_of(
        [((), {"topics": {"A": 6}}), ((), {"topics": ["A", "B"]}), ((), {"topics": {"B": 2}})]
    )
    assert mark_options.topics == (TopicSpec("A", queues=6), TopicSpec("B"))


def test_a_nearer_mark_may_take_back_what_another_needs() -> None:
    mark_options = mark_options_of(
        [((), {"faults": False, "strict": False}), ((), {"faults": True})]
    )
    assert mark_options.needs == ()
    assert mark_options.settings == {"strict": False}


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ({"tpoics": ["A"]}, "did you mean topics"),
        ({"clock": None}, "one of topics, config"),
        ({"topics": 3}, "a list of names"),
        ({"topics": "A"}, r"such as \['A'\]"),
        ({"topics": [1]}, "a list of names, or of TopicSpec"),
        ({"topics": [["A"]]}, "a list of names, or of TopicSpec"),
        ({"brokers": "two"}, "a number from 1"),
        ({"brokers": 0}, "a number from 1"),
        ({"strict": "yes"}, "True or False"),
        ({"timers": 1}, "True or False"),
        ({"config": "x=1"}, "a dict of options"),
        ({"start": "2030-01-01"}, "an aware datetime"),
    ],
)
def test_what_no_mark_can_ask_for_is_refused(mark: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        of(mark)


def test_the_seed_of_a_test_depends_on_run_and_test_alone() -> None:
    one, other = (RunOptions(backend=BackendSpec("embedded"), seed=seed) for seed in (1, 2))
    assert one.seed_of("a") == one.seed_of("a")
    assert len({one.seed_of("a"), one.seed_of("b"), other.seed_of("a")}) == 3
