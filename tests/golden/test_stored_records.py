"""Records that real brokers stored are read, and written again to the same bytes.

``stored_records.json`` holds the bytes and says how they were made.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.delay import (
    Delay,
    DelayKind,
    effective_delay,
    release_due_ms,
    timer_out_ms,
)
from rocketmq_py.protocol.message_codec import decode_record, decode_records
from rocketmq_py.protocol.properties import encode_properties
from tests.records import encode_record

# Any: the items of a JSON document.
RECORDS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "stored_records.json").read_text(encoding="utf-8")
)["records"]


@pytest.mark.case("W38")
@pytest.mark.parametrize("golden", RECORDS, ids=lambda golden: golden["msg_id"])
def test_a_real_record_is_read_with_its_content(golden: dict[str, Any]) -> None:
    record = decode_record(bytes.fromhex(golden["hex"]))
    number, topic = golden["number"], golden["topic"]
    chinese = "\u4e2d\u6587" * 3000 if number % 5 == 0 else ""
    message = MessageExt.from_record(record, "broker-a")
    assert f"{topic}-{number}-{chinese}" == message.body.decode()
    assert golden["stored_topic"] == message.topic
    assert golden["msg_id"] == message.msg_id
    assert golden["commit_log_offset"] == message.commit_log_offset
    assert (f"Tag{number % 3}", [f"FK{number}", "ALL"]) == (message.tags, message.keys)
    assert str(number) == message.get_user_property("no")
    assert message.store_host == "127.0.0.1:40911"


@pytest.mark.case("W38")
@pytest.mark.parametrize("golden", RECORDS, ids=lambda golden: golden["msg_id"])
def test_a_real_record_is_written_to_the_same_bytes(golden: dict[str, Any]) -> None:
    data = bytes.fromhex(golden["hex"])
    record = decode_record(data)
    properties = encode_properties(record.properties)
    if golden["broker"].startswith("4."):
        properties = properties[:-1]  # 4.9 ends the text without a separator
    assert data == encode_record(
        topic=record.topic,
        queue_id=record.queue_id,
        flag=record.flag,
        queue_offset=record.queue_offset,
        commit_log_offset=record.commit_log_offset,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_timestamp=record.store_timestamp,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        body=record.body,
        properties=properties,
    )


def test_real_records_are_read_back_to_back() -> None:
    data = b"".join(bytes.fromhex(golden["hex"]) for golden in RECORDS)
    assert [golden["msg_id"] for golden in RECORDS] == [r.msg_id for r in decode_records(data)]


def test_a_real_timer_record_lies_in_the_slot_that_we_compute_and_is_due_when_asked() -> None:
    (golden,) = (g for g in RECORDS if g["stored_topic"] == "rmq_sys_wheel_timer")
    record = decode_record(bytes.fromhex(golden["hex"]))
    properties = record.properties
    due = int(properties["due"])
    out = int(properties["TIMER_OUT_MS"])
    assert out == timer_out_ms(due, 1000)
    assert due == release_due_ms(properties, record.store_timestamp, out, 1000, 1)
    # It has been through admission, so it is not delayed again.
    assert effective_delay(properties) is None


def test_real_level_records_lie_in_the_queue_of_their_level() -> None:
    for golden in RECORDS:
        if golden["stored_topic"] == "SCHEDULE_TOPIC_XXXX":
            record = decode_record(bytes.fromhex(golden["hex"]))
            level = record.queue_id + 1
            assert Delay(DelayKind.LEVEL, level) == effective_delay(record.properties)
