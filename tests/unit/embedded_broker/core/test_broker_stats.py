"""How much figures have grown in the last minute, hour and day."""

from __future__ import annotations

import pytest
from attrs import define, field

from embedded_broker.core.broker_stats import BrokerStats, Figure, Growth
from embedded_broker.core.refusals import Refused

PUT: Figure = ("TOPIC_PUT_NUMS", "T")


@define
class Broker:
    """Totals and a clock."""

    totals: dict[Figure, int] = field(factory=dict)
    now_ms: int = 1_000_000
    figures: BrokerStats = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.figures = BrokerStats(lambda: dict(self.totals), lambda: self.now_ms)

    def go_on(self, seconds: int) -> None:
        for _ in range(seconds // 10):
            self.now_ms += 10_000
            self.figures.look()


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_what_came_is_told_after_the_next_look(broker: Broker) -> None:
    broker.totals[PUT] = 30
    assert broker.figures.view(*PUT) == (Growth(), Growth(), Growth())
    broker.go_on(10)
    minute, hour, day = broker.figures.view(*PUT)
    assert (minute, hour, day) == (Growth(30, 3.0), Growth(), Growth())
    assert broker.figures.per_second(*PUT) == 3.0


def test_each_window_forgets_what_is_older(broker: Broker) -> None:
    broker.totals[PUT] = 60
    broker.go_on(60)
    assert broker.figures.view(*PUT)[0] == Growth(60, 1.0)
    broker.go_on(10)
    assert broker.figures.view(*PUT)[0] == Growth(0, 0.0)
    broker.go_on(3600 - 70)
    assert broker.figures.view(*PUT)[1:] == (Growth(60, 60 / 3600), Growth(60, 60 / 3600))
    broker.go_on(600)
    assert broker.figures.view(*PUT)[1:] == (Growth(0, 0.0), Growth(60, 60 / 3600))
    broker.go_on(24 * 3600)
    assert broker.figures.view(*PUT)[2] == Growth(0, 0.0)


def test_what_began_late_is_told_from_its_begin_on(broker: Broker) -> None:
    broker.go_on(30)
    broker.totals[PUT] = 20
    broker.go_on(20)
    assert broker.figures.view(*PUT)[0] == Growth(20, 1.0)


def test_a_figure_that_is_not_there_is_refused(broker: Broker) -> None:
    with pytest.raises(Refused, match="The stats <NO> <T> not exist"):
        broker.figures.view("NO", "T")
