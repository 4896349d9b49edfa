from __future__ import annotations

from embedded_broker.store.commit_log import CommitLog
from embedded_broker.store.memory_fs import MemoryFileSystem
from rocketmq_py.protocol.message_codec import RecordHead
from tests.records import encode_record
from tests.unit.embedded_broker.store.store_tools import STORE_HOST

V6_HOST = bytes(15) + b"\x01\x00\x00\x2a\x9f"


def _record(offset: int, body: bytes = b"body", **other: object) -> bytes:
    fields: dict[str, object] = {
        "topic": "T",
        "queue_id": 0,
        "flag": 0,
        "queue_offset": 0,
        "commit_log_offset": offset,
        "sys_flag": 0,
        "born_timestamp": 1,
        "born_host": STORE_HOST,
        "store_timestamp": 77,
        "store_host": STORE_HOST,
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body": body,
        "properties": b"A\x01b\x02",
    }
    return encode_record(**{**fields, **other})  # type: ignore[arg-type]


def _log(size: int = 500) -> CommitLog:
    return CommitLog(MemoryFileSystem(), size)


def test_a_record_is_read_at_its_own_offset_only() -> None:
    log = _log()
    first = _record(0)
    log.append(first)
    log.append(_record(len(first)))
    assert bytes(log.read(0) or b"") == first
    assert log.read(0, len(first)) is not None
    assert log.read(0, len(first) + 1) is None
    assert log.read(1) is None
    assert log.read(len(first) * 2) is None
    record = log.record(len(first))
    assert record is not None
    assert record.commit_log_offset == len(first)
    assert log.record(3) is None


def test_a_record_inside_another_ones_body_is_no_record() -> None:
    log = _log()
    inner = _record(4711)
    log.append(_record(0, inner))
    start = 88
    assert bytes(log.files.read(start, len(inner)) or b"") == inner
    assert log.read(start) is None


def test_a_head_is_read_where_a_record_is() -> None:
    log = _log()
    offset = log.append(_record(0, b"body"))
    record, head = log.record(offset), log.head(offset)

    assert record is not None
    assert head is not None
    assert head == RecordHead.of(record)
    assert log.head(offset + 1) is None


def test_a_torn_record_is_not_decoded() -> None:
    log = _log()
    data = _record(0)
    log.append(data[:40] + bytes(len(data) - 40))
    assert log.read(0) is not None
    assert log.record(0) is None
    assert list(log.scan(0)) == []


def test_the_store_time_is_found_behind_either_kind_of_host() -> None:
    log = _log()
    first = _record(0, store_timestamp=123)
    log.append(first)
    log.append(_record(len(first), born_host=V6_HOST, store_timestamp=456))
    assert log.store_timestamp(0) == 123
    assert log.store_timestamp(len(first)) == 456
    assert log.store_timestamp(5) == -1


def test_a_file_ends_with_a_blank_that_tells_the_rest() -> None:
    log = _log(250)
    first = _record(0)
    log.append(first)
    log.append(_record(len(first)))
    assert not log.fits(len(first))
    at = log.max_offset
    assert log.roll() == 250
    log.append(_record(250))
    assert bytes(log.files.read(at, 8) or b"") == (250 - at).to_bytes(4) + b"\xcb\xd4\x31\x94"
    assert [one.commit_log_offset for one in log.scan(0)] == [0, len(first), 250]


def test_a_file_that_is_full_to_eight_bytes_is_all_blank_header() -> None:
    size = len(_record(0)) + 8
    log = _log(size)
    log.append(_record(0))
    assert not log.fits(1)
    assert log.roll() == size
    log.append(_record(size))
    assert [one.commit_log_offset for one in log.scan(0)] == [0, size]
    assert log.record_size_max == len(_record(0))


def test_a_scan_ends_at_the_first_bad_byte() -> None:
    for position, value in (
        (0, b"\xff"),  # size
        (5, b"\0"),  # magic
        (9, b"\xff"),  # body crc
        (35, b"\x01"),  # its own offset
        (88, b"X"),  # body
        (93, b"\0"),  # topic
        (96, b"\0"),  # properties
    ):
        log = _log()
        size = len(_record(0))
        for number in range(3):
            log.append(_record(number * size))
        log.files.write(size + position, value)
        assert [one.commit_log_offset for one in log.scan(0)] == [0], position


def test_a_scan_can_stop_early_and_leave_out_the_crc() -> None:
    log = _log()
    size = len(_record(0))
    for number in range(3):
        log.append(_record(number * size))
    log.files.write(88, b"X")
    assert [one.commit_log_offset for one in log.scan(0, 2 * size, check_crc=False)] == [0, size]
    assert list(log.scan(0, 2 * size)) == []
