"""Replication of a send: whether it waits for slaves, and what its sender hears without them.

The role SYNC_MASTER. Since 5.0 ``inSyncReplicas`` says how many must have a message, this broker
among them; before it was any slave. After ``CommitLog.needHandleHA``, ``calcNeedAckNums`` and
``submitReplicaRequest`` (4.9). Must not know: how slaves get what they have. Read on:
``durability.py``, where answers wait, ``embedded_broker/ha/service.py`` for the slaves.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from embedded_broker.core.refusals import Reason
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import Profile
from embedded_broker.timer.outcomes import TimerProgress


class SlaveState(NamedTuple):
    """One slave, as administrators see it."""

    address: str
    ack_offset: int
    next_offset: int
    in_sync: bool
    bytes_per_second: int


class Slaves(Protocol):
    """How far the slaves are."""

    address: str
    """Where they connect."""
    push_to_slave_max_offset: int
    """The most that any slave has ever reported."""

    def in_sync_replicas(self, log_end: int) -> int:
        """Count this broker and the slaves that are not too far behind."""

    def is_slave_ok(self, log_end: int) -> bool:
        """Whether some slave is there, and one was not too far behind."""

    def acks(self, log_end: int) -> int:
        """Count this broker and the slaves that have everything up to ``log_end``."""

    def states(self, log_end: int) -> Sequence[SlaveState]:
        """Tell of each slave."""


class Replication:
    """The promise that slaves have a message. Used under the door."""

    option = "slaveTimeout"
    late = Reason.FLUSH_SLAVE_TIMEOUT

    def __init__(self, config: BrokerConfig, profile: Profile) -> None:
        self.is_given = config.text("brokerRole") == "SYNC_MASTER"
        self.slaves: Slaves | None = None
        """None where no slave can follow."""
        self.master_address: Callable[[], str] | None = None
        """Where a slave's own master is followed; None for a master."""
        self.make_way: Callable[[], TimerProgress | None] | None = None
        """Lets a slave act as master no longer, and says how far it came; None: not yet done."""
        self._config = config
        self._counts = profile.counts_replicas

    def lacks_replicas(self, log_end: int) -> bool:
        """Whether there are too few slaves for a message to be taken at all; since 5.0."""
        if not (self.is_given and self._counts):
            return False
        there = self._in_sync(log_end)
        return self._needed(there) > there

    def is_kept(self, log_end: int) -> bool:
        """Whether enough slaves have the log so far."""
        slaves = self.slaves
        if not self._counts:
            return slaves is not None and slaves.push_to_slave_max_offset >= log_end
        acks = 1 if slaves is None else slaves.acks(log_end)
        return acks >= self._needed(self._in_sync(log_end))

    def is_hopeless(self, log_end: int) -> Reason | None:
        """Say that no slave is there to wait for; before 5.0."""
        slaves = self.slaves
        if self._counts or (slaves is not None and slaves.is_slave_ok(log_end)):
            return None
        return Reason.SLAVE_NOT_AVAILABLE

    def _in_sync(self, log_end: int) -> int:
        there = 1 if self.slaves is None else self.slaves.in_sync_replicas(log_end)
        return min(self._config.int("totalReplicas"), there)

    def _needed(self, there: int) -> int:
        needed = self._config.int("inSyncReplicas")
        if self._config.flag("enableAutoInSyncReplicas"):
            needed = max(min(needed, there), self._config.int("minInSyncReplicas"))
        return needed
