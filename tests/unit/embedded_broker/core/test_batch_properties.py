"""Which texts the messages of a batch are stored with."""

from __future__ import annotations

import pytest

from embedded_broker.core.batch_properties import joined_texts
from rocketmq_py.protocol.delay import DELAY_PROPERTIES, TIMER_BOOKKEEPING_PROPERTIES
from rocketmq_py.protocol.properties import decode_properties, encode_properties

STAMPS = {"CLUSTER": "c"}


def joined(
    texts: list[bytes], outer: dict[str, str], *, items_win: bool = True
) -> list[bytes] | None:
    stored = joined_texts(texts, outer, STAMPS, items_win=items_win)
    return None if stored is None else [*stored]


def test_a_message_says_its_own_then_what_the_batch_and_the_broker_add() -> None:
    texts = [b"UNIQ_KEY\1ID0\2", b"UNIQ_KEY\1ID1"]  # the second as 4.9 clients write it
    assert joined(texts, {"K": "v"}) == [
        b"K\1v\2UNIQ_KEY\1ID0\2CLUSTER\1c\2",
        b"K\1v\2UNIQ_KEY\1ID1\2CLUSTER\1c\2",
    ]


@pytest.mark.parametrize("items_win", [True, False])
def test_of_two_equal_names_the_one_that_shall_win_counts(items_win: bool) -> None:
    texts = [b"UNIQ_KEY\1ID0\2", b"XUNIQ_KEY\1other\2", b""]
    stored = joined(texts, {"UNIQ_KEY": "OUTER"}, items_win=items_win)
    assert stored is not None
    read = [decode_properties(text)["UNIQ_KEY"] for text in stored]
    assert read == ["ID0" if items_win else "OUTER", "OUTER", "OUTER"]


def test_what_every_message_says_itself_is_not_stored_twice() -> None:
    texts = [b"A\0011\2UNIQ_KEY\1ID0\2", b"UNIQ_KEY\1ID1\2"]
    assert joined(texts, {"UNIQ_KEY": "OUTER"}) == [
        b"A\0011\2UNIQ_KEY\1ID0\2CLUSTER\1c\2",
        b"UNIQ_KEY\1ID1\2CLUSTER\1c\2",
    ]


@pytest.mark.parametrize("name", sorted(DELAY_PROPERTIES | TIMER_BOOKKEEPING_PROPERTIES))
def test_a_message_that_may_concern_the_timer_must_be_looked_into(name: str) -> None:
    assert joined([b"A\0011\2", encode_properties({name: "1"})], {}) is None


@pytest.mark.parametrize("text", [b"A\1\0\2", b"A\1\xff\2", "A\1é\2".encode()])
def test_a_text_with_a_zero_or_beyond_ascii_must_be_looked_into(text: bytes) -> None:
    assert joined([text], {}) is None
