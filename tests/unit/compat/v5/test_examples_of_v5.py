"""The programs of examples/v5, which are those of the 5.0 documents, under a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from datetime import timedelta
from types import ModuleType

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.protocol.codes import RequestCode
from tests.programs import begin, load, programs_in
from tests.waiting import until

PATIENCE_S = 20.0
COVERED = {
    *("create_delay_topic", "send_delayed", "push_consumer", "simple_consumer"),
    *("transactions", "fifo_messages"),
}


class Stage:
    """A broker, and programs that run beside the test."""

    def __init__(self, ends: ExitStack, patch: pytest.MonkeyPatch) -> None:
        self.broker = ends.enter_context(EmbeddedBroker(clock=VirtualClock()))
        self._patch = patch
        self._producer = ends.enter_context(
            DefaultMQProducer("stops", namesrv_addr=self.broker.namesrv_addr)
        )

    def load(self, program: str) -> ModuleType:
        return load(f"v5/{program}", self.broker.namesrv_addr, self._patch)

    def begin(self, program: str, *arguments: str) -> Future[int]:
        main = self.load(program).main
        return begin(lambda: main(self.broker.namesrv_addr, *arguments), program)

    def run(self, program: str, *arguments: str) -> None:
        assert self.begin(program, *arguments).result(PATIENCE_S) == 0

    def send(self, topic: str, body: bytes) -> None:
        self._producer.send(Message(topic, body))

    def requests(self, code: RequestCode) -> int:
        return len(self.broker.journal.requests(code=code))


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with ExitStack() as ends:
        yield Stage(ends, monkeypatch)


def test_every_program_is_run_here() -> None:
    assert programs_in("v5") == COVERED


@pytest.mark.parametrize("consumer", ["push_consumer", "simple_consumer"])
def test_a_message_is_consumed_ten_minutes_after_it_was_sent(
    stage: Stage, consumer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.run("create_delay_topic", "DelayTopic")
    consuming = stage.begin(consumer, "DelayTopic", "G")
    until(lambda: stage.requests(RequestCode.POP_MESSAGE), PATIENCE_S)
    stage.run("send_delayed", "DelayTopic")
    (timer,) = stage.broker.timers.pending()
    stage.broker.clock.advance(timedelta(minutes=9))
    assert "due at" not in capsys.readouterr().out
    stage.broker.clock.advance(timedelta(minutes=1, seconds=1))
    stage.send("DelayTopic", b"stop")
    assert consuming.result(PATIENCE_S) == 0
    told = capsys.readouterr().out
    assert f"b'messageBody' was due at {round(timer.due_at.timestamp() * 1000)}\n" in told
    assert "b'stop' was due at None\n" in told
    assert stage.requests(RequestCode.PULL_MESSAGE) == 0


def test_a_message_without_a_time_is_refused_by_that_topic(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.broker.topics.create("NormalTopic", message_type="NORMAL")
    assert stage.begin("send_delayed", "NormalTopic").result(PATIENCE_S) == 1
    assert "not sent: topic NormalTopic is for messages of type NORMAL" in capsys.readouterr().out


@pytest.mark.parametrize(("outcome", "delivered"), [("commit", 1), ("rollback", 0), ("crash", 0)])
def test_a_transaction_ends_as_the_program_says(
    stage: Stage, outcome: str, delivered: int, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.broker.topics.create("Payments")
    stage.run("transactions", "Payments", outcome)
    if delivered:
        stage.broker.wait_delivered("Payments")
    assert len(stage.broker.messages.in_topic("Payments")) == delivered
    assert outcome in capsys.readouterr().out


def test_the_next_run_is_asked_about_what_a_crash_has_left_open(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.broker.topics.create("Payments")
    stage.run("transactions", "Payments", "crash")
    stage.broker.clock.advance(timedelta(minutes=5))
    code = stage.load("transactions")
    configuration = code.ClientConfiguration(stage.broker.namesrv_addr)
    with code.Producer(configuration, ("Payments",), checker=code.Ledger()):
        stage.broker.clock.run(timedelta(minutes=5))
        stage.broker.wait_delivered("Payments")
    assert "asked about b'paid 42'" in capsys.readouterr().out


def test_the_steps_of_each_order_come_one_after_the_other(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.broker.topics.create("Orders", message_type="FIFO")
    stage.run("fifo_messages", "Orders", "G")
    assert capsys.readouterr().out.splitlines() == [
        f"order-{number}: created, paid, shipped" for number in (1, 2, 3)
    ]
