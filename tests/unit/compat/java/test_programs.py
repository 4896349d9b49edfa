"""The ported Java programs of ``examples/java_spelling``, each as it stands there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from tests.pages import ROOT
from tests.programs import load, programs_in

FOLDER = "java_spelling"
TOPICS = ["TimerTopic", "mq-test4", "Topic-test", "TopicTest1234"]
Program = Callable[[str], ModuleType]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), tcp=False, topics=TOPICS) as started:
        yield started


@pytest.fixture
def program(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Load a program that finds the broker, and reads the broker's clock."""

    def load_it(name: str) -> ModuleType:
        module = load(f"{FOLDER}/{name}", broker.namesrv_addr, monkeypatch)
        monkeypatch.setattr(module, "time", lambda: broker.clock.now_ms / 1000, raising=False)
        return module

    return load_it


@pytest.mark.case("T38")
def test_the_program_for_five_point_zero_delays_by_ten_seconds(
    broker: EmbeddedBroker, program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    received: list[str] = []
    consumer_module = program("timer_message_consumer")
    consumer_module.print = received.append  # type: ignore[attr-defined]
    with consumer_module.main():
        program("timer_message_producer").main()
        sent = capsys.readouterr().out
        assert sent.count("SendStatus.SEND_OK") == 10
        broker.clock.advance(9.9)
        assert received == []
        broker.clock.advance(0.2)
        broker.wait_for(lambda _: len(received) == 10)
    assert all(line.startswith("Receive message[msgId=") for line in received)
    assert all(line.split("msgId=")[1].split()[0] in sent for line in received)


@pytest.mark.case("T35")
def test_the_program_for_four_point_nine_delays_by_a_user_property(
    broker: EmbeddedBroker, program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    program("timer_message_producer_4_9_4").main(100)
    assert capsys.readouterr().out.count("SendStatus.SEND_OK") == 100
    broker.clock.advance(9)
    assert broker.topics["TimerTopic"].count() == 0
    broker.clock.advance(1.1)
    broker.wait_for(lambda _: broker.topics["TimerTopic"].count() == 100)


def test_an_ordinary_message_is_sent(broker: EmbeddedBroker, program: Program) -> None:
    program("ordinary_message").main()
    (stored,) = broker.messages.in_topic("mq-test4")
    assert (stored.body, stored.tags) == (b"Hello RocketMQ", "*")


def test_messages_of_an_order_lie_in_one_queue_in_order(
    broker: EmbeddedBroker, program: Program
) -> None:
    program("ordered_messages").main()
    queues: dict[int, set[int]] = {}
    for stored in broker.messages.in_topic("Topic-test"):
        number = int(stored.body.split()[-1])
        queues.setdefault(number % 10, set()).add(stored.queue_id)
    count = broker.topics["Topic-test"].queues
    assert queues == {order: {order % count} for order in range(10)}


def test_a_level_delays_by_its_time(broker: EmbeddedBroker, program: Program) -> None:
    program("delay_level").main()
    broker.clock.advance(9.9)
    assert broker.topics["mq-test4"].count() == 0
    broker.clock.advance(0.2)
    broker.wait_for(lambda _: broker.topics["mq-test4"].count() == 1)


@pytest.mark.case("T58")
def test_transactions_end_as_their_work_did_or_as_it_says_later(
    broker: EmbeddedBroker, program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    with program("transaction_messages").main():
        broker.wait_for(lambda _: broker.topics["TopicTest1234"].count() == 4)
        broker.clock.advance(120)
        broker.wait_for(lambda _: broker.topics["TopicTest1234"].count() == 7)
    out = capsys.readouterr().out
    assert out.count("SendStatus.SEND_OK") == 10
    assert {key for key in ("KEY2", "KEY5", "KEY8") if f"asked about {key}" in out} == {
        "KEY2",
        "KEY5",
        "KEY8",
    }


def test_every_row_of_the_tables_of_settings_is_taken(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    program("settings_tables").main()
    out = capsys.readouterr().out
    assert "DELAY='3'" in out
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["namesrvAddr", "sendMsgTimeout"]
    assert "10000" in out
    assert "3000\n" in out


def test_every_program_is_tried_here() -> None:
    programs = programs_in(FOLDER)
    text = (ROOT / "tests" / "unit" / "compat" / "java" / "test_programs.py").read_text("utf-8")
    assert {name for name in programs if f'program("{name}")' in text} == programs
