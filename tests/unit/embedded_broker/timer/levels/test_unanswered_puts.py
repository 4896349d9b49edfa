"""The unanswered puts of one level."""

from __future__ import annotations

import pytest

from embedded_broker.store.put_values import PutResult, PutStatus
from embedded_broker.timer.delivery import LatePut
from embedded_broker.timer.levels.unanswered_puts import LOOK_EVERY_MS, Flight, UnansweredPuts

STORED = PutResult(PutStatus.PUT_OK, commit_log_offset=100, size=50)
FAILED = PutResult(PutStatus.SERVICE_NOT_AVAILABLE)


class Harness:
    """Puts over a log that is synced up to `synced`; repeated puts get the next answer."""

    def __init__(self) -> None:
        self.synced = 0
        self.answers: list[PutResult | LatePut | None] = []
        self.puts = UnansweredPuts(
            is_durable=lambda log_end: log_end <= self.synced,
            put_again=lambda _offset: self.answers.pop(0),
        )

    def add(self, *answers: PutResult | LatePut) -> None:
        for answer in answers:
            self.puts.add(Flight(10 + len(self.puts), 0, answer))


def test_without_puts_nothing_is_waited_for_and_there_is_room() -> None:
    puts = Harness().puts
    assert (puts.settle(), puts.wait_ms(), puts.repeat(resends_limit=3)) == (None, None, None)
    assert puts.has_room(pending_limit=0, resends_limit=0)


def test_only_what_is_stored_and_synced_is_behind_in_order() -> None:
    harness = Harness()
    late = LatePut()
    harness.add(STORED, late, STORED)
    assert harness.puts.settle() is None
    harness.synced = 150
    assert harness.puts.settle() == 11
    assert harness.puts.wait_ms() == LOOK_EVERY_MS
    late.finish(STORED)
    assert harness.puts.settle() == 13
    assert len(harness.puts) == 0


def test_room_ends_with_more_puts_than_the_limit() -> None:
    harness = Harness()
    harness.add(STORED, STORED)
    assert harness.puts.has_room(pending_limit=2, resends_limit=3)
    assert not harness.puts.has_room(pending_limit=1, resends_limit=3)


def test_a_failed_head_is_repeated_more_slowly_each_time_and_takes_the_room() -> None:
    harness = Harness()
    harness.synced = 150
    harness.add(FAILED)
    harness.answers = [*([FAILED] * 4), STORED]
    waits = []
    for _ in range(4):
        waits.append(harness.puts.wait_ms())
        assert harness.puts.repeat(resends_limit=3) is None
    assert waits == [100, 200, 300, 400]
    assert not harness.puts.has_room(pending_limit=9, resends_limit=3)
    harness.puts.repeat(resends_limit=3)
    assert harness.puts.settle() == 11


def test_the_wait_between_repeats_ends_at_a_minute() -> None:
    harness = Harness()
    harness.puts.add(Flight(1, 0, FAILED, resends=5000))
    assert harness.puts.wait_ms() == 60_000


@pytest.mark.parametrize("limit", [1, 3])
def test_a_message_that_is_gone_is_given_up_after_twice_the_limit(limit: int) -> None:
    harness = Harness()
    harness.add(FAILED)
    harness.answers = [None] * 20
    tries = 1
    while harness.puts.repeat(resends_limit=limit) is None:
        tries += 1
    assert tries == 2 * limit + 1
    assert len(harness.puts) == 0
