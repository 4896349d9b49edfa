"""Batches, and lists cut to their size."""

from __future__ import annotations

import pickle

import pytest

from rocketmq_py.errors import MQClientException, UnsupportedOperationError
from rocketmq_py.message import Message, MessageBatch
from rocketmq_py.producer.batch import BatchRefusedError, make_batch, split_batch
from rocketmq_py.producer.send_kernel import give_id


@pytest.mark.case("T31")
def test_five_megabytes_are_cut_into_batches_below_the_limit_in_order() -> None:
    messages = [Message("T", b"%06d" % n + bytes(1_000)) for n in range(5_000)]
    parts = list(split_batch(messages, 1 << 20))
    assert [message for part in parts for message in part] == messages
    assert len(parts) in {5, 6}
    for part in parts:
        for message in part:
            give_id(message)
        assert len(MessageBatch(part).encode()) <= 1 << 20


def test_a_message_that_is_too_long_alone_is_left_to_the_sender() -> None:
    small, large = Message("T", b"x"), Message("T", bytes(1_000))
    assert list(split_batch([small, large, small], 500)) == [[small], [large], [small]]
    assert list(split_batch([], 500)) == []


def test_an_id_that_exists_is_counted_once() -> None:
    message = Message("T", b"x")
    give_id(message)
    alone = len(MessageBatch([message]).encode())
    assert list(split_batch([message], alone)) == [[message]]


def test_a_ready_batch_stays_as_it_is() -> None:
    batch = MessageBatch([Message("T", b"x")])
    assert make_batch(batch) is batch


def test_a_refused_batch_can_be_caught_as_either_error_and_pickled() -> None:
    with pytest.raises(BatchRefusedError) as caught:
        make_batch([])
    for kind in (MQClientException, UnsupportedOperationError):
        assert isinstance(caught.value, kind)
    assert isinstance(caught.value.__cause__, UnsupportedOperationError)
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert str(copy) == str(caught.value)
