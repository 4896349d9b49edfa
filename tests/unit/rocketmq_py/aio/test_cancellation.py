"""The send that a cancellation ended is found through whatever was raised from it."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from rocketmq_py import Message, MessageBatch, aio
from rocketmq_py.aio.cancellation import described


def sent(topic: str = "T") -> Message:
    message = Message(topic, b"x")
    message.properties["UNIQ_KEY"] = "ID"
    return message


@pytest.mark.parametrize(
    ("stored", "sending", "told"),
    [
        (True, True, "it is on its way, so a broker may have it, or get it yet"),
        (True, False, "a broker may have it"),
        (False, False, "no broker has it, and none gets it"),
    ],
)
def test_it_says_what_becomes_of_the_message(stored: bool, sending: bool, told: str) -> None:
    error = described(sent(), possibly_stored=stored, sending=sending)
    assert str(error) == f"the task that sent message ID to topic T was cancelled: {told}"
    assert (error.possibly_stored, error.msg_id, error.topic) == (stored, "ID", "T")


def test_a_message_that_was_never_made_ready_has_no_id() -> None:
    error = described(Message("T", b"x"), possibly_stored=False)
    assert error.msg_id is None
    assert "message without id to topic T" in str(error)


def test_a_batch_has_the_ids_of_its_messages() -> None:
    batch = MessageBatch([sent(), sent()])
    assert described(batch, possibly_stored=True).msg_id == "ID,ID"
    assert described(MessageBatch([Message("T", b"x")]), possibly_stored=True).msg_id is None


def test_it_is_found_behind_causes_and_contexts_and_a_circle_has_an_end() -> None:
    error = described(sent(), possibly_stored=True)
    cancelled, late = asyncio.CancelledError(), TimeoutError()
    cancelled.__cause__, late.__context__ = error, cancelled
    assert aio.cancelled_send(late) is error
    assert aio.cancelled_send(ValueError()) is None
    late.__context__ = late
    assert aio.cancelled_send(late) is None


def test_it_can_be_pickled() -> None:
    kept = pickle.dumps(described(sent(), possibly_stored=True))
    error = pickle.loads(kept)  # noqa: S301 - our own bytes
    assert (error.possibly_stored, error.msg_id) == (True, "ID")
