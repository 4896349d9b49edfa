"""On which threads an application is asked, and what becomes of questions that find no room."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py import LocalTransactionState, Message, MessageExt
from rocketmq_py.client.activity import Book
from rocketmq_py.producer.checking import Checking, decision_of

COMMIT = LocalTransactionState.COMMIT_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW
WAIT_S = 20.0


class Halves:
    """As much of `Halves` as questions need."""

    def __init__(self) -> None:
        config = SimpleNamespace(decompressed_body_max_bytes=1_000)
        self.kernel = SimpleNamespace(group="bank", config=config)
        self.undecided = Book("producer bank", "transactions undecided")


class Question:
    """A half that notes how it was ended."""

    def __init__(self, number: int = 0) -> None:
        self.message = MessageExt("T", b"x", properties={"UNIQ_KEY": f"id-{number}"})
        self.message_id = f"id-{number}"
        self.ends: list[tuple[LocalTransactionState, str | None]] = []

    def end(self, state: LocalTransactionState, *, remark: str | None = None) -> None:
        self.ends.append((state, remark))


def checking(halves: Halves, check: Callable[[MessageExt], Any], **settings: Any) -> Checking:
    return Checking(halves, check, **settings)  # type: ignore[arg-type] # a part of Halves


def ask(made: Checking, half: Question) -> None:
    made.ask(half)  # type: ignore[arg-type] # a part of AskedHalf


def test_a_question_is_answered_on_a_thread_of_its_own() -> None:
    halves, half, names = Halves(), Question(), []

    def check(message: MessageExt) -> LocalTransactionState:
        names.append((message.msg_id, threading.current_thread().name))
        return COMMIT

    made = checking(halves, check)
    ask(made, half)
    halves.undecided.wait_until_empty(WAIT_S)
    made.close(WAIT_S)
    assert names == [("id-0", "rocketmq-transaction-check-1")]
    assert half.ends == [(COMMIT, None)]


def test_more_than_may_wait_are_dropped_and_counted_as_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    halves, entered, leave = Halves(), threading.Event(), threading.Event()

    def check(_: MessageExt) -> LocalTransactionState:
        entered.set()
        leave.wait(WAIT_S)
        return COMMIT

    made = checking(halves, check, hold_max=1)
    questions = [Question(number) for number in range(3)]
    ask(made, questions[0])
    assert entered.wait(WAIT_S)
    ask(made, questions[1])
    ask(made, questions[2])
    assert "group=bank id=id-2: 1 wait already (check_request_hold_max)" in caplog.text
    assert list(halves.undecided) == questions[:2]
    leave.set()
    made.close(WAIT_S)
    assert [one.ends for one in questions] == [[(COMMIT, None)], [(COMMIT, None)], []]


def test_what_an_executor_cancels_or_refuses_is_no_longer_worked_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    halves = Halves()

    class Cancelling(Executor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.cancel()
            return future

    ask(checking(halves, lambda _: COMMIT, executor=Cancelling()), Question(1))
    assert list(halves.undecided) == []
    over = ThreadPoolExecutor(1)
    over.shutdown()
    ask(checking(halves, lambda _: COMMIT, executor=over), Question(2))
    assert list(halves.undecided) == []
    assert "id=id-2: the executor takes no work" in caplog.text


@pytest.mark.parametrize(("answer", "told"), [(None, "None"), (True, "True, a bool,")])
def test_what_is_no_state_counts_as_unknown_and_is_told_without_a_traceback(
    answer: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert decision_of(lambda: answer, "trouble", Message("T")) == (UNKNOW, None)
    (warned,) = caplog.records
    assert (warned.levelname, warned.exc_info) == ("WARNING", None)
    assert f"returned {told} for" in warned.getMessage()
    assert warned.getMessage().endswith("return a LocalTransactionState")


def test_an_error_counts_as_unknown_and_goes_to_the_broker() -> None:
    assert decision_of(lambda: COMMIT, "trouble", Message("T")) == (COMMIT, None)

    def fails() -> LocalTransactionState:
        raise ValueError("no such account")

    state, remark = decision_of(fails, "trouble", Message("T"))
    assert (state, remark) == (UNKNOW, "trouble: ValueError: no such account")
