"""The numbers of a report agree with what was put into the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.inspector.columns import Whereabouts
from embedded_broker.inspector.reader import StoreFiles
from embedded_broker.inspector.report import (
    OTHER_TOPICS,
    Report,
    report_of_broker,
    report_of_store,
    to_document,
)
from embedded_broker.store.directory_fs import DirectoryFileSystem
from rocketmq_py.protocol.bodies.timers import (
    DelayOffsets,
    TimerCheckpoint,
    TimerCounts,
    TimingCount,
)
from rocketmq_py.protocol.json_text import dumps, loads
from tests.archives import unpack_store
from tests.unit.embedded_broker.inspector.store_tools import rig_in
from tests.unit.embedded_broker.timer.timer_rig import START_MS


def report(root: Path, now_ms: int = START_MS, **options: Any) -> Report:
    with StoreFiles.open(root) as files:
        return report_of_store(files, now_ms=now_ms, **options)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    rig = rig_in(tmp_path)
    for seconds, topic in ((2, "A"), (3, "A"), (3, "B"), (40, "A"), (95, "C")):
        rig.timer(seconds * 1000, topic=topic)
    rig.close()
    return tmp_path


def test_bars_count_every_message_in_steps_of_readable_width(root: Path) -> None:
    one = report(root, buckets=12)
    assert [bucket.to_ms - bucket.from_ms for bucket in one.buckets] == [10_000] * 10
    assert one.buckets[0].from_ms == START_MS
    assert [bucket.count for bucket in one.buckets] == [3, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    assert one.buckets[0].by_topic == {"A": 2, "B": 1}
    assert (one.total, one.selected, one.overdue, one.oldest_overdue) == (5, 5, 0, None)


@pytest.mark.parametrize("bars", [1, 2, 3, 5, 24, 500])
def test_there_are_never_more_bars_than_asked_for(root: Path, bars: int) -> None:
    one = report(root, buckets=bars)
    assert 1 <= len(one.buckets) <= bars
    assert sum(bucket.count for bucket in one.buckets) == 5


def test_many_topics_share_the_last_colour(tmp_path: Path) -> None:
    rig = rig_in(tmp_path)
    for number in range(8):
        for _ in range(8 - number):
            rig.timer(2_000, topic=f"T{number}")
    rig.close()
    (bucket,) = report(tmp_path).buckets
    assert bucket.by_topic == {"T0": 8, "T1": 7, "T2": 6, "T3": 5, "T4": 4, OTHER_TOPICS: 6}


def test_topics_and_time_limits_choose_what_is_shown(root: Path) -> None:
    one = report(root, topic="A", before_ms=START_MS + 40_000, limit=1)
    assert (one.total, one.selected) == (5, 2)
    assert [(line.topic, line.count) for line in one.topics] == [("A", 2)]
    (listed,) = one.listed
    pending = listed.pending
    assert (pending.due_ms, pending.msg_id) == (START_MS + 2_000, "K1")
    assert (listed.where, listed.level) == (Whereabouts.WHEEL, 0)


def test_what_is_overdue_is_counted_and_the_oldest_named(root: Path) -> None:
    one = report(root, START_MS + 50_000)
    assert one.overdue == 4
    assert one.oldest_overdue is not None
    assert one.oldest_overdue.pending.msg_id == "K1"
    assert [(line.topic, line.overdue) for line in one.topics] == [("A", 3), ("B", 1), ("C", 0)]
    stages = {line.stage: line for line in one.stages}
    assert stages["TimerDequeueGetService"].waiting == 4
    assert stages["TimerDequeueGetService"].lag_ms == 48_000


def test_what_never_reached_the_wheel_is_the_lag_of_the_first_stage(tmp_path: Path) -> None:
    rig = rig_in(tmp_path)
    rig.timers.stages["TimerEnqueueGetService"].pause()
    rig.timer(5_000)
    rig.close()
    (line, *_) = report(tmp_path, START_MS + 700).stages
    assert (line.stage, line.waiting, line.lag_ms) == ("TimerEnqueueGetService", 1, 700)


def test_levels_are_stages_of_their_own(tmp_path: Path) -> None:
    root = unpack_store("r497-levels", tmp_path)
    one = report(root, 1_795_226_790_835 + 30)
    stages = {line.stage: (line.waiting, line.lag_ms) for line in one.stages}
    assert stages == {"delay level 5": (10, 30), "delay level 6": (10, 0)}
    assert {(line.where, line.level) for line in report(root, limit=100).listed} == {
        (Whereabouts.LEVEL, 5),
        (Whereabouts.LEVEL, 6),
    }
    for line in report(root, limit=100).listed:
        assert line.level == 5 + int(line.pending.keys[0][2:4]) % 2


def test_timers_of_the_sliced_engine_in_the_queue_of_a_level_are_no_level_messages(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    with EmbeddedBroker(
        tcp=False, topics=["T"], clock=clock, store=tmp_path, engine="sliced", levels="off"
    ) as broker:
        for _ in range(3):
            broker.send("T", b"x", delay=5)
        clock.advance(10)
        broker.timers.recall(broker.send("T", b"y", delay=60).msg_id)
        waits = broker.send("T", b"z", delay=60).msg_id
    one = report(tmp_path, clock.now_ms + 100_000, limit=10)
    assert (one.total, one.overdue, one.recalled) == (1, 1, 1)
    (listed,) = one.listed
    assert (listed.pending.msg_id, listed.where) == (waits, Whereabouts.SLICE)
    assert [(line.stage, line.waiting) for line in one.stages] == [("SliceDispatchService", 0)]
    assert one.warnings == ()
    assert one.integrity is not None
    assert one.integrity.findings == []


def test_the_wheel_is_described(root: Path) -> None:
    wheel = report(root).wheel
    assert wheel is not None
    assert (wheel.slots_waiting, wheel.records_waiting, wheel.precision_ms) == (4, 5, 1000)
    assert (wheel.first_slot_ms, wheel.last_slot_ms) == (START_MS + 1_000, START_MS + 94_000)
    assert (wheel.fullest_slot_ms, wheel.fullest_slot_records) == (START_MS + 2_000, 2)


def test_a_store_in_use_and_one_that_was_killed_are_said_to_be(root: Path) -> None:
    assert report(root).warnings == ()
    fs = DirectoryFileSystem(root)
    fs.lock("lock", "broker-a")
    (in_use,) = report(root).warnings
    assert "in use by broker-a of this process" in in_use
    fs.unlock("lock")
    (root / "abort").touch()
    assert "did not stop cleanly" in report(root).warnings[0]


def test_a_report_is_one_json_document(root: Path) -> None:
    document = loads(dumps(to_document(report(root, START_MS + 50_000, limit=2))))
    assert document["kind"] == "store"
    assert document["integrity"]["damaged"] is False
    assert document["listed"][1]["place"] == "wheel"
    assert document["oldest_overdue"]["msg_id"] == "K1"
    assert document["stages"][-1]["lag_ms"] is None


def test_a_running_brokers_answers_become_the_same_report() -> None:
    one = report_of_broker(
        "h:1",
        now_ms=START_MS,
        runtime={
            "timerOffsetBehind": "3",
            "timerReadBehind": "2",
            "timerCongestNum": "9",
            "timerEnqueueTps": "1.5",
            "scheduleMessageOffset_3": "4,10",
            "scheduleMessageOffset_x": "4,10",
        },
        levels=DelayOffsets(offset_table={3: 4, 7: 1}),
        checkpoint=TimerCheckpoint(last_timer_log_flush_pos=52, timestamp=START_MS),
        counts=TimerCounts(
            timing_count={"B": TimingCount(2), "A": TimingCount(7), "C": TimingCount()}
        ),
    )
    assert [(line.topic, line.count) for line in one.topics] == [("A", 7), ("B", 2)]
    assert (one.total, one.selected, one.buckets) == (15, 15, ())
    assert (one.timers, one.in_levels) == (9, 6)
    stages = {line.stage: (line.waiting, line.lag_ms) for line in one.stages}
    assert stages == {
        "TimerEnqueueGetService": (3, None),
        "TimerDequeueGetService": (9, 2000),
        "TimerFlushService": (None, None),
        "delay level 3": (6, None),
        "delay level 7": (None, None),
    }
    assert loads(dumps(to_document(one)))["kind"] == "broker"


def test_a_broker_that_refuses_everything_has_a_report_without_numbers() -> None:
    one = report_of_broker(
        "h:1", now_ms=0, runtime=None, levels=None, checkpoint=None, counts=None, warnings=["w"]
    )
    assert (one.total, one.selected) == (None, None)
    assert (one.topics, one.stages, one.warnings) == ((), (), ("w",))
    assert loads(dumps(to_document(one)))["total"] is None


def test_a_sum_of_which_a_part_is_not_known_is_not_known() -> None:
    counts = TimerCounts(timing_count={"A": TimingCount(7)})
    without_levels = report_of_broker(
        "h:1", now_ms=0, runtime=None, levels=None, checkpoint=None, counts=counts, topic="A"
    )
    assert (without_levels.total, without_levels.timers, without_levels.selected) == (None, 7, 7)
    runtime = {"scheduleMessageOffset_3": "4,10"}
    without_timers = report_of_broker(
        "h:1", now_ms=0, runtime=runtime, levels=None, checkpoint=None, counts=None
    )
    assert (without_timers.total, without_timers.in_levels) == (None, 6)
