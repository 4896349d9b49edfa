from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.consumer.dispatch import pacing
from rocketmq_py.consumer.dispatch.pacing import Pace
from rocketmq_py.errors import ConfigError


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    instant = [100.0]
    monkeypatch.setattr(pacing, "monotonic", lambda: instant[0])
    return instant


def test_messages_of_a_topic_are_spread_evenly_and_others_have_no_limit(now: list[float]) -> None:
    pace = Pace()
    assert not pace
    pace.limit("T", 4)
    assert pace
    assert [pace.wait_s("T", 1) for _ in range(3)] == [0.0, 0.25, 0.5]
    assert pace.wait_s("U", 9) == 0.0
    now[0] += 0.5
    assert pace.wait_s("T", 2) == 0.25  # a batch takes room for each of its messages
    assert pace.wait_s("T", 1) == 0.75


def test_time_that_nobody_used_is_not_saved_up(now: list[float]) -> None:
    pace = Pace()
    pace.limit("T", 1)
    assert pace.wait_s("T", 1) == 0.0
    now[0] += 60
    assert [pace.wait_s("T", 1) for _ in range(2)] == [0.0, 1.0]


@pytest.mark.usefixtures("now")
def test_a_rate_can_be_changed_and_taken_away() -> None:
    pace = Pace()
    pace.limit("T", 1)
    assert [pace.wait_s("T", 1) for _ in range(2)] == [0.0, 1.0]
    pace.limit("T", 8)
    assert [pace.wait_s("T", 1) for _ in range(2)] == [0.0, 0.125]
    pace.limit("T", None)
    assert pace.wait_s("T", 1) == 0.0
    assert not pace


@pytest.mark.parametrize("wrong", [0, -1, True, "5", float("inf"), float("nan"), 0.0001], ids=str)
def test_what_is_no_rate_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"at least 0\.001"):
        Pace().limit("T", wrong)
