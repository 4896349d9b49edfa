"""Totals count from the start, rates over windows that are full."""

from __future__ import annotations

from attrs import define

from embedded_broker.core.statistics import SAMPLE_EVERY_MS, Totals, Traffic


@define
class Broker:
    """Numbers and clocks that a test moves."""

    put: int = 100
    now_ms: int = 1_000
    day: int = 5

    def traffic(self) -> Traffic:
        made = Traffic(lambda: Totals(put=self.put), lambda: self.now_ms, lambda: self.day)
        made.start()
        return made


def test_totals_count_from_the_start_and_never_fall_below_zero() -> None:
    broker = Broker()
    traffic = broker.traffic()
    broker.put += 7
    assert traffic.totals().put == 7
    assert traffic.present().put == 107
    broker.put = 3  # a topic was deleted
    assert traffic.totals().put == 0


def test_a_rate_is_zero_until_its_window_is_full() -> None:
    broker = Broker()
    traffic = broker.traffic()
    broker.put += 50
    broker.now_ms += 9_999
    assert traffic.rates("put") == (0.0, 0.0, 0.0)
    broker.now_ms += 1
    assert traffic.rates("put") == (5.0, 0.0, 0.0)


def test_each_window_looks_back_as_far_as_its_name_says() -> None:
    broker = Broker()
    traffic = broker.traffic()
    for _ in range(90):  # a quarter of an hour, 1 message a second, the last minute 3
        broker.now_ms += SAMPLE_EVERY_MS
        broker.put += 30 if broker.now_ms > 1_000 + 84 * SAMPLE_EVERY_MS else 10
        traffic.sample()
    ten_s, minute, ten_minutes = traffic.rates("put")
    assert (ten_s, minute) == (3.0, 3.0)
    assert ten_minutes == (6 * 30 + 54 * 10) / 600


def test_pulls_are_counted_by_what_they_brought() -> None:
    traffic = Broker().traffic()
    for messages in (0, 3, 0, 2):
        traffic.note_pull(messages)
    assert (traffic.found, traffic.missed, traffic.given) == (2, 2, 5)


def test_the_totals_of_the_last_two_mornings_are_kept() -> None:
    broker = Broker()
    traffic = broker.traffic()
    for day in (5, 6, 7):
        broker.day = day
        broker.put += 10
        traffic.sample()
    assert (traffic.yesterday_morning.put, traffic.this_morning.put) == (20, 30)
