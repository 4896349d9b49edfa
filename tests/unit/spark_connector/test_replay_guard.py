"""The mark of the last whole batch, kept as an offset by a broker in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import QueueAccess
from spark_connector.errors import OptionError
from spark_connector.replay_guard import ReplayGuard, mark_of


@pytest.fixture
def access() -> Iterator[QueueAccess]:
    with (
        EmbeddedBroker(clock=VirtualClock(), topics=["T"]) as broker,
        QueueAccess(namesrv_addr=broker.namesrv_addr) as started,
    ):
        yield started


@pytest.mark.case("SP58", "SP59")
def test_a_batch_that_was_marked_is_known_and_the_next_one_is_not(access: QueueAccess) -> None:
    guard = ReplayGuard(access, "G", "T")
    assert mark_of("query", 0) & 0xFFFF_FFFF == 1  # a mark is never 0, which means none
    assert not guard.is_written("query", 0)
    guard.note("query", 0)
    assert guard.is_written("query", 0)
    assert not guard.is_written("query", 1)
    guard.note("query", 5)
    assert guard.is_written("query", 5)
    assert guard.is_written("query", 4)
    assert not guard.is_written("query", 6)


@pytest.mark.case("SP58")
def test_the_mark_of_another_query_is_an_error_unless_it_may_be_taken_over(
    access: QueueAccess,
) -> None:
    ReplayGuard(access, "G", "T").note("one", 3)
    with pytest.raises(OptionError, match=r"another query .* this one is two"):
        ReplayGuard(access, "G", "T").is_written("two", 0)
    taking = ReplayGuard(access, "G", "T", take_over=True)
    assert not taking.is_written("two", 0)
    taking.note("two", 0)
    assert ReplayGuard(access, "G", "T").is_written("two", 0)
