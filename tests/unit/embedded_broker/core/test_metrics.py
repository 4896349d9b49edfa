"""What a broker's metrics say of it, under RocketMQ's names."""

from __future__ import annotations

from embedded_broker import EmbeddedBroker
from embedded_broker.core.statistics import Histogram, MetricKind
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.embedded_broker.core.transactions.prepared import COMMIT, end, send_half
from tests.unit.embedded_broker.wire_peer import WirePeer, consumer


def numbers(broker: EmbeddedBroker) -> dict[str, dict[tuple[str, ...], float]]:
    """Give every metric that is no histogram, by its name without the prefix."""
    parts = broker._parts()
    with parts.door:
        found = {
            metric.name.removeprefix("rocketmq_"): dict(values)
            for metric, values in parts.consume._statistics.registry.collect()
            if not isinstance(values, Histogram)
        }
        for metric, values in parts.consume._statistics.registry.collect():
            assert metric.name.startswith("rocketmq_")
            assert metric.kind is MetricKind.HISTOGRAM or not isinstance(values, Histogram)
            if not isinstance(values, Histogram):
                assert all(len(labels) == len(metric.labels) for labels in values)
        return found


def test_what_goes_in_and_out_is_told_by_topic_and_group(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.create_topic("T", queues=2)
    for queue in ("0", "1", "1"):
        peer.send("T", e=queue)
    peer.pull("T", queueId="1", consumerGroup="g")
    found = numbers(broker)
    assert found["messages_in_total"] == {("T",): 3}
    assert found["messages_out_total"] == {("T", "g"): 2}
    assert found["throughput_in_total"][()] > found["throughput_out_total"]["T", "g"] > 0
    assert found["storage_size"] == found["throughput_in_total"]


def test_how_far_groups_are_and_who_is_connected(broker: EmbeddedBroker, peer: WirePeer) -> None:
    peer.create_topic("T")
    for _ in range(5):
        peer.send("T")
    peer.heartbeat("c1", consumer("g", {"T": "*"}), producers=["P", "Q"])
    peer.pull("T", maxMsgNums="3", consumerGroup="g")
    commit = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}
    peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    found = numbers(broker)
    key, retries = ("g", "T", "false"), ("g", "%RETRY%g", "true")
    assert found["consumer_lag_messages"] == {key: 4, retries: 0}
    assert found["consumer_ready_messages"] == {key: 2, retries: 0}
    assert found["consumer_inflight_messages"] == {key: 2, retries: 0}
    assert found["consumer_connections"] == {("g", "JAVA"): 1}
    assert found["producer_connections"] == {("JAVA",): 1}
    assert found["broker_permission"] == {(): 6}


def test_timers_and_the_age_of_what_is_stored(broker: EmbeddedBroker, peer: WirePeer) -> None:
    peer.create_topic("T")
    for seconds in ("60", "10"):
        peer.send("T", properties={"TIMER_DELAY_SEC": seconds})
    broker.clock.advance(20)
    found = numbers(broker)
    assert found["timing_messages"] == {("T",): 1}
    assert found["timer_enqueue_total"] == {(): 2}
    assert found["timer_dequeue_total"] == found["timer_dequeue_lag"] == {(): 1}
    assert found["timer_enqueue_lag"] == found["storage_dispatch_behind_bytes"] == {(): 0}
    assert found["storage_message_reserve_time"] == {(): 20_000}
    assert found["messages_in_total"] == {("T",): 1}


def test_transactions_that_are_open_and_how_long_they_took(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.create_topic("T")
    first = send_half(peer)
    send_half(peer, unique_key="ID0002")
    broker.clock.advance(5.5)
    assert end(peer, first, COMMIT).code == 0
    assert numbers(broker)["half_messages"] == {(): 1}
    (values,) = broker._parts().transactions.finished.values.values()
    assert (values.counts, values.total) == ([0, 1, 0, 0, 0, 0, 0], 5.5)


def test_dead_letters_are_told_by_group(broker: EmbeddedBroker, peer: WirePeer) -> None:
    peer.create_topic("%DLQ%g")
    peer.send("%DLQ%g")
    assert numbers(broker)["send_to_dlq_messages_total"] == {("g",): 1}


def test_an_empty_broker_has_every_metric(broker: EmbeddedBroker) -> None:
    found = numbers(broker)
    assert len(found) >= 20
    assert found["storage_message_reserve_time"] == found["storage_size"] == {(): 0}
    assert found["topic_number"][()] > 5
