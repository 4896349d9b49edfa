"""A popping consumer on an embedded broker, whose clock and journal are the test's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ConfigError,
    ConsumeFromWhere,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    DefaultMQAdminExt,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    FilterMessageContext,
    Message,
    MessageExt,
    MessageListenerOrderly,
    MessageModel,
)
from rocketmq_py.consumer.core.pop_calls import ALL_QUEUES, PopCalls
from rocketmq_py.protocol.bodies.consumption import ConsumerRunningInfo
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.groups import GetConsumerRunningInfoRequestHeader
from tests.sdk.listeners import Held
from tests.unit.rocketmq_py.consumer.inbox import LATER, Inbox
from tests.waiting import until

GROUP = "G"
GUARD_S = 30.0
INVISIBLE_MS = 5_000
HIDE, ACK = RequestCode.CHANGE_MESSAGE_INVISIBLETIME, RequestCode.ACK_MESSAGE


class Bench:
    """A broker, a producer, and members of a group that pops topic T."""

    def __init__(self, ends: ExitStack) -> None:
        self._ends = ends
        self.broker = ends.enter_context(EmbeddedBroker(topics=["T"], clock=VirtualClock()))
        self.producer = ends.enter_context(
            DefaultMQProducer("P", namesrv_addr=self.broker.namesrv_addr)
        )
        self.set_mode("POP")

    def set_mode(self, mode: str) -> None:
        with DefaultMQAdminExt() as admin:
            admin.set_message_request_mode(self.broker.addr, "T", GROUP, mode)

    def consumer(
        self,
        listener: Any,  # Any: a listener of a test
        tags: str = "*",
        **settings: Any,  # Any: of a setting
    ) -> DefaultMQPushConsumer:
        made = DefaultMQPushConsumer(
            GROUP,
            namesrv_addr=self.broker.namesrv_addr,
            client_rebalance=False,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            **settings,
        )
        made.subscribe("T", tags)
        made.register_message_listener(listener)
        return self._ends.enter_context(made)

    def send(self, body: bytes, **more: Any) -> None:  # Any: of a message
        self.producer.send(Message("T", body, **more))

    def send_to(self, queue_id: int, *bodies: bytes) -> None:
        queue = sorted(self.producer.fetch_publish_message_queues("T"))[queue_id]
        for body in bodies:
            self.producer.send(Message("T", body), queue=queue)

    def requests(self, code: RequestCode) -> int:
        return len(self.broker.journal.requests(code=code))


def numbers_of(consumer: DefaultMQPushConsumer) -> set[int]:
    return {queue.queue_id for queue in consumer.assigned_queues() if queue.topic == "T"}


@pytest.fixture
def bench() -> Iterator[Bench]:
    with ExitStack() as ends:
        yield Bench(ends)


def test_a_message_stays_hidden_while_its_listener_works(bench: Bench) -> None:
    held = Held()
    bench.consumer(held, pop_invisible_time=INVISIBLE_MS)
    bench.send(b"long")
    assert held.entered.wait(GUARD_S)
    bench.broker.clock.advance(3)
    until(lambda: bench.requests(HIDE) == 1, GUARD_S)  # at half of its time
    bench.broker.clock.advance(4)
    held.leave.set()
    until(lambda: bench.requests(ACK) == 1, GUARD_S)
    bench.broker.clock.run(60)
    assert held.bodies == [b"long"]


def test_what_comes_while_a_consumer_is_suspended_reaches_its_listener(bench: Bench) -> None:
    """The pop that waits has hidden it: nobody else would get it before its time is over."""
    inbox = Inbox()
    consumer = bench.consumer(inbox)
    bench.broker.clock.settle()
    consumer.suspend()
    bench.send(b"first")
    until(lambda: inbox.bodies == [b"first"], GUARD_S)
    pops = bench.requests(RequestCode.POP_MESSAGE)
    bench.send(b"second")
    bench.broker.clock.advance(1)
    assert (inbox.bodies, bench.requests(RequestCode.POP_MESSAGE)) == ([b"first"], pops)
    consumer.resume()
    until(lambda: inbox.bodies == [b"first", b"second"], GUARD_S)


def test_messages_with_another_tag_are_acked_and_come_no_more(bench: Bench) -> None:
    inbox = Inbox()
    bench.consumer(inbox, "TagA || BB")
    for tag in ("Aa", "TagA", "BB"):  # Aa has the hash of BB, so the broker gives it
        bench.send(tag.encode(), tags=tag)
    until(lambda: len(inbox) == 2, GUARD_S)
    until(lambda: not list(bench.broker._parts().pop.revive.hidden()), GUARD_S)
    bench.broker.clock.run(120)
    assert sorted(inbox.bodies) == [b"BB", b"TagA"]


def test_what_a_hook_leaves_out_is_acked_and_comes_no_more(bench: Bench) -> None:
    class Filter:
        def filter_message(self, context: FilterMessageContext) -> None:
            context.messages = [one for one in context.messages if one.body != b"no"]

    inbox = Inbox()
    bench.consumer(inbox).register_filter_message_hook(Filter())
    for body in (b"yes", b"no", b"also"):
        bench.send(body)
    until(lambda: len(inbox) == 2, GUARD_S)
    until(lambda: not list(bench.broker._parts().pop.revive.hidden()), GUARD_S)
    bench.broker.clock.run(120)
    assert sorted(inbox.bodies) == [b"also", b"yes"]


def test_the_clock_waits_for_acks_that_are_under_way(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Future[Any]] = []  # Any: of an answer that nobody reads

    def never(*_: object) -> Future[Any]:  # Any: as above
        asked.append(Future())
        return asked[-1]

    monkeypatch.setattr(PopCalls, "ask_ack", never)
    consumer = bench.consumer(Inbox())
    bench.send(b"one")
    until(lambda: asked, GUARD_S)
    (reason,) = [
        one for one in bench.broker.clock.settle(0, check=False).busy if one.startswith("client")
    ]
    assert "1 messages are settled, and no broker has confirmed that yet" in reason
    asked[0].cancel()
    until(lambda: consumer._member is not None and not consumer._member.lanes[0].count, GUARD_S)


def test_a_message_whose_queue_was_given_back_meanwhile_comes_again(bench: Bench) -> None:
    held = Held()
    consumer = bench.consumer(held, pop_invisible_time=INVISIBLE_MS)
    bench.send(b"one")
    assert held.entered.wait(GUARD_S)
    for mode, numbers in (("PULL", {0, 1, 2, 3}), ("POP", {ALL_QUEUES})):
        bench.set_mode(mode)
        consumer.resume()  # works the assignment out again, now
        until(lambda numbers=numbers: numbers_of(consumer) == numbers, GUARD_S)  # type: ignore[misc]
    held.leave.set()
    until(lambda: len(held) == 1, GUARD_S)
    bench.broker.clock.run(30)
    first, again = held.messages
    assert first.reconsume_times == 0
    assert again.reconsume_times >= 1  # the pop that waited for the old assignment gets it, too
    assert bench.requests(ACK) == 1


def test_a_consumer_holds_no_more_than_its_threshold(bench: Bench) -> None:
    held = Held()
    consumer = bench.consumer(held, pop_batch_nums=2, pop_threshold_for_queue=3)
    for number in range(10):
        bench.send(b"%d" % number)
    assert consumer._member is not None
    intake = consumer._member.intake
    until(lambda: "pop_threshold_for_queue 3" in (intake.waiting or ""), GUARD_S)
    assert len(list(bench.broker._parts().pop.revive.hidden())) in {4, 5}
    held.leave.set()
    until(lambda: len(held) == 10, GUARD_S)


def test_an_administrator_sees_what_is_popped(bench: Bench) -> None:
    held = Held()
    consumer = bench.consumer(held)
    bench.send(b"one")
    assert held.entered.wait(GUARD_S)
    assert consumer._member is not None
    header = GetConsumerRunningInfoRequestHeader(consumer_group=GROUP, client_id="any")
    question = RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, ext_fields=header.to_ext())
    answer = consumer._member.handle_broker_request(question)
    assert answer is not None
    info = ConsumerRunningInfo.decode(answer.body)
    ((queue, popped),) = info.mq_pop_table.items()
    assert (queue.topic, queue.queue_id, popped.wait_ack_count) == ("T", ALL_QUEUES, 1)
    assert [one.topic for one in info.mq_table] == [f"%RETRY%{GROUP}"]
    held.leave.set()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("pop_invisible_time", 4_999),
        ("pop_invisible_time", 300_001),
        ("pop_batch_nums", 0),
        ("pop_batch_nums", 33),
        ("pop_threshold_for_queue", 0),
        ("client_rebalance", 0),
    ],
)
def test_a_setting_beyond_its_limits_is_refused(setting: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{setting}.*{value}"):
        DefaultMQPushConsumer(GROUP, **{setting: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("orderly", [False, True])
def test_queues_that_brokers_cannot_assign_are_refused_at_the_start(orderly: bool) -> None:
    model = MessageModel.BROADCASTING
    consumer = DefaultMQPushConsumer(GROUP, client_rebalance=False, message_model=model)
    listener: Any = Inbox()
    consumer.register_message_listener(MessageListenerOrderly(listener) if orderly else listener)
    with pytest.raises(ConfigError, match="client_rebalance"):
        consumer.start()


# --- all queues -----------------------------------------------------------------------------------


def test_without_an_assignment_nothing_is_asked_or_pulled_and_what_waits_stays_hidden(
    bench: Bench,
) -> None:
    held = Held()

    def renewed(times: int) -> bool:
        return bench.requests(HIDE) >= times

    bench.consumer(
        held,
        pop_all_queues=True,
        pop_invisible_time=INVISIBLE_MS,
        consume_thread_min=1,
        consume_thread_max=1,
    )
    bench.send(b"in the listener")
    assert held.entered.wait(GUARD_S)
    bench.send(b"behind it")
    for renewals in (2, 4, 6):  # both, at half of their time
        bench.broker.clock.advance(3)
        until(partial(renewed, renewals), GUARD_S)
    held.leave.set()
    until(lambda: len(held.bodies) == 2, GUARD_S)
    bench.broker.clock.run(60)
    assert sorted(held.bodies) == [b"behind it", b"in the listener"]
    assert bench.requests(RequestCode.PULL_MESSAGE) == 0
    assert bench.requests(RequestCode.QUERY_ASSIGNMENT) == 0


def test_what_failed_too_often_is_a_dead_letter(bench: Bench) -> None:
    inbox = Inbox(lambda _message: LATER)
    bench.consumer(inbox, pop_all_queues=True, max_reconsume_times=1)
    bench.send(b"poison")
    bench.broker.clock.run(3600)
    assert inbox.bodies == [b"poison", b"poison"]
    assert [one.body for one in bench.broker.messages.in_topic(f"%DLQ%{GROUP}")] == [b"poison"]


def test_popping_all_queues_is_refused_for_broadcasting() -> None:
    consumer = DefaultMQPushConsumer(
        GROUP, pop_all_queues=True, message_model=MessageModel.BROADCASTING
    )
    consumer.register_message_listener(Inbox())
    with pytest.raises(ConfigError, match=r"pop_all_queues = True .* must be False"):
        consumer.start()


# --- in order -----------------------------------------------------------------------------------


class HeldInOrder(Held):
    """A listener in order whose calls all wait until ``leave`` is set."""

    def __call__(self, messages: Any, context: Any) -> Any:
        super().__call__(messages, context)
        return ConsumeOrderlyStatus.SUCCESS


def test_in_order_nobody_gets_a_queue_of_which_a_listener_has_a_message(bench: Bench) -> None:
    first, second = HeldInOrder(), HeldInOrder()
    second.leave.set()
    bench.send_to(0, b"1", b"2", b"3")
    bench.consumer(MessageListenerOrderly(first), pop_invisible_time=INVISIBLE_MS)
    assert first.entered.wait(GUARD_S)
    bench.consumer(MessageListenerOrderly(second), pop_invisible_time=INVISIBLE_MS)
    for times in (1, 2, 3):
        bench.broker.clock.advance(3)
        until(lambda times=times: bench.requests(HIDE) == 3 * times, GUARD_S)  # type: ignore[misc]
    assert (first.bodies, second.bodies) == ([], [])
    first.leave.set()
    until(lambda: first.bodies == [b"1", b"2", b"3"], GUARD_S)
    bench.send_to(0, b"4")
    until(lambda: b"4" in first.bodies + second.bodies, GUARD_S)
    assert second.bodies in ([], [b"4"])


def test_in_order_what_a_suspended_queue_waits_for_is_not_waited_for_by_others(
    bench: Bench,
) -> None:
    """None of the queues of a broker is full because of another one."""
    inbox = Inbox(
        lambda message: (
            ConsumeOrderlyStatus.SUCCESS
            if message.queue_id == 3
            else ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        )
    )
    for number in range(3):
        bench.send_to(number, *[b"poison"] * 3)
    bench.send_to(3, *[b"%d" % number for number in range(50)])
    bench.consumer(
        MessageListenerOrderly(cast("Any", inbox)), pop_batch_nums=2, pop_threshold_for_queue=1
    )
    until(lambda: b"49" in inbox.bodies, GUARD_S)
    good = [one.body for one in inbox.messages if one.queue_id == 3]
    assert good == [b"%d" % number for number in range(50)]


def test_in_order_messages_that_nobody_takes_any_more_are_given_back(bench: Bench) -> None:
    """A pop that waits when its consumer is suspended and ends brings what nobody has then."""
    inbox = Inbox(lambda _: ConsumeOrderlyStatus.SUCCESS)
    listener = MessageListenerOrderly(cast("Any", inbox))
    consumer = bench.consumer(listener)
    bench.broker.clock.settle()
    assert consumer._member is not None
    consumer._member.intake.stop()
    bench.send_to(0, b"late")
    until(lambda: bench.requests(HIDE) == 1, GUARD_S)
    consumer.shutdown()
    bench.consumer(listener)
    bench.broker.clock.run(2)
    assert inbox.bodies == [b"late"]


def test_in_order_auto_commit_cannot_be_turned_off(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    given: list[int] = []

    def listen(messages: list[MessageExt], context: ConsumeOrderlyContext) -> ConsumeOrderlyStatus:
        given.append(messages[0].reconsume_times)
        context.suspend_current_queue_time_millis = 10
        if len(given) == 1:
            context.auto_commit = False
        return ConsumeOrderlyStatus.SUCCESS

    bench.consumer(MessageListenerOrderly(listen))
    bench.send(b"one")
    until(lambda: given == [0, 1], GUARD_S)
    assert "auto_commit = False is not possible with client_rebalance=False" in caplog.text


def test_in_order_a_pop_whose_answer_was_lost_gets_its_messages_without_an_invisible_time(
    bench: Bench,
) -> None:
    inbox = Inbox(lambda _: ConsumeOrderlyStatus.SUCCESS)
    sent = [b"%d" % number for number in range(4)]
    for queue_id, body in enumerate(sent):
        bench.send_to(queue_id, body)
    bench.broker.faults.on(RequestCode.POP_MESSAGE).close(after=True)
    bench.consumer(
        MessageListenerOrderly(cast("Any", inbox)), pull_time_delay_millis_when_exception=10
    )
    until(lambda: len(inbox) == 4, GUARD_S)  # the broker's clock stands still
    assert sorted(inbox.bodies) == sent
    assert {one.reconsume_times for one in inbox.messages} == {0}
    bench.broker.faults.assert_all_used()
