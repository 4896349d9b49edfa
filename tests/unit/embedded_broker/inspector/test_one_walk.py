"""One store, listed by its engine and from its files: the same messages in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from embedded_broker.inspector.pending import find_pending
from embedded_broker.inspector.reader import StoreFiles
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.timer.listing import BEFORE_ALL, Pending, Walk, Wanted
from tests.unit.embedded_broker.inspector.store_tools import rig_in
from tests.unit.embedded_broker.timer.slices.slice_rig import SliceRig
from tests.unit.embedded_broker.timer.timer_rig import Rig, Short


def run(walk: Walk) -> list[Pending]:
    while not walk.done:
        walk.step(Short(3))
    return walk.found


def by_engine(rig: Rig, **wanted: Any) -> list[Pending]:
    """What engine and levels list, as the broker's view puts it together."""
    asked = Wanted(**{"limit": 1_000_000, **wanted})
    found = run(rig.timers.pending(asked))
    if not isinstance(rig, SliceRig) or not rig.levels_off:
        found += run(rig.levels.pending(asked))
    return sorted(found, key=lambda one: one.place)


def by_files(root: Path, limit: int = 1_000_000, **wanted: Any) -> list[Pending]:
    """What the files' source lists, page by page."""
    with StoreFiles.open(root) as files:
        source = find_pending(files)
        found: list[Pending] = []
        while True:
            after = found[-1].place if found else BEFORE_ALL
            page = run(Walk(source, Wanted(limit=limit, after=after, **wanted)))
            found += page
            if len(page) < limit:
                return found


def act(rig: Rig, random: Random, waiting: list[str]) -> None:
    """Do one of the things that a timer store can meet."""
    action = random.random()
    topic = random.choice(("T", "U"))
    if action < 0.5:
        delay_ms = random.choice((1, 1_500, 9_000, 9_000, 55_000, 100_000))
        waiting.append(rig.timer(delay_ms, topic=topic, queue_id=random.randrange(3)))
    elif action < 0.65:
        rig.send({"DELAY": str(random.randrange(2, 6)), "KEYS": "a b"}, topic=topic)
    elif action < 0.7 and waiting:
        rig.timers.recall(random.choice(waiting))
    elif action < 0.75 and waiting:
        rig.timers.reschedule(random.choice(waiting), rig.clock.now_ms + 20_000)
    elif action < 0.85:
        rig.flush()
    else:
        rig.advance(random.choice((300, 1_000, 7_700)))


@pytest.fixture(params=range(8))
def wheel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """A store with hops, changes, levels and, in every other one, entries behind the wheel."""
    rig = rig_in(tmp_path, slots=150, config={"timerRollWindowSlot": 20})
    random = Random(request.param)
    waiting: list[str] = []
    for _ in range(80):
        act(rig, random, waiting)
    if request.param % 2:
        rig.timers.stages["TimerEnqueueGetService"].pause()
        for _ in range(5):
            rig.timer(30_000)
    rig.flush()  # what the levels delivered since the last one would be delivered again
    yield rig
    rig.close()


@pytest.mark.parametrize("limit", [1_000_000, 3])
def test_wheel_and_levels_are_listed_alike(wheel: Rig, tmp_path: Path, limit: int) -> None:
    expected = by_engine(wheel)
    assert len(expected) > 10
    assert by_files(tmp_path, limit) == expected


def test_the_same_is_chosen(wheel: Rig, tmp_path: Path) -> None:
    before_ms = wheel.clock.now_ms + 10_000
    wanted = {"topic": "U", "before_ms": before_ms}
    assert by_files(tmp_path, 2, **wanted) == by_engine(wheel, **wanted)
    kinds = frozenset({one.kind for one in by_engine(wheel)[:1]})
    assert by_files(tmp_path, 2, kinds=kinds) == by_engine(wheel, kinds=kinds) != []


@pytest.fixture(params=range(8))
def sliced(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SliceRig]:
    """A sliced store with changes, recalls and, in every other one, entries that are in no slice.

    In every third one timers and a level share a queue, as without delay levels.
    """
    random = Random(request.param)
    rig = SliceRig(DirectoryFileSystem(tmp_path), levels_off=request.param % 3 == 2)
    waiting: list[str] = []
    for _ in range(80):
        act(rig, random, waiting)
    if request.param % 4 == 3:
        rig.flush()  # else the logs of the slices have records that nothing accounts for
    if request.param % 2:
        rig.timers.stages["SliceDispatchService"].pause()
        for _ in range(5):
            rig.timer(30_000)
        rig.timers.recall(waiting[-1])
    if not rig.levels_off:
        rig.levels.begin_flush().run()
    yield rig
    rig.close()


@pytest.mark.parametrize("limit", [1_000_000, 3])
def test_slices_are_listed_alike(sliced: SliceRig, tmp_path: Path, limit: int) -> None:
    expected = by_engine(sliced)
    assert len(expected) > 10
    assert by_files(tmp_path, limit) == expected
    sliced.restart()
    assert by_files(tmp_path, limit) == by_engine(sliced) == expected


def test_what_is_listed_can_be_read_until_the_files_are_closed(tmp_path: Path) -> None:
    rig = rig_in(tmp_path)
    for delay_ms in (5_000, 6_000):
        rig.timer(delay_ms)
    rig.close()
    with StoreFiles.open(tmp_path) as files:
        walk = Walk(find_pending(files), Wanted())
        walk.step(Short(1))
        record = walk.found[0].read()
        assert record is not None
        assert record.body == b"1"
    walk.step(Short(1))
    assert (walk.done, len(walk.found)) == (True, 1)
