"""What is under way is bounded, keeps its order in a lane, and rests before it is sent again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Thread

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra spark)")

from rocketmq_py import (
    MessageQueue,
    MQClientException,
    PreparedMessage,
    QueueAccess,
    RawSend,
    SendOutcome,
    SendStatus,
)
from rocketmq_py.clock import monotonic
from spark_connector.options.write_options import write_options
from spark_connector.writing.queue_choice import QueueChoice
from spark_connector.writing.requests import Request
from spark_connector.writing.send_errors import Patience
from spark_connector.writing.window import Window, _Inbox

QUEUES = tuple(MessageQueue("T", "broker-a", number) for number in range(2))
Told = Callable[[int, SendOutcome], None]


class Silent(QueueAccess):
    """Brokers that note what they get, and answer when a test says so."""

    def __init__(self) -> None:
        super().__init__(namesrv_addr="h:1")
        self.got: list[tuple[PreparedMessage, int, Told]] = []

    def write_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        return QUEUES

    def send_many(
        self, messages: Sequence[PreparedMessage], told: Told, *, timeout_ms: int = 0
    ) -> None:
        self.got += [(one, number, told) for number, one in enumerate(messages)]

    def answer(self, index: int) -> None:
        message, number, told = self.got[index]
        told(number, SendOutcome(RawSend(SendStatus.SEND_OK, message.queue, 0, ""), None))


def window(access: QueueAccess, **given: str) -> Window:
    options = write_options({"nameServer": "h:1", "topic": "T"} | given, streaming=False)
    return Window(access, QueueChoice(access, Patience(0, 0.0), {}, False, None), options)


def put(into: Window, *requests: Request) -> None:
    """Put requests for which there is room."""
    for request in requests:
        assert list(into.put(request)) == []


def test_no_more_is_in_flight_than_two_batches() -> None:
    made = window(Silent(), batchBytes="1024", maxInFlight="3")
    put(made, Request("T", b"x" * 1_000, (0,)))
    assert not made._is_full(1_000)
    put(made, Request("T", b"x" * 1_000, (0,)))
    assert made._is_full(1_000)
    assert not made._is_full(10)
    put(made, Request("T", b"x", (0,)))
    assert made._is_full(10)


def test_requests_of_a_lane_go_one_after_the_other() -> None:
    access = Silent()
    made = window(access)
    first, second = (Request("T", body, (0,), QUEUES[1], batch=True) for body in (b"a", b"b"))
    put(made, first, second)
    assert [one.body for one, _, _ in access.got] == [b"a"]
    access.answer(0)
    drained = made.drain()
    assert next(drained)[0] is first
    made.go_on(first)
    assert [(one.body, one.queue, one.batch) for one, _, _ in access.got] == [
        (b"a", QUEUES[1], True),
        (b"b", QUEUES[1], True),
    ]
    access.answer(1)
    assert next(drained)[0] is second
    made.go_on(second)
    assert list(drained) == []


def test_single_rows_leave_together_when_flushed_a_part_to_each_queue() -> None:
    access = Silent()
    made = window(access)
    put(made, *(Request("T", b"%d" % number, (number,)) for number in range(4)))
    assert access.got == []
    made.flush()
    queues = [one.queue for one, _, _ in access.got]
    assert queues[0] == queues[1] != queues[2] == queues[3]


def test_what_rests_counts_as_in_flight_and_is_sent_again() -> None:
    access = Silent()
    made = window(access, maxInFlight="1")
    request = Request("T", b"a", (0,), batch=True)
    put(made, request)
    access.answer(0)
    ((answered, _),) = made.drain()
    answered.attempt = 1
    made.rest(answered, monotonic())
    assert made._is_full(0)
    drained = made.drain()
    access.send_many = answering(access)  # type: ignore[method-assign]
    assert next(drained)[0] is request
    assert len(access.got) == 2


def answering(access: Silent) -> Callable[..., None]:
    """Brokers that answer at once."""

    def send_many(messages: Sequence[PreparedMessage], told: Told, **_given: object) -> None:
        Silent.send_many(access, messages, told)
        access.answer(-1)

    return send_many


def test_what_rests_can_be_forgotten() -> None:
    access = Silent()
    made = window(access)
    put(made, Request("T", b"a", (0,), batch=True))
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
    put(made, Request("T", b"a", (0,), batch=True))
    ((_, outcome),) = made.drain()
    assert "nobody is there" in str(outcome.error)


def test_a_group_waits_until_half_of_what_is_under_way_is_answered() -> None:
    """A writer that is woken for each answer costs more than the sends."""
    inbox = _Inbox()
    answer = Request("T", b"x", (0,)), SendOutcome(None, None)
    asks, got = Event(), Event()

    def wait() -> None:
        asks.set()
        assert inbox.get(3, 30.0) is answer
        got.set()

    waiter = Thread(target=wait)
    waiter.start()
    assert asks.wait(30)
    inbox.put(answer)
    inbox.put(answer)
    assert not got.is_set()
    inbox.put(answer)
    assert got.wait(30)
    waiter.join(30)
    assert inbox.get(5, 30.0) is answer  # what is there is not waited for
    assert inbox.get(1, None) is answer
    assert inbox.get(1, 0.0) is None
