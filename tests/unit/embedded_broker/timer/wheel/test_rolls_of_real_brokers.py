"""Timers that a real broker rolled before this one opened its store.

Such copies name neither their first copy nor the one before: only id, slot and number of rolls
tell that they belong together.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.outcomes import MoveOutcome, RecallOutcome
from embedded_broker.timer.recall import delete_message, mark_message
from embedded_broker.timer.request import is_rootless
from embedded_broker.timer.wheel.change import find_copies
from embedded_broker.timer.wheel.due_heap import Waiting
from embedded_broker.timer.wheel.release import TimerDequeuePutMessageService
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from tests.unit.embedded_broker.timer.timer_rig import HOST, START_MS, Rig

DUE_MS = START_MS + 60_500


def roll_as_a_real_broker(
    service: TimerDequeuePutMessageService, entry: Waiting, record: MessageRecord, now_ms: int
) -> bool:
    """Put the copy that `TimerDequeuePutMessageService.convert` makes of a hop."""
    properties = dict(record.properties)
    properties["TIMER_ROLL_TIMES"] = str(int(properties.get("TIMER_ROLL_TIMES", "0")) + 1)
    properties["TIMER_ENQUEUE_MS"] = str(entry.enqueue_ms)
    properties["TIMER_DEQUEUE_MS"] = str(now_ms)
    copy = InnerMessage(
        TIMER_TOPIC,
        0,
        record.body,
        properties,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
    )
    service.state.metrics.add("T", -1, now_ms)
    return service.state.store.put(copy).ok


@pytest.fixture
def rolled(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rig]:
    """Open a store in which a real broker has rolled a timer of a minute, K1, some times."""

    def make(*, sent: int = 1, rolls_ms: int = 30_000) -> Rig:
        rig = Rig(config={"timerRollWindowSlot": 10})
        for _ in range(sent):
            due = {"TIMER_DELIVER_MS": str(DUE_MS), "UNIQ_KEY": "K1"}
            assert rig.send(due).ok
        with monkeypatch.context() as patch:
            patch.setattr(TimerDequeuePutMessageService, "_roll", roll_as_a_real_broker)
            rig.advance(rolls_ms)
            rig.close()
        rig.fs.remove("config/timermeta")
        rig.open()
        copies = rig.messages(TIMER_TOPIC)
        assert len(copies) >= 3 * sent
        assert not any("TIMER_ROOT_OFFSET" in one.properties for one in copies)
        assert rig.timers.count() == sent
        return rig

    return make


def state_of(rig: Rig) -> tuple[int, int, list[str], list[bytes]]:
    """Give counts, what is listed and what was delivered."""
    rig.fire()
    timers = rig.timers
    return timers.count(), timers.count("T"), [one.msg_id for one in rig.listed()], rig.bodies()


NOTHING_LEFT: tuple[int, int, list[str], list[bytes]] = (0, 0, [], [])


@pytest.mark.case("C22")
def test_recall_takes_back_the_newest_copy_alone(rolled: Callable[..., Rig]) -> None:
    rig = rolled()
    assert rig.timers.recall("K1") is RecallOutcome.RECALLED
    assert len([one for one in rig.messages(TIMER_TOPIC) if one.body == b"0"]) == 1
    assert state_of(rig) == NOTHING_LEFT
    rig.crash()
    assert state_of(rig) == NOTHING_LEFT
    rig.advance(70_000)
    assert state_of(rig) == NOTHING_LEFT


@pytest.mark.case("C22")
def test_request_370_takes_back_the_newest_copy_alone(rolled: Callable[..., Rig]) -> None:
    rig = rolled()
    slot_ms = int(rig.messages(TIMER_TOPIC)[0].properties["TIMER_OUT_MS"])
    handle = RecallHandle("T", "broker-a", slot_ms + 1, "K1")
    now_ms = rig.clock.now_ms
    mark = delete_message(handle, producer_group="g", now_ms=now_ms, born_host=HOST)
    assert rig.store.put(mark).ok
    assert state_of(rig) == NOTHING_LEFT
    rig.advance(70_000)
    assert state_of(rig) == NOTHING_LEFT


def test_fire_now_delivers_once(rolled: Callable[..., Rig]) -> None:
    rig = rolled()
    assert rig.timers.fire_now("K1") is MoveOutcome.MOVED
    assert state_of(rig) == (0, 0, [], [b"1"])
    rig.advance(70_000)
    assert state_of(rig) == (0, 0, [], [b"1"])


def test_a_move_leaves_one_timer(rolled: Callable[..., Rig]) -> None:
    rig = rolled()
    assert rig.timers.reschedule("K1", START_MS + 100_000) is MoveOutcome.MOVED
    assert state_of(rig) == (1, 1, ["K1"], [])
    rig.advance(69_999)
    assert rig.bodies() == []
    rig.advance(1)
    assert state_of(rig) == (0, 0, [], [b"1"])


def test_a_copy_that_this_broker_rolls_on_is_the_newest(rolled: Callable[..., Rig]) -> None:
    rig = rolled()
    rig.advance(15_000)
    (copy,) = find_copies(rig.timers._state, "K1")
    assert copy.waits
    assert not is_rootless(copy.record.properties)
    assert rig.timers.recall("K1") is RecallOutcome.RECALLED
    rig.advance(70_000)
    assert state_of(rig) == NOTHING_LEFT


def test_each_of_two_timers_of_one_id_has_its_own_newest_copy(rolled: Callable[..., Rig]) -> None:
    rig = rolled(sent=2)
    assert len(find_copies(rig.timers._state, "K1")) == 2
    assert rig.timers.fire_now("K1") is MoveOutcome.MOVED
    assert state_of(rig) == (0, 0, [], [b"1", b"2"])
    rig.advance(70_000)
    assert state_of(rig) == (0, 0, [], [b"1", b"2"])


def test_what_was_delivered_is_due_already(rolled: Callable[..., Rig]) -> None:
    rig = rolled()
    rig.advance(70_000)
    assert rig.timers.recall("K1") is RecallOutcome.ALREADY_DUE
    assert state_of(rig) == (0, 0, [], [b"1"])


@pytest.mark.case("C22")
def test_a_mark_that_names_an_earlier_copy_works_by_its_key(rolled: Callable[..., Rig]) -> None:
    rig = rolled()
    (copy,) = find_copies(rig.timers._state, "K1")
    first = copy._replace(root=rig.messages(TIMER_TOPIC)[0].record.commit_log_offset)
    assert rig.store.put(mark_message(first, now_ms=rig.clock.now_ms)).ok
    assert state_of(rig) == NOTHING_LEFT
    rig.crash()
    assert state_of(rig) == NOTHING_LEFT
    rig.advance(70_000)
    assert state_of(rig) == NOTHING_LEFT
