from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from compat.ons import (
    Action,
    ConsumeContext,
    Consumer,
    Message,
    MessageListener,
    MessageSelector,
    ONSClientException,
    ONSFactory,
    Producer,
    PropertyValueConst,
)
from embedded_broker import EmbeddedBroker
from rocketmq_py import running_clients
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.trace import Pub, SubAfter, SubBefore, read_records
from tests.unit.compat.ons.ons_bench import PATIENCE, Box, consumer_of

ROOT = Path(__file__).parents[4]


def test_a_consumer_that_cannot_keep_its_program_alive_does_not_start(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if thread.name == "rocketmq-keep-alive":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    consumer = consumer_of(broker, "GID_unkept")
    with pytest.raises(ONSClientException, match="can't start new thread"):
        consumer.start()
    assert all("GID_unkept" not in one.consumer_groups for one in running_clients())


def test_a_started_consumer_keeps_its_program_alive_until_it_is_shut_down() -> None:
    program = """
import threading
from compat.ons import Action, ONSFactory, Properties, PropertyKeyConst
from embedded_broker import EmbeddedBroker

broker = EmbeddedBroker(tcp=False, topics=["T"]).start()
properties = Properties()
properties.put(PropertyKeyConst.GROUP_ID, "GID_alive")
properties.put(PropertyKeyConst.NAMESRV_ADDR, broker.namesrv_addr)
consumer = ONSFactory.createConsumer(properties)

def listen(message, context):
    print("received", message.getBody().decode(), threading.main_thread().is_alive())
    threading.Thread(target=end).start()
    return Action.CommitMessage

def end():
    consumer.shutdown()
    broker.close()

def send():
    threading.main_thread().join()
    broker.send("T", b"after the end of main")

consumer.subscribe("T", "*", listen)
consumer.start()
threading.Thread(target=send, daemon=True).start()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("received after the end of main False\n", "")


INTERRUPTED = """
import signal, sys, threading
from compat.ons import Action, ONSFactory
from embedded_broker import EmbeddedBroker
from rocketmq_py import running_clients

signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run
broker = EmbeddedBroker(tcp=False, topics=["T"]).start()
given = {"GROUP_ID": "GID_alive", "NAMESRV_ADDR": broker.namesrv_addr}
consumers = [ONSFactory.createConsumer({**given, "InstanceName": name}) for name in "ab"]
consumers.append(ONSFactory.createOrderedConsumer({**given, "GROUP_ID": "GID_order"}))
for consumer in consumers:
    consumer.subscribe("T", "*", lambda message, context: None)
    consumer.start()

def interrupt():
    if sys.argv[1] == "after":
        threading.main_thread().join()
    while running_clients():
        # As a terminal does. One that comes just before the main thread waits is not seen by it.
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        for _ in range(100):
            if running_clients():
                threading.Event().wait(0.02)
    broker.close()
    print("ended")

threading.Thread(target=interrupt).start()
if sys.argv[1] == "during":
    threading.Event().wait()
"""


@pytest.mark.parametrize(("when", "told"), [("after", ""), ("during", "KeyboardInterrupt")])
def test_a_ctrl_c_ends_a_program_that_its_consumers_keep_alive(when: str, told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, when],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    *trace, last = done.stderr.splitlines() or [""]
    assert (done.stdout, last, done.returncode) == ("ended\n", told, -signal.SIGINT if told else 0)
    assert not [line for line in trace if "Exception ignored" in line or "shut down" in line]


@pytest.mark.case("T87")
def test_a_delivery_time_is_kept_and_read_by_the_listener(
    broker: EmbeddedBroker, producer: Producer
) -> None:
    box = Box()
    running = consumer_of(broker)
    running.subscribe("TopicTestMQ", "*", box)
    with running:
        due = broker.clock.now_ms + 5000
        message = Message("TopicTestMQ", "TagA", b"later").setStartDeliverTime(due)
        producer.send(message)
        broker.clock.advance(4.999)
        assert broker.topics["TopicTestMQ"].count() == 0
        broker.clock.advance(0.001)
        broker.wait_for(lambda _: len(box.messages) == 1, timeout=PATIENCE)
    (got,) = box.messages
    assert got.getStartDeliverTime() == due
    assert got.getMsgID() == message.getMsgID()


@pytest.mark.case("T89")
def test_each_listener_gets_its_topic_and_a_retry_concerns_only_its_message(
    broker: EmbeddedBroker,
) -> None:
    first = Box(
        lambda message: (
            Action.CommitMessage if message.getReconsumeTimes() else Action.ReconsumeLater
        )
    )
    second = Box()
    running = consumer_of(broker)
    running.subscribe("TopicTestMQ", "TagA||TagB", first)
    running.subscribe("TopicTestMQ-Other", "*", second)
    with running:
        broker.send("TopicTestMQ", b"1", tags="TagA")
        broker.send("TopicTestMQ", b"no", tags="TagC")
        broker.send("TopicTestMQ-Other", b"2")
        broker.wait_for(
            lambda b: any(
                entry.response_code == 0
                for entry in b.journal.requests(code=RequestCode.CONSUMER_SEND_MSG_BACK)
            ),
            timeout=PATIENCE,
        )
        broker.clock.advance(10)
        broker.wait_for(
            lambda _: len(first.messages) == 2 and len(second.messages) == 1, timeout=PATIENCE
        )
    assert [(m.topic, m.body) for m in first.messages] == [("TopicTestMQ", b"1")] * 2
    assert [(m.topic, m.body) for m in second.messages] == [("TopicTestMQ-Other", b"2")]
    assert len(broker.journal.requests(code=RequestCode.CONSUMER_SEND_MSG_BACK)) == 1


def test_a_condition_selects_by_properties_and_a_wrong_one_is_an_error_of_ons(
    broker: EmbeddedBroker,
) -> None:
    box = Box()
    running = consumer_of(broker)
    running.subscribe("TopicTestMQ", MessageSelector.bySql("size > 5"), box)
    with running:
        broker.send("TopicTestMQ", b"small", properties={"size": "5"})
        broker.send("TopicTestMQ", b"large", properties={"size": "6"})
        broker.wait_for(lambda _: box.messages, timeout=PATIENCE)
        broker.wait_idle()
        with pytest.raises(ONSClientException, match="Value ''5'' cannot be compared"):
            running.subscribe("TopicTestMQ", MessageSelector.bySql("size > '5'"), box)
    assert [message.body for message in box.messages] == [b"large"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [(None, "returned None"), ("CommitMessage", "a str"), (True, "returned True, a bool")],
    ids=str,
)
def test_anything_but_an_action_means_later_and_is_told(
    broker: EmbeddedBroker, answer: object, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    running = consumer_of(broker)
    running.subscribe("TopicTestMQ", MessageSelector.by_tag("*"), lambda _m, _c: answer)  # type: ignore[arg-type,return-value]
    with running:
        broker.send("TopicTestMQ", b"1")
        broker.wait_for(
            lambda b: len(b.journal.requests(code=RequestCode.CONSUMER_SEND_MSG_BACK)) == 1,
            timeout=PATIENCE,
        )
        (back,) = broker.journal.requests(code=RequestCode.CONSUMER_SEND_MSG_BACK)
        assert back.code == RequestCode.CONSUMER_SEND_MSG_BACK
    (line,) = [one.getMessage() for one in caplog.records if one.name == "compat.ons.consumer"]
    assert told in line
    assert "attempt 1" in line
    assert "return Action.CommitMessage" in line


def returns_nothing(message: Message, context: ConsumeContext) -> None: ...


def returns_truth(message: Message, context: ConsumeContext) -> bool:
    return True


class Silent(MessageListener):
    def consume(self, message: Message, context: ConsumeContext) -> None:  # type: ignore[override]
        """Return nothing."""


@pytest.mark.parametrize(
    ("listener", "kind"), [(returns_nothing, "None"), (returns_truth, "bool"), (Silent(), "None")]
)
def test_a_listener_that_can_never_succeed_is_refused_when_it_subscribes(
    broker: EmbeddedBroker, listener: Any, kind: str
) -> None:
    with pytest.raises(ONSClientException, match=rf"returns {kind}, so .*Action\.CommitMessage"):
        consumer_of(broker).subscribe("TopicTestMQ", "*", listener)


def test_a_listener_that_takes_other_arguments_is_refused_when_it_subscribes(
    broker: EmbeddedBroker,
) -> None:
    async def awaited(message: Message, context: ConsumeContext) -> Action:
        return Action.CommitMessage

    wrong: Any = lambda _message: Action.CommitMessage  # noqa: E731 - it has no context
    told = r"the listener takes \(_message\): it is called with \(message, context\)"
    with pytest.raises(ONSClientException, match=told):
        consumer_of(broker).subscribe("TopicTestMQ", "*", wrong)
    with pytest.raises(ONSClientException, match="a coroutine function, and nobody awaits it"):
        consumer_of(broker).subscribe("TopicTestMQ", "*", awaited)  # type: ignore[arg-type]
    consumer_of(broker).subscribe("TopicTestMQ", "*", lambda *_given: Action.CommitMessage)


def test_a_subscription_needs_topic_and_listener(broker: EmbeddedBroker) -> None:
    unstarted = consumer_of(broker)
    with pytest.raises(ONSClientException, match="topic"):
        unstarted.subscribe("", "*", Box())
    with pytest.raises(ONSClientException, match="listener"):
        unstarted.subscribe("T", "*", None)  # type: ignore[arg-type]
    with pytest.raises(ONSClientException, match="T"):
        unstarted.subscribe("T", "||", Box())
    unstarted.unsubscribe("T")


def test_a_listener_base_without_a_function_fails_and_the_message_comes_again() -> None:
    with pytest.raises(ONSClientException, match="override it"):
        MessageListener().consume(Message(), ConsumeContext())


def test_in_broadcasting_every_member_gets_each_message_once(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # offsets are kept there
    boxes = [Box(lambda _message: Action.ReconsumeLater), Box()]
    settings = {
        "NAMESRV_ADDR": broker.namesrv_addr,
        "GROUP_ID": "GID_all",
        "MessageModel": PropertyValueConst.BROADCASTING,
    }
    with ExitStack() as stack:
        for number, box in enumerate(boxes):
            running = ONSFactory.createConsumer(settings | {"InstanceName": f"member-{number}"})
            running.subscribe("TopicTestMQ", "TagA", box)
            stack.enter_context(running)
        broker.send("TopicTestMQ", b"1", tags="TagA")
        broker.wait_for(lambda _: all(box.messages for box in boxes), timeout=PATIENCE)
        broker.clock.advance(60)
        broker.wait_idle()
    assert [[message.body for message in box.messages] for box in boxes] == [[b"1"], [b"1"]]
    assert broker.journal.requests(code=RequestCode.CONSUMER_SEND_MSG_BACK) == []


def test_an_instance_has_its_own_groups_and_the_listener_sees_bare_names(
    broker: EmbeddedBroker,
) -> None:
    broker.topics.create("MQ_INST_1_x%TopicTestMQ")
    settings = {
        "NAMESRV_ADDR": broker.namesrv_addr,
        "GROUP_ID": "GID_shop",
        "INSTANCE_ID": "MQ_INST_1_x",
    }
    box = Box()
    running = ONSFactory.createConsumer(settings)
    running.subscribe("TopicTestMQ", "*", box)
    with running, ONSFactory.createOrderProducer(settings) as producer:
        producer.send(Message("TopicTestMQ", "TagA", b"1"), "key")
        broker.send("TopicTestMQ", b"of nobody")
        broker.wait_for(lambda _: box.messages, timeout=PATIENCE)
        broker.wait_idle()
    (message,) = box.messages
    assert (message.getTopic(), message.getShardingKey()) == ("TopicTestMQ", "key")
    assert {one.group for one in broker.journal.requests(code=RequestCode.PULL_MESSAGE)} == {
        "MQ_INST_1_x%GID_shop"
    }


def test_a_subscription_that_fails_leaves_the_listener_of_before(broker: EmbeddedBroker) -> None:
    box = Box()
    running = consumer_of(broker)
    running.subscribe("TopicTestMQ", "TagA", box)
    with running:
        with pytest.raises(ONSClientException):
            running.subscribe("TopicTestMQ", MessageSelector.bySql("size > '5'"), Box())
        with pytest.raises(ONSClientException):
            running.subscribe("TopicTestMQ-Other", MessageSelector.bySql("size > '5'"), Box())
        broker.send("TopicTestMQ", b"1", tags="TagA")
        broker.wait_for(lambda _: box.messages, timeout=PATIENCE)


@pytest.mark.parametrize(
    ("more", "topics"),
    [
        ({}, {"RMQ_SYS_TRACE_TOPIC"}),
        ({"MsgTraceSwitch": "false"}, set()),
        ({"OnsChannel": "CLOUD"}, {"rmq_sys_TRACE_DATA_DefaultRegion"}),
    ],
)
def test_the_way_of_messages_is_noted_where_the_channel_says_unless_it_is_switched_off(
    broker: EmbeddedBroker, more: dict[str, str], topics: set[str]
) -> None:
    settings = {"NAMESRV_ADDR": broker.namesrv_addr, "GROUP_ID": "GID_traced", **more}
    for name in ("RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_DefaultRegion"):
        broker.topics.create(name)
    box = Box()
    running = ONSFactory.createConsumer(settings)
    running.subscribe("TopicTestMQ", "*", box)
    with running, ONSFactory.createProducer(settings) as producer:
        producer.send(Message("TopicTestMQ", "TagA", b"1"))
        broker.wait_for(lambda _: box.messages, timeout=PATIENCE)
    sent = broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2)
    assert {str(one.topic) for one in sent} - {"TopicTestMQ"} == topics
    noted = {type(one) for name in topics for one in records_in(broker, name)}
    assert noted == ({Pub, SubBefore, SubAfter} if topics else set())


def records_in(broker: EmbeddedBroker, topic: str) -> list[object]:
    return [one for m in broker.messages.in_topic(topic) for one in read_records(m.body)]


def test_a_message_of_a_topic_without_a_listener_comes_again_later(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    box = Box()
    running = consumer_of(broker)
    running.subscribe("TopicTestMQ", "*", box)
    running.core.subscribe("TopicTestMQ-Other")
    with running:
        broker.send("TopicTestMQ-Other", b"1")
        broker.wait_for(
            lambda b: b.journal.requests(code=RequestCode.CONSUMER_SEND_MSG_BACK), timeout=PATIENCE
        )
    assert "no listener for topic TopicTestMQ-Other" in caplog.text
    assert box.messages == []


def test_a_rate_holds_for_its_topic_alone(broker: EmbeddedBroker) -> None:
    slow, quick = Box(), Box()
    running = consumer_of(broker)
    running.rateLimit("TopicTestMQ", 0.001)
    running.subscribe("TopicTestMQ", "*", slow)
    running.subscribe("TopicTestMQ-Other", "*", quick)
    with running:
        for number in range(3):
            broker.send("TopicTestMQ", str(number).encode())
        broker.wait_for(lambda _: slow.messages and waiting(running) == 2, timeout=PATIENCE)
        for _ in range(3):
            broker.send("TopicTestMQ-Other", b"x")
        broker.wait_for(lambda _: len(quick.messages) == 3, timeout=PATIENCE)
    assert len(slow.messages) == 1
    with pytest.raises(ONSClientException, match="rate"):
        running.rate_limit("TopicTestMQ", 0)


def waiting(consumer: Consumer) -> int:
    return consumer.core._joined().dispatch.unfinished
