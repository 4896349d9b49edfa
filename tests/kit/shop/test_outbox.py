"""An outbox loses nothing: whatever goes wrong on the way, each text is handled, and once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster, Faults, VirtualClock
from embedded_broker.pytest_plugin import Consumers, Recorders, Store
from rocketmq_py import DefaultMQProducer, ResponseCode
from tests.kit.shop.app import Inbox, Outbox

HOUR = timedelta(hours=1)
TEXTS = [f"row {number}" for number in range(5)]


@pytest.fixture
def outbox(rocketmq_producer: DefaultMQProducer, rocketmq_topic: str) -> Outbox:
    box = Outbox(rocketmq_producer, rocketmq_topic)
    for number, text in enumerate(TEXTS):
        box.add(text, delay=number % 2 * HOUR)
    return box


@pytest.fixture
def handled(rocketmq_consumer: Consumers, rocketmq_topic: str, rocketmq_group: str) -> list[str]:
    texts: list[str] = []
    rocketmq_consumer(rocketmq_group, rocketmq_topic, Inbox(texts.append).listen)
    return texts


def test_everything_is_published_in_the_end(
    outbox: Outbox, handled: list[str], rocketmq_clock: VirtualClock
) -> None:
    assert outbox.publish() == 5
    rocketmq_clock.settle()
    assert sorted(handled) == TEXTS[::2]
    rocketmq_clock.run(HOUR)
    assert sorted(handled) == TEXTS


@pytest.mark.parametrize("nth", range(1, 6))
def test_a_crash_between_two_rows_loses_nothing(
    rocketmq_store: Store,
    outbox: Outbox,
    handled: list[str],
    rocketmq_clock: VirtualClock,
    nth: int,
) -> None:
    later = outbox.rows[nth:]
    del outbox.rows[nth:]
    outbox.publish()
    rocketmq_store.reopen(crash=True)
    outbox.rows = later
    outbox.publish()
    rocketmq_clock.run(HOUR)
    assert sorted(handled) == TEXTS


@pytest.mark.parametrize("nth", range(1, 6))
def test_after_a_power_loss_the_outbox_begins_with_the_first_row_that_was_not_synced(
    rocketmq_store: Store,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_topic: str,
    handled: list[str],
    rocketmq_clock: VirtualClock,
    nth: int,
) -> None:
    outbox = Outbox(rocketmq_producer, rocketmq_topic, [(text, HOUR) for text in TEXTS[:nth]])
    outbox.publish()
    report = rocketmq_store.reopen(lose_unsynced=True)
    assert report.timers_lost == nth
    outbox.rows = [(text, HOUR) for text in TEXTS]
    outbox.publish()
    rocketmq_clock.run(HOUR)
    assert sorted(handled) == TEXTS


@pytest.mark.parametrize(
    "nth",
    [
        pytest.param(nth, marks=pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2", nth=nth))
        for nth in range(1, 6)
    ],
)
def test_a_crash_in_the_middle_of_a_send_sends_that_row_twice(
    outbox: Outbox,
    handled: list[str],
    rocketmq_broker: EmbeddedBroker,
    rocketmq_recorder: Recorders,
    rocketmq_topic: str,
    nth: int,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    assert outbox.publish() == 5
    for text in TEXTS:
        arrived.expect(text, within=HOUR)
    arrived.expect(TEXTS[nth - 1], within=HOUR)
    arrived.expect_nothing()
    assert sorted(handled) == TEXTS
    assert not rocketmq_broker.recovery.clean


@pytest.mark.parametrize("nth", range(1, 6))
@pytest.mark.parametrize(
    "code", [ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE], ids=lambda one: one.name
)
def test_a_broker_that_refuses_once_is_asked_again(
    outbox: Outbox,
    handled: list[str],
    rocketmq_faults: Faults,
    rocketmq_clock: VirtualClock,
    nth: int,
    code: ResponseCode,
) -> None:
    rocketmq_faults.on("SEND_MESSAGE_V2", nth=nth).respond(code)
    assert outbox.publish() == 5
    rocketmq_clock.run(HOUR)
    assert sorted(handled) == TEXTS


@pytest.mark.parametrize("nth", range(1, 6))
def test_a_broker_that_refuses_for_long_keeps_the_rest_in_the_outbox(
    outbox: Outbox,
    handled: list[str],
    rocketmq_faults: Faults,
    rocketmq_clock: VirtualClock,
    nth: int,
) -> None:
    with rocketmq_faults.on("SEND_MESSAGE_V2", nth=nth).always().respond("SYSTEM_BUSY"):
        assert outbox.publish() == nth - 1
    assert len(outbox.rows) == 6 - nth
    outbox.publish()
    rocketmq_clock.run(HOUR)
    assert sorted(handled) == TEXTS


@pytest.mark.parametrize("nth", range(1, 6))
def test_an_answer_that_is_lost_makes_a_duplicate_that_is_handled_once(
    outbox: Outbox,
    handled: list[str],
    rocketmq_faults: Faults,
    rocketmq_recorder: Recorders,
    rocketmq_clock: VirtualClock,
    rocketmq_topic: str,
    nth: int,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_faults.on("SEND_MESSAGE_V2", nth=nth).close(after=True)
    assert outbox.publish() == 5
    rocketmq_clock.run(HOUR)
    assert [one.body.decode() for one in arrived.duplicates] == [TEXTS[nth - 1]]
    assert sorted(handled) == TEXTS


@pytest.mark.parametrize("stopped", ["broker-a", "broker-b", "broker-c"])
def test_a_broker_that_leaves_and_comes_back_brings_its_timers(
    rocketmq_cluster: EmbeddedCluster,
    outbox: Outbox,
    handled: list[str],
    rocketmq_clock: VirtualClock,
    stopped: str,
) -> None:
    outbox.publish()
    rocketmq_cluster.stop(stopped)
    rocketmq_cluster.start(stopped)
    rocketmq_clock.run(HOUR)
    rocketmq_cluster.brokers[0].wait_for(lambda _: sorted(handled) == TEXTS)


@pytest.mark.parametrize(
    "delay_s", [0, *(pytest.param(one, marks=pytest.mark.rocketmq(timers=True)) for one in (1, 2))]
)
def test_an_outbox_works_on_every_broker(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    rocketmq_topic: str,
    delay_s: int,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    box = Outbox(rocketmq_producer, rocketmq_topic)
    for text in TEXTS:
        box.add(text, delay=timedelta(seconds=delay_s))
    assert box.publish() == 5
    for text in TEXTS:
        arrived.expect(text, within=timedelta(seconds=delay_s))
    arrived.expect_nothing()


@pytest.mark.parametrize("times", [1, 2, 3])
def test_timers_survive_any_number_of_crashes(
    rocketmq_store: Store,
    outbox: Outbox,
    handled: list[str],
    rocketmq_clock: VirtualClock,
    times: int,
) -> None:
    outbox.publish()
    for number in range(times):
        report = rocketmq_store.reopen(crash=number % 2 == 0)
        assert report.timers_pending == 2
        rocketmq_clock.run(minutes=10)
    rocketmq_clock.run(HOUR)
    assert sorted(handled) == TEXTS
