"""Queue locks by themselves."""

from __future__ import annotations

from embedded_broker.tables.consumers.locks import LOCK_LEASE_MS, QueueLocks
from rocketmq_py.protocol.bodies.topics import MessageQueueKey

Q0, Q1 = (MessageQueueKey("T", "b", number) for number in range(2))


def test_a_lease_is_renewed_by_its_owner_and_free_when_it_ends() -> None:
    locks = QueueLocks()
    assert locks.lock("g", [Q0], "x", now_ms=0) == [Q0]
    assert locks.lock("g", [Q0], "x", now_ms=LOCK_LEASE_MS - 1) == [Q0]
    assert locks.lock("g", [Q0, Q1], "y", now_ms=LOCK_LEASE_MS) == [Q1]
    assert locks.lock("g", [Q0], "y", now_ms=2 * LOCK_LEASE_MS - 1) == [Q0]


def test_groups_do_not_see_each_other() -> None:
    locks = QueueLocks()
    locks.lock("g", [Q0], "x", now_ms=0)
    assert locks.lock("h", [Q0], "y", now_ms=0) == [Q0]


def test_a_group_with_an_unexpired_lock_is_known() -> None:
    locks = QueueLocks()
    assert not locks.any_held("g", now_ms=0)
    locks.lock("g", [Q0], "x", now_ms=0)
    assert locks.any_held("g", now_ms=LOCK_LEASE_MS - 1)
    assert not locks.any_held("g", now_ms=LOCK_LEASE_MS)
    locks.unlock("g", [Q0], "y")
    assert locks.any_held("g", now_ms=0)
    locks.unlock("g", [Q0], "x")
    assert not locks.any_held("g", now_ms=0)
