"""Messages at the delay levels, in due order and counted by topic."""

from __future__ import annotations

from random import Random

import pytest

from embedded_broker.store.consume_queue import ConsumeQueue, Entry
from embedded_broker.timer.listing import BEFORE_ALL, ListPosition, Pending, TimerKind, Wanted
from tests.unit.embedded_broker.timer.timer_rig import Endless, Rig, Short


def listed(rig: Rig, *, limit: int = 100, turns: int = 0, **wanted: object) -> list[Pending]:
    found: list[Pending] = []
    while True:
        after = found[-1].place if found else BEFORE_ALL
        walk = rig.levels.pending(Wanted(limit=limit, after=after, **wanted))  # type: ignore[arg-type]
        while not walk.done:
            walk.step(Short(turns) if turns else Endless())
        found += walk.found
        if len(walk.found) < limit:
            return found


def level(rig: Rig, number: int, topic: str = "T") -> str:
    assert rig.send({"DELAY": str(number)}, topic=topic).ok
    return f"K{rig.serial}"


def counts(rig: Rig, *topics: str) -> list[int]:
    while not rig.levels.tally.work(Short(5)):
        pass
    return [rig.levels.tally.count(topic) for topic in topics]


@pytest.mark.parametrize("limit", [1, 4, 100])
@pytest.mark.parametrize("turns", [2, 0])
def test_all_levels_are_one_row_in_due_order(limit: int, turns: int) -> None:
    rig, random = Rig(), Random(5)
    truth = {}
    for _ in range(60):
        number = random.randrange(1, 7)
        due_ms = rig.clock.now_ms + (0, 1, 5, 10, 30, 60, 120)[number] * 1000
        truth[level(rig, number)] = due_ms
        rig.clock.now_ms += random.randrange(3) * 300
    rig.fire()
    truth = {key: due_ms for key, due_ms in truth.items() if due_ms > rig.clock.now_ms}

    found = listed(rig, limit=limit, turns=turns)

    assert [one.due_ms for one in found] == sorted(truth.values())
    assert {one.msg_id: one.due_ms for one in found} == truth
    assert {one.kind for one in found} == {TimerKind.LEVEL}
    assert len(found) == rig.levels.count()


def test_a_failed_message_is_a_retry_and_goes_to_its_retry_topic() -> None:
    rig = Rig()
    level(rig, 3, "%RETRY%G")

    (one,) = listed(rig)

    assert (one.kind, one.topic, one.rolls) == (TimerKind.RETRY, "%RETRY%G", 0)
    assert one.accepted_ms == rig.clock.now_ms
    record = one.read()
    assert record is not None
    assert record.body == b"1"


def test_a_message_behind_a_later_one_is_due_with_it() -> None:
    rig = Rig()
    level(rig, 3)
    rig.clock.now_ms -= 4000
    level(rig, 3)

    first, second = listed(rig)

    assert second.due_ms == first.due_ms
    rig.advance(14_000)
    assert len({one.stored_at_ms for one in rig.messages()}) == 1


def test_levels_that_were_shortened_say_so() -> None:
    rig = Rig()
    level(rig, 5)
    level(rig, 5)
    rig.settings["messageDelayLevel"] = "1s 2s 3s 4s 5s"
    rig.restart()

    assert [one.due_ms for one in listed(rig)] == [rig.clock.now_ms] * 2


def test_only_what_is_asked_for_is_given() -> None:
    rig = Rig()
    level(rig, 1)
    level(rig, 2, "U")
    level(rig, 3)

    assert [one.msg_id for one in listed(rig, topic="T")] == ["K1", "K3"]
    assert [one.msg_id for one in listed(rig, before_ms=rig.clock.now_ms + 5001)] == ["K1", "K2"]
    assert listed(rig, kinds=frozenset({TimerKind.MS})) == []
    assert rig.levels.pending(Wanted(limit=0)).done


def test_a_listing_of_a_store_that_was_closed_ends() -> None:
    rig = Rig()
    level(rig, 3)
    walk = rig.levels.pending(Wanted())
    rig.close()
    walk.step(Endless())

    assert walk.done
    assert walk.found == []


def test_counts_by_topic_follow_arrivals_and_deliveries() -> None:
    rig = Rig()
    for _ in range(30):
        level(rig, 2)
        level(rig, 3, "U")
    assert counts(rig, "T", "U", "V") == [30, 30, 0]

    rig.advance(6000)
    level(rig, 2)

    assert counts(rig, "T", "U") == [1, 30]
    rig.advance(60_000)
    assert counts(rig, "T", "U") == [0, 0]


@pytest.mark.parametrize("ask_before", [True, False])
def test_counts_are_exact_after_a_restart(ask_before: bool) -> None:
    rig = Rig()
    for _ in range(40):
        level(rig, 3)
        level(rig, 5, "U")
    rig.advance(3000)
    level(rig, 3)
    if ask_before:
        counts(rig, "T")
    rig.restart()
    level(rig, 3)

    assert counts(rig, "T", "U") == [42, 40]
    rig.advance(8000)
    assert counts(rig, "T", "U") == [2, 40]


def test_what_is_delivered_while_the_backlog_is_read_is_not_counted() -> None:
    rig = Rig()
    for _ in range(40):
        level(rig, 3)
    rig.restart()
    assert not rig.levels.tally.work(Short(10))
    rig.advance(10_000)
    level(rig, 3)

    assert counts(rig, "T") == [1]


def test_counting_forgets_what_was_delivered_though_nobody_asks() -> None:
    rig = Rig()
    for _ in range(9000):
        level(rig, 1)
        if rig.serial % 1000 == 0:
            rig.advance(1000)

    assert len(rig.levels.tally._rows[1].topics) < 5000
    assert counts(rig, "T") == [0]


def looked_at(rig: Rig, monkeypatch: pytest.MonkeyPatch, **wanted: object) -> int:
    """How many entries of queues one page looks at."""
    seen: list[int] = []
    entry = ConsumeQueue.entry

    def counted(queue: ConsumeQueue, index: int) -> Entry | None:
        seen.append(index)
        return entry(queue, index)

    with monkeypatch.context() as patched:
        patched.setattr(ConsumeQueue, "entry", counted)
        walk = rig.levels.pending(Wanted(**wanted))  # type: ignore[arg-type]
        while not walk.done:
            walk.step(Short(3))
    return len(seen)


def test_a_page_does_not_begin_with_the_first_message(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    for _ in range(200):
        level(rig, 5)
        level(rig, 6)
    whole = listed(rig, limit=50)

    assert len(whole) == 400
    after, later = whole[299].place, whole[349].place
    assert looked_at(rig, monkeypatch, limit=50, after=after) == 350  # back from the last page
    listed(rig, limit=1000)
    assert looked_at(rig, monkeypatch, limit=50, after=after) <= 52
    assert looked_at(rig, monkeypatch, limit=50, after=later) <= 102


def test_pages_stay_right_in_any_order_and_while_messages_leave() -> None:
    rig, random = Rig(), Random(3)
    for _ in range(300):
        level(rig, random.randrange(1, 7))
        if random.random() < 0.3:
            rig.advance(random.randrange(2000))
        after = random.choice(listed(rig, limit=7) or [None])
        place = BEFORE_ALL if after is None else after.place
        kept = page(rig, place)
        rig.levels._starts.clear()
        assert kept == page(rig, place)


def page(rig: Rig, after: ListPosition) -> list[Pending]:
    walk = rig.levels.pending(Wanted(limit=5, after=after))
    while not walk.done:
        walk.step(Endless())
    return walk.found
