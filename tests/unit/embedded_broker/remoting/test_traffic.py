"""What connections hold up together: counted once, bounded, the greediest ended first."""

from __future__ import annotations

import logging

import pytest

from embedded_broker.remoting.traffic import SPARE, Traffic
from embedded_broker.settings.config import BrokerConfig
from rocketmq_py.clock import monotonic_ns

MIB = 1 << 20


class Reader:
    """A connection that holds what it is given."""

    def __init__(self, traffic: Traffic, name: str = "reader") -> None:
        self.traffic = traffic
        self.name = name
        self.noted = self.unfinished = 0
        self.waiting = 0
        self.full_since_ns = 0
        self.answers: list[bytes] = []
        self.ended = False

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def owe(self, size: int) -> None:
        self.waiting = size
        self.traffic.note_unread(self, size)

    def get(self, answer: bytes) -> None:
        self.answers.append(answer)
        self.traffic.hold(answer)

    def count_unread(self) -> int:
        return self.waiting

    def long_answers(self) -> list[bytes]:
        return self.answers

    def abort(self) -> None:
        self.ended = True
        for answer in self.answers:
            self.traffic.release(answer)
        self.answers = []
        self.traffic.forget(self)


@pytest.fixture
def traffic() -> Traffic:
    return Traffic(unread_max=1000, unfinished_max=1000)


def test_the_greediest_reader_goes_first_and_only_until_an_eighth_is_free(
    traffic: Traffic,
) -> None:
    readers = [Reader(traffic) for _ in range(4)]
    for reader, size in zip(readers, (300, 400, 200, 50), strict=True):
        reader.owe(size)
    assert traffic.unread == 950
    assert not traffic.closed

    readers[3].owe(101)

    assert [reader.ended for reader in readers] == [False, True, False, False]
    assert (traffic.unread, traffic.closed) == (601, 1)


def test_what_was_read_meanwhile_is_found_out_before_anybody_is_closed(traffic: Traffic) -> None:
    first, second = Reader(traffic), Reader(traffic)
    first.owe(900)
    first.waiting = 0  # nobody told of it

    second.owe(800)

    assert not first.ended
    assert not second.ended
    assert traffic.unread == 800


def test_a_long_answer_counts_once_however_many_wait_for_it(traffic: Traffic) -> None:
    readers = [Reader(traffic) for _ in range(300)]
    answer = bytes(500)
    for reader in readers:
        reader.get(answer)
        reader.owe(1)
    assert traffic.unread == 800

    greedy = Reader(traffic)
    greedy.owe(500)

    assert greedy.ended
    assert not any(reader.ended for reader in readers)
    for reader in readers:
        reader.abort()
        traffic.forget(reader)
    assert traffic.unread == 0


def test_who_waits_only_for_long_answers_is_counted_and_ended_as_well(traffic: Traffic) -> None:
    readers = [Reader(traffic) for _ in range(12)]
    for reader in readers:
        reader.get(bytes(100))
        reader.owe(0)
    assert traffic.unread <= 1000
    assert [reader.ended for reader in readers].count(True) == traffic.closed > 0


def test_who_takes_what_it_gets_is_ended_last(traffic: Traffic) -> None:
    now_ns = monotonic_ns()
    quick, slow, slower = (Reader(traffic) for _ in range(3))
    slow.full_since_ns, slower.full_since_ns = now_ns - 10**9, now_ns - 10**11
    quick.owe(500)
    slow.owe(300)

    slower.owe(250)
    assert (quick.ended, slow.ended, slower.ended) == (False, False, True)
    quick.owe(800)
    assert (quick.ended, slow.ended) == (False, True)


def test_much_that_is_held_up_no_more_is_given_back(traffic: Traffic) -> None:
    told = list[int]()
    traffic.unread_max = traffic.unfinished_max = 4 * SPARE
    traffic.on_spare = lambda: told.append(traffic.unread + traffic.unfinished)
    first, second = Reader(traffic), Reader(traffic)
    traffic.note_unfinished(first, SPARE)
    second.owe(SPARE)
    second.owe(1)
    assert told == []
    second.owe(0)
    assert told == [SPARE]
    traffic.note_unfinished(first, 1)
    assert told == [SPARE]
    traffic.forget(first)
    assert told == [SPARE, 0]


def test_readers_are_not_looked_through_for_every_byte_above_the_limit(traffic: Traffic) -> None:
    looks = []

    class Counted(Reader):
        def count_unread(self) -> int:
            looks.append(self)
            return super().count_unread()

    slow = Counted(traffic)
    slow.owe(1000)
    for _ in range(150):
        traffic.note_unread(Reader(traffic), 1)  # it reads this at once, and nobody tells of it

    assert 1 <= len(looks) <= 11
    assert not slow.ended


def test_unfinished_requests_have_a_bound_of_their_own(traffic: Traffic) -> None:
    readers = [Reader(traffic) for _ in range(3)]
    for _ in range(2):
        for number, reader in enumerate(readers):
            traffic.note_unfinished(reader, reader.unfinished + 100 * (number + 1))
    assert [reader.ended for reader in readers] == [False, False, True]
    assert traffic.unfinished == 600
    traffic.note_unfinished(readers[0], 0)
    assert traffic.unfinished == 400
    assert traffic.unread == 0


def test_the_log_names_who_and_how_much_but_not_for_each_of_many(
    traffic: Traffic, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for number in range(50):
            Reader(traffic, f"peer {number}").owe(1001)
    assert traffic.closed == 50
    assert len(caplog.messages) == 1
    for piece in ("<peer 0>", "1001 bytes", "at most 1000", "unreadAnswersMaxBytes"):
        assert piece in caplog.text


def test_the_options_are_the_limits(traffic: Traffic) -> None:
    traffic.read_settings(
        BrokerConfig({"unreadAnswersMaxBytes": 2 * MIB, "unfinishedRequestsMaxBytes": 3 * MIB})
    )
    assert (traffic.unread_max, traffic.unfinished_max) == (2 * MIB, 3 * MIB)
