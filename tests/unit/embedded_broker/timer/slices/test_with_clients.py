"""A broker with the sliced engine, under the SDK's own clients."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
)

GUARD_S = 30.0


class Listener:
    """Fails as often as it is told; keeps what it got and for the how manieth time."""

    def __init__(self, failures: int = 0) -> None:
        self.left = failures
        self.seen: list[tuple[bytes, int]] = []
        self.wanted = 0

    def __call__(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        self.seen += [(message.body, message.reconsume_times) for message in messages]
        if self.left:
            self.left -= 1
            return ConsumeConcurrentlyStatus.RECONSUME_LATER
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def consumer_of(broker: EmbeddedBroker, listener: Listener) -> DefaultMQPushConsumer:
    consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("T", "*")
    consumer.register_message_listener(listener)
    return consumer


@pytest.mark.parametrize("levels", ["on", "off"])
def test_timers_levels_and_recalls_work_as_with_the_wheel(levels: str) -> None:
    clock = VirtualClock()
    with (
        EmbeddedBroker(
            clock=clock,
            topics=["T"],
            engine="sliced",
            levels="on" if levels == "on" else "off",
            config={"timerMaxDelaySec": 3_456_000},
        ) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        producer.send(Message("T", b"month", delay=timedelta(days=30)))
        producer.send(Message("T", b"level").set_delay_time_level(3))
        gone = producer.send(Message("T", b"gone", delay=timedelta(hours=2)))
        assert gone.recall_handle is not None
        assert producer.recall_message("T", gone.recall_handle) == gone.msg_id
        assert broker.timers.count() == 2
        assert [one.topic for one in broker.timers.pending(topic="T")] == ["T", "T"]
        clock.advance(11)
        assert broker.topics["T"].count() == 1
        clock.advance(days=30)
        assert [one.body for one in broker.messages.in_topic("T")] == [b"level", b"month"]
        assert broker.timers.count() == 0


def test_a_failed_message_comes_again_by_the_level_table_without_delay_levels() -> None:
    clock = VirtualClock()
    listener = Listener(failures=2)
    with (
        EmbeddedBroker(clock=clock, topics=["T"], engine="sliced", levels="off") as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        consumer_of(broker, listener),
    ):
        producer.send(Message("T", b"x"))
        for tries, seconds in ((1, 10), (2, 30)):
            broker.wait_for(lambda b: b.timers.count() == 1, timeout=GUARD_S)
            clock.advance(seconds - 1)
            assert len(listener.seen) == tries
            clock.advance(2)
            listener.wanted = tries + 1
            broker.wait_for(lambda _: len(listener.seen) >= listener.wanted, timeout=GUARD_S)
    assert listener.seen == [(b"x", 0), (b"x", 1), (b"x", 2)]


def test_a_crash_loses_no_timer_and_repeats_none(tmp_path: Path) -> None:
    clock = VirtualClock()
    with EmbeddedBroker(
        tcp=False, clock=clock, store=tmp_path, topics=["T"], engine="sliced"
    ) as broker:
        for number in range(30):
            broker.send("T", b"%d" % number, delay=number * 100 + 1)
        clock.advance(1000)
        broker.crash()
        report = broker.restart()
        assert report.timers_pending == 20
        clock.advance(3000)
        bodies = [one.body for one in broker.messages.in_topic("T")]
    assert bodies == [b"%d" % number for number in range(30)]


def test_a_snapshot_and_a_reset_take_the_slices_with_them(tmp_path: Path) -> None:
    clock = VirtualClock()
    with EmbeddedBroker(tcp=False, clock=clock, topics=["T"], engine="sliced") as broker:
        broker.send("T", b"x", delay=5000)
        broker.snapshot(tmp_path / "copy")
        broker.send("T", b"y", delay=6000)
        broker.reset()
        assert broker.timers.count() == 0
        clock.advance(10_000)
    later = VirtualClock()
    with EmbeddedBroker(tcp=False, clock=later, store=tmp_path / "copy", engine="sliced") as copied:
        assert copied.timers.count() == 1
        later.advance(10_000)
        assert [one.body for one in copied.messages.in_topic("T")] == [b"x"]
