"""Bodies of 28, 45, 60 and 61; what real brokers answered is in `tests/golden`."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import BodyError, RecordError
from rocketmq_py.protocol.bodies.timers import (
    DelayOffsets,
    RuntimeInfo,
    TimerCheckpoint,
    TimerCounts,
    TimingCount,
)
from rocketmq_py.protocol.bodies.topics import DataVersion


@pytest.mark.case("F14")
def test_a_check_point_is_56_bytes_and_32_are_read_too() -> None:
    one = TimerCheckpoint(1000, 1100, 1200, 1300, 1400, 1500, 1600)
    assert len(one.encode()) == 56
    assert TimerCheckpoint.decode(one.encode()) == one
    assert TimerCheckpoint.decode(one.encode()[:32]) == TimerCheckpoint(1000, 1100, 1200, 1300)
    with pytest.raises(RecordError, match="31 bytes"):
        TimerCheckpoint.decode(bytes(31))


def test_check_points_are_compared_by_their_positions() -> None:
    one = TimerCheckpoint(state_version=1, timestamp=9, counter=3)
    assert one.same_positions(TimerCheckpoint())
    copy = one.copy()
    copy.last_read_time_ms = 5
    assert not one.same_positions(copy)


def test_level_offsets_have_bare_keys_and_4_9_has_no_version() -> None:
    assert DelayOffsets(offset_table={3: 202}).encode() == b'{"offsetTable":{3:202}}'
    with_version = DelayOffsets(DataVersion(1, 0, 7), {3: 202})
    assert DelayOffsets.decode(with_version.encode()) == with_version
    assert DelayOffsets.decode(b'{"offsetTable":{"3":"202"}}').offset_table == {3: 202}


def test_counts_and_tables_are_read_back() -> None:
    counts = TimerCounts(DataVersion(1, 0, 7), {"T": TimingCount(5, 1_700_000_000_000)})
    assert TimerCounts.decode(counts.encode()) == counts
    table = RuntimeInfo({"putTps": "0.0 0.0 0.0"})
    assert RuntimeInfo.decode(table.encode()) == table
    with pytest.raises(BodyError):
        TimerCounts.decode(b'{"timingCount":[]}')
