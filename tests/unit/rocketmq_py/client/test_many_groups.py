"""What a member costs an instance that many groups share: the same, however many there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    aio,
)
from rocketmq_py.protocol.codes import RequestCode

BEFORE = 10
"""Members that are there before the one that is looked at."""


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedBroker]:
    """A broker that does nothing by the clock while a test runs, nor do its clients."""
    for name in ("ROUTE_FIRST_MS", "HEARTBEAT_FIRST_MS", "PERSIST_FIRST_MS", "REBALANCE_EVERY_MS"):
        monkeypatch.setattr(f"rocketmq_py.client.instance.{name}", 3_600_000)
    with EmbeddedBroker(tcp=False, session_clock=VirtualClock()) as broker:
        broker.topics.create("Shared", queues=1)
        yield broker


def push(group: str, namesrv_addr: str) -> DefaultMQPushConsumer:
    consumer = DefaultMQPushConsumer(group, namesrv_addr=namesrv_addr, instance_name="shared")
    consumer.subscribe("Shared")
    consumer.register_message_listener(lambda *_: ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
    return consumer


def lite_pull(group: str, namesrv_addr: str) -> DefaultLitePullConsumer:
    consumer = DefaultLitePullConsumer(group, namesrv_addr=namesrv_addr, instance_name="shared")
    consumer.subscribe("Shared")
    return consumer


@contextmanager
def awaited(group: str, namesrv_addr: str) -> Iterator[aio.Consumer]:
    consumer = aio.Consumer(group, namesrv_addr=namesrv_addr, instance_name="shared")
    consumer.subscribe("Shared")
    with asyncio.Runner() as runner:
        runner.run(consumer.start())
        try:
            yield consumer
        finally:
            runner.run(consumer.shutdown())


def producer(group: str, namesrv_addr: str) -> DefaultMQProducer:
    return DefaultMQProducer(
        group, namesrv_addr=namesrv_addr, instance_name="shared", topics=["Shared"]
    )


@pytest.mark.parametrize("make", [push, lite_pull, awaited, producer])
def test_a_start_tells_and_asks_brokers_of_no_group_but_its_own(
    broker: EmbeddedBroker, make: Callable[[str, str], AbstractContextManager[object]]
) -> None:
    sizes: list[int] = []
    asked: list[str | None] = []
    with ExitStack() as members:
        for number in range(BEFORE + 1):
            seen = len(broker.journal.requests())
            members.enter_context(make(f"Group{number:02}", broker.namesrv_addr))
            broker.clock.settle()
            new = broker.journal.requests()[seen:]
            sizes.append(max(one.body_size for one in new if one.code == RequestCode.HEART_BEAT))
            asked = [one.group for one in new if one.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP]
    assert sizes == [sizes[0]] * len(sizes)
    assert set(asked) <= {f"Group{BEFORE:02}"}
