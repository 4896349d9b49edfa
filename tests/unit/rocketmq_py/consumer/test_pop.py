"""The consumer that pops when it is asked, on an embedded broker whose clock is the test's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ClientClosedError,
    ConfigError,
    ConsumeFromWhere,
    ConsumeMessageContext,
    DefaultMQProducer,
    DefaultPopConsumer,
    DeliveryEndedError,
    FilterMessageContext,
    IllegalStateError,
    Message,
    MessageExt,
    MessageModel,
    NoRouteError,
    RocketMQError,
    RPCHook,
)
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.pop_handles import PopHandle
from rocketmq_py.protocol.properties import Prop
from tests.waiting import until

GUARD_S = 30.0
AT_ONCE = 0
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Bench:
    """A broker, a producer, and a consumer that subscribes topic T."""

    def __init__(self, ends: ExitStack) -> None:
        self.ends = ends
        self.broker = ends.enter_context(EmbeddedBroker(topics=["T", "U"], clock=VirtualClock()))
        addr = self.broker.namesrv_addr
        self.producer = ends.enter_context(DefaultMQProducer("P", namesrv_addr=addr))
        self.consumer = self.member("T")

    def member(self, *topics: str, tags: str = "*", **settings: Any) -> DefaultPopConsumer:
        made = DefaultPopConsumer(
            "G",
            namesrv_addr=self.broker.namesrv_addr,
            consume_from_where=FIRST,
            await_duration=AT_ONCE,
            **settings,
        )
        for topic in topics:
            made.subscribe(topic, tags)
        return self.ends.enter_context(made)

    def send(self, *bodies: bytes, topic: str = "T", **more: Any) -> None:
        for body in bodies:
            self.producer.send(Message(topic, body, **more))

    def requests(self, code: RequestCode) -> int:
        return len(self.broker.journal.requests(code=code))


@pytest.fixture
def bench() -> Iterator[Bench]:
    with ExitStack() as ends:
        yield Bench(ends)


def bodies_of(messages: list[MessageExt]) -> list[bytes]:
    return sorted(one.body for one in messages)


def test_nothing_is_fetched_before_it_is_asked_for_and_nothing_is_pulled(bench: Bench) -> None:
    bench.send(b"a", b"b", b"c")
    assert bench.requests(RequestCode.POP_MESSAGE) == 0
    messages = bench.consumer.receive(2)
    assert len(messages) == 2
    messages += bench.consumer.receive(2)
    assert bodies_of(messages) == [b"a", b"b", b"c"]
    assert bench.consumer.receive() == []
    for message in messages:
        bench.consumer.ack(message)
    bench.broker.clock.advance(timedelta(days=1))
    assert bench.consumer.receive() == []
    assert bench.requests(RequestCode.POP_MESSAGE) == 4
    assert bench.requests(RequestCode.ACK_MESSAGE) == 3
    assert bench.requests(RequestCode.PULL_MESSAGE) == 0


def test_what_is_not_acked_comes_again_when_its_time_is_over(bench: Bench) -> None:
    bench.send(b"a")
    (first,) = bench.consumer.receive(invisible=timedelta(seconds=30))
    bench.broker.clock.advance(29)
    assert bench.consumer.receive() == []
    bench.broker.clock.advance(2)
    (second,) = bench.consumer.receive()
    assert (first.reconsume_times, second.reconsume_times) == (0, 1)
    assert second.msg_id == first.msg_id


def test_a_changed_time_counts_from_now_and_makes_a_new_receipt(bench: Bench) -> None:
    bench.send(b"a")
    (message,) = bench.consumer.receive(invisible=30_000)
    old = copy.deepcopy(message)
    bench.consumer.change_invisible_time(message, timedelta(minutes=5))
    with pytest.raises(DeliveryEndedError, match="was replaced"):
        bench.consumer.ack(old)
    bench.broker.clock.advance(200)
    assert bench.consumer.receive() == []
    bench.consumer.ack(message)
    bench.broker.clock.advance(timedelta(hours=1))
    assert bench.consumer.receive() == []


def test_a_receive_waits_for_a_message_and_its_future_tells(bench: Bench) -> None:
    asked = bench.consumer.receive_async(wait=20_000)
    bench.send(b"late", delay=timedelta(days=1))
    bench.broker.clock.advance(timedelta(days=1))
    (message,) = asked.result(GUARD_S)
    assert message.body == b"late"
    assert bench.consumer.ack_async(message).result(GUARD_S) is None
    assert bench.consumer.change_invisible_time_async(message, 1).exception(GUARD_S) is None


def test_topics_take_turns(bench: Bench) -> None:
    consumer = bench.member("T", "U", instance_name="other")
    bench.send(b"t", b"t")
    bench.send(b"u", b"u", topic="U")
    assert [one.body for _ in range(2) for one in consumer.receive(1)] == [b"t", b"u"]


def test_messages_with_other_tags_are_acked_and_come_no_more(bench: Bench) -> None:
    bench.consumer.subscribe("T", "TagA || BB")
    for tag in ("Aa", "TagA", "BB"):  # Aa has the hash of BB, so the broker gives it
        bench.send(tag.encode(), tags=tag)
    messages = bench.consumer.receive() + bench.consumer.receive()
    assert bodies_of(messages) == [b"BB", b"TagA"]


def test_compressed_bodies_come_as_they_were_sent(bench: Bench) -> None:
    body = b"x" * 100_000
    bench.send(body)
    (message,) = bench.consumer.receive()
    assert message.body == body


def test_hooks_see_what_was_received_and_what_they_leave_out_comes_no_more(bench: Bench) -> None:
    seen: list[str] = []

    class Hook:
        def before(self, context: ConsumeMessageContext) -> None:
            del context

        def after(self, context: ConsumeMessageContext) -> None:
            seen.append(f"{context.status} {len(context.messages)}")

        def filter_message(self, context: FilterMessageContext) -> None:
            context.messages = [one for one in context.messages if one.body != b"no"]

    bench.consumer.register_consume_message_hook(Hook())
    bench.consumer.register_filter_message_hook(Hook())
    bench.send(b"a", b"no", b"b")
    assert bodies_of(bench.consumer.receive()) == [b"a", b"b"]
    assert seen == ["CONSUME_SUCCESS 2"]
    until(lambda: bench.requests(RequestCode.ACK_MESSAGE) == 1, GUARD_S)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda c: c.receive(33), ValueError, "from 1 to 32"),
        (lambda c: c.receive(0), ValueError, "from 1 to 32"),
        (lambda c: c.receive(True), TypeError, "not bool"),
        (lambda c: c.receive(invisible=0), ValueError, "from 1 to"),
        (lambda c: c.receive(invisible=timedelta(hours=13)), ValueError, "43200000 ms"),
        (lambda c: c.receive(invisible="30"), TypeError, "milliseconds or a timedelta"),
        (lambda c: c.receive(wait=30_001), ValueError, "30000 ms at most"),
    ],
)
def test_numbers_that_are_out_of_range_are_refused(
    bench: Bench,
    call: Callable[[DefaultPopConsumer], object],
    kind: type[Exception],
    words: str,
) -> None:
    with pytest.raises(kind, match=words):
        call(bench.consumer)


def test_what_has_no_receipt_cannot_be_settled(bench: Bench) -> None:
    bench.send(b"a")
    (message,) = bench.consumer.receive()
    message.properties[Prop.POP_CK] = "nonsense"
    with pytest.raises(DeliveryEndedError, match="has no receipt"):
        bench.consumer.ack(message)


@pytest.mark.parametrize("wrong", [None, [], Message("T", b"x")])
def test_what_is_no_received_message_cannot_be_settled(bench: Bench, wrong: Any) -> None:
    with pytest.raises(TypeError, match="one message that was received is settled, not "):
        bench.consumer.ack(wrong)
    with pytest.raises(TypeError, match="one message that was received is settled, not "):
        bench.consumer.change_invisible_time(wrong, 1)


def test_a_receive_needs_a_subscription_a_route_and_a_running_consumer(bench: Bench) -> None:
    consumer = bench.member(instance_name="other")
    with pytest.raises(IllegalStateError, match="no topic is subscribed"):
        consumer.receive()
    consumer.subscribe("Nowhere")
    with pytest.raises(NoRouteError):
        consumer.receive()
    consumer.shutdown()
    with pytest.raises(ClientClosedError):
        consumer.receive()


def test_broadcasting_is_refused() -> None:
    consumer = DefaultPopConsumer("G", message_model=MessageModel.BROADCASTING)
    consumer.subscribe("T")
    with pytest.raises(ConfigError, match="must be CLUSTERING"):
        consumer.start()


class Failing(RPCHook):
    """Fails before an ack is sent."""

    def before_request(self, address: str, request: RemotingCommand) -> None:
        if request.code == RequestCode.ACK_MESSAGE:
            raise LookupError(f"at random, before {address}")

    def after_response(
        self, address: str, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        """Let all answers pass."""


@pytest.mark.parametrize("broker_name", ["broker-a", "gone"])
def test_whatever_keeps_an_ack_from_its_broker_is_told_by_the_future(
    bench: Bench, broker_name: str
) -> None:
    bench.send(b"x")
    (message,) = bench.member("T", rpc_hooks=[Failing()]).receive()
    handle = PopHandle.parse(message.properties[Prop.POP_CK])
    message.properties[Prop.POP_CK] = handle._replace(broker_name=broker_name).text()
    hooked = bench.member("T", rpc_hooks=[Failing()])
    error = hooked.ack_async(message).exception(GUARD_S)
    assert isinstance(error, LookupError if broker_name == "broker-a" else RocketMQError)
