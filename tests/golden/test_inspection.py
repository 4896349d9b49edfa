"""A real 5.3.3 broker's answers to 28, 45, 60 and 61 are read, and ours have the same shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import DefaultMQAdminExt, DefaultMQProducer, Message
from rocketmq_py.protocol.bodies.timers import (
    DelayOffsets,
    RuntimeInfo,
    TimerCheckpoint,
    TimerCounts,
)
from rocketmq_py.protocol.lenient_json import loads_lenient

REAL: dict[str, str] = json.loads((Path(__file__).parent / "inspection.json").read_text())
ONLY_OURS = {"getTransferedTps"}  # 4.9 tools read this spelling from newer brokers too


@pytest.mark.parametrize("name", ["45", "45 of a new store"])
def test_real_delay_offsets_are_read_and_written_byte_for_byte(name: str) -> None:
    body = REAL[name].encode()
    assert DelayOffsets.decode(body).encode() == body


@pytest.mark.parametrize("name", ["60 hex", "60 hex of a new store"])
def test_a_real_check_point_is_read_and_written_byte_for_byte(name: str) -> None:
    body = bytes.fromhex(REAL[name])
    assert TimerCheckpoint.decode(body).encode() == body


def test_the_numbers_of_a_real_check_point() -> None:
    one = TimerCheckpoint.decode(bytes.fromhex(REAL["60 hex"]))
    # 4003 timers and marks, 3 of them sent twice: one record of 52 bytes for each.
    assert one.last_timer_log_flush_pos == 4006 * 52
    assert one.last_timer_queue_offset == one.master_timer_queue_offset == 4006
    assert one.last_read_time_ms % 1000 == 0


@pytest.mark.parametrize("name", ["61", "61 of a new store"])
def test_real_timer_counts_are_read_and_written_with_sorted_topics(name: str) -> None:
    counts = TimerCounts.decode(REAL[name].encode())
    assert loads_lenient(counts.encode()) == loads_lenient(REAL[name])
    assert sum(one.count for one in counts.timing_count.values()) == (4000 if name == "61" else 0)


def test_our_runtime_table_has_every_name_that_a_real_one_has(tmp_path: Path) -> None:
    real = RuntimeInfo.decode(REAL["28"].encode()).table
    with (
        EmbeddedBroker(clock=VirtualClock(), store=tmp_path) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        DefaultMQAdminExt() as admin,
    ):
        for level in range(5, 17):
            producer.send(Message("Levels", b"x").set_delay_time_level(level))
        ours = admin.fetch_broker_runtime_stats(broker.addr)
    ours = {name.replace(str(tmp_path), "/STORE"): value for name, value in ours.items()}
    assert ours.keys() == real.keys() | ONLY_OURS
    for name, value in real.items():
        words = value.split()
        if words and _is_number(words[0]):
            assert _is_number(ours[name].split()[0]), name


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
