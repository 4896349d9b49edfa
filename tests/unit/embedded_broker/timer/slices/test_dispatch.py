"""Which way a message of the inbound queue goes."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.memory_fs import MemoryFileSystem, MemorySegment
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.slices.dispatch import Route
from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, Short, SliceRig

FIRST = START_MS // 60_000
"""Number of the slice at the start; it ends 40 s later."""


def route_of(rig: SliceRig, delay_ms: int) -> Route:
    dispatch = rig.timers._dispatch
    before = dict(dispatch.routes)
    rig.timer(delay_ms)
    (route,) = [one for one in Route if dispatch.routes[one] > before[one]]
    return route


@pytest.mark.case("E2")
def test_a_message_goes_one_of_five_ways_by_its_time_and_the_current_second() -> None:
    rig = SliceRig()
    assert route_of(rig, 30_000) is Route.CURRENT_WHEEL
    assert route_of(rig, 50_000) is Route.LOG  # the next slice, not loaded
    assert route_of(rig, 500_000) is Route.LOG
    assert rig.slices() == [FIRST, FIRST + 1, (START_MS + 500_000) // 60_000]
    rig.advance(36_000)
    assert route_of(rig, 14_000) is Route.NEXT_WHEEL
    assert route_of(rig, 464_000) is Route.LOG
    logs = rig.timers._state.log
    sizes = {number: len(list(logs.scan(number))) for number in logs.slices}
    assert sizes == {FIRST: 1, FIRST + 1: 2, (START_MS + 500_000) // 60_000: 2}

    rig.clock.now_ms -= 10_000
    assert route_of(rig, 5000) is Route.REAL_TOPIC  # that second is over
    assert sizes == {number: len(list(logs.scan(number))) for number in logs.slices}
    rig.advance(600_000)
    assert rig.bodies() == [b"1", b"6", b"2", b"4", b"3", b"5"]


@pytest.mark.case("E2")
def test_the_current_second_itself_is_not_fired_yet() -> None:
    rig = SliceRig()
    rig.timer(1000)
    rig.advance(1000)
    state = rig.timers._state
    assert state.current_second == START_MS // 1000 + 2
    assert route_of(rig, 1000) is Route.CURRENT_WHEEL
    rig.advance(1000)
    assert rig.bodies() == [b"1", b"2"]


def test_what_is_no_timer_is_counted_and_passed_over() -> None:
    rig = SliceRig()
    for properties in ({}, {"TIMER_OUT_MS": "x", "REAL_TOPIC": "T", "REAL_QID": "0"}):
        rig.store.put(InnerMessage(rig.timers.topic, 0, b"?", dict(properties)))
    rig.timer(1000)
    rig.advance(2000)
    assert rig.timers.lost == {"malformed": 2}
    assert rig.bodies() == [b"1"]


class RefusingSegment(MemorySegment):
    """Takes no bytes while its file system says so."""

    __slots__ = ("fs",)

    fs: RefusingFileSystem

    def write(self, at: int, data: bytes | bytearray | memoryview) -> None:
        if self.fs.is_full and self.path.startswith("dcommitlog/"):
            super().write(at, bytes(data)[: len(data) // 2])
            raise StoreError("no room for slices")
        super().write(at, data)


class RefusingFileSystem(MemoryFileSystem):
    is_full = False

    def new_segment(self, path: str, size: int) -> RefusingSegment:
        segment = RefusingSegment(path, size)
        segment.fs = self
        return segment


def test_a_message_that_its_slice_cannot_take_is_sent_on_its_way_later() -> None:
    fs = RefusingFileSystem()
    rig = SliceRig(fs)
    rig.timer(1000)
    fs.is_full = True
    rig.timer(2000)
    rig.timer(100_000)
    dispatch = rig.timers.stages["SliceDispatchService"]
    assert (dispatch.queue_depth, rig.timers.count()) == (2, 3)
    rig.clock.now_ms += 700
    assert dispatch.lag_ms(rig.clock.now_ms) == 700
    fs.is_full = False
    rig.crash()  # what was written in part is cut off
    rig.advance(200_000)
    assert rig.bodies() == [b"1", b"2", b"3"]
    assert not rig.timers.lost


def test_a_full_disk_is_tried_again_after_half_a_second() -> None:
    fs = RefusingFileSystem()
    rig = SliceRig(fs)
    fs.is_full = True
    rig.timer(300)
    deadline = rig.timers.next_deadline()
    assert deadline is not None
    assert deadline.due_ms == START_MS + 500
    rig.advance(600)
    fs.is_full = False
    rig.advance(500)
    assert rig.bodies() == [b"1"]


# --- a slice comes into memory before it begins --------------------------------------------------


@pytest.mark.case("E3")
def test_a_message_that_comes_while_its_slice_is_loaded_is_delivered_once() -> None:
    rig = SliceRig(config={"mappedFileSizeDCommitLog": 1 << 16})
    for _ in range(100):
        rig.timer(41_000)
    rig.clock.now_ms += 36_000
    rig.timers.fire(rig.clock.now_ms, horizon_ms=0, budget=Short(2))
    preload = rig.timers.stages["SlicePreloadService"]
    while not 0 < preload.counters["records"] < 100:
        rig.timers.fire(rig.clock.now_ms, horizon_ms=0, budget=Short(1))
    assert preload.queue_depth > 0
    rig.timer(5000)
    assert rig.timers.stages["SliceDispatchService"].counters["next wheel"] == 1
    rig.advance(10_000)
    assert rig.bodies() == [b"%d" % number for number in range(1, 102)]
