"""How the fixtures go forward, wait and look in on an embedded broker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec, VirtualClock
from embedded_broker.errors import WaitTimeoutError
from embedded_broker.kit import fixture_broker as bench_module
from embedded_broker.kit.fixture_broker import EmbeddedFixtureBroker
from rocketmq_py.errors import ConfigError

HOUR = timedelta(hours=1)


@pytest.fixture
def bench() -> Iterator[EmbeddedFixtureBroker]:
    with EmbeddedBroker(tcp=False, topics=["T"], clock=VirtualClock()) as broker:
        yield EmbeddedFixtureBroker(broker)


def test_it_goes_forward_until_a_condition_holds_and_no_further(
    bench: EmbeddedFixtureBroker,
) -> None:
    began = bench.now()
    bench.broker.send("T", b"x", delay=HOUR / 2)
    assert bench.until(lambda: bench.stored("T"), HOUR).ok
    assert bench.now() == began + HOUR / 2
    assert not bench.until(lambda: False, HOUR).ok
    assert bench.now() == began + HOUR * 1.5


def test_on_a_wall_clock_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_module, "LATENCY_S", 0.05)
    with EmbeddedBroker(tcp=False, topics=["T"]) as broker:
        bench = EmbeddedFixtureBroker(broker)
        assert not bench.is_virtual
        broker.send("T", b"x", delay=0.02)
        assert bench.until(lambda: bench.stored("T"), timedelta(seconds=30)).ok
        assert not bench.until(lambda: False, timedelta(0), grace_s=0).ok
        with pytest.raises(WaitTimeoutError, match="for godot"):
            bench.wait(lambda: False, "godot")


def test_what_waits_and_what_came_is_found_on_all_brokers() -> None:
    with EmbeddedCluster(brokers=2, tcp=False, clock=VirtualClock()) as cluster:
        bench = EmbeddedFixtureBroker(cluster.brokers[0], cluster=cluster)
        bench.create_topic(TopicSpec("T", queues=1))
        bench.create_topic(TopicSpec("T", queues=1))
        for number, broker in enumerate(cluster.brokers):
            assert broker.topics["T"].queues == 1
            broker.send("T", b"now")
            broker.send("T", b"later", delay=2 - number)
        assert [one.body for one in bench.stored("T")] == [b"now", b"now"]
        waiting = bench.waiting("T")
        assert waiting is not None
        first, second = waiting
        assert first.topic == second.topic == "T"
        assert first.due_at < second.due_at
        assert (bench.waiting("nowhere"), bench.stored("nowhere")) == ([], [])
        assert bench.dead_letters("G") == []
        cluster.stop("broker-b")
        assert len(bench.running) == len(bench.stored("T")) == 1


def test_in_strict_mode_a_topic_must_exist(bench: EmbeddedFixtureBroker) -> None:
    bench.ready_topic("New")
    assert bench.topic_names() == ["New", "T"]
    bench.strict = True
    bench.ready_topic("New")
    with pytest.raises(ConfigError, match="did you mean 'New'"):
        bench.ready_topic("Nwe")


@pytest.mark.parametrize("topic", ["%DLQ%billing", "%RETRY%billing", "%RETRY%billing_T"])
def test_topics_of_a_group_are_made_as_a_broker_makes_them(
    bench: EmbeddedFixtureBroker, topic: str
) -> None:
    bench.strict = True
    bench.ready_topic(topic)
    assert bench.broker.topics[topic].queues == 1
    bench.ready_topic(topic)
    bench.ready_topic("SCHEDULE_TOPIC_XXXX")
    assert bench.topic_names() == sorted(["T", topic])


def test_a_paused_broker_is_let_go_on_so_that_clients_can_end(bench: EmbeddedFixtureBroker) -> None:
    bench.broker.pause()
    assert not bench.broker.clock.settle(0, check=False).ok
    bench.calm()
    assert bench.broker.clock.settle(0, check=False).ok
    bench.broker.close()
    bench.calm()
