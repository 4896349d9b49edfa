"""Steps of a test's own before every put."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from embedded_broker import DoorReentryError, EmbeddedBroker, VirtualClock
from embedded_broker.core.put_hooks import PutHooks
from embedded_broker.store.put_values import InnerMessage, PutRefusal, PutStatus
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.errors import ConfigError, MQBrokerException
from rocketmq_py.protocol.codes import ResponseCode


class Hook:
    """A hook made of a function."""

    def __init__(
        self, name: str, act: Callable[[InnerMessage], PutRefusal | None] = lambda _: None
    ) -> None:
        self.name = name
        self.act = act
        self.seen: list[tuple[str, bytes, int]] = []

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutRefusal | None:
        self.seen.append((msg.topic, msg.body, now_ms))
        return self.act(msg)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), tcp=False, topics=["T"]) as made:
        yield made


def test_hooks_run_in_the_order_of_the_list(broker: EmbeddedBroker) -> None:
    order: list[str] = []

    def noting(name: str) -> Hook:
        def act(_: InnerMessage) -> None:
            order.append(name)

        return Hook(name, act)

    broker.put_hooks.append(noting("b"))
    broker.put_hooks.append(noting("c"))
    broker.put_hooks.insert(0, noting("a"))

    broker.send("T", b"x")

    assert order == ["a", "b", "c"] == broker.put_hooks.names()
    assert [hook.name for hook in broker.put_hooks] == order
    assert len(broker.put_hooks) == 3
    assert repr(broker.put_hooks) == "<put hooks: a, b, c>"


def test_a_name_is_taken_once_and_a_hook_can_be_removed() -> None:
    hooks = PutHooks()
    hooks.append(Hook("a"))
    with pytest.raises(ConfigError, match="'a'"):
        hooks.append(Hook("a"))
    with pytest.raises(KeyError, match="there are a"):
        hooks.remove("b")
    hooks.remove("a")
    assert hooks.names() == []
    assert repr(hooks) == "<put hooks: none>"


def test_a_hook_sees_the_topic_as_sent_and_may_add_a_delay(broker: EmbeddedBroker) -> None:
    def delay(msg: InnerMessage) -> None:
        msg.properties["TIMER_DELAY_SEC"] = "5"

    hook = Hook("delay", delay)
    broker.put_hooks.append(hook)
    accepted_ms = broker.clock.now_ms

    broker.send("T", b"x")

    assert hook.seen == [("T", b"x", accepted_ms)]
    assert broker.timers.count(topic="T") == 1
    broker.put_hooks.remove("delay")
    broker.clock.advance(5)
    assert broker.topics["T"].count() == 1


def test_a_hook_may_change_what_is_stored(broker: EmbeddedBroker) -> None:
    def change(msg: InnerMessage) -> None:
        msg.body = b"other"
        msg.topic = "U"
        msg.properties["colour"] = "blue"
        msg.properties.pop("a", None)

    broker.topics.create("U")
    broker.put_hooks.append(Hook("change", change))

    broker.send("T", b"x", properties={"a": "1", "b": "2"})

    (message,) = broker.messages.in_topic("U")
    assert message.body == b"other"
    assert message.properties.items() >= {"colour": "blue", "b": "2"}.items()
    assert "a" not in message.properties


def test_hooks_see_released_timers_and_levels_too_and_leave_them_whole(
    broker: EmbeddedBroker,
) -> None:
    def mark(msg: InnerMessage) -> None:
        msg.properties["seen"] = msg.properties.get("seen", "") + "x"

    hook = Hook("mark", mark)
    broker.put_hooks.append(hook)
    broker.send("T", b"timer", delay=5)
    broker.send("T", b"level", delay_level=1)
    broker.clock.advance(5)

    assert [(topic, body) for topic, body, _ in hook.seen] == [
        ("T", b"timer"),
        ("T", b"level"),
        ("T", b"level"),
        ("T", b"timer"),
    ]
    level, timer = broker.messages.in_topic("T")
    assert (level.properties["DELAY"], level.properties["seen"]) == ("1", "xx")
    assert (timer.properties["TIMER_DELAY_MS"], timer.properties["seen"]) == ("5000", "xx")


def test_a_refusal_of_a_hook_is_the_answer(broker: EmbeddedBroker) -> None:
    refusal = PutRefusal(PutStatus.MESSAGE_ILLEGAL, "not today")
    broker.put_hooks.append(Hook("refuse", lambda _: refusal))

    with pytest.raises(MQBrokerException, match="not today") as caught:
        broker.send("T", b"x")

    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert broker.topics["T"].count() == 0


def test_an_exception_in_a_hook_refuses_with_1_and_is_logged(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: InnerMessage) -> None:
        raise ZeroDivisionError("my own fault")

    broker.put_hooks.append(Hook("broken", fail))

    with pytest.raises(MQBrokerException, match="my own fault") as caught:
        broker.send("T", b"x")

    assert caught.value.code == ResponseCode.SYSTEM_ERROR
    assert "put hook broken failed" in caplog.text
    assert broker.topics["T"].count() == 0
    broker.put_hooks.remove("broken")
    broker.send("T", b"x")


def test_calling_the_broker_from_a_hook_raises_there(broker: EmbeddedBroker) -> None:
    caught: list[Exception] = []

    def call(_: InnerMessage) -> None:
        calls: list[Callable[[], object]] = [
            lambda: broker.send("T", b"y"),
            broker.topics.names,
        ]
        for enter in calls:
            try:
                enter()
            except DoorReentryError as error:
                caught.append(error)

    broker.put_hooks.append(Hook("call", call))

    broker.send("T", b"x")

    assert len(caught) == 2
    assert broker.topics["T"].count() == 1


def test_hooks_stay_over_a_restart(broker: EmbeddedBroker) -> None:
    hook = Hook("stay")
    broker.put_hooks.append(hook)
    broker.restart()

    broker.send("T", b"x")

    assert len(hook.seen) == 1


def test_plain_sends_of_a_busy_client_are_shown_too() -> None:
    with EmbeddedBroker(topics=["T"]) as broker:
        with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
            producer.send(Message("T", b"before"))
            hook = Hook("late")
            broker.put_hooks.append(hook)
            producer.send(Message("T", b"single"))
            producer.send_batch([Message("T", b"one"), Message("T", b"two")])
        assert [body for _, body, _ in hook.seen] == [b"single", b"one", b"two"]
