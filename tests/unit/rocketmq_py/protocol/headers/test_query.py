"""Headers of looking for messages."""

from __future__ import annotations

from rocketmq_py.protocol.headers.query import QueryMessageRequestHeader

QUERY = {
    "topic": "T",
    "key": "k",
    "maxNum": "32",
    "beginTimestamp": "0",
    "endTimestamp": "9223372036854775807",
}


def test_an_unbounded_end_is_the_largest_long() -> None:
    assert QueryMessageRequestHeader.from_ext(QUERY).end_timestamp == 2**63 - 1


def test_the_value_and_not_the_presence_of_the_flag_makes_a_unique_key_query() -> None:
    read = QueryMessageRequestHeader.from_ext

    assert not read(QUERY | {"_UNIQUE_KEY_QUERY": "false"}).unique_key_query
    assert read(QUERY | {"_UNIQUE_KEY_QUERY": "true"}).unique_key_query
