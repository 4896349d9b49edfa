"""What was handed out and acknowledged, in plain numbers."""

from __future__ import annotations

import sys

from embedded_broker.tables.offsets.deliveries import DELIVERIES_KEPT, DeliveryLog, DeliveryTimes


class Ticker:
    """A clock that a test sets."""

    now_ms = 1000

    def __call__(self) -> int:
        return self.now_ms


def test_a_queue_is_followed_by_what_was_handed_out() -> None:
    log = DeliveryLog(Ticker())
    assert log.next_offset("G", "T", 0) is None
    log.handed_out("G", "T", 0, 5, 8, 3)
    assert log.next_offset("G", "T", 0) == 8
    assert log.first_offset("G", "T", 0) == 5
    log.handed_out("G", "T", 0, 8, 8, 0)
    log.handed_out("G", "T", 0, 2, 4, 2)
    assert log.next_offset("G", "T", 0) == 4
    assert log.first_offset("G", "T", 0) == 2
    assert log.handed_end("G", "T", 0) == 4
    log.handed_out("G", "T", 0, 4, 9, 0)
    assert (log.handed_end("G", "T", 0), log.next_offset("G", "T", 0)) == (4, 9)
    assert log.handed_end("H", "T", 0) is None
    assert log.next_offset("G", "T", 1) is None
    assert log.next_offset("H", "T", 0) is None
    log.handed_out("G", "U", 0, 0, 0, 0)
    assert log.groups() == ["G"]
    assert log.topics_of("G") == ["T", "U"]
    assert log.topics_of("H") == []


def test_times_are_those_of_the_last_delivery_and_of_the_commit_that_covered_it() -> None:
    now = Ticker()
    log = DeliveryLog(now)
    log.handed_out("G", "T", 0, 0, 4, 4)
    now.now_ms = 2000
    log.handed_out("G", "T", 1, 0, 4, 4)
    log.handed_out("G", "T", 0, 2, 4, 2)
    now.now_ms = 3000
    log.committed("G", "T", 0, -1, 3)
    now.now_ms = 4000
    log.committed("G", "T", 0, 3, 4)

    assert log.times("G", "T", 0, 0) == DeliveryTimes(1000, 3000)
    assert log.times("G", "T", 0, 2) == DeliveryTimes(2000, 3000)
    assert log.times("G", "T", 0, 3) == DeliveryTimes(2000, 4000)
    assert log.times("G", "T", 0, 4) == DeliveryTimes(None, None)
    assert log.times("G", "T", 1, 1) == DeliveryTimes(2000, None)
    assert log.times("H", "T", 0, 0) == DeliveryTimes(None, None)


def test_a_commit_backwards_acknowledges_nothing() -> None:
    log = DeliveryLog(Ticker())
    log.handed_out("G", "T", 0, 0, 4, 4)
    log.committed("G", "T", 0, 4, 1)
    assert log.times("G", "T", 0, 2) == DeliveryTimes(1000, None)
    assert len(log._groups["G"].commits) == 0


def test_a_commit_of_a_group_that_never_pulled_here_has_its_time() -> None:
    log = DeliveryLog(Ticker())
    log.committed("G", "T", 0, 3, 5)
    assert log.times("G", "T", 0, 4) == DeliveryTimes(None, 1000)
    assert log.next_offset("G", "T", 0) == 5


def test_a_reset_moves_the_place_but_not_one_that_is_unknown() -> None:
    log = DeliveryLog(Ticker())
    log.moved("G", "T", 0, 1)
    assert log.next_offset("G", "T", 0) is None
    log.handed_out("G", "T", 0, 5, 8, 3)
    log.moved("G", "T", 1, 1)
    log.moved("G", "T", 0, 2)
    assert (log.first_offset("G", "T", 0), log.next_offset("G", "T", 0)) == (2, 2)
    assert log.next_offset("G", "T", 1) is None


def test_the_last_ten_thousand_messages_of_each_group_are_remembered() -> None:
    now = Ticker()
    log = DeliveryLog(now)
    log.handed_out("H", "T", 0, 0, 1, 1)
    log.handed_out("G", "T", 0, 0, 1, 1)
    log.committed("G", "T", 0, 0, 1)
    now.now_ms = 2000
    begin = 1
    for _ in range(DELIVERIES_KEPT // 32):
        log.handed_out("G", "T", 0, begin, begin + 32, 32)
        begin += 32
    while begin < DELIVERIES_KEPT:
        log.handed_out("G", "T", 0, begin, begin + 1, 1)
        log.committed("G", "T", 0, begin, begin + 1)
        begin += 1
    assert log.times("G", "T", 0, 0) == DeliveryTimes(1000, 1000)

    log.handed_out("G", "T", 0, begin, begin + 1, 1)

    assert log.times("G", "T", 0, 0).in_flight_ms is None
    assert log.times("G", "T", 0, 1).in_flight_ms == 2000
    assert log.times("H", "T", 0, 0).in_flight_ms == 1000
    assert log.next_offset("G", "T", 0) == begin + 1


def test_messages_that_were_passed_over_take_no_room() -> None:
    log = DeliveryLog(Ticker())
    log.handed_out("G", "T", 0, 0, 1, 1)
    log.handed_out("G", "T", 0, 1, 50_000, 1)
    assert log.times("G", "T", 0, 0).in_flight_ms == 1000


def test_memory_is_bounded_however_much_is_delivered() -> None:
    log = DeliveryLog(Ticker())
    for offset in range(5 * DELIVERIES_KEPT):
        log.handed_out("G", "T", 0, offset, offset + 1, 1)
        log.committed("G", "T", 0, offset, offset + 1)
    group = log._groups["G"]
    assert len(group.handed) == len(group.commits) == DELIVERIES_KEPT
    assert group.remembered == DELIVERIES_KEPT
    assert sys.getsizeof(group.handed.rows) + sys.getsizeof(group.commits.rows) < 1_000_000
    last = 5 * DELIVERIES_KEPT - 1
    kept = last - DELIVERIES_KEPT + 1
    assert log.times("G", "T", 0, kept) == DeliveryTimes(1000, 1000)
    assert log.times("G", "T", 0, kept - 1) == DeliveryTimes(None, None)
