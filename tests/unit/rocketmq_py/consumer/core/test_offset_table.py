"""Offsets in memory, and when they are written."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from rocketmq_py.consumer.core import offset_table
from rocketmq_py.consumer.core.offset_table import OffsetTable
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import FakeEngine, queues_of

FIRST, SECOND = queues_of("T", 2)
SOON_MS = 500


class Table(OffsetTable):
    """Writes into a list."""

    def __init__(self, engine: FakeEngine) -> None:
        super().__init__(engine, SOON_MS)
        self.written: list[dict[MessageQueue, int]] = []
        self.fails = False
        self.seen_unwritten = 0

    def load(self, queue: MessageQueue) -> int | None:
        del queue
        return None

    def _write(self, queues: Collection[MessageQueue], *, changed_only: bool = False) -> None:
        self.seen_unwritten = self.unwritten
        if self.fails:
            raise ValueError("on purpose")
        self.written.append(self._noted(queues))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    monkeypatch.setattr(offset_table, "monotonic", lambda: 1_000.0)
    return FakeEngine()


@pytest.fixture
def table(engine: FakeEngine) -> Table:
    return Table(engine)


def test_an_offset_grows_and_goes_back_only_when_that_is_meant(table: Table) -> None:
    assert table.in_memory(FIRST) == -1
    table.update(FIRST, 5)
    table.update(FIRST, 3)
    assert table.in_memory(FIRST) == 5
    table.update(FIRST, 3, increase_only=False)
    assert table.in_memory(FIRST) == 3


def test_a_frozen_offset_stays_until_the_queue_is_forgotten(table: Table) -> None:
    table.update(FIRST, 5)
    table.freeze(FIRST, 2)
    table.update(FIRST, 9)
    table.update(FIRST, 9, increase_only=False)
    assert table.in_memory(FIRST) == 2
    table.remove(FIRST)
    table.update(FIRST, 9)
    assert table.in_memory(FIRST) == 9


def test_no_offset_rides_along_unless_an_heir_says_so(table: Table) -> None:
    table.update(FIRST, 5)
    with table.riding(FIRST) as offset:
        assert offset == -1


def test_offsets_of_other_queues_are_forgotten_once_those_wanted_are_written(table: Table) -> None:
    table.update(FIRST, 5)
    table.update(SECOND, 6)
    table.persist(SECOND)
    table.persist_all([FIRST])
    assert table.written == [{SECOND: 6}, {FIRST: 5}]
    assert (table.in_memory(FIRST), table.in_memory(SECOND)) == (5, -1)


def test_queues_that_run_empty_are_written_at_once_and_then_together(
    table: Table, engine: FakeEngine
) -> None:
    table.update(FIRST, 1)
    table.update(SECOND, 2)
    table.persist_soon(FIRST)
    assert table.written == [{FIRST: 1}]
    assert table.seen_unwritten == 1
    table.update(FIRST, 3)
    table.persist_soon(FIRST)
    table.persist_soon(SECOND)
    assert (table.unwritten, len(table.written)) == (2, 1)
    assert engine.run_scheduled() == [SOON_MS + 1]
    assert table.written[1] == {FIRST: 3, SECOND: 2}
    assert table.unwritten == 0


def test_what_waits_is_written_now_when_somebody_waits_for_the_client(
    table: Table, engine: FakeEngine
) -> None:
    table.hasten()
    assert engine.tasks == []
    table.persist_soon(FIRST)
    table.update(SECOND, 2)
    table.persist_soon(SECOND)
    table.hasten()
    engine.run_tasks()
    assert table.written[-1] == {SECOND: 2}
    assert table.unwritten == 0


def test_a_queue_that_is_forgotten_is_not_waited_for(table: Table) -> None:
    table.persist_soon(FIRST)
    table.persist_soon(SECOND)
    table.remove(SECOND)
    assert table.unwritten == 0


def test_nobody_waits_for_a_write_that_failed(table: Table) -> None:
    table.fails = True
    with pytest.raises(ValueError, match="on purpose"):
        table.persist_soon(FIRST)
    assert table.unwritten == 0
