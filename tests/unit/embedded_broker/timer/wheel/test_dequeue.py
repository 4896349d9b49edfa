"""How slots are loaded."""

from __future__ import annotations

from embedded_broker.store.memory_fs import MemoryFileSystem
from tests.unit.embedded_broker.timer.timer_rig import START_MS, Endless, Rig, Short


def test_a_message_that_is_in_a_slot_twice_is_loaded_once() -> None:
    rig = Rig()
    rig.timer(30_500)
    state = rig.timers._state
    slot_ms = START_MS + 30_000
    first = state.log.read(0)
    assert first is not None
    twice = state.log.append_record(0, *first[1:])
    state.wheel.put_slot(slot_ms, 0, twice, 2, 0)
    rig.advance(31_000)
    assert rig.bodies() == [b"1"]
    assert rig.timers.lost == {}


def test_a_chain_that_leaves_its_slot_is_counted_and_the_rest_is_delivered() -> None:
    rig = Rig()
    for _ in range(3):
        rig.timer(30_500)
    assert isinstance(rig.fs, MemoryFileSystem)
    log = rig.fs.open_segment("timerlog/00000000000000000000", 1024)
    log.write(52 + 24, b"\0\0\0\x07")
    rig.advance(31_000)
    assert rig.bodies() == [b"3"]
    assert rig.timers.lost == {"broken chain": 1}


def test_a_record_of_another_topic_than_its_message_is_not_released() -> None:
    rig = Rig()
    rig.timer(30_500)
    assert isinstance(rig.fs, MemoryFileSystem)
    log = rig.fs.open_segment("timerlog/00000000000000000000", 1024)
    log.write(40, b"\0\0\0\x07")
    rig.advance(31_000)
    assert rig.bodies() == []
    assert rig.timers.lost == {"malformed": 1}


def test_the_window_is_the_slot_at_the_pointer_and_the_next_one() -> None:
    rig = Rig()
    for seconds in range(5):
        rig.timer(1000 * seconds + 500)
    state = rig.timers._state
    assert sorted(state.due_heap.loaded) == [START_MS, START_MS + 1000]
    assert len(state.due_heap.heap) == 2
    rig.advance(2000)
    assert sorted(state.due_heap.loaded) == [START_MS + 2000, START_MS + 3000]


def test_a_chain_is_walked_in_turns_that_lose_nothing() -> None:
    rig = Rig(config={"mappedFileSizeTimerLog": 8192})
    for _ in range(100):
        rig.timer(30_500)
    rig.clock.now_ms += 30_000
    stage = rig.timers._dequeue_get
    rig.timers._state.curr_write_ms = rig.clock.now_ms
    stage.move(rig.clock.now_ms)
    assert stage.queue_depth == 1
    turns = 0
    while not stage.load(Short(1)):
        turns += 1
    assert turns > 8
    assert stage.load(Endless())
    assert len(rig.timers._state.due_heap.heap) == 100
