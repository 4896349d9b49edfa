"""Headers of transactions."""

from __future__ import annotations

from rocketmq_py.protocol.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
)


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
