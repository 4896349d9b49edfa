"""Headers of sending, sending back, recalling and transactions."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.headers.send import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    SendMessageRequestHeader,
    send_fields,
)

SHORT = {
    "a": "PG",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "-1",
    "f": "0",
    "g": "1700000000123",
    "h": "0",
}


def test_long_and_short_names_say_the_same() -> None:
    short = SHORT | {"i": "TAGS\1a", "j": "1", "k": "false", "l": "16", "m": "true", "n": "b"}

    header = SendMessageRequestHeader.from_ext_v2(short)

    assert header.to_ext_v2() == short
    assert SendMessageRequestHeader.from_ext(header.to_ext()) == header
    assert (header.queue_id, header.born_timestamp, header.batch) == (-1, 1_700_000_000_123, True)
    assert header.to_ext()["bname"] == "b"


@pytest.mark.case("W20")
def test_a_missing_topic_is_named_by_its_long_name_under_short_names_too() -> None:
    without_topic = {name: value for name, value in SHORT.items() if name != "b"}

    with pytest.raises(HeaderError, match="topic") as caught:
        SendMessageRequestHeader.from_ext_v2(without_topic)

    assert caught.value.field == "topic"


def test_a_send_is_a_plain_new_message_unless_it_says_more() -> None:
    plain = {"a": "G", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
    plain |= {"j": "0", "k": "false", "m": "false"}
    assert send_fields("G", "T") == plain
    more = send_fields("G", "T", queue_id=3, broker_name="b", properties="x", batch=True)
    assert more == plain | {"e": "3", "n": "b", "i": "x", "m": "true"}


def test_an_end_that_does_not_say_who_asked_was_not_asked_for() -> None:
    ext = {
        "producerGroup": "P",
        "tranStateTableOffset": "3",
        "commitLogOffset": "400",
        "commitOrRollback": "8",
        "msgId": "ID",
    }

    header = EndTransactionRequestHeader.from_ext(ext)

    assert header.from_transaction_check is False
    assert header.to_ext() == ext | {"fromTransactionCheck": "false"}


def test_a_check_needs_only_the_two_offsets() -> None:
    ext = {"tranStateTableOffset": "3", "commitLogOffset": "400"}

    assert CheckTransactionStateRequestHeader.from_ext(ext).to_ext() == ext
