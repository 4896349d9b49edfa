"""HA service: which slaves follow this broker, how far each has come, and what it gets next.

After ``DefaultHAService`` and the deciding half of ``DefaultHAConnection``. Used under the door. A
broker without slaves does nothing here: only while one is connected does the door tell of bytes
that were added. Must not know: sockets, what records mean. Read on: ``connection.py``, which
carries the bytes, ``rocketmq_py/protocol/transfer.py`` for their form.
"""

from collections.abc import Callable
from typing import Final, Protocol

from attrs import define, field

from embedded_broker.clocks.session import Session
from embedded_broker.core.replication import SlaveState
from embedded_broker.door import Door
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.message_store import MessageStore
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.transfer import PIECE_SIZE_MAX, Piece

logger = get_logger(__name__)

LOOK_EVERY_MS: Final = 1000
"""Heartbeats and silent slaves are looked for this often, as in the original."""


class Line(Protocol):
    """The connection of a slave; each call may come on any thread."""

    def go_on(self) -> None:
        """Send what there is to send, soon."""

    def end(self) -> None:
        """End the connection, soon."""


@define(eq=False)
class Slave:
    """One slave that is connected."""

    line: Line
    address: str
    last_read_ms: int
    last_write_ms: int
    request_offset: int = -1
    """What it reported first; -1 as long as it has not."""
    ack_offset: int = -1
    """What it reported last."""
    next_offset: int = -1
    """Where its next piece begins."""
    sent: int = 0
    bytes_per_second: int = 0
    is_told: bool = False
    """Whether it was logged that the log does not go on where it is."""


@define(eq=False, kw_only=True)
class HAService:
    """The master's side. ``address`` is where slaves connect."""

    door: Door
    address: str
    _config: BrokerConfig
    _store: MessageStore
    _session: Session
    slaves: dict[Slave, None] = field(factory=dict, init=False)
    push_to_slave_max_offset: int = field(default=0, init=False)
    """The most that any slave has ever reported (``push2SlaveMaxOffset``)."""
    on_reported: Callable[[], None] = field(default=lambda: None, init=False)
    """Called when a slave has come further, or has left."""
    _seen: int = field(default=0, init=False)
    _is_looking: bool = field(default=False, init=False)
    _is_open: bool = field(default=True, init=False)

    # -- slaves come and go -----------------------------------------------------------------

    def add(self, line: Line, address: str) -> Slave:
        """Note a slave that has connected."""
        now_ms = self._session.now_ms
        slave = Slave(line, address, now_ms, now_ms)
        if not self.slaves:
            self.door.before_release(self._see)
        self.slaves[slave] = None
        self._look_later()
        logger.info("slave_connected %s", address)
        if not self._is_open:
            self.door.after(line.end)
        return slave

    def remove(self, slave: Slave) -> None:
        """Forget a slave that has gone; idempotent."""
        if slave in self.slaves:
            del self.slaves[slave]
            logger.info("slave_gone %s at %d", slave.address, slave.ack_offset)
            if not self.slaves:
                self.door.forget(self._see)
            self.on_reported()

    def close(self) -> None:
        """Send nothing more: the broker leaves."""
        self._is_open = False
        for slave in list(self.slaves):
            self.door.after(slave.line.end)
            self.remove(slave)

    def reported(self, slave: Slave, offset: int) -> None:
        """Note how far a slave's log reaches; its first word says from where on it wants ours.

        A slave without any log gets the last file only, as in the original.
        """
        slave.last_read_ms = self._session.now_ms
        slave.ack_offset = offset
        if slave.request_offset < 0:
            slave.request_offset = offset
            slave.next_offset = offset or self._begin_of_last_file()
            logger.info(
                "slave_follows %s from %d, it has %d", slave.address, slave.next_offset, offset
            )
        self.push_to_slave_max_offset = max(self.push_to_slave_max_offset, offset)
        self.on_reported()

    def _begin_of_last_file(self) -> int:
        end = self._store.log.max_offset
        return max(0, end - end % self._store.log.files.file_size)

    # -- what a slave gets ------------------------------------------------------------------

    def next_piece(self, slave: Slave) -> Piece | None:
        """Give what a slave gets now; None while it has everything, and before its first word."""
        if not self._is_open or slave.next_offset < 0:
            return None
        log, offset = self._store.log, slave.next_offset
        size = min(self._config.int("haTransferBatchSize"), PIECE_SIZE_MAX)
        data = bytes(log.files.read_file_from(offset, with_zeros=True)[:size])
        if not data:
            self._note_gap(slave)
            return None
        slave.next_offset += len(data)
        slave.sent += len(data)
        slave.last_write_ms = self._session.now_ms
        return Piece(offset, data)

    def _note_gap(self, slave: Slave) -> None:
        log = self._store.log
        if not slave.is_told and not log.min_offset <= slave.next_offset <= log.max_offset:
            slave.is_told = True
            logger.warning(
                "slave %s wants the log from %d on, which has %d to %d: it gets nothing. Empty its "
                "store, so that it begins anew",
                *(slave.address, slave.next_offset, log.min_offset, log.max_offset),
            )

    def wants_heartbeat(self, slave: Slave) -> bool:
        """Whether a slave has heard nothing for ``haSendHeartbeatInterval``; it does now."""
        now_ms, wait_ms = self._session.now_ms, self._config.int("haSendHeartbeatInterval")
        if slave.next_offset < 0 or now_ms - slave.last_write_ms <= wait_ms:
            return False
        slave.last_write_ms = now_ms
        return True

    def is_expired(self, slave: Slave) -> bool:
        """Whether nothing was heard of a slave for ``haHousekeepingInterval``."""
        silent_ms = self._session.now_ms - slave.last_read_ms
        return silent_ms > self._config.int("haHousekeepingInterval")

    # -- how far slaves are -------------------------------------------------------------------

    def in_sync_replicas(self, log_end: int) -> int:
        """Count this broker and the slaves that are not too far behind (``haMaxGapNotInSync``)."""
        gap = self._config.int("haMaxGapNotInSync")
        return 1 + sum(log_end - slave.ack_offset < gap for slave in self.slaves)

    def is_slave_ok(self, log_end: int) -> bool:
        """Whether some slave is there, and one was not too far behind (``isSlaveOK``)."""
        gap = log_end - self.push_to_slave_max_offset
        return bool(self.slaves) and gap < self._config.int("haMaxGapNotInSync")

    def acks(self, log_end: int) -> int:
        """Count this broker and the slaves that have everything up to ``log_end``."""
        return 1 + sum(slave.ack_offset >= log_end for slave in self.slaves)

    def states(self, log_end: int) -> list[SlaveState]:
        """Tell of each slave."""
        gap = self._config.int("haMaxGapNotInSync")
        return [
            SlaveState(
                one.address,
                one.ack_offset,
                one.next_offset,
                log_end - one.ack_offset < gap,
                one.bytes_per_second,
            )
            for one in self.slaves
        ]

    # -- when there is something to send ------------------------------------------------------

    def _see(self) -> None:
        """Wake the slaves when the log has grown; at the end of every entry through the door."""
        end = self._store.log.max_offset
        if end != self._seen:
            self._seen = end
            self.door.after(self._wake)

    def _wake(self) -> None:
        for slave in list(self.slaves):
            slave.line.go_on()

    def _look_later(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._session.after(LOOK_EVERY_MS, self._look, "slaves")

    def _look(self) -> None:
        """Let every connection see whether it is time for a heartbeat, or to give a slave up."""
        self._is_looking = False
        for slave in self.slaves:
            slave.bytes_per_second, slave.sent = slave.sent * 1000 // LOOK_EVERY_MS, 0
        if self.slaves:
            self._look_later()
            self.door.after(self._wake)
