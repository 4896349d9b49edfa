"""How long a broker is avoided."""

from __future__ import annotations

import pytest

from rocketmq_py.producer.fault import BROKERS_MAX, BrokerFaults, FaultTable


class Now:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def faults(now: Now, *, enabled: bool = True, detecting: bool = False) -> BrokerFaults:
    return BrokerFaults(
        enabled=enabled,
        detecting=detecting,
        table=FaultTable.V5,
        detect_interval_ms=2_000,
        now=now,
    )


@pytest.mark.case("T21")
@pytest.mark.parametrize(
    ("latency", "v5", "v4"),
    [
        (0, 0, 0),
        (50, 0, 0),
        (549, 0, 0),
        (550, 2_000, 30_000),
        (600, 2_000, 30_000),
        (1_800, 5_000, 60_000),
        (3_000, 6_000, 180_000),
        (5_000, 10_000, 180_000),
        (20_000, 30_000, 600_000),
    ],
)
def test_the_tables_are_looked_up_from_the_largest_bound(latency: int, v5: int, v4: int) -> None:
    assert FaultTable.V5.unavailable_ms(latency) == v5
    assert FaultTable.V4.unavailable_ms(latency) == v4


def test_isolation_lasts_ten_seconds_or_ten_minutes() -> None:
    assert (FaultTable.V5.isolated_ms, FaultTable.V4.isolated_ms) == (10_000, 600_000)


def test_an_isolated_broker_is_available_again_after_its_time() -> None:
    now = Now()
    book = faults(now)
    book.record("a", 5, isolated=True)
    assert not book.is_available("a")
    now.seconds += 10
    assert book.is_available("a")
    assert book.is_available("never heard of")


def test_nothing_is_recorded_when_it_is_switched_off() -> None:
    book = faults(Now(), enabled=False)
    book.record("a", 99_999, isolated=True, reachable=False)
    assert book.is_available("a")


def test_without_a_detector_every_broker_is_reachable() -> None:
    book = faults(Now())
    book.record("a", 5, isolated=True, reachable=False)
    assert book.is_reachable("a")


def test_the_detector_asks_who_is_due_and_restores_who_answers() -> None:
    now = Now()
    book = faults(now, detecting=True)
    book.record("a", 5, isolated=True, reachable=False)
    book.record("b", 5, isolated=True, reachable=False)
    asked: list[str] = []

    def answers(name: str) -> bool:
        asked.append(name)
        return name == "a"

    book.detect(answers)
    assert asked == []
    now.seconds += 2
    book.detect(answers)
    assert asked == ["a", "b"]
    assert (book.is_reachable("a"), book.is_reachable("b")) == (True, False)


def test_a_broker_that_fails_is_told_once_a_minute_and_once_when_it_takes_messages_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = Now()
    book = faults(now)
    book.record("a", 5)
    for _ in range(70):
        book.record("a", 5, isolated=True)
        now.seconds += 1
    book.record("a", 5)
    book.record("a", 5)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split()[2] for line in lines] == ["is", "is", "takes"]


def test_the_book_does_not_grow_without_bound() -> None:
    book = faults(Now())
    for number in range(BROKERS_MAX + 1):
        book.record(str(number), 5, isolated=True)
    assert book.is_available("0")
    assert not book.is_available(str(BROKERS_MAX))
