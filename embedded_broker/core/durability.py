"""Durability of answers: they wait until a message is on disk, or until slaves have it.

Answers: whether an answer has to wait, and who is told when the wait is over or took too long.
After ``CommitLog.handleDiskFlushAndHA`` and ``GroupCommitService``. Must not know: what is
answered, how files are synced, how slaves get what they have. Read on: ``replication.py`` for the
promise about slaves, ``embedded_broker/lifecycle/flusher.py`` for who syncs.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from attrs import define, field

from embedded_broker.clocks.session import Session, SessionTimer
from embedded_broker.core.refusals import Reason
from embedded_broker.core.replication import Replication
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.message_store import MessageStore

Told = Callable[[Reason | None], None]
"""Is told how a wait ended: None when all is well."""


class Promise(Protocol):
    """Something that an answer promises of the log up to its message."""

    is_given: bool
    """Whether answers promise it at all."""
    option: str
    """How long they wait for it."""
    late: Reason
    """What is said after that."""

    def is_kept(self, log_end: int) -> bool:
        """Whether it is true of the log up to ``log_end``."""

    def is_hopeless(self, log_end: int) -> Reason | None:
        """Say why nobody needs to wait for it."""


class Synced:
    """Everything is on disk (``flushDiskType=SYNC_FLUSH``)."""

    option = "syncFlushTimeout"
    late = Reason.FLUSH_DISK_TIMEOUT

    def __init__(self, config: BrokerConfig, store: MessageStore) -> None:
        self.is_given = config.text("flushDiskType") == "SYNC_FLUSH"
        self._store = store

    def is_kept(self, log_end: int) -> bool:
        """Whether the log is synced so far."""
        return self._store.flushed_offset >= log_end

    def is_hopeless(self, log_end: int) -> Reason | None:  # noqa: ARG002 - a disk may always come
        """Never."""
        return None


@define(eq=False)
class _Waiting:
    """One who waits, and for which promises."""

    log_end: int
    told: Told
    open: dict[Promise, SessionTimer] = field(factory=dict)
    reason: Reason | None = None


@define(eq=False)
class Durability:
    """Who waits for a sync or for slaves. Used under the door.

    ``request_flush`` wakes whoever syncs; it is set by the owner of the flush thread.
    """

    _config: BrokerConfig
    _store: MessageStore
    _session: Session
    replication: Replication
    request_flush: Callable[[], None] = field(default=lambda: None, init=False)
    is_awaited: bool = field(init=False)
    """Whether answers wait at all."""
    _synced: Synced = field(init=False)
    _promises: list[Promise] = field(init=False)
    _waiting: dict[_Waiting, None] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._synced = Synced(self._config, self._store)
        self._promises = [one for one in (self._synced, self.replication) if one.is_given]
        self.is_awaited = bool(self._promises)

    def is_reached(self, log_end: int) -> bool:
        """Whether an answer about bytes up to ``log_end`` may be given now."""
        return all(one.is_kept(log_end) for one in self._promises)

    def when_reached(self, log_end: int, told: Told) -> None:
        """Tell under the door once everything is true of the log up to ``log_end``.

        After ``syncFlushTimeout`` or ``slaveTimeout`` of session time, and where no slave is there
        to wait for, it is told the reason.
        """
        waiting = _Waiting(log_end, told)
        wanted = [one for one in self._promises if not one.is_kept(log_end)]
        for one in wanted:
            give_up = partial(self._settle, waiting, one, one.late)
            waiting.open[one] = self._session.after(
                self._config.int(one.option), give_up, one.option
            )
        self._waiting[waiting] = None
        for one in wanted:
            reason = one.is_hopeless(log_end)
            if reason is not None:
                self._settle(waiting, one, reason)
        if self._synced in waiting.open:
            self.request_flush()

    def synced(self) -> None:
        """Tell those whose bytes are synced by now. After each flush."""
        self._look(self._synced)

    def replicated(self) -> None:
        """Tell those whose bytes enough slaves have by now."""
        self._look(self.replication)

    def give_up_waiting(self) -> None:
        """Tell everybody that waits that it is done: nobody will sync any more."""
        for waiting in list(self._waiting):
            for promise in list(waiting.open):
                self._settle(waiting, promise, None)

    def _look(self, promise: Promise) -> None:
        for waiting in list(self._waiting):
            if promise in waiting.open and promise.is_kept(waiting.log_end):
                self._settle(waiting, promise, None)

    def _settle(self, waiting: _Waiting, promise: Promise, reason: Reason | None) -> None:
        """Note that a promise is kept, or what is said because it is not."""
        waiting.open.pop(promise).cancel()
        waiting.reason = reason or waiting.reason
        if not waiting.open:
            del self._waiting[waiting]
            waiting.told(waiting.reason)
