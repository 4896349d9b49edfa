"""Pops that a program asks for: whose turn it is, and which receipts are remembered.

What a program sees of it stands in ``../test_pop.py``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from embedded_broker import EmbeddedCluster, VirtualClock
from rocketmq_py import (
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultPopConsumer,
    DeliveryEndedError,
    Message,
    RemotingException,
)
from rocketmq_py.consumer.core import receiving
from rocketmq_py.protocol.properties import Prop

PATIENCE_S = 10.0


class Bench:
    """Two brokers, a producer, and a consumer of topic T."""

    def __init__(self, ends: ExitStack) -> None:
        self.cluster = ends.enter_context(
            EmbeddedCluster(brokers=2, clock=VirtualClock(), topics=["T"])
        )
        addr = self.cluster.namesrv_addr
        self.producer = ends.enter_context(DefaultMQProducer("P", namesrv_addr=addr))
        self.consumer = DefaultPopConsumer(
            "G",
            namesrv_addr=addr,
            await_duration=0,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        self.consumer.subscribe("T")
        ends.enter_context(self.consumer)
        for queue in self.producer.fetch_publish_message_queues("T"):
            self.producer.send(Message("T", queue.broker_name.encode()), queue=queue)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with ExitStack() as ends:
        yield Bench(ends)


def test_brokers_of_a_topic_take_turns(bench: Bench) -> None:
    received = [bench.consumer.receive(1)[0] for _ in range(4)]
    names = [one.broker_name for one in received]
    assert names == [*sorted(set(names)), *sorted(set(names))]
    assert len(set(names)) == 2
    assert [one.body.decode() for one in received] == names


def test_only_the_newest_receipts_that_were_replaced_are_remembered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "REPLACED_MAX", 2)
    (message,) = bench.consumer.receive(1)
    olds = []
    for _ in range(3):
        olds.append(copy.deepcopy(message))
        bench.consumer.change_invisible_time(message, 60_000)
    assert len({one.properties[Prop.POP_CK] for one in (*olds, message)}) == 4
    for old in olds[1:]:
        with pytest.raises(DeliveryEndedError, match="was replaced"):
            bench.consumer.ack(old)
    bench.consumer.ack(olds[0])  # forgotten: its broker takes it without a word
    bench.consumer.ack(message)


def test_a_broker_that_is_gone_is_an_error_of_the_call(bench: Bench) -> None:
    (message,) = bench.consumer.receive(1)
    bench.cluster[message.broker_name].close()
    for call in (
        bench.consumer.ack_async(message),
        bench.consumer.change_invisible_time_async(message, 1000),
    ):
        assert isinstance(call.exception(PATIENCE_S), RemotingException)
