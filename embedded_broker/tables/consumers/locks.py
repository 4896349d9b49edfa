"""Which orderly consumer owns which queue right now.

State of RocketMQ's RebalanceLockManager: a lock is a lease on the session clock, renewed by every
lock call of its owner; an expired lock is free. Locks survive the owner's socket.
This module knows no request; 41 and 42 are in `remoting/handlers/admin/admin_broker.py`.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from rocketmq_py.protocol.bodies.topics import MessageQueueKey

LOCK_LEASE_MS: Final = 60_000
"""How long a lock lives without renewal (rocketmq.broker.rebalance.lockMaxLiveTime)."""


class Lease(NamedTuple):
    """Who holds a queue and since when (session milliseconds) it was last renewed."""

    client_id: str
    renewed_ms: int


class QueueLocks:
    """Leases by group and queue. Calls name the session time, so no clock is read here."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueueKey, Lease]] = {}

    def lock(
        self,
        group: str,
        queues: Iterable[MessageQueueKey],
        client_id: str,
        *,
        now_ms: int,
    ) -> list[MessageQueueKey]:
        """Lock what is free or already the caller's; give the queues that it holds now."""
        leases = self._groups.setdefault(group, {})
        held = []
        for queue in queues:
            lease = leases.get(queue)
            if (
                lease is None
                or lease.client_id == client_id
                or now_ms - lease.renewed_ms >= LOCK_LEASE_MS
            ):
                leases[queue] = Lease(client_id, now_ms)
                held.append(queue)
        return held

    def unlock(self, group: str, queues: Iterable[MessageQueueKey], client_id: str) -> None:
        """Free the queues that the caller holds; another's lock is left alone."""
        leases = self._groups.get(group, {})
        for queue in queues:
            lease = leases.get(queue)
            if lease is not None and lease.client_id == client_id:
                del leases[queue]
        if not leases:
            self._groups.pop(group, None)

    def any_held(self, group: str, *, now_ms: int) -> bool:
        """Say whether the group holds an unexpired lock, which marks it as an orderly one."""
        return any(
            now_ms - lease.renewed_ms < LOCK_LEASE_MS
            for lease in self._groups.get(group, {}).values()
        )
