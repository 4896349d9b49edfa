"""Masters, followers and slaves of the sliced engine, driven by calls."""

from __future__ import annotations

from random import Random

import pytest

from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.delay_offsets import DelayOffsetFile
from embedded_broker.timer.slices.state import SliceRole
from rocketmq_py.errors import ConfigError
from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, Short, SliceRig

ROOMY = {"mappedFileSizeCommitLog": 1 << 22}


class Pair:
    """A master, and a node whose commit log receives the same records at the same offsets."""

    def __init__(self, role: SliceRole = SliceRole.FOLLOWER) -> None:
        self.master = SliceRig(config=ROOMY)
        self.follower = SliceRig(config=ROOMY, role=role)
        self.follower.store.hooks.listed.clear()
        self.follower.clock = self.master.clock
        self.copied_to = 0

    def replicate(self) -> None:
        """Bring the follower's commit log to the end of the master's."""
        source, target = self.master.store, self.follower.store
        for record in source.scan(self.copied_to):
            target.clock = _Fixed(record.store_timestamp)  # type: ignore[assignment]
            target.put(
                InnerMessage(
                    record.topic,
                    record.queue_id,
                    record.body,
                    record.properties,
                    record.flag,
                    record.sys_flag,
                    record.born_timestamp,
                    record.born_host,
                    record.reconsume_times,
                    properties_bytes=record.properties_bytes,
                )
            )
        assert target.log.max_offset == source.log.max_offset
        self.copied_to = source.log.max_offset

    def report(self) -> None:
        """Tell the follower how far the master has come."""
        self.master.flush()
        self.follower.timers.follow(DelayOffsetFile(self.master.fs).load())

    def step_follower(self) -> None:
        self.follower.fire()

    def take_over(self) -> None:
        """The master is gone; the follower goes on alone."""
        self.follower.store.clock = self.follower.clock
        timers = self.follower.timers
        timers._clock = self.follower.clock
        self.follower.store.hooks.listed.append(timers.admission)
        timers.become(SliceRole.MASTER)

    def delivered(self) -> list[str]:
        return [one.properties["UNIQ_KEY"] for one in self.follower.messages()]


class _Fixed:
    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms


def test_a_slave_runs_nothing() -> None:
    rig = SliceRig(role=SliceRole.SLAVE)
    rig.timer(1000)
    rig.advance(100_000)
    assert rig.bodies() == []
    assert rig.slices() == []
    assert rig.timers.next_deadline() is None
    assert rig.timers.role is SliceRole.SLAVE


def test_a_slave_that_becomes_the_master_delivers_what_has_waited() -> None:
    rig = SliceRig(role=SliceRole.SLAVE)
    for delay in (1000, 5000, 200_000):
        rig.timer(delay)
    rig.advance(100_000)
    rig.timers.become(SliceRole.MASTER)
    rig.advance(1)
    assert rig.bodies() == [b"1", b"2"]
    rig.advance(100_000)
    assert rig.bodies() == [b"1", b"2", b"3"]


def test_a_follower_fills_the_slices_and_fires_nothing() -> None:
    rig = SliceRig(role=SliceRole.FOLLOWER)
    rig.timer(1000)
    rig.timer(100_000)
    rig.advance(200_000)
    assert rig.bodies() == []
    assert len(rig.slices()) == 2
    assert rig.timers.next_deadline() is None
    assert not rig.timers.should_running_dequeue


def test_a_follower_takes_over_from_the_master_s_progress() -> None:
    pair = Pair()
    keys = [pair.master.timer(delay) for delay in (1000, 2000, 30_000, 31_000, 90_000, 200_000)]
    pair.replicate()
    pair.master.advance(5000)
    pair.report()
    pair.master.advance(25_000)  # released, and not reported
    pair.replicate()
    pair.take_over()
    assert pair.follower.timers.count() == 3
    pair.follower.advance(300_000)
    assert pair.delivered() == keys
    assert pair.follower.timers.count() == 0
    assert not pair.follower.timers.lost


def test_slices_that_are_over_on_the_master_are_removed_on_the_follower() -> None:
    pair = Pair()
    pair.master.timer(1000)
    pair.master.timer(100_000)
    pair.replicate()
    pair.master.advance(50_000)
    pair.replicate()
    pair.report()
    pair.follower.flush()
    assert pair.follower.slices() == [(START_MS + 100_000) // 60_000]


def test_a_follower_that_was_behind_does_not_deliver_again_what_the_master_has_seen_to() -> None:
    pair = Pair()
    pair.follower.timers.stages["SliceDispatchService"].pause()
    first = pair.master.timer(1000)
    pair.master.advance(5000)
    pair.replicate()
    pair.report()
    for _ in range(50):
        pair.master.send()
    pair.master.advance(60_000)
    pair.report()  # its scan position is behind the release by now
    second = pair.master.timer(2000)
    pair.replicate()
    pair.follower.timers.stages["SliceDispatchService"].resume()
    pair.take_over()
    pair.follower.advance(10_000)
    assert [key for key in pair.delivered() if key in {first, second}] == [first, second]


def test_late_timers_that_the_master_held_are_taken_over() -> None:
    pair = Pair()
    pair.master.timer(30_000)
    pair.master.advance(25_000)
    pair.replicate()
    pair.report()
    pair.master.clock.now_ms -= 10_000
    late = pair.master.timer(3000)
    pair.replicate()
    pair.report()
    pair.take_over()
    pair.follower.advance(3000)
    assert pair.delivered() == [late]
    pair.follower.advance(20_000)
    assert pair.delivered() == [late, "K1"]


def test_a_late_timer_of_the_master_that_the_follower_had_not_read_yet_is_not_lost() -> None:
    pair = Pair()
    pair.master.timer(30_000)
    pair.master.advance(25_000)
    pair.replicate()
    pair.follower.timers.stages["SliceDispatchService"].pause()
    pair.master.clock.now_ms -= 10_000
    late = pair.master.timer(3000)
    pair.replicate()
    pair.report()
    pair.follower.timers.stages["SliceDispatchService"].resume()
    pair.take_over()
    pair.follower.advance(3000)
    assert pair.delivered() == [late]


def test_a_follower_that_knows_no_master_delivers_what_its_commit_log_does_not_show() -> None:
    pair = Pair()
    keys = [pair.master.timer(delay) for delay in (1000, 2000, 90_000)]
    pair.master.advance(1500)
    pair.replicate()
    pair.take_over()
    pair.follower.advance(100_000)
    assert pair.delivered() == keys


def test_the_role_goes_back_and_forth_without_a_loss_or_a_repetition() -> None:
    rig = SliceRig()
    random = Random(3)
    for number in range(120):
        rig.timer(random.randrange(1, 100_000))
        rig.advance(random.randrange(2000))
        if number % 7 == 0:
            running = rig.timers.should_running_dequeue
            rig.timers.set_should_running_dequeue(not running)
            rig.timers.become(rig.timers.role)
        if number % 11 == 0:
            rig.flush()
    rig.timers.set_should_running_dequeue(True)
    rig.advance(200_000)
    found = [one.properties["UNIQ_KEY"] for one in rig.messages()]
    assert sorted(found) == sorted(f"K{number}" for number in range(1, 121))


def test_a_second_in_the_middle_of_which_the_role_was_lost_is_finished_later() -> None:
    rig = SliceRig()
    for _ in range(10):
        rig.timer(1000)
    rig.clock.now_ms += 1000
    rig.timers.fire(rig.clock.now_ms, horizon_ms=0, budget=Short(4))
    rig.timers.become(SliceRole.FOLLOWER)
    before = len(rig.messages())
    assert 0 < before < 10
    rig.advance(5000)
    assert len(rig.messages()) == before
    rig.timers.become(SliceRole.MASTER)
    rig.advance(1)
    assert rig.bodies() == [b"%d" % number for number in range(1, 11)]


def test_a_master_with_other_slices_or_another_queue_cannot_be_followed() -> None:
    rig = SliceRig(role=SliceRole.FOLLOWER)
    table = {
        "sliceDelayOffset": 0,
        "sliceCurrentTime": START_MS,
        "timeSliceLength": 1800,
        "sliceInbound": ["rmq_sys_slice_timer", 0],
    }
    with pytest.raises(ConfigError, match="timeSliceLength"):
        rig.timers.follow(table)
    table |= {"timeSliceLength": 60, "sliceInbound": ["SCHEDULE_TOPIC_XXXX", 1]}
    with pytest.raises(ConfigError, match="levels"):
        rig.timers.follow(table)
    rig.timers.follow({})
    assert isinstance(rig.fs, MemoryFileSystem)
