"""What connections hold up together: counted once, bounded, the greediest ended first."""

from __future__ import annotations

import logging

import pytest

from embedded_broker.remoting.connection_limits import SPARE, ConnectionLimits
from embedded_broker.settings.config import BrokerConfig
from rocketmq_py.clock import monotonic_ns

MIB = 1 << 20


class Reader:
    """A connection that holds what it is given."""

    def __init__(self, limits: ConnectionLimits, name: str = "reader") -> None:
        self.limits = limits
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
        self.limits.note_unread(self, size)

    def get(self, answer: bytes) -> None:
        self.answers.append(answer)
        self.limits.hold(answer)

    def count_unread(self) -> int:
        return self.waiting

    def long_answers(self) -> list[bytes]:
        return self.answers

    def abort(self) -> None:
        self.ended = True
        for answer in self.answers:
            self.limits.release(answer)
        self.answers = []
        self.limits.forget(self)


@pytest.fixture
def limits() -> ConnectionLimits:
    return ConnectionLimits(unread_max=1000, unfinished_max=1000)


def test_the_greediest_reader_goes_first_and_only_until_an_eighth_is_free(
    limits: ConnectionLimits,
) -> None:
    readers = [Reader(limits) for _ in range(4)]
    for reader, size in zip(readers, (300, 400, 200, 50), strict=True):
        reader.owe(size)
    assert limits.unread == 950
    assert not limits.closed

    readers[3].owe(101)

    assert [reader.ended for reader in readers] == [False, True, False, False]
    assert (limits.unread, limits.closed) == (601, 1)


def test_readers_are_ended_until_an_eighth_is_free(limits: ConnectionLimits) -> None:
    readers = [Reader(limits) for _ in range(9)]
    for reader in readers:
        reader.owe(112)
    assert [reader.ended for reader in readers].count(True) == 2
    assert limits.unread == 7 * 112


def test_what_was_read_meanwhile_is_found_out_before_anybody_is_closed(
    limits: ConnectionLimits,
) -> None:
    first, second = Reader(limits), Reader(limits)
    first.owe(900)
    first.waiting = 0  # nobody told of it

    second.owe(800)

    assert not first.ended
    assert not second.ended
    assert limits.unread == 800


def test_a_long_answer_counts_once_however_many_wait_for_it(limits: ConnectionLimits) -> None:
    readers = [Reader(limits) for _ in range(300)]
    answer = bytes(500)
    for reader in readers:
        reader.get(answer)
        reader.owe(1)
    assert limits.unread == 800

    greedy = Reader(limits)
    greedy.owe(500)

    assert greedy.ended
    assert not any(reader.ended for reader in readers)
    for reader in readers:
        reader.abort()
        limits.forget(reader)
    assert limits.unread == 0


def test_who_waits_only_for_long_answers_is_counted_and_ended_as_well(
    limits: ConnectionLimits,
) -> None:
    readers = [Reader(limits) for _ in range(12)]
    for reader in readers:
        reader.get(bytes(100))
        reader.owe(0)
    assert limits.unread <= 1000
    assert [reader.ended for reader in readers].count(True) == limits.closed > 0


def test_who_takes_what_it_gets_is_ended_last(limits: ConnectionLimits) -> None:
    now_ns = monotonic_ns()
    quick, slow, slower = (Reader(limits) for _ in range(3))
    slow.full_since_ns, slower.full_since_ns = now_ns - 10**9, now_ns - 10**11
    quick.owe(500)
    slow.owe(300)

    slower.owe(250)
    assert (quick.ended, slow.ended, slower.ended) == (False, False, True)
    quick.owe(800)
    assert (quick.ended, slow.ended) == (False, True)


def test_much_that_is_held_up_no_more_is_given_back(limits: ConnectionLimits) -> None:
    told = list[int]()
    limits.unread_max = limits.unfinished_max = 4 * SPARE
    limits.on_spare = lambda: told.append(limits.unread + limits.unfinished)
    first, second = Reader(limits), Reader(limits)
    limits.note_unfinished(first, SPARE)
    second.owe(SPARE)
    second.owe(1)
    assert told == []
    second.owe(0)
    assert told == [SPARE]
    limits.note_unfinished(first, 1)
    assert told == [SPARE]
    limits.forget(first)
    assert told == [SPARE, 0]


def test_readers_are_not_looked_through_for_every_byte_above_the_limit(
    limits: ConnectionLimits,
) -> None:
    looks = []

    class Counted(Reader):
        def count_unread(self) -> int:
            looks.append(self)
            return super().count_unread()

    slow = Counted(limits)
    slow.owe(1000)
    for _ in range(150):
        limits.note_unread(Reader(limits), 1)  # it reads this at once, and nobody tells of it

    assert 1 <= len(looks) <= 11
    assert not slow.ended


def test_unfinished_requests_have_a_bound_of_their_own(limits: ConnectionLimits) -> None:
    readers = [Reader(limits) for _ in range(3)]
    for reader, size in zip(readers, (200, 300, 500), strict=True):
        limits.note_unfinished(reader, size)
    assert (limits.unfinished, limits.closed) == (1000, 0)
    for reader in readers:
        limits.note_unfinished(reader, 0)
    for _ in range(2):
        for number, reader in enumerate(readers):
            limits.note_unfinished(reader, reader.unfinished + 100 * (number + 1))
    assert [reader.ended for reader in readers] == [False, False, True]
    assert limits.unfinished == 600
    limits.note_unfinished(readers[0], 0)
    assert limits.unfinished == 400
    assert limits.unread == 0


def test_the_log_names_who_and_how_much_but_not_for_each_of_many(
    limits: ConnectionLimits, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for number in range(50):
            Reader(limits, f"peer {number}").owe(1001)
    assert limits.closed == 50
    assert len(caplog.messages) == 1
    for piece in ("<peer 0>", "1001 bytes", "at most 1000", "unreadAnswersMaxBytes"):
        assert piece in caplog.text


def test_the_options_are_the_limits(limits: ConnectionLimits) -> None:
    limits.read_settings(
        BrokerConfig({"unreadAnswersMaxBytes": 2 * MIB, "unfinishedRequestsMaxBytes": 3 * MIB})
    )
    assert (limits.unread_max, limits.unfinished_max) == (2 * MIB, 3 * MIB)
