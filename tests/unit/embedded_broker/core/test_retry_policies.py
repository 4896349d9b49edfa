from __future__ import annotations

import pytest

from embedded_broker.core.retry_policies import STEPS_MS, Growing, Steps, retry_policy
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig


def test_a_group_that_says_nothing_has_the_usual_steps() -> None:
    policy = retry_policy(SubscriptionGroupConfig("G"))
    assert policy == Steps(STEPS_MS)
    assert [policy.after(tried) for tried in (-1, 0, 1, 100)] == [10_000, 10_000, 30_000, 7_200_000]


def test_a_group_may_have_steps_of_its_own() -> None:
    said = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}}
    policy = retry_policy(SubscriptionGroupConfig("G", group_retry_policy=said))
    assert policy == Steps((1000, 5000))
    assert policy.after(0) == 5000


def test_waits_may_grow() -> None:
    said = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 10, "max": 100}}
    policy = retry_policy(SubscriptionGroupConfig("G", group_retry_policy=said))
    assert policy == Growing(10, 100, 2)
    assert [policy.after(tried) for tried in (0, 1, 2, 3, 4, 10**6)] == [10, 20, 40, 80, 100, 100]


@pytest.mark.parametrize("value", [0, -1, "5", True, None])
def test_what_a_growing_wait_cannot_be_counts_as_not_said(value: object) -> None:
    given = dict.fromkeys(("initial", "max", "multiplier"), value)
    said = {"type": "EXPONENTIAL", "exponentialRetryPolicy": given}
    assert retry_policy(SubscriptionGroupConfig("G", group_retry_policy=said)) == Growing()


@pytest.mark.parametrize(
    "said",
    [
        None,
        {"customizedRetryPolicy": {"next": ["x"]}},
        {"customizedRetryPolicy": {"next": []}},
        {"customizedRetryPolicy": 7},
    ],
)
def test_what_makes_no_sense_counts_as_not_said(said: dict[str, object] | None) -> None:
    assert retry_policy(SubscriptionGroupConfig("G", group_retry_policy=said)) == Steps()
