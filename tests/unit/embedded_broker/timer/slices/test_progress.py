"""What a sliced store saves of itself."""

from __future__ import annotations

import pytest

from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.timer.delay_offsets import DelayOffsetFile
from embedded_broker.timer.slices.progress import SliceProgress

WHOLE = SliceProgress(
    delay_offset=12,
    current_second=1_700_000_000,
    length=1800,
    inbound=("rmq_sys_slice_timer", 0),
    ends={944_444: 300, 944_445: 12},
    scan_pos=4711,
    late=frozenset({3, 9}),
    clean=(5000, 7),
)


def test_the_three_keys_of_the_document_are_there_in_milliseconds_and_seconds() -> None:
    table = WHOLE.to_table()
    assert table["sliceDelayOffset"] == 12
    assert table["sliceCurrentTime"] == 1_700_000_000_000
    assert table["timeSliceLength"] == 1800


def test_it_reads_back_what_it_saved() -> None:
    fs = MemoryFileSystem()
    DelayOffsetFile(fs).save(WHOLE.to_table())
    assert SliceProgress.from_table(DelayOffsetFile(fs).load()) == WHOLE
    assert b"944444:300" in fs.read_file("config/delayOffset.json")


@pytest.mark.parametrize("missing", ["sliceDelayOffset", "sliceCurrentTime", "timeSliceLength"])
@pytest.mark.parametrize("value", [None, "x", -1, True])
def test_without_the_document_s_keys_there_is_no_progress(missing: str, value: object) -> None:
    assert SliceProgress.from_table({**WHOLE.to_table(), missing: value}) is None


def test_an_unreadable_key_of_ours_counts_as_never_saved() -> None:
    table = WHOLE.to_table() | {
        "sliceEnds": [1],
        "sliceLate": {"a": 1},
        "sliceClean": [1],
        "sliceInbound": "x",
        "sliceReleaseScanPos": "y",
    }
    found = SliceProgress.from_table(table)
    assert found is not None
    assert (found.ends, found.late, found.clean, found.scan_pos) == ({}, frozenset(), None, 0)
    assert found.delay_offset == 12
