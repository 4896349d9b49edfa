from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from compat.ons import (
    Message,
    OnExceptionContext,
    ONSClientException,
    Producer,
    SendCallback,
    SendResult,
)
from compat.ons.sending import Teller
from tests.unit.compat.ons.ons_bench import PATIENCE, Outcome

RESULT = SendResult("T", "ID")
CONTEXT = OnExceptionContext("T", None, ONSClientException("no"))


class Java:
    """A callback that is no `SendCallback`, with Java's names."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def onSuccess(self, sendResult: SendResult) -> None:  # noqa: N802, N803
        self.told.append(sendResult)

    def onException(self, context: OnExceptionContext) -> None:  # noqa: N802
        self.told.append(context)


class Python(Java):
    """The same with Python's names."""

    onSuccess = onException = None  # type: ignore[assignment]  # noqa: N815

    def on_success(self, result: SendResult) -> None:
        self.told.append(result)

    def on_exception(self, context: OnExceptionContext) -> None:
        self.told.append(context)


@pytest.mark.parametrize("kind", [Java, Python])
def test_any_object_with_the_methods_of_either_spelling_is_a_callback(kind: type[Java]) -> None:
    callback = kind()
    teller = Teller.of(callback, None)
    teller.tell_success(RESULT)
    teller.tell_failure(CONTEXT)
    assert callback.told == [RESULT, CONTEXT]


class Half:
    """It could not be told of a failure."""

    def onSuccess(self, sendResult: SendResult) -> None:  # noqa: N802, N803
        """Take it."""


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda _result: None, "function is no callback of a send, it has no onSuccess"),
        (None, "NoneType is no callback"),
        (Half(), "Half is no callback of a send, it has no onException"),
        (Java, "Java is a class"),
    ],
)
def test_what_is_no_callback_is_refused_before_anything_is_sent(
    producer: Producer, wrong: object, told: str
) -> None:
    message = Message("TopicTestMQ", "TagA", b"x")
    with pytest.raises(TypeError, match=told):
        producer.sendAsync(message, cast("Any", wrong))
    assert message.getMsgID() is None


def test_a_callback_that_does_not_call_its_base_is_told_all_the_same() -> None:
    class Own(SendCallback):
        def __init__(self) -> None:
            self.told: list[SendResult] = []

        def onSuccess(self, sendResult: SendResult) -> None:  # noqa: N802, N803
            self.told.append(sendResult)

    callback = Own()
    teller = Teller.of(callback, None)
    teller.tell_success(RESULT)
    teller.tell_failure(CONTEXT)
    assert callback.told == [RESULT]


def test_what_a_callback_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: SendResult) -> None:
        raise ZeroDivisionError

    Teller.of(SendCallback(fail), None).tell_success(RESULT)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "send callback failed")


def test_callbacks_run_on_the_executor_of_the_program(producer: Producer) -> None:
    names: list[str] = []

    def note() -> None:
        names.append("here")

    with ThreadPoolExecutor(1, initializer=note) as executor:
        producer.setCallbackExecutor(executor)
        outcome = Outcome()
        producer.sendAsync(Message("TopicTestMQ", "TagA", b"x"), outcome)
        assert outcome.known.wait(PATIENCE)
        assert (len(outcome.results), names) == (1, ["here"])


def test_an_executor_that_is_shut_down_keeps_no_outcome_back(
    producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    producer.set_callback_executor(executor)
    outcome = Outcome()
    producer.send_async(Message("a b", "TagA", b"x"), outcome)
    assert outcome.known.wait(PATIENCE)
    assert len(outcome.failures) == 1
    assert "the callback executor takes no work" in caplog.text
