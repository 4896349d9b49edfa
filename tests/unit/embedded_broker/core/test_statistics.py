"""Totals count from the start, rates over windows that are full."""

from __future__ import annotations

from attrs import define

from embedded_broker.core.statistics import (
    SAMPLE_EVERY_MS,
    Distribution,
    Histogram,
    Metric,
    MetricKind,
    Registry,
    Statistics,
    Totals,
)


@define
class Broker:
    """Numbers and clocks that a test moves."""

    put: int = 100
    now_ms: int = 1_000
    day: int = 5

    def traffic(self) -> Statistics:
        made = Statistics(lambda: Totals(put=self.put), lambda: self.now_ms, lambda: self.day)
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
        traffic.note_pull("g", "T", messages, 10 * messages)
    assert (traffic.found, traffic.missed, traffic.given) == (2, 2, 5)


def test_the_totals_of_the_last_two_mornings_are_kept() -> None:
    broker = Broker()
    traffic = broker.traffic()
    for day in (5, 6, 7):
        broker.day = day
        broker.put += 10
        traffic.sample()
    assert (traffic.yesterday_morning.put, traffic.this_morning.put) == (20, 30)


def test_what_pulls_brought_is_counted_by_topic_and_group() -> None:
    traffic = Broker().traffic()
    traffic.note_pull("g", "T", 3, 300)
    traffic.note_pull("g", "T", 2, 200)
    traffic.note_pull("h", "T", 0, 0)
    found = {metric.name: values for metric, values in traffic.registry.collect()}
    assert found == {
        "rocketmq_messages_out_total": {("T", "g"): 5},
        "rocketmq_throughput_out_total": {("T", "g"): 500},
    }


def test_a_histogram_sorts_values_by_bounds_that_belong_to_their_bucket() -> None:
    histogram = Histogram((1, 10))
    for value in (0.5, 1, 2, 10, 11, 1000):
        histogram.observe(value, "T")
    assert histogram.values == {("T",): Distribution([2, 2, 2], 1024.5)}


def test_a_registry_reads_what_it_is_told_to_when_it_is_asked() -> None:
    registry, number = Registry(), [1]
    registry.add(Metric("a", MetricKind.GAUGE, "A number."), lambda: number[0])
    counted = registry.counter("b", "Counted.", "topic")
    number[0] = 7
    counted["T",] += 2
    assert list(registry.collect()) == [
        (Metric("a", MetricKind.GAUGE, "A number."), {(): 7}),
        (Metric("b", MetricKind.COUNTER, "Counted.", ("topic",)), {("T",): 2}),
    ]
