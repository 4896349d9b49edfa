"""A repair that is interrupted at any write: a second one finishes it, and nothing cut is lost."""

from __future__ import annotations

from random import Random

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.lifecycle.repair import repair_store
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.side_files import DAMAGED_FOLDER
from tests.unit.embedded_broker.timer.dying_fs import DyingFileSystem, Killed

COUNT = 12
FILE_SIZE = 1 << 20
SIZES = {
    "mappedFileSizeCommitLog": FILE_SIZE,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
}
TAIL = b"a torn end without any record behind it"
TABLE = b"no table at all"


def damaged_store() -> MemoryFileSystem:
    """A store with a bad record, a torn end, a bad table and bad timer files; 12 and 12 messages.

    One of the bodies is gone.
    """
    fs = MemoryFileSystem()
    with EmbeddedBroker(
        fs=fs, clock=VirtualClock(), tcp=False, topics=["T"], config=SIZES
    ) as broker:
        for number in range(COUNT):
            broker.send("T", b"body %d." % number, keys=f"key{number}")
            broker.send("T", b"later %d." % number, delay=3600 + number)
    name = "commitlog/" + "0" * 20
    log = fs.read_file(name)
    segment = fs.open_segment(name, FILE_SIZE)
    segment.write(log.index(b"body 7."), b"cody")
    segment.write(len(log.rstrip(b"\0")), TAIL)
    for path in ("config/topics.json", "config/topics.json.bak"):
        fs.write_file(path, TABLE)
    wheel = fs.open_segment("timerwheel", fs.size("timerwheel"))
    wheel.write(0, b"\xff" * 64)
    fs.remove("consumequeue/T/0/" + "0" * 20)
    return fs


def check(fs: MemoryFileSystem) -> None:
    """Everything but the damage is there, and the damage lies in side files."""
    kept = b"".join(fs.read_file(f"{DAMAGED_FOLDER}/{one}") for one in fs.list(DAMAGED_FOLDER))
    for cut in (b"cody 7.", TAIL, TABLE):
        assert cut in kept
    with EmbeddedBroker(fs=fs, clock=VirtualClock(), tcp=False, config=SIZES) as broker:
        assert broker.recovery.problems == ()
        assert broker.recovery.clean
        assert broker.timers.count() == COUNT
        broker.clock.advance(7200)
        left = [one.body for one in broker.messages.in_topic("T")]
        bodies = [b"body %d." % one for one in range(COUNT) if one != 7]
        assert sorted(left) == sorted(bodies + [b"later %d." % one for one in range(COUNT)])


def test_a_repair_that_nothing_stops_keeps_what_it_cuts() -> None:
    fs = damaged_store()
    assert repair_store(fs, config=SIZES).damaged_places == 1
    check(fs)


@pytest.mark.parametrize("death", [Killed, KeyboardInterrupt])
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_repair_that_was_stopped_at_any_write_is_finished_by_a_second_one(
    every: int, death: type[BaseException]
) -> None:
    store, random = damaged_store(), Random(11)
    for writes in range(1, 10_000, every):
        fs = DyingFileSystem(random, death)
        fs.take_over(store)
        fs.die_in(writes)
        try:
            repair_store(fs, config=SIZES)
        except (Killed, KeyboardInterrupt):
            assert fs.remains is not None
            # What is killed stops there; what is interrupted still closes what it has opened.
            left = fs.remains if death is Killed else fs.copy()
            repair_store(left, config=SIZES)
            check(left)
        else:
            break
    assert writes > 20
