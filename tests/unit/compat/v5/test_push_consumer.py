"""The push consumer of the 5.0 API on an embedded broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from compat.v5 import (
    ClientConfiguration,
    ClosedException,
    ConnectionException,
    ConsumeResult,
    FilterExpression,
    IllegalArgumentException,
    MessageBuilder,
    MessageListener,
    MessageView,
    PushConsumer,
    PushConsumerBuilder,
)
from rocketmq_py.admin import AdminClient, GroupSettings
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.compat.v5.v5_bench import GROUP, Bench
from tests.waiting import until

PATIENCE_S = 20.0
SUCCESS, FAILURE = ConsumeResult.SUCCESS, ConsumeResult.FAILURE


class Listener(MessageListener):
    def __init__(self, answer: Callable[[MessageView], Any] = lambda _: SUCCESS) -> None:
        self._answer = answer
        self.messages: list[MessageView] = []

    def consume(self, message: MessageView) -> ConsumeResult:
        self.messages.append(message)
        answer: ConsumeResult = self._answer(message)
        return answer

    @property
    def bodies(self) -> list[bytes]:
        return [one.body for one in self.messages]


def send(bench: Bench, *bodies: bytes, group: str = "") -> None:
    producer = bench.producer(validate_message_type=False)
    for body in bodies:
        builder = MessageBuilder().set_topic("T").set_body(body)
        producer.send((builder.set_message_group(group) if group else builder).build())


def test_messages_come_to_the_listener_by_pops_and_nothing_is_pulled(bench: Bench) -> None:
    listener = Listener()
    consumer = bench.push(listener)
    send(bench, b"a", b"b", b"c")
    until(lambda: len(listener.messages) == 3, PATIENCE_S)
    bench.broker.clock.run(timedelta(hours=1))
    assert sorted(listener.bodies) == [b"a", b"b", b"c"]
    assert bench.requests(RequestCode.POP_MESSAGE)
    assert bench.requests(RequestCode.ACK_MESSAGE) + bench.requests(RequestCode.BATCH_ACK_MESSAGE)
    assert bench.requests(RequestCode.PULL_MESSAGE) == 0
    assert (consumer.consumer_group, consumer.message_listener) == (GROUP, listener)


@pytest.mark.parametrize("wrong", [FAILURE, None, True, RuntimeError("down")])
def test_whatever_is_no_success_comes_again_later(bench: Bench, wrong: Any) -> None:
    def answer(message: MessageView) -> Any:
        if message.delivery_attempt > 1:
            return SUCCESS
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    listener = Listener(answer)
    bench.push(listener)
    send(bench, b"a")
    until(lambda: len(listener.messages) == 1, PATIENCE_S)
    bench.broker.clock.settle()
    bench.broker.clock.advance(9)
    assert len(listener.messages) == 1
    bench.broker.clock.run(timedelta(minutes=10))
    assert [one.delivery_attempt for one in listener.messages] == [1, 2]
    assert bench.requests(RequestCode.CHANGE_MESSAGE_INVISIBLETIME) == 1
    assert bench.requests(RequestCode.PULL_MESSAGE) == 0


def test_after_seventeen_attempts_it_is_a_dead_letter(bench: Bench) -> None:
    listener = Listener(lambda _: FAILURE)
    bench.push(listener)
    send(bench, b"poison")
    bench.broker.clock.run(timedelta(days=2))
    assert [one.delivery_attempt for one in listener.messages] == list(range(1, 18))
    assert [one.body for one in bench.broker.messages.in_topic(f"%DLQ%{GROUP}")] == [b"poison"]


def test_messages_of_a_group_come_in_order_and_one_that_failed_comes_first(bench: Bench) -> None:
    failed = threading.Event()

    def answer(message: MessageView) -> ConsumeResult:
        if message.body == b"2" and not failed.is_set():
            failed.set()
            return FAILURE
        return SUCCESS

    listener = Listener(answer)
    bench.push(listener, fifo=True)
    send(bench, *(b"%d" % number for number in range(5)), group="g1")
    until(lambda: len(listener.messages) == 6, PATIENCE_S)
    assert listener.bodies == [b"0", b"1", b"2", b"2", b"3", b"4"]
    assert {one.message_group for one in listener.messages} == {"g1"}


@pytest.mark.parametrize(
    ("ordered", "fifo", "in_order", "asked"),
    [
        (True, None, True, 1),
        (False, None, False, 1),
        (True, False, False, 0),
        (None, None, False, 1),
    ],
)
def test_a_group_is_in_order_as_the_brokers_say_unless_the_program_does(
    bench: Bench, ordered: bool | None, fifo: bool | None, in_order: bool, asked: int
) -> None:
    if ordered is not None:
        with AdminClient(namesrv_addr=bench.broker.namesrv_addr) as admin:
            admin.create_group(GROUP, GroupSettings(ordered=ordered))
    before = bench.requests(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    listener = Listener()
    bench.push(listener, fifo=fifo)
    send(bench, b"x")
    until(lambda: listener.messages, PATIENCE_S)
    pops = bench.broker.journal.requests(code=RequestCode.POP_MESSAGE)
    assert {one.fields["order"] for one in pops} == {str(in_order).lower()}
    assert bench.requests(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG) - before == asked


def test_a_start_that_cannot_ask_says_how_to_do_without() -> None:
    configuration = ClientConfiguration("127.0.0.1:9", request_timeout=0.2)
    consumer = PushConsumer(configuration, GROUP, Listener(), {"T": FilterExpression()})
    with pytest.raises(ConnectionException) as told:
        consumer.startup()
    assert told.value.__notes__ == [
        "brokers were asked whether the group is in order: fifo= says it instead"
    ]
    assert not consumer.is_running
    with PushConsumer(
        configuration, GROUP, Listener(), {"T": FilterExpression()}, fifo=False
    ) as other:
        assert other.is_running


def test_limits_of_the_cache_and_threads_act(bench: Bench) -> None:
    leave = threading.Event()
    running: list[int] = []

    def wait(_: MessageView) -> ConsumeResult:
        running.append(1)
        leave.wait(PATIENCE_S)
        return SUCCESS

    listener = Listener(wait)
    bench.push(listener, max_cache_message_size=10, consumption_thread_count=2)
    send(bench, *(b"12345" for _ in range(10)))
    until(lambda: len(running) == 2, PATIENCE_S)
    bench.broker.clock.advance(1)
    assert len(running) == 2
    leave.set()
    until(lambda: len(listener.messages) == 10, PATIENCE_S)


class Awaited(MessageListener):
    async def consume(self, message: MessageView) -> ConsumeResult:  # type: ignore[override]
        return SUCCESS


def test_it_needs_a_listener_and_a_subscription(bench: Bench) -> None:
    wrong: Any = lambda _: SUCCESS  # noqa: E731 - it has no method consume
    with pytest.raises(IllegalArgumentException, match="has no method consume"):
        bench.push(wrong)
    with pytest.raises(IllegalArgumentException, match="must name a topic"):
        PushConsumer(bench.configuration, GROUP, Listener(), {})
    with pytest.raises(IllegalArgumentException, match="a coroutine function, and nobody awaits"):
        bench.push(Awaited())
    topics: Any = ["T"]
    with pytest.raises(TypeError, match=r"a mapping of topics to filters, not \['T'\]"):
        PushConsumer(bench.configuration, GROUP, Listener(), topics)
    for filtered in (None, 5):
        with pytest.raises(TypeError, match="'expression' must be <class 'str'>"):
            FilterExpression(filtered)  # type: ignore[arg-type]
    with pytest.raises(IllegalArgumentException, match="consume_thread_min"):
        bench.push(Listener(), consumption_thread_count=0)


def test_one_that_is_shut_down_does_not_start_again(bench: Bench) -> None:
    consumer = bench.push(Listener())
    consumer.shutdown()
    with pytest.raises(ClosedException, match="is shut down: make a new one"):
        consumer.startup()


def test_a_builder_starts_what_it_builds(bench: Bench) -> None:
    builder = PushConsumerBuilder().set_consumer_group(GROUP).set_fifo(False)
    with pytest.raises(IllegalArgumentException, match="set_client_configuration"):
        builder.build()
    builder.set_client_configuration(bench.configuration)
    with pytest.raises(IllegalArgumentException, match="set_message_listener"):
        builder.build()
    listener = Listener()
    builder.set_message_listener(listener).set_max_cache_message_count(8)
    builder.set_max_cache_message_size_in_bytes(1024).set_consumption_thread_count(2)
    builder.set_subscription_expressions({"T": FilterExpression()})
    with builder.build() as consumer:
        send(bench, b"a")
        until(lambda: listener.bodies == [b"a"], PATIENCE_S)
        consumer.unsubscribe("T")
        assert consumer.subscription_expressions == {}
