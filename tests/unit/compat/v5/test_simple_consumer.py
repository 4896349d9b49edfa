"""The simple consumer of the 5.0 API on an embedded broker."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest

from compat.v5 import (
    BadRequestError,
    ClosedException,
    FilterExpression,
    FilterType,
    IllegalArgumentException,
    IllegalStateException,
    LitePushConsumer,
    LiteSimpleConsumer,
    MessageBuilder,
    MessageView,
    NotFoundError,
    SimpleConsumer,
    SimpleConsumerBuilder,
    UnsupportedError,
)
from rocketmq_py import ClientClosedError
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.compat.v5.v5_bench import GROUP, Bench

PATIENCE_S = 10.0
POP, ACK = RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE
HIDE, PULL = RequestCode.CHANGE_MESSAGE_INVISIBLETIME, RequestCode.PULL_MESSAGE


def send(bench: Bench, *bodies: bytes, tag: str = "", topic: str = "T") -> None:
    producer = bench.producer()
    for body in bodies:
        builder = MessageBuilder().set_topic(topic).set_body(body)
        producer.send((builder.set_tag(tag) if tag else builder).build())


def test_it_receives_acks_and_changes_durations_by_pops_and_never_pulls(bench: Bench) -> None:
    consumer = bench.simple("T")
    send(bench, b"a", b"b")
    messages = consumer.receive(32, 15)
    assert sorted(one.body for one in messages) == [b"a", b"b"]
    assert all(isinstance(one, MessageView) and one.delivery_attempt == 1 for one in messages)
    consumer.ack(messages[0])
    consumer.change_invisible_duration(messages[1], timedelta(minutes=1))
    bench.broker.clock.advance(30)
    assert consumer.receive(32, 15) == []
    consumer.ack(messages[1])
    bench.broker.clock.advance(3600)
    assert consumer.receive(32, 15) == []
    counts = [bench.requests(code) for code in (POP, ACK, HIDE, PULL)]
    assert counts == [3, 2, 1, 0]


@pytest.mark.case("T94")
def test_what_is_not_acked_comes_again_as_the_second_attempt(bench: Bench) -> None:
    consumer = bench.simple("T")
    send(bench, b"a")
    (first,) = consumer.receive(10, 30)
    bench.broker.clock.advance(30)
    (second,) = consumer.receive(10, 30)
    assert (first.delivery_attempt, second.delivery_attempt) == (1, 2)
    assert first.message_id == second.message_id


@pytest.mark.case("T95")
def test_a_changed_duration_makes_a_new_receipt_and_the_old_one_is_refused(bench: Bench) -> None:
    consumer = bench.simple("T")
    send(bench, b"a")
    (message,) = consumer.receive(10, 30)
    old = copy.deepcopy(message)
    consumer.change_invisible_duration(message, 60)
    assert old.receipt_handle != message.receipt_handle
    with pytest.raises(BadRequestError, match="was replaced"):
        consumer.ack(old)
    assert isinstance(consumer.ack_async(old).exception(PATIENCE_S), BadRequestError)
    consumer.ack(message)
    bench.broker.clock.advance(3600)
    assert consumer.receive(10, 30) == []


@pytest.mark.case("T96")
def test_nothing_is_an_empty_list(bench: Bench) -> None:
    assert bench.simple("T", await_duration=0.05).receive(10, 30) == []


def test_futures_do_the_same_without_waiting(bench: Bench) -> None:
    consumer = bench.simple("T", await_duration=20)
    asked: Future[list[MessageView]] = consumer.receive_async(1, 30)
    send(bench, b"late")
    (message,) = asked.result(PATIENCE_S)
    assert message.body == b"late"
    assert consumer.change_invisible_duration_async(message, 60).result(PATIENCE_S) is None
    assert consumer.ack_async(message).result(PATIENCE_S) is None


def test_a_receive_inside_a_callback_does_not_stop_the_client(bench: Bench) -> None:
    consumer = bench.simple("T")
    send(bench, *(b"%d" % number for number in range(30)))
    ended: Future[int] = Future()
    got: list[MessageView] = []

    def next_one(done: Future[list[MessageView]]) -> None:
        got.extend(done.result())
        for message in done.result():
            consumer.ack_async(message).result(PATIENCE_S)
        if len(got) == 30:
            ended.set_result(len(got))
        else:
            consumer.receive_async(1, 30).add_done_callback(next_one)

    consumer.receive_async(1, 30).add_done_callback(next_one)
    assert ended.result(PATIENCE_S) == 30


def test_topics_take_turns_and_filters_count(bench: Bench) -> None:
    consumer = bench.simple()
    consumer.subscribe("T", FilterExpression("a || b"))
    consumer.subscribe("U", FilterExpression("colour = 'red'", FilterType.SQL92))
    assert list(consumer.subscription_expressions) == ["T", "U"]
    send(bench, b"a", tag="a")
    send(bench, b"c", tag="c")
    red = MessageBuilder().set_topic("U").set_body(b"red").add_property("colour", "red").build()
    bench.producer().send(red)
    send(bench, b"grey", topic="U")
    received = [one.body for _ in range(4) for one in consumer.receive(32, 30)]
    assert received == [b"a", b"red"]
    consumer.unsubscribe("U")
    assert list(consumer.subscription_expressions) == ["T"]


wrong_type: Any = 7


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: c.receive(0, 30), "max_message_num = 0: at least 1"),
        (lambda c: c.receive(1, 0), "invisible_duration = 0 is not possible"),
        (lambda c: c.receive(1, 50_000), "from 0.001 to 43200"),
        (lambda c: c.receive_async(1, timedelta(days=1)), "from 0.001 to 43200"),
        (lambda c: setattr(c, "await_duration", 31), "await_duration = 31 .* from 0 to 30"),
        (lambda c: c.subscribe("T", FilterExpression("a >", FilterType.SQL)), None),
        (lambda c: c.subscribe("T", FilterExpression("*", wrong_type)), "is no FilterType"),
    ],
)
def test_values_that_cannot_be_are_refused(
    bench: Bench, call: Callable[[Any], object], words: str | None
) -> None:
    with pytest.raises((IllegalArgumentException, BadRequestError), match=words):
        call(bench.simple("T"))


def test_it_needs_a_subscription_a_topic_and_its_own_messages(bench: Bench) -> None:
    consumer: Any = bench.simple()
    with pytest.raises(ValueError, match="no topic to receive"):
        consumer.receive(1, 30)
    consumer.subscribe("nowhere")
    with pytest.raises(NotFoundError):
        consumer.receive(1, 30)
    with pytest.raises(TypeError, match="is a number"):
        consumer.receive("1", 30)
    with pytest.raises(TypeError, match="only what was received"):
        consumer.ack(MessageBuilder().set_topic("T").set_body(b"x").build())
    with pytest.raises(TypeError, match="a filter is a FilterExpression"):
        consumer.subscribe("T", "a")


def test_it_is_used_between_its_start_and_its_end(bench: Bench) -> None:
    consumer = SimpleConsumer(bench.configuration, GROUP)
    with pytest.raises(IllegalStateException, match="not started"):
        consumer.receive(1, 30)
    consumer.startup()
    assert (consumer.consumer_group, consumer.await_duration) == (GROUP, 20)
    consumer.shutdown()
    with pytest.raises(ClosedException) as closed:
        consumer.receive(1, 30)
    assert isinstance(closed.value, ClientClosedError)


def test_a_builder_starts_what_it_builds(bench: Bench) -> None:
    builder = SimpleConsumerBuilder().set_consumer_group(GROUP).set_await_duration(timedelta())
    with pytest.raises(IllegalArgumentException, match="set_client_configuration"):
        builder.build()
    builder.set_client_configuration(bench.configuration)
    send(bench, b"a")
    builder.set_subscription_expressions({"T": FilterExpression.SUB_ALL})
    with builder.build() as consumer:
        assert [one.body for one in consumer.receive(10, timedelta(seconds=30))] == [b"a"]


@pytest.mark.parametrize("kind", [LiteSimpleConsumer, LitePushConsumer])
def test_lite_topics_are_refused(bench: Bench, kind: type[LiteSimpleConsumer]) -> None:
    with pytest.raises(UnsupportedError, match="need a proxy"):
        kind(bench.configuration, GROUP)
