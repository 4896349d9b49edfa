"""A POP consumer's requests on an embedded broker, whose clock is the test's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.admin import AdminClient
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.consumer.core.pop_calls import (
    ALL_QUEUES,
    Assignment,
    PopAnswer,
    PopAsk,
    PopCalls,
    PopStatus,
    Receipt,
    read_ack,
    read_assignments,
    read_invisible_time,
    read_pop,
)
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.send_result import MessageQueue
from tests.client_instances import IdleMember, started_instance

GROUP = "group-that-pops"
EVERYTHING = SubscriptionData("T", "*")


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"], clock=VirtualClock()) as made:
        yield made


class Popper:
    """Pops from a broker, and waits for each answer."""

    def __init__(self, instance: ClientInstance, broker: EmbeddedBroker) -> None:
        self.instance = instance
        self.calls = PopCalls(instance, GROUP)
        self.broker = broker
        self.queue = MessageQueue("T", broker.broker_name, 0)

    def pop(self, most: int = 8, *, order: bool = False, attempt: str | None = None) -> PopAnswer:
        ask = PopAsk(self.queue, most, 60_000, 0, EVERYTHING, order=order, attempt_id=attempt)
        return read_pop(self.calls.ask_pop(ask).result(10), ask)

    def bodies(self, most: int = 8) -> list[tuple[bytes, int]]:
        return [(one.body, one.reconsume_times) for one, _ in self.pop(most).popped]

    def ack(self, receipt: Receipt) -> bool:
        return read_ack(self.calls.ask_ack(receipt).result(10), "T")

    def hide(self, receipt: Receipt, ms: int) -> Receipt | None:
        answer = self.calls.ask_invisible_time(receipt, ms).result(10)
        return read_invisible_time(answer, receipt)


@pytest.fixture
def popper(broker: EmbeddedBroker) -> Iterator[Popper]:
    with (
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        started_instance(broker.namesrv_addr) as instance,
    ):
        popper = Popper(instance, broker)
        for number in range(5):
            producer.send(Message("T", b"m%d" % number), queue=popper.queue)
        yield popper


@pytest.mark.case("W101")
def test_what_is_not_acked_comes_again_under_its_own_topic(popper: Popper) -> None:
    first = popper.pop()
    assert [one.body for one, _ in first.popped] == [b"m0", b"m1", b"m2", b"m3", b"m4"]
    assert popper.pop().status is PopStatus.NOTHING
    assert all(popper.ack(receipt) for _, receipt in first.popped[:3])
    popper.broker.clock.advance(60)
    again = popper.pop()
    assert [(one.topic, one.body, one.reconsume_times) for one, _ in again.popped] == [
        ("T", b"m3", 1),
        ("T", b"m4", 1),
    ]
    assert {receipt.handle.flag for _, receipt in again.popped} <= {"1", "2"}
    assert all(popper.ack(receipt) for _, receipt in again.popped)
    popper.broker.clock.advance(120)
    assert popper.pop().status is PopStatus.NOTHING


@pytest.mark.case("W104")
def test_the_newest_receipt_counts_and_a_late_ack_changes_nothing(popper: Popper) -> None:
    (_, old), *others = popper.pop().popped
    new = popper.hide(old, 100_000)
    assert new is not None
    newer = popper.hide(new, 200_000)
    assert newer is not None
    assert popper.ack(old)
    assert popper.ack(new)
    for _, receipt in others:
        popper.ack(receipt)
    popper.broker.clock.advance(199)
    assert popper.bodies() == []
    popper.broker.clock.advance(1)
    assert popper.bodies() == [(b"m0", 1)]
    assert popper.ack(newer)  # too late


@pytest.mark.case("W106")
def test_acks_of_several_pops_go_in_one_request(popper: Popper) -> None:
    popped_now = [*popper.pop(2).popped, *popper.pop(2).popped]
    renewed = popper.hide(popped_now[1].receipt, 10_000)
    assert renewed is not None
    receipts = [popped_now[0].receipt, renewed, popped_now[3].receipt]
    (batch,) = popper.calls.ask_ack_batch(receipts)
    assert read_ack(batch.answer.result(10), "T")
    popper.broker.clock.advance(60)
    assert sorted(popper.bodies()) == [(b"m2", 1), (b"m4", 0)]


@pytest.mark.case("W102")
def test_an_ordered_pop_blocks_its_queue_and_counts_its_deliveries(popper: Popper) -> None:
    first = popper.pop(2, order=True, attempt="a")
    assert popper.pop(2, order=True, attempt="b").status is PopStatus.NOTHING
    popper.broker.clock.advance(60)
    again = popper.pop(2, order=True, attempt="c")
    assert [(one.body, one.reconsume_times) for one, _ in again.popped] == [(b"m0", 1), (b"m1", 1)]
    assert popper.hide(again.popped[0].receipt, 1_000) is not None
    popper.broker.clock.advance(1)
    assert popper.pop(2, order=True).status is PopStatus.NOTHING
    popper.broker.clock.advance(59)
    last = popper.pop(2, order=True)
    assert all(popper.ack(receipt) for _, receipt in last.popped)
    assert popper.hide(last.popped[0].receipt, 1_000) is None
    assert popper.ack(first.popped[0].receipt)
    assert [one.body for one, _ in popper.pop(2, order=True).popped] == [b"m2", b"m3"]


@pytest.mark.case("W103")
def test_an_offset_that_is_not_there_is_gone(popper: Popper) -> None:
    (_, receipt), *_ = popper.pop().popped
    beyond = Receipt("T", receipt.handle._replace(offset=99), 0, 99)
    assert not popper.ack(beyond)
    assert popper.hide(beyond, 10_000) is None


def test_a_group_pops_a_topic_once_that_is_set(popper: Popper) -> None:
    def assigned() -> list[Assignment] | None:
        return read_assignments(popper.calls.ask_assignments("T", "AVG").result(10), "T")

    assert assigned() is None  # nobody of the group is connected
    popper.instance.register_consumer(GROUP, IdleMember(GROUP, EVERYTHING))
    popper.instance.send_heartbeats()
    pulled = assigned()
    assert pulled is not None
    assert {(one.queue.topic, one.mode) for one in pulled} == {("T", "PULL")}
    with AdminClient(namesrv_addr=popper.broker.namesrv_addr) as admin:
        admin.set_request_mode("T", GROUP, "POP")
    assert assigned() == [Assignment(evolve(popper.queue, queue_id=ALL_QUEUES), "POP")]
