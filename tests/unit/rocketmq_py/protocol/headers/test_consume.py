"""Headers of consuming and of queries."""

from __future__ import annotations

from rocketmq_py.protocol.headers.consume import (
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryMessageRequestHeader,
    SearchOffsetRequestHeader,
)


def test_the_misspelt_name_of_the_original_is_kept_on_the_wire() -> None:
    field = next(f for f in PullMessageRequestHeader.FIELDS if f.name == "proxy_forward_client_id")

    assert field.wire == "proxyFrowardClientId"


def test_the_four_fields_java_cannot_miss_are_required() -> None:
    assert [f.wire for f in PullMessageResponseHeader.FIELDS if f.required] == [
        "suggestWhichBrokerId",
        "nextBeginOffset",
        "minOffset",
        "maxOffset",
    ]


def test_set_zero_if_not_found_is_three_valued() -> None:
    ext = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
    read = QueryConsumerOffsetRequestHeader.from_ext

    assert read(ext).set_zero_if_not_found is None
    assert read(ext | {"setZeroIfNotFound": "false"}).set_zero_if_not_found is False


def test_a_search_of_5x_says_its_boundary() -> None:
    ext = {"topic": "T", "queueId": "0", "timestamp": "24", "boundaryType": "LOWER"}

    assert SearchOffsetRequestHeader.from_ext(ext).boundary_type == "LOWER"


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
