"""What the messages of a transaction look like, one by one."""

from __future__ import annotations

import pytest

from embedded_broker.core.transactions import half
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.store.queue_names import destination
from rocketmq_py.protocol.message_codec import MessageRecord, decode_record
from rocketmq_py.protocol.properties import encode_properties
from tests.records import encode_record

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


def record(properties: dict[str, str], body: bytes = b"x", topic: str = "H") -> MessageRecord:
    data = encode_record(
        topic=topic,
        queue_id=0,
        flag=7,
        queue_offset=3,
        commit_log_offset=400,
        sys_flag=1,
        born_timestamp=11,
        born_host=HOST,
        store_timestamp=22,
        store_host=HOST,
        reconsume_times=2,
        prepared_transaction_offset=0,
        body=body,
        properties=encode_properties(properties),
    )
    return decode_record(data)


@pytest.mark.parametrize(
    ("properties", "reconsumed", "asks"),
    [
        ({"TRAN_MSG": "true"}, 0, True),
        ({"TRAN_MSG": "TRUE"}, 0, True),
        ({"TRAN_MSG": "false"}, 0, False),
        ({}, 0, False),
        ({"TRAN_MSG": "true", "DELAY": "3"}, 0, True),
        ({"TRAN_MSG": "true", "DELAY": "3"}, 1, False),
        ({"TRAN_MSG": "true", "DELAY": "0"}, 1, True),
        ({"TRAN_MSG": "true"}, 1, True),
    ],
)
def test_which_sends_begin_a_transaction(
    properties: dict[str, str], reconsumed: int, asks: bool
) -> None:
    assert half.asks_for_transaction(properties, reconsumed) is asks


def test_a_half_message_keeps_where_it_wants_to_go_and_loses_its_bits() -> None:
    message = InnerMessage("T", 3, b"x", {"TRAN_SRC_OFFSET": "9"}, sys_flag=5, properties_bytes=b"")

    half.into_half(message)

    assert (message.topic, message.queue_id, message.sys_flag) == (
        "RMQ_SYS_TRANS_HALF_TOPIC",
        0,
        1,
    )
    assert message.properties == {"REAL_TOPIC": "T", "REAL_QID": "3"}
    assert message.properties_bytes is None


def test_a_copy_for_a_check_is_the_same_message_with_a_higher_count() -> None:
    copy = half.copy_for_check(record({"a": "b", "TRANSACTION_CHECK_TIMES": "4"}))

    assert copy.properties == {"a": "b", "TRANSACTION_CHECK_TIMES": "5", "TRAN_SRC_OFFSET": "3"}
    assert (copy.flag, copy.sys_flag, copy.born_timestamp, copy.born_host) == (7, 1, 11, HOST)
    assert copy.reconsume_times == 2


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "T"},
        {"REAL_QID": "1"},
        {"REAL_TOPIC": "T", "REAL_QID": "x"},
        {"REAL_TOPIC": "T", "REAL_QID": "-1"},
        {"REAL_TOPIC": "T", "REAL_QID": "2147483648"},
    ],
)
def test_a_half_message_without_topic_or_queue_goes_nowhere(properties: dict[str, str]) -> None:
    assert destination(properties) is None
    assert half.delivery(record(properties)) is None


@pytest.mark.parametrize(
    ("body", "offsets"),
    [(b"5", [5]), (b"5,", [5]), (b"1,0,3,", [1, 0, 3]), (b"", []), (b"x,2,-3,", [2])],
)
def test_a_mark_names_the_half_messages_that_it_ends(body: bytes, offsets: list[int]) -> None:
    assert half.removed_offsets(record({"TAGS": "d"}, body)) == offsets
    assert half.removed_offsets(record({"TAGS": "e"}, body)) == []


def test_numbers_that_are_none_read_as_absent() -> None:
    assert half.check_times({"TRANSACTION_CHECK_TIMES": "many"}) == 0
    assert half.replaced_offset({"TRAN_SRC_OFFSET": "-1"}) is None
    assert half.replaced_offset({"TRAN_SRC_OFFSET": "0"}) == 0
    assert half.immune_offset({}) is None
    assert half.immune_offset({"TRAN_PREPARED_QUEUE_OFFSET": "4"}) == 4
    assert half.custom_immunity_ms({"CHECK_IMMUNITY_TIME_IN_SECONDS": "2"}) == 2000
    assert half.custom_immunity_ms({"CHECK_IMMUNITY_TIME_IN_SECONDS": "0"}) is None
