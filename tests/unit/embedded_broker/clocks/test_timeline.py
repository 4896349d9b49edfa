"""A budget of time under the door."""

from embedded_broker.clocks.timeline import Budget


def test_a_budget_is_exhausted_after_its_time_and_not_before() -> None:
    assert Budget(-1).exhausted()
    assert not Budget(60_000).exhausted()
