"""The counts of waiting timers and their file."""

from __future__ import annotations

import pytest

from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.timer.metrics import TimerMetrics

PATH = "config/timermetrics"
NOW = 1_700_000_000_000


def filled(fs: MemoryFileSystem) -> TimerMetrics:
    metrics = TimerMetrics(fs, PATH)
    metrics.add("AAA", 1000, NOW)
    metrics.add("BBB", 2000, NOW + 5)
    return metrics


@pytest.mark.case("F15")
def test_counts_and_times_survive_a_damaged_main_file() -> None:
    fs = MemoryFileSystem()
    metrics = filled(fs)
    metrics.save()
    again = TimerMetrics(fs, PATH)
    assert again.load()
    assert (again.count("AAA"), again.count("BBB"), again.total) == (1000, 2000, 3000)
    assert (again.time_ms("AAA"), again.time_ms("BBB")) == (NOW, NOW + 5)
    metrics.save()
    fs.write_file(PATH, b'{"timingCount":{"AAA":')
    from_backup = TimerMetrics(fs, PATH)
    assert from_backup.load()
    assert from_backup.snapshot() == metrics.snapshot()
    assert from_backup.problem is not None
    from_backup.save()
    assert fs.exists("damaged/0001-timermetrics")


def test_the_file_is_one_sorted_line_as_the_original_writes_it() -> None:
    fs = MemoryFileSystem()
    metrics = TimerMetrics(fs, PATH)
    for _ in range(3):
        metrics.add("TopicA", 1, NOW)
    metrics.add("B", 0, NOW)
    metrics.save()
    assert fs.read_file(PATH) == (
        b'{"dataVersion":{"counter":4,"stateVersion":0,"timestamp":1700000000000},'
        b'"timingCount":{"B":{"count":0,"timeStamp":1700000000000},'
        b'"TopicA":{"count":3,"timeStamp":1700000000000}}}'
    )


def test_unknown_topics_count_zero_and_missing_files_hold_nothing() -> None:
    metrics = TimerMetrics(MemoryFileSystem(), PATH)
    assert not metrics.load()
    assert (metrics.count("X"), metrics.time_ms("X"), metrics.total, metrics.topics) == (
        0,
        0,
        0,
        [],
    )


@pytest.mark.parametrize("content", [b"[]", b'{"timingCount":5}', b'{"timingCount":{"A":{}}}'])
def test_a_file_of_another_shape_is_not_used(content: bytes) -> None:
    fs = MemoryFileSystem()
    fs.write_file(PATH, content)
    assert not TimerMetrics(fs, PATH).load()


def test_found_counts_replace_the_old_ones_and_gone_topics_are_forgotten() -> None:
    metrics = filled(MemoryFileSystem())
    metrics.replace({"BBB": 5, "CCC": 1}, NOW + 9)
    assert [metrics.count(topic) for topic in ("AAA", "BBB", "CCC")] == [0, 5, 1]
    metrics.keep_only(["CCC"])
    assert metrics.topics == ["CCC"]
