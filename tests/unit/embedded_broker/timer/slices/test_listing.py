"""Listing what waits in a sliced store."""

from __future__ import annotations

from random import Random

import pytest

from embedded_broker.timer.listing import ListPosition, Pending, TimerKind, Wanted
from embedded_broker.timer.slices.dcommit_log import DCommitLog
from embedded_broker.timer.slices.listing import SliceListing
from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, Endless, Short, SliceRig


def listed(rig: SliceRig, wanted: Wanted | None = None, *, turns: int = 0) -> list[Pending]:
    walk = rig.timers.pending(wanted or Wanted())
    while not walk.done:
        walk.step(Short(turns) if turns else Endless())
    return walk.found


def ids(found: list[Pending]) -> list[str]:
    return [one.msg_id for one in found]


@pytest.mark.parametrize("turns", [0, 3])
def test_pages_give_every_timer_once_in_due_order(turns: int) -> None:
    rig = SliceRig()
    random = Random(5)
    dues = {}
    for _ in range(250):
        delay = random.randrange(1, 400_000)
        dues[rig.timer(delay)] = -(-(START_MS + delay) // 1000) * 1000
    rig.advance(10_000)
    before = rig.store.log.max_offset
    found: list[Pending] = []
    after = ListPosition(-1, -1)
    while page := listed(rig, Wanted(limit=100, after=after), turns=turns):
        found += page
        after = page[-1].place
    waiting = sorted((due, int(key[1:])) for key, due in dues.items() if due > START_MS + 10_000)
    assert [(one.due_ms, int(one.msg_id[1:])) for one in found] == waiting
    assert len(found) == rig.timers.count()
    assert rig.store.log.max_offset == before


def test_a_pending_timer_tells_where_it_goes_and_how_it_asked() -> None:
    rig = SliceRig()
    rig.send({"TIMER_DELAY_SEC": "100", "KEYS": "a b"}, topic="Orders", queue_id=2)
    (found,) = listed(rig)
    assert (found.topic, found.queue_id, found.msg_id) == ("Orders", 2, "K1")
    assert (found.kind, found.keys, found.size) == (TimerKind.SEC, ("a", "b"), 1)
    assert (found.accepted_ms, found.due_ms, found.rolls) == (START_MS, START_MS + 100_000, 0)
    record = found.read()
    assert record is not None
    assert record.body == b"1"


def test_a_listing_can_be_narrowed() -> None:
    rig = SliceRig()
    for topic, delay in (("A", 1000), ("B", 2000), ("A", 90_000), ("B", 200_000)):
        rig.timer(delay, topic=topic)
    assert ids(listed(rig, Wanted(topic="A"))) == ["K1", "K3"]
    assert ids(listed(rig, Wanted(before_ms=START_MS + 90_000))) == ["K1", "K2"]
    assert ids(listed(rig, Wanted(kinds=frozenset({TimerKind.SEC})))) == []
    assert ids(listed(rig, Wanted(limit=3))) == ["K1", "K2", "K3"]
    assert listed(rig, Wanted(limit=0)) == []


def test_recalled_released_and_moved_timers_are_not_listed() -> None:
    rig = SliceRig()
    first, second, third = rig.timer(1000), rig.timer(50_000), rig.timer(200_000)
    rig.advance(2000)
    rig.timers.recall(second)
    rig.timers.reschedule(third, rig.clock.now_ms + 30_000)
    (found,) = listed(rig)
    assert (found.msg_id, found.due_ms) == (third, rig.clock.now_ms + 30_000)
    assert found.accepted_ms == START_MS
    assert first == "K1"


def test_what_is_still_in_the_queue_is_listed_in_its_place() -> None:
    rig = SliceRig()
    rig.timer(100_000)
    rig.timers.stages["SliceDispatchService"].pause()
    early, gone, late = rig.timer(50_000), rig.timer(60_000), rig.timer(300_000)
    rig.timers.recall(gone)
    assert ids(listed(rig)) == [early, "K1", late]
    assert ids(listed(rig, Wanted(limit=1))) == [early]
    rig.timers.stages["SliceDispatchService"].resume()
    rig.advance(1)
    assert ids(listed(rig)) == [early, "K1", late]


@pytest.mark.parametrize("taken", [1, 5, 40, 100])
def test_a_slice_may_end_while_it_is_listed(taken: int) -> None:
    rig = SliceRig(config={"slicePreloadSec": 0})
    for _ in range(30):
        rig.timer(70_000)
        rig.timer(130_000)
    walk, counting = rig.timers.pending(Wanted()), rig.timers.distribution()
    walk.step(Short(taken))
    counting.step(Short(taken))
    rig.advance(100_000)
    rig.flush()
    assert len(rig.slices()) == 1
    while not walk.done:
        walk.step(Short(3))
    while not counting.done:
        counting.step(Short(3))
    later = [one for one in walk.found if one.due_ms == START_MS + 130_000]
    assert len(later) == 30
    assert len(walk.found) == len({one.msg_id for one in walk.found})
    assert ids(listed(rig)) == ids(later)


def test_two_listings_at_a_time_give_every_timer_once_each() -> None:
    rig = SliceRig()
    for _ in range(40):
        rig.timer(100_000)
    walks = [rig.timers.pending(Wanted()) for _ in range(2)]
    while not all(walk.done for walk in walks):
        for walk in walks:
            walk.step(Short(3))
    expected = [f"K{number}" for number in range(1, 41)]
    assert [ids(walk.found) for walk in walks] == [expected, expected]
    assert ids(listed(rig)) == expected


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 5, 6])
def test_what_leaves_the_queue_while_it_is_listed_is_listed_once(turns: int) -> None:
    rig = SliceRig()
    dispatch = rig.timers.stages["SliceDispatchService"]
    dispatch.pause()
    for delay in (70_000, 70_000, 140_000, 140_000):
        rig.timer(delay)
    walk = rig.timers.pending(Wanted())
    walk.step(Short(turns))
    dispatch.resume()
    rig.advance(1)
    while not walk.done:
        walk.step(Short(1))
    assert ids(walk.found) == ["K1", "K2", "K3", "K4"]


def test_a_timer_is_found_by_its_id() -> None:
    rig = SliceRig()
    key = rig.timer(100_000)
    (found,) = rig.timers.find(key)
    assert (found.msg_id, found.due_ms) == (key, START_MS + 100_000)
    assert rig.timers.find(key, "other") == []
    rig.timers.recall(key)
    assert rig.timers.find(key) == []


def test_the_distribution_counts_timers_by_how_soon_they_are_due() -> None:
    rig = SliceRig()
    for delay in (3000, 120_000, 30_000_000, 100_000_000):
        rig.timer(delay)
    rig.timers.recall(rig.timer(3000))
    counting = rig.timers.distribution()
    while not counting.done:
        counting.step(Short(2))
    assert {bound: number for bound, number in counting.buckets.items() if number} == {
        5: 1,
        300: 1,
        86_400: 1,
    }


def read_in(rig: SliceRig, monkeypatch: pytest.MonkeyPatch, wanted: Wanted) -> int:
    """How often one page reads in the logs of slices."""
    reads: list[int] = []
    read = DCommitLog.read

    def counted(log: DCommitLog, number: int, position: int) -> memoryview | None:
        reads.append(position)
        return read(log, number, position)

    with monkeypatch.context() as patched:
        patched.setattr(DCommitLog, "read", counted)
        assert len(listed(rig, wanted)) == wanted.limit
    return len(reads)


@pytest.mark.parametrize(("delay_ms", "once"), [(2000, 0), (100_000, 300)])
def test_a_page_reads_no_more_than_it_gives(
    delay_ms: int, once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = SliceRig()
    for number in range(300):
        rig.timer(delay_ms, topic="B" if number % 100 == 7 else "A")

    assert read_in(rig, monkeypatch, Wanted(limit=10)) == 10 + once
    assert read_in(rig, monkeypatch, Wanted(limit=10)) == 10
    after = listed(rig, Wanted(limit=200))[-1].place
    assert read_in(rig, monkeypatch, Wanted(limit=10, after=after)) <= 10 + 9  # a search by halves
    if once:
        assert read_in(rig, monkeypatch, Wanted(limit=3, topic="B")) == 3


@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_agrees_with_a_fresh_look_after_any_course(seed: int) -> None:
    rig, random = SliceRig(), Random(seed)
    keys = [rig.timer(1000)]

    def pause() -> None:
        rig.timers.stages["SliceDispatchService"].pause()

    def resume() -> None:
        rig.timers.stages["SliceDispatchService"].resume()

    def again() -> None:
        resume()
        rig.fire()
        random.choice((rig.crash, rig.restart))()

    delays = (5, 900, 20_000, 70_000, 200_000)
    acts = (
        (30, lambda: keys.append(rig.timer(random.choice(delays) + random.randrange(2000)))),
        (6, lambda: rig.timers.recall(random.choice(keys))),
        (5, lambda: rig.timers.reschedule(
            random.choice(keys), rig.clock.now_ms + random.choice(delays)
        )),
        (5, lambda: rig.advance(random.randrange(3000))),
        (2, lambda: rig.jump(random.choice((1500, 70_000)))),
        (1, rig.flush),
        (1, pause),
        (2, resume),
        (1, again),
    )  # fmt: skip
    for _ in range(200):
        random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()
        if random.random() < 0.3:
            rig.listed(limit=random.choice((1, 3, 50)))
        if random.random() < 0.3:
            found = rig.listed(limit=random.choice((3, 50)), turns=random.choice((1, 4, 90)))
            kept, rig.timers._listing = rig.timers._listing, SliceListing(rig.timers._state)
            assert found == rig.listed()
            assert len(found) == rig.timers.count()
            rig.timers._listing = kept
