"""What a lite pull consumer is made of; what it does is in tests/sdk."""

from __future__ import annotations

import pytest

from rocketmq_py.consumer.assembly import Basis, lite_pull_member
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.hooks import Hooks
from rocketmq_py.consumer.settings import LitePullConsumerConfig
from rocketmq_py.consumer.subscriptions import SubscriptionTable
from rocketmq_py.errors import ConfigError
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import FakeClock, FakeEngine, message


def refusals(settings: LitePullConsumerConfig, lane: Lane) -> list[str]:
    """Say why a consumer with these settings does not fetch more of a lane."""
    clock = FakeClock()
    basis = Basis("G", FakeEngine(), settings, SubscriptionTable(clock), clock, Hooks())
    gates = lite_pull_member(basis, None).parts.gates(lambda: 1)
    return [told for gate in gates if (told := gate(lane)) is not None]


def test_messages_too_far_apart_in_a_queue_pause_its_pulls() -> None:
    lane = Lane(MessageQueue("T", "broker-a", 0), 5, fetched_at=0.0)
    settings = LitePullConsumerConfig()
    lane.put([message(5), message(2005)])
    assert refusals(settings, lane) == []
    settings.consume_max_span = 1999
    assert refusals(settings, lane) == [
        "unfinished offsets are 2000 apart, consume_max_span 1999",
    ]
    settings.consume_max_span = 2000
    lane.put([message(2006)])
    assert len(refusals(settings, lane)) == 1


@pytest.mark.parametrize("bad", [0, 65_536, True, "3"])
def test_the_span_has_bounds(bad: object) -> None:
    with pytest.raises(ConfigError, match="consume_max_span"):
        LitePullConsumerConfig(consume_max_span=bad)  # type: ignore[arg-type] # the mistake
