"""A message gets its name once."""

from __future__ import annotations

from rocketmq_py.message import Message
from rocketmq_py.producer.unique_id import give_id


def test_an_id_is_made_once_and_kept() -> None:
    message = Message("T", b"x")
    first = give_id(message)
    assert len(first) == 32
    assert (give_id(message), message.properties["UNIQ_KEY"]) == (first, first)
    assert give_id(Message("T", b"x")) != first
