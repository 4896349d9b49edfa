from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ClientClosedError,
    ConfigError,
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageListenerOrderly,
    MessageSelector,
    MQClientException,
    NotStartedError,
    UnsupportedOperationError,
)
from rocketmq_py.consumer.core import member
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.rocketmq_py.consumer.inbox import DONE, LATER, Inbox, consumer
from tests.waiting import until

PATIENCE = 20.0
NOT_SUBSCRIBED = "group G: no topic is subscribed, so nothing arrives until subscribe()"
RETRY_WAITS_S = [10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200]
"""Delay levels 3 to 18."""


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), tcp=False, topics=["T"]) as started:
        yield started


def wait(broker: EmbeddedBroker, inbox: Inbox, count: int) -> None:
    broker.wait_for(lambda _: len(inbox) >= count, timeout=PATIENCE)


def wait_requests(broker: EmbeddedBroker, code: RequestCode, count: int) -> None:
    broker.wait_for(
        lambda b: sum(e.response_code == 0 for e in b.journal.requests(code=code)) >= count,
        timeout=PATIENCE,
    )


# --- life -------------------------------------------------------------------------------------


@pytest.mark.case("T3")
def test_a_second_consumer_of_the_group_in_the_same_client_is_refused(
    broker: EmbeddedBroker,
) -> None:
    inbox = Inbox()
    first = consumer("G", broker.namesrv_addr, inbox, {"T": "*"})
    second = consumer("G", broker.namesrv_addr, Inbox(), {"T": "*"})
    first.instance_name = second.instance_name = "shared"
    with first:
        with pytest.raises(MQClientException, match="created before"):
            second.start()
        broker.send("T", b"the first works")
        wait(broker, inbox, 1)
    second.start()
    second.shutdown()


@pytest.mark.case("T2")
@pytest.mark.parametrize("group", ["", " ", "DEFAULT_CONSUMER", "a b", "g" * 121])
def test_an_impossible_group_cannot_start(group: str) -> None:
    impossible = DefaultMQPushConsumer(group, namesrv_addr="127.0.0.1:1")
    impossible.register_message_listener(Inbox())
    with pytest.raises(MQClientException):
        impossible.start()


def test_a_consumer_without_a_listener_cannot_start() -> None:
    with pytest.raises(MQClientException, match="register_message_listener"):
        DefaultMQPushConsumer("G", namesrv_addr="127.0.0.1:1").start()


def test_settings_that_contradict_each_other_are_found_at_the_start() -> None:
    contradictory = DefaultMQPushConsumer("G", consume_thread_max=5)
    contradictory.register_message_listener(Inbox())
    with pytest.raises(ConfigError, match="consume_thread_min"):
        contradictory.start()


@pytest.mark.parametrize(
    ("attribute", "value", "advice"),
    [
        ("consume_thread_min", 1, "update_core_pool_size"),
        ("consume_timeout", 1, "new client"),
        ("namesrv_addr", "127.0.0.1:2", "new client"),
        ("consumer_group", "other", "new client"),
    ],
)
def test_what_start_has_read_cannot_be_assigned_any_more(
    broker: EmbeddedBroker, attribute: str, value: object, advice: str
) -> None:
    with consumer("G", broker.namesrv_addr, Inbox(), {"T": "*"}) as running:
        with pytest.raises(ConfigError, match=f"start.. has read .*{advice}"):
            setattr(running, attribute, value)
        running.pull_batch_size = 7  # of the next pull
        assert running.pull_batch_size == 7


def test_a_shutdown_is_final_and_may_be_repeated(broker: EmbeddedBroker) -> None:
    running = consumer("G", broker.namesrv_addr, Inbox(), {"T": "*"})
    with pytest.raises(NotStartedError):
        running.suspend()
    with pytest.raises(NotStartedError):
        _ = running.client_id
    before = set(threading.enumerate())
    running.start()
    assert running.is_running
    running.shutdown()
    running.shutdown()
    until(lambda: set(threading.enumerate()) <= before)
    with pytest.raises(ClientClosedError):
        running.suspend()
    with pytest.raises(ClientClosedError):
        running.start()


def test_a_shutdown_tells_broker_and_offsets_before_it_returns(broker: EmbeddedBroker) -> None:
    inbox = Inbox()
    with consumer("G", broker.namesrv_addr, inbox, {"T": "*"}):
        broker.send("T", b"one")
        wait(broker, inbox, 1)
    codes = [entry.code for entry in broker.journal.requests()]
    assert codes[-1] == RequestCode.UNREGISTER_CLIENT
    again = Inbox()
    with consumer("G", broker.namesrv_addr, again, {"T": "*"}):
        broker.send("T", b"two")
        wait(broker, again, 1)
    assert again.bodies == [b"two"]


def test_a_shutdown_waits_for_a_running_listener_and_keeps_its_result(
    broker: EmbeddedBroker,
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def answer(_message: object) -> object:
        entered.set()
        leave.wait(PATIENCE)
        return DONE

    running = consumer("G", broker.namesrv_addr, Inbox(answer), {"T": "*"})
    running.start()
    broker.send("T", b"slow", queue=0)
    assert entered.wait(PATIENCE)
    ending = threading.Thread(target=running.shutdown, args=(PATIENCE,))
    ending.start()
    leave.set()
    ending.join(PATIENCE)
    again = Inbox()
    with consumer("G", broker.namesrv_addr, again, {"T": "*"}):
        broker.send("T", b"next", queue=0)
        wait(broker, again, 1)
    assert again.bodies == [b"next"]


def test_listeners_that_shut_their_consumer_down_at_once_do_not_wait_for_each_other(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    together, over = threading.Barrier(2), threading.Semaphore(0)

    def answer(_message: object) -> object:
        together.wait(PATIENCE)
        running.shutdown(3 * PATIENCE)
        over.release()
        return DONE

    running = consumer("G", broker.namesrv_addr, Inbox(answer), {"T": "*"})
    running.start()
    for queue in (0, 1):
        broker.send("T", b"stop", queue=queue)
    assert [over.acquire(timeout=PATIENCE) for _ in range(2)] == [True, True]
    assert not running.is_running
    assert "still" not in caplog.text


def test_the_end_of_an_idle_consumer_without_any_time_is_no_cause_for_alarm(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = Inbox()
    running = consumer("G", broker.namesrv_addr, inbox, {"T": "*"})
    running.start()
    broker.send("T", b"one")
    wait(broker, inbox, 1)
    assert broker.clock.settle(PATIENCE).ok
    running.shutdown(0)
    assert "still" not in caplog.text


def test_a_listener_that_does_not_end_is_left_and_its_message_comes_again(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def answer(_message: object) -> object:
        entered.set()
        leave.wait(PATIENCE)
        return DONE

    running = consumer("G", broker.namesrv_addr, Inbox(answer), {"T": "*"})
    running.start()
    broker.send("T", b"stuck")
    assert entered.wait(PATIENCE)
    with caplog.at_level(logging.WARNING):
        running.shutdown(0)
    assert "still runs" in caplog.text
    again = Inbox()
    with consumer("G", broker.namesrv_addr, again, {"T": "*"}):
        wait(broker, again, 1)
    leave.set()
    assert again.bodies == [b"stuck"]


@pytest.mark.case("T99")
def test_a_forked_child_cannot_use_its_parents_consumer() -> None:
    program = """
import os
from embedded_broker import EmbeddedBroker
from rocketmq_py import ConsumeConcurrentlyStatus, DefaultMQPushConsumer, ForkedClientError

with EmbeddedBroker(tcp=False, topics=["T"]) as broker:
    consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("T")
    consumer.register_message_listener(lambda m, c: ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
    with consumer:
        pid = os.fork()
        if pid == 0:
            try:
                consumer.suspend()
            except ForkedClientError:
                print("refused", flush=True)
            consumer.shutdown()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        print(len(consumer.assigned_queues()))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("refused\n5\n", "")


@pytest.mark.case("T101")
def test_many_starts_and_shutdowns_leave_no_thread(broker: EmbeddedBroker) -> None:
    before = threading.active_count()
    for number in range(20):
        inbox = Inbox()
        with consumer("G", broker.namesrv_addr, inbox, {"T": "*"}):
            broker.send("T", str(number).encode())
            wait(broker, inbox, 1)
    assert threading.active_count() <= before


# --- what arrives -----------------------------------------------------------------------------


def test_a_selector_subscribes_like_its_expression(broker: EmbeddedBroker) -> None:
    inbox = Inbox()
    selecting = consumer("G", broker.namesrv_addr, inbox, {})
    selecting.subscribe("T", MessageSelector.by_tag("a"))
    with selecting:
        broker.send("T", b"b", tags="b", queue=0)
        broker.send("T", b"a", tags="a", queue=0)
        wait(broker, inbox, 1)
    assert inbox.bodies == [b"a"]


def test_a_condition_selects_by_properties(broker: EmbeddedBroker) -> None:
    inbox = Inbox()
    selecting = consumer("G", broker.namesrv_addr, inbox, {})
    selecting.subscribe("T", MessageSelector.by_sql("size > 5 AND colour IN ('red', 'blue')"))
    with selecting:
        for number in range(8):
            colour = ("red", "blue", "green")[number % 3]
            broker.send(
                "T", b"%d" % number, queue=0, properties={"size": str(number), "colour": colour}
            )
        broker.send("T", b"no size", queue=0, properties={"colour": "red"})
        broker.send("T", b"a size in words", queue=0, properties={"colour": "red", "size": "ten"})
        wait(broker, inbox, 2)
        broker.wait_idle()
        assert broker.groups["G"].unread() == 0
    assert sorted(inbox.bodies) == [b"6", b"7"]


def test_a_condition_can_replace_tags_while_the_consumer_runs() -> None:
    inbox, session = Inbox(), VirtualClock()
    with (
        EmbeddedBroker(session_clock=session, tcp=False, topics=["T"]) as broker,
        consumer("G", broker.namesrv_addr, inbox, {"T": "a"}) as selecting,
    ):
        with pytest.raises(MQClientException, match=r"subscription of T: code 23 .*'size >'"):
            selecting.subscribe("T", MessageSelector.by_sql("size >"))
        broker.send("T", b"by tag", tags="a")
        wait(broker, inbox, 1)
        selecting.subscribe("T", MessageSelector.by_sql("size > 5"))
        broker.wait_idle()
        session.advance(timedelta(seconds=15))  # pulls that were asked for tags end
        broker.send("T", b"by tag again", tags="a")
        broker.send("T", b"by size", properties={"size": "6"})
        wait(broker, inbox, 2)
    assert inbox.bodies == [b"by tag", b"by size"]


@pytest.mark.case("T70")
@pytest.mark.parametrize("condition", ["size > '5'", "(size", "5", "size BETWEEN 9 AND 1"])
def test_a_condition_that_is_wrong_fails_the_start(broker: EmbeddedBroker, condition: str) -> None:
    wrong = consumer("G", broker.namesrv_addr, Inbox(), {})
    wrong.subscribe("T", MessageSelector.by_sql(condition))
    with pytest.raises(MQClientException, match="subscription of T: code 23") as caught:
        wrong.start()
    assert (caught.value.response_code, caught.value.topic) == (23, "T")
    assert not wrong.is_running
    # The heartbeat of a new connection may have made the group known before the end.
    assert "G" not in broker.groups or broker.groups["G"].members == ()


def test_a_broker_that_takes_no_conditions_is_told_with_its_setting() -> None:
    with EmbeddedBroker(tcp=False, topics=["T"], defaults="upstream") as broker:
        refused = consumer("G", broker.namesrv_addr, Inbox(), {})
        refused.subscribe("T", MessageSelector.bySql("size > 5"))
        with pytest.raises(MQClientException, match="Set enablePropertyFilter=true at the broker"):
            refused.start()


def test_a_condition_on_a_topic_that_comes_later_is_no_hindrance(broker: EmbeddedBroker) -> None:
    inbox = Inbox()
    early = consumer("G", broker.namesrv_addr, inbox, {})
    early.subscribe("Later", MessageSelector.by_sql("size = '5'"))
    with early:
        broker.topics.create("Later", queues=1)
        broker.send("Later", b"no")
        broker.send("Later", b"yes", properties={"size": "5"})
        wait(broker, inbox, 1)
    assert inbox.bodies == [b"yes"]


def test_a_condition_is_a_text_that_says_something() -> None:
    with pytest.raises(TypeError, match="a condition is a str"):
        MessageSelector.by_sql(5)  # type: ignore[arg-type]
    with pytest.raises(MQClientException, match="SQL92 expression is required"):
        DefaultMQPushConsumer("G").subscribe("T", MessageSelector.by_sql(""))


@pytest.mark.parametrize(("topic", "expression"), [("a b", "*"), ("", "*"), ("T", "||")])
def test_an_impossible_subscription_is_refused(topic: str, expression: str) -> None:
    with pytest.raises(MQClientException):
        DefaultMQPushConsumer("G").subscribe(topic, expression)


@pytest.mark.case("T53")
def test_the_message_that_is_due_first_arrives_first(broker: EmbeddedBroker) -> None:
    inbox = Inbox()
    with (
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        consumer("G", broker.namesrv_addr, inbox, {"T": "*"}),
    ):
        now_ms = broker.clock.now_ms
        producer.send(Message("T", b"+5").set_deliver_time_ms(now_ms + 5000))
        producer.send(Message("T", b"+3").set_deliver_time_ms(now_ms + 3000))
        broker.clock.advance(4)
        wait(broker, inbox, 1)
        assert inbox.bodies == [b"+3"]
        broker.clock.advance(1)
        wait(broker, inbox, 2)
    assert inbox.bodies == [b"+3", b"+5"]


@pytest.mark.case("T51")
def test_a_failed_timer_message_comes_back_after_the_retry_delay_and_not_the_timers(
    broker: EmbeddedBroker,
) -> None:
    inbox = Inbox(lambda message: DONE if message.reconsume_times else LATER)
    with (
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        consumer("G", broker.namesrv_addr, inbox, {"T": "*"}),
    ):
        producer.send(Message("T", b"timer", delay=timedelta(hours=3)))
        broker.clock.advance(hours=3)
        wait_requests(broker, RequestCode.CONSUMER_SEND_MSG_BACK, 1)
        broker.clock.advance(10)
        wait(broker, inbox, 2)
    first, second = inbox.messages
    assert (second.topic, second.body, second.msg_id) == ("T", b"timer", first.msg_id)


# --- where a group begins ---------------------------------------------------------------------


@pytest.mark.case("T68")
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, [b"old", b"new", b"last"]),
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, [b"last"]),
        (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, [b"new", b"last"]),
    ],
)
def test_a_new_group_begins_where_it_says(
    where: ConsumeFromWhere, expected: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedBroker(clock=VirtualClock(), tcp=False, topics=["T"]) as broker:
        broker.send("T", b"old", queue=0)
        broker.clock.advance(3600)
        broker.send("T", b"new", queue=0)
        inbox = Inbox()
        running = consumer("G", broker.namesrv_addr, inbox, {"T": "*"})
        running.consume_from_where = where
        running.consume_timestamp = broker.clock.now() - timedelta(minutes=1)
        # A young queue answers 0 for a group without an offset; this broker's queue is not young.
        from rocketmq_py.consumer.calls import ConsumerCalls

        monkeypatch.setattr(ConsumerCalls, "stored_offset", lambda _self, _queue: None)
        with running:
            broker.send("T", b"last", queue=0)
            wait(broker, inbox, len(expected))
        assert sorted(inbox.bodies) == sorted(expected)


# --- failures ---------------------------------------------------------------------------------


@pytest.mark.case("T71")
def test_a_message_that_always_fails_comes_seventeen_times_and_then_lies_in_the_dead_letters(
    broker: EmbeddedBroker,
) -> None:
    inbox = Inbox(lambda _message: LATER)
    with consumer("G", broker.namesrv_addr, inbox, {"T": "*"}):
        broker.send("T", b"poison", tags="TagA", keys="K")
        for attempt, wait_s in enumerate(RETRY_WAITS_S, start=1):
            wait_requests(broker, RequestCode.CONSUMER_SEND_MSG_BACK, attempt)
            broker.clock.advance(wait_s)
            wait(broker, inbox, attempt + 1)
        wait_requests(broker, RequestCode.CONSUMER_SEND_MSG_BACK, 17)
    assert [message.reconsume_times for message in inbox.messages] == list(range(17))
    stored = [message.store_timestamp for message in inbox.messages]
    waited = [(later - earlier) / 1000 for earlier, later in pairwise(stored)]
    assert waited == RETRY_WAITS_S
    assert len({message.msg_id for message in inbox.messages}) == 1
    assert {message.topic for message in inbox.messages} == {"T"}
    (dead,) = broker.messages.in_topic("%DLQ%G")
    assert (dead.body, dead.tags, dead.keys) == (b"poison", "TagA", ("K",))


# --- while it runs ----------------------------------------------------------------------------


def test_a_topic_that_appears_later_is_found(broker: EmbeddedBroker) -> None:
    inbox = Inbox()
    with consumer("G", broker.namesrv_addr, inbox, {"Later": "*"}) as running:
        assert running.assigned_queues() == []
        broker.topics.create("Later")
        broker.wait_for(
            lambda _: any(queue.topic == "Later" for queue in running.assigned_queues()),
            timeout=PATIENCE,
        )
        broker.send("Later", b"found")
        wait(broker, inbox, 1)


def test_the_number_of_threads_can_change_within_its_limit(broker: EmbeddedBroker) -> None:
    with consumer("G", broker.namesrv_addr, Inbox(), {"T": "*"}) as running:
        running.update_core_pool_size(3)
        with pytest.raises(ConfigError):
            running.update_core_pool_size(21)
        with pytest.raises(ConfigError):
            running.update_core_pool_size(0)
        with pytest.raises(MQClientException, match="before start"):
            running.register_message_listener(Inbox())


def test_an_offset_the_broker_does_not_have_is_corrected_and_nothing_is_lost(
    broker: EmbeddedBroker,
) -> None:
    inbox = Inbox()
    running = consumer("G", broker.namesrv_addr, inbox, {"T": "*"})
    with running:
        pass
    broker.send("T", b"kept", queue=0)
    far = consumer("G", broker.namesrv_addr, Inbox(), {"T": "*"})
    with far:
        queue = next(q for q in far.assigned_queues() if q.topic == "T" and q.queue_id == 0)
        # What an operator's mistake looks like: an offset far behind the end.
        member = far._member
        assert member is not None
        member.offsets.update(queue, 900)
    with consumer("G", broker.namesrv_addr, inbox, {"T": "*"}) as corrected:
        broker.wait_for(
            lambda b: any(
                entry.response_code == ResponseCode.PULL_OFFSET_MOVED
                for entry in b.journal.requests(code=RequestCode.PULL_MESSAGE)
            ),
            timeout=PATIENCE,
        )
        broker.wait_for(lambda _: queue in corrected.assigned_queues(), timeout=PATIENCE)
        broker.send("T", b"after", queue=0)
        wait(broker, inbox, 1)
    assert b"after" in inbox.bodies


# --- what would lose messages without a word ----------------------------------------------------


def test_a_consumer_that_still_subscribes_to_nothing_a_while_after_its_start_is_told(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(member, "UNSUBSCRIBED_MS", 1)
    inbox = Inbox()
    with consumer("G", broker.namesrv_addr, inbox, {}) as late:
        until(lambda: NOT_SUBSCRIBED in caplog.text, PATIENCE)
        late.subscribe("T")
        broker.send("T", b"x")
        wait(broker, inbox, 1)
    assert caplog.text.count(NOT_SUBSCRIBED) == 1


def test_a_consumer_that_subscribes_just_after_its_start_is_told_nothing(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = Inbox()
    with consumer("G", broker.namesrv_addr, inbox, {}) as late:
        late.subscribe("T")
        broker.send("T", b"x")
        wait(broker, inbox, 1)
        assert late._member is not None
        late._member.tell_if_unsubscribed()
    assert NOT_SUBSCRIBED not in caplog.text


def test_a_start_with_a_subscription_says_nothing(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with consumer("G", broker.namesrv_addr, Inbox(), {"T": "*"}):
        pass
    assert caplog.records == []


@pytest.mark.parametrize(
    "expression",
    [
        "a > 1 AND b = 'x'",
        "a = 1",
        "TAGS is not null",
        "a between 1 and 3",
        "TAGS IN ('a', 'b')",
        "a || b <> 3",
        "paid = TRUE",
    ],
)
def test_an_sql_filter_is_not_taken_for_a_tag(expression: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=r"is no tag expression; .*by_sql"):
        DefaultMQPushConsumer("G").subscribe("T", expression)
    with pytest.raises(UnsupportedOperationError, match=r"is no tag expression; .*by_sql"):
        DefaultMQPushConsumer("G").subscribe("T", MessageSelector.by_tag(expression))


@pytest.mark.parametrize("tag", ["rock and roll", "a>1", "it's a tag", "x -> y", "in (stock)"])
def test_a_strange_tag_is_taken_with_a_word_and_matches(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture, tag: str
) -> None:
    inbox = Inbox()
    with consumer("G", broker.namesrv_addr, inbox, {"T": f"other || {tag}"}):
        broker.send("T", b"x", tags=tag)
        wait(broker, inbox, 1)
    (told,) = caplog.records
    assert f"whose tag is just {tag!r}" in told.getMessage()


@pytest.mark.parametrize("expression", ["a", "a || b", " a||b ", "*", "", None, "a-b_c.d:e"])
def test_usual_tags_are_taken_without_a_word(
    expression: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    DefaultMQPushConsumer("G").subscribe("T", expression)
    assert caplog.records == []


def test_a_topic_and_an_expression_that_are_no_texts_are_refused() -> None:
    number: Any = 3
    with pytest.raises(MQClientException, match="topic is no str: int 3"):
        DefaultMQPushConsumer("G").subscribe(number)
    with pytest.raises(TypeError, match="an expression is a str, not int"):
        DefaultMQPushConsumer("G").subscribe("T", number)


def test_a_rate_is_for_listeners_that_may_be_called_in_any_order() -> None:
    consumer = DefaultMQPushConsumer("G", namesrv_addr="127.0.0.1:9876")
    consumer.rate_limit("T", 5)
    consumer.register_message_listener(
        MessageListenerOrderly(lambda *_: ConsumeOrderlyStatus.SUCCESS)
    )
    with pytest.raises(UnsupportedOperationError, match="rate_limit"):
        consumer.start()
    consumer.rate_limit("T", None)
    with pytest.raises(UnsupportedOperationError, match="rate_limit"):
        consumer.rate_limit("T", 5)
    consumer._check_pace()


@pytest.mark.parametrize("orderly", [True, False])
def test_batches_that_wait_are_for_pulls_in_any_order(
    broker: EmbeddedBroker, *, orderly: bool
) -> None:
    waiting = DefaultMQPushConsumer(
        "G",
        namesrv_addr=broker.namesrv_addr,
        consume_message_batch_max_wait=timedelta(seconds=5),
        client_rebalance=orderly,
    )
    done = ConsumeOrderlyStatus.SUCCESS
    ordered = MessageListenerOrderly(lambda *_: done)
    waiting.register_message_listener(ordered if orderly else lambda *_: DONE)
    with pytest.raises(ConfigError, match="consume_message_batch_max_wait"):
        waiting.start()
