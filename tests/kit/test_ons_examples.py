"""The ONS programs of ``examples/ons`` run as they stand there, under a clock that is moved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from compat.ons import Consumer
from embedded_broker import EmbeddedBroker, VirtualClock
from tests.programs import load

PATIENCE = 20.0


Run = Callable[[str], object]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    topics = ["TopicTestMQ", "TopicTestMQ-Other"]
    with EmbeddedBroker(clock=VirtualClock(), tcp=False, topics=topics) as started:
        yield started


@pytest.fixture
def run(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a program of the folder."""
    return lambda name: load(f"ons/{name}", broker.namesrv_addr, monkeypatch).main()


@pytest.mark.case("T86", "T87", "T89")
def test_a_message_of_the_producer_reaches_the_consumer_when_it_is_due(
    broker: EmbeddedBroker, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = ""

    def seen(*words: str) -> bool:
        nonlocal printed
        printed += capsys.readouterr().out
        return all(word in printed for word in words)

    consumer = run("timer_consumer")
    assert isinstance(consumer, Consumer)
    with consumer:
        run("timer_producer")
        broker.wait_for(lambda _: seen("message async", "message success"), timeout=PATIENCE)
        assert printed.startswith("Consumer Started\n")
        (timer,) = broker.timers
        broker.clock.jump_to(timer.due_at - timedelta(milliseconds=1))
        broker.send("TopicTestMQ-Other", b"x")
        broker.wait_for(lambda _: seen("topic=TopicTestMQ-Other"), timeout=PATIENCE)
        assert "msgId=" not in printed.partition("Receive")[2]
        broker.clock.advance(0.001)
        broker.wait_for(lambda _: seen("ms later]"), timeout=PATIENCE)
    (message_id,) = re.findall(r"message async\. topic=TopicTestMQ, msgId=(\w+)", printed)
    assert f"send message success. topic=TopicTestMQ, msgId={message_id}\n" in printed
    assert "Receive: Message [topic=TopicTestMQ, tag=TagA, key=ORDERID_100" in printed
    assert f"Receive message[msgId={message_id} " in printed
