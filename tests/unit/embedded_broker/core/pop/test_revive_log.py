"""What lies in the revive topic, one message at a time."""

from __future__ import annotations

import pytest

from embedded_broker.core.pop.revive_log import (
    ack_message,
    check_point_message,
    read_entry,
    revived,
)
from rocketmq_py.protocol.bodies.pop import Ack, CheckPoint
from rocketmq_py.protocol.message_codec import MessageRecord, decode_record
from rocketmq_py.protocol.properties import encode_properties
from tests.records import encode_record

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
POINT = CheckPoint(
    broker_name="broker-a",
    group="G",
    diffs=[0, 2],
    invisible_ms=4000,
    count=2,
    pop_time_ms=1_795_444_318_983,
    queue_id=1,
    start_offset=7,
    topic="T",
)


def record(
    properties: dict[str, str], body: bytes = b"x", topic: str = "T", reconsume_times: int = 0
) -> MessageRecord:
    data = encode_record(
        topic=topic,
        queue_id=0,
        flag=7,
        queue_offset=3,
        commit_log_offset=400,
        sys_flag=0,
        born_timestamp=11,
        born_host=HOST,
        store_timestamp=22,
        store_host=HOST,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=0,
        body=body,
        properties=encode_properties(properties),
    )
    return decode_record(data)


def test_a_check_point_gets_there_a_second_before_its_end_and_an_ack_at_its_end() -> None:
    message = check_point_message(POINT, "R", 5, 1_795_444_318_983, HOST)
    assert (message.topic, message.queue_id) == ("R", 5)
    assert message.properties == {
        "TAGS": "ck",
        "TIMER_DELIVER_MS": "1795444321983",
        "UNIQ_KEY": "T@1@7@G@1795444318983@broker-a@ck",
    }
    ack = Ack(
        offset=9,
        broker_name="broker-a",
        group="G",
        pop_time_ms=POINT.pop_time_ms,
        queue_id=1,
        start_offset=7,
        topic="T",
    )
    message = ack_message(ack, POINT.revive_ms, "R", 5, 1_795_444_318_983, HOST)
    assert message.properties == {
        "TAGS": "ack",
        "TIMER_DELIVER_MS": "1795444322983",
        "UNIQ_KEY": "T@1@9@G@1795444318983@broker-a@ack",
    }
    ack.offset, ack.offsets = -1, [7, 9]
    assert ack_message(ack, 1, "R", 5, 1, HOST).properties["TAGS"] == "bAck"


def test_what_was_written_is_read_again() -> None:
    message = check_point_message(POINT, "R", 5, 1, HOST)
    assert read_entry(record(message.properties, message.body), "broker-a") == POINT
    nameless = record({"TAGS": "ack"}, b'{"ao":3,"c":"G","pt":1,"q":0,"so":0,"t":"T"}')
    entry = read_entry(nameless, "broker-a")
    assert isinstance(entry, Ack)
    assert (entry.broker_name, entry.offset, entry.offsets) == ("broker-a", 3, None)


@pytest.mark.parametrize(
    ("tag", "body"),
    [
        ("other", b"{}"),
        ("ck", b"nonsense"),
        ("ck", b'{"t":"T"}'),
        ("ck", b'{"c":"G"}'),
        ("ck", b'{"c":"G","t":"T","n":2147483647}'),
        ("ack", b"[]"),
    ],
)
def test_what_is_neither_check_point_nor_ack_is_passed_over(tag: str, body: bytes) -> None:
    assert read_entry(record({"TAGS": tag}, body), "broker-a") is None


def test_what_comes_back_is_the_same_message_once_more() -> None:
    first = revived(record({"TAGS": "A", "DELAY": "3", "UNIQ_KEY": "k"}), POINT, HOST, v2=False)
    assert (first.topic, first.queue_id, first.reconsume_times) == ("%RETRY%G_T", 0, 1)
    assert (first.body, first.flag, first.born_timestamp) == (b"x", 7, 11)
    assert first.properties == {
        "TAGS": "A",
        "UNIQ_KEY": "k",
        "1ST_POP_TIME": str(POINT.pop_time_ms),
    }
    stored = record({"1ST_POP_TIME": "5"}, topic="%RETRY%G_T", reconsume_times=1)
    second = revived(stored, POINT, HOST, v2=True)
    assert (second.topic, second.reconsume_times) == ("%RETRY%G_T", 2)
    assert second.properties == {"1ST_POP_TIME": "5"}
    assert revived(record({}), POINT, HOST, v2=True).topic == "%RETRY%G+T"
