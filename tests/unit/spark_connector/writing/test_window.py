"""What is under way is bounded, keeps its order in a lane, and rests before it is sent again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_py import MessageQueue, MQClientException
from rocketmq_py.clock import monotonic
from rocketmq_py.protocol.frame import Frame
from rocketmq_py.raw import QueueAccess, RunOutcome, SendRun
from spark_connector.options.write_options import write_options
from spark_connector.writing.queue_choice import QueueChoice
from spark_connector.writing.requests import Request
from spark_connector.writing.send_errors import Patience
from spark_connector.writing.window import BATCHES_IN_FLIGHT, Window

QUEUES = tuple(MessageQueue("T", "broker-a", number) for number in range(2))
Told = Callable[[RunOutcome], None]


class Silent(QueueAccess):
    """Brokers that note what they get, and answer when a test says so."""

    def __init__(self) -> None:
        super().__init__(namesrv_addr="h:1")
        self.got: list[tuple[SendRun, Told]] = []

    def write_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        return QUEUES

    def send_run(self, run: SendRun, told: Told, *, timeout_ms: int = 0) -> None:
        self.got.append((run, told))

    def answer(self, index: int) -> None:
        run, told = self.got[index]
        told(RunOutcome(run.queue, "T", "", [Frame(0, b"", b"")] * len(run)))


def window(access: QueueAccess, **given: str) -> Window:
    options = write_options({"nameServer": "h:1", "topic": "T"} | given, streaming=False)
    return Window(access, QueueChoice(access, Patience(0, 0.0), {}, False, None), options)


def put(into: Window, *requests: Request) -> None:
    """Put requests for which there is room."""
    for request in requests:
        assert list(into.put(request)) == []


def test_what_is_in_flight_is_bounded_in_messages_and_in_bytes() -> None:
    large, small = Request("T", (b"x" * 1_000,), (0,)), Request("T", (b"x",), (0,))
    made = window(Silent(), batchBytes="1024", maxInFlight="9")
    put(made, *[large] * BATCHES_IN_FLIGHT)
    assert made._is_full(large)
    assert not made._is_full(small)
    put(made, small)
    assert made._is_full(small)


def test_every_message_of_a_run_counts_as_under_way() -> None:
    access = Silent()
    made = window(access, maxInFlight="6")
    two, four = (Request("T", [b"x"] * count, range(count)) for count in (2, 4))
    put(made, four, two)
    assert made._is_full(Request("T", (b"x",), (0,)))
    access.answer(1)
    assert [answered[0] for answered in [next(made.drain())]] == [two]
    assert not made._is_full(two)
    assert made._is_full(four)


def test_requests_of_a_lane_go_one_after_the_other() -> None:
    access = Silent()
    made = window(access)
    first, second = (Request("T", (body,), (0,), QUEUES[1], batch=True) for body in (b"a", b"b"))
    put(made, first, second)
    assert [one.bodies for one, _ in access.got] == [(b"a",)]
    access.answer(0)
    drained = made.drain()
    assert next(drained)[0] is first
    made.go_on(first)
    assert [(one.bodies, one.queue, one.batch) for one, _ in access.got] == [
        ((b"a",), QUEUES[1], True),
        ((b"b",), QUEUES[1], True),
    ]
    access.answer(1)
    assert next(drained)[0] is second
    made.go_on(second)
    assert list(drained) == []


def test_each_queue_gets_a_run_in_turn() -> None:
    access = Silent()
    put(window(access), *(Request("T", [b"x"] * 2, (0, 1)) for _ in range(4)))
    queues = [one.queue for one, _ in access.got]
    assert queues[0] == queues[2] != queues[1] == queues[3]


def test_what_rests_counts_as_in_flight_and_is_sent_again() -> None:
    access = Silent()
    made = window(access, maxInFlight="1")
    request = Request("T", (b"a",), (0,), batch=True)
    put(made, request)
    access.answer(0)
    ((answered, _),) = made.drain()
    answered.attempt = 1
    made.rest(answered, monotonic())
    assert made._is_full(request)
    drained = made.drain()
    access.send_run = answering(access)  # type: ignore[method-assign]
    assert next(drained)[0] is request
    assert len(access.got) == 2


def answering(access: Silent) -> Callable[..., None]:
    """Brokers that answer at once."""

    def send_run(run: SendRun, told: Told, **_given: object) -> None:
        Silent.send_run(access, run, told)
        access.answer(-1)

    return send_run


def test_what_rests_can_be_forgotten() -> None:
    access = Silent()
    made = window(access)
    put(made, Request("T", (b"a",), (0,), batch=True))
    access.answer(0)
    ((answered, _),) = made.drain()
    made.rest(answered, monotonic() + 900)
    made.forget_resting()
    assert list(made.drain()) == []
    assert len(access.got) == 1


def test_a_topic_whose_queues_cannot_be_found_is_an_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody(_topic: str) -> tuple[MessageQueue, ...]:
        raise MQClientException("nobody is there")

    access = Silent()
    monkeypatch.setattr(access, "write_queues", nobody)
    made = window(access)
    put(made, Request("T", (b"a",), (0,), batch=True))
    ((_, outcome),) = made.drain()
    assert ["nobody is there" in str(one.error) for one in outcome] == [True]
