"""One record of the timer log: when it is as it was made from its message."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded_broker.timer.outcomes import RecallOutcome
from embedded_broker.timer.wheel.record_judge import Fault, RecordJudge
from embedded_broker.timer.wheel.timer_log import (
    MAGIC_DELETE,
    MAGIC_ROLL,
    RECORD_SIZE,
    TimerLog,
    TimerLogRecord,
)
from tests.unit.embedded_broker.timer.timer_rig import Rig


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A rig whose 30 timers lie in more than one file of the log."""
    rig = Rig()
    for number in range(30):
        rig.timer(5000 + number * 1000)
    yield rig
    rig.abandon()


def log_of(rig: Rig) -> TimerLog:
    return rig.timers._state.log


def first_record(rig: Rig) -> TimerLogRecord:
    record = log_of(rig).read(0)
    assert record is not None
    return record


def ask(rig: Rig, record: TimerLogRecord, slot_ms: int | None = None) -> bool:
    """Whether a record that lies behind all others is good."""
    moved_ms = 0 if slot_ms is None else slot_ms - record.slot_ms
    record = record._replace(write_time_ms=record.write_time_ms + moved_ms)
    judge = RecordJudge(rig.store.log, rig.timers._state.precision_ms)
    return judge.fault(log_of(rig).end, (RECORD_SIZE, *record, 0)) is None


def test_every_record_agrees_with_its_message(rig: Rig) -> None:
    records = [record for _, record in log_of(rig).scan(0)]
    assert len(records) == 30
    assert all(ask(rig, one) for one in records)


@pytest.mark.parametrize(
    "change",
    [
        {"offset_py": 1},
        {"size_py": 1},
        {"size_py": -1},
        {"topic_hash": 1},
        {"magic": MAGIC_DELETE},
        {"magic": MAGIC_ROLL},
        {"offset_py": 1 << 40},
    ],
    ids=str,
)
def test_a_record_that_was_not_made_from_its_message_does_not(
    rig: Rig, change: dict[str, int]
) -> None:
    record = first_record(rig)
    values = {
        name: getattr(record, name) | by if name == "magic" else getattr(record, name) + by
        for name, by in change.items()
    }
    assert not ask(rig, record._replace(**values))


def test_a_mark_that_is_said_to_be_a_timer_does_not_agree_but_a_name_that_ends_alike_does(
    rig: Rig,
) -> None:
    key = rig.timer(50_000)
    assert rig.timers.recall(key) is RecallOutcome.RECALLED
    named = {"TIMER_DELAY_MS": "60000", "X_TIMER_DEL_UNIQKEY": "T+a"}  # another name ends like it
    assert rig.send(named).ok
    *_, (_, mark), (_, timer) = log_of(rig).scan(0)
    assert mark.magic & MAGIC_DELETE
    assert ask(rig, mark)
    assert not ask(rig, mark._replace(magic=mark.magic & ~MAGIC_DELETE))
    assert ask(rig, timer)


def test_a_timer_in_a_wrong_slot_does_not_agree_but_a_hop_may_lie_before_its_time(
    rig: Rig,
) -> None:
    record = first_record(rig)
    assert not ask(rig, record, record.slot_ms + 1000)
    assert not ask(rig, record, record.slot_ms - 1000)
    hop = record._replace(magic=record.magic | MAGIC_ROLL)
    assert ask(rig, hop, record.slot_ms - 1000)
    assert not ask(rig, hop, record.slot_ms + 1000)


def test_of_a_message_that_has_expired_nothing_can_be_said(rig: Rig) -> None:
    record = first_record(rig)
    log = rig.store.log.files
    log.min_offset = record.offset_py + 1
    assert ask(rig, record._replace(topic_hash=record.topic_hash + 1))
    assert not ask(rig, record._replace(offset_py=-5))
    log.min_offset = 0


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"write_time_ms": 1}, "slot out of step"),
        ({"prev_pos": 1 << 40}, "chain goes forward"),
        ({"offset_py": 1}, "record without message"),
        ({"topic_hash": 1}, "record of another message"),
    ],
)
def test_a_fault_is_named(rig: Rig, change: dict[str, int], kind: str) -> None:
    record = first_record(rig)
    values = {name: getattr(record, name) + by for name, by in change.items()}
    entry = (RECORD_SIZE, *record._replace(**values), 0)
    fault = RecordJudge(rig.store.log, 1000).fault(0, entry)
    assert isinstance(fault, Fault)
    assert fault.kind == kind
