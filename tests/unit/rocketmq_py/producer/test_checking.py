"""On which threads an application is asked, and what becomes of questions that find no room."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py import LocalTransactionState, Message, MessageExt
from rocketmq_py.producer.checking import Checking, decision_of

COMMIT = LocalTransactionState.COMMIT_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW
WAIT_S = 20.0


class Book:
    """As much of `Halves` as questions need."""

    def __init__(self) -> None:
        config = SimpleNamespace(decompressed_body_max_bytes=1_000)
        self.kernel = SimpleNamespace(group="bank", config=config)
        self.undecided: list[object] = []
        self.none_left = threading.Event()

    def enter(self, work: object) -> None:
        self.undecided.append(work)

    def leave(self, work: object) -> None:
        if work in self.undecided:
            self.undecided.remove(work)
        if not self.undecided:
            self.none_left.set()


class Question:
    """A half that notes how it was ended."""

    def __init__(self, number: int = 0) -> None:
        self.message = MessageExt("T", b"x", properties={"UNIQ_KEY": f"id-{number}"})
        self.message_id = f"id-{number}"
        self.ends: list[tuple[LocalTransactionState, str | None]] = []

    def end(self, state: LocalTransactionState, *, remark: str | None = None) -> None:
        self.ends.append((state, remark))


def checking(book: Book, check: Callable[[MessageExt], Any], **settings: Any) -> Checking:
    return Checking(book, check, **settings)  # type: ignore[arg-type] # a part of Halves


def ask(made: Checking, half: Question) -> None:
    made.ask(half)  # type: ignore[arg-type] # a part of AskedHalf


def test_a_question_is_answered_on_a_thread_of_its_own() -> None:
    book, half, names = Book(), Question(), []

    def check(message: MessageExt) -> LocalTransactionState:
        names.append((message.msg_id, threading.current_thread().name))
        return COMMIT

    made = checking(book, check)
    ask(made, half)
    assert book.none_left.wait(WAIT_S)
    made.close(WAIT_S)
    assert names == [("id-0", "rocketmq-transaction-check-1")]
    assert half.ends == [(COMMIT, None)]


def test_more_than_may_wait_are_dropped_and_counted_as_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    book, entered, leave = Book(), threading.Event(), threading.Event()

    def check(_: MessageExt) -> LocalTransactionState:
        entered.set()
        leave.wait(WAIT_S)
        return COMMIT

    made = checking(book, check, hold_max=1)
    halves = [Question(number) for number in range(3)]
    ask(made, halves[0])
    assert entered.wait(WAIT_S)
    ask(made, halves[1])
    ask(made, halves[2])
    assert "group=bank id=id-2: 1 wait already (check_request_hold_max)" in caplog.text
    assert book.undecided == halves[:2]
    leave.set()
    made.close(WAIT_S)
    assert [half.ends for half in halves] == [[(COMMIT, None)], [(COMMIT, None)], []]


def test_what_an_executor_cancels_or_refuses_is_no_longer_worked_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    book = Book()

    class Cancelling(Executor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.cancel()
            return future

    ask(checking(book, lambda _: COMMIT, executor=Cancelling()), Question(1))
    assert book.undecided == []
    over = ThreadPoolExecutor(1)
    over.shutdown()
    ask(checking(book, lambda _: COMMIT, executor=over), Question(2))
    assert book.undecided == []
    assert "id=id-2: the executor takes no work" in caplog.text


def test_an_answer_that_is_none_counts_as_unknown_and_so_does_an_error() -> None:
    assert decision_of(lambda: COMMIT, "trouble", Message("T")) == (COMMIT, None)
    assert decision_of(lambda: None, "trouble", Message("T")) == (UNKNOW, None)

    def fails() -> LocalTransactionState:
        raise ValueError("no such account")

    state, remark = decision_of(fails, "trouble", Message("T"))
    assert (state, remark) == (UNKNOW, "trouble: ValueError: no such account")
