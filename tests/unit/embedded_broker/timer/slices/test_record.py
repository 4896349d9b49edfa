"""Reading a stored timer just far enough."""

from __future__ import annotations

import pytest

from embedded_broker.timer.slices.record import glance, second_of, source_of
from rocketmq_py.protocol.properties import encode_properties
from tests.records import encode_record

IPV4, IPV6 = b"\x7f\0\0\1\0\0\0\1", bytes(15) + b"\1\0\0\0\1"


def stored(properties: dict[str, str], *, topic: str = "t", born: bytes = IPV4) -> memoryview:
    return memoryview(
        encode_record(
            topic=topic,
            queue_id=0,
            flag=0,
            queue_offset=3,
            commit_log_offset=4711,
            sys_flag=0,
            born_timestamp=1,
            born_host=born,
            store_timestamp=2,
            store_host=IPV4,
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=b"TIMER_OUT_MS\x0199\x02",
            properties=encode_properties(properties),
        )
    )


PROPERTIES = {"XTIMER_OUT_MS": "1", "TIMER_OUT_MS": "5000", "REAL_TOPIC": "T-1", "REAL_QID": "2"}


@pytest.mark.parametrize("born", [IPV4, IPV6])
@pytest.mark.parametrize("topic", ["t", "t" * 200])
def test_a_glance_finds_second_source_and_topic(born: bytes, topic: str) -> None:
    record = stored(PROPERTIES, born=born, topic=topic)
    seen = glance(record)
    assert seen is not None
    assert (seen.second, seen.source, seen.topic, seen.is_mark) == (6, 4711, "T-1", False)
    assert seen.size == len(record)
    assert source_of(record) == 4711
    request = seen.request()
    assert request is not None
    assert (request.out_ms, request.real_queue_id, request.deletes) == (5000, 2, None)


def test_a_mark_is_seen_as_one() -> None:
    seen = glance(stored({**PROPERTIES, "TIMER_DEL_UNIQKEY": "T+K"}))
    assert seen is not None
    assert seen.is_mark


@pytest.mark.parametrize(
    "record",
    [
        memoryview(b""),
        memoryview(bytes(200)),
        stored({}),
        stored({"TIMER_OUT_MS": "x", "REAL_TOPIC": "T"}),
        stored({"TIMER_OUT_MS": "5"}),
        stored(PROPERTIES)[:100],
    ],
)
def test_what_is_no_timer_gives_nothing(record: memoryview) -> None:
    assert glance(record) is None


def test_the_second_of_a_slot_is_its_end() -> None:
    assert [second_of(out_ms) for out_ms in (0, 999, 1000, 5000)] == [1, 1, 2, 6]
