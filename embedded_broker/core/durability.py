"""Answers that wait until what they promise is on disk.

Answers: whether an answer has to wait for a sync of the log (``flushDiskType=SYNC_FLUSH``), and who
is told when the sync has happened or took too long. After ``CommitLog.GroupCommitService``. Must
not know: what is answered, how files are synced. Read on: ``embedded_broker/lifecycle/flusher.py``.
"""

from collections.abc import Callable

from attrs import define, field

from embedded_broker.clocks.session import Session, SessionTimer
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.message_store import MessageStore


@define(eq=False)
class Durability:
    """Who waits for a sync. Used under the door.

    ``request_flush`` wakes whoever syncs; it is set by the owner of the flush thread.
    """

    _config: BrokerConfig
    _store: MessageStore
    _session: Session
    request_flush: Callable[[], None] = field(default=lambda: None, init=False)
    is_awaited: bool = field(init=False)
    """Whether answers wait for a sync at all."""
    _waiting: list[tuple[int, Callable[[bool], None], SessionTimer]] = field(
        factory=list, init=False
    )

    def __attrs_post_init__(self) -> None:
        self.is_awaited = self._config.text("flushDiskType") == "SYNC_FLUSH"

    def is_reached(self, log_end: int) -> bool:
        """Whether an answer about bytes up to ``log_end`` may be given now."""
        return not self.is_awaited or self._store.flushed_offset >= log_end

    def when_reached(self, log_end: int, call: Callable[[bool], None]) -> None:
        """Call ``call(True)`` under the door once the log is synced up to ``log_end``.

        After ``syncFlushTimeout`` of session time it is ``call(False)``. For a log that is not
        synced so far yet.
        """

        def give_up() -> None:
            self._waiting = [one for one in self._waiting if one[1] is not call]
            call(False)

        wait_ms = self._config.int("syncFlushTimeout")
        timer = self._session.after(wait_ms, give_up, "synchronous flush")
        self._waiting.append((log_end, call, timer))
        self.request_flush()

    def synced(self) -> None:
        """Tell those whose bytes are synced by now. After each flush."""
        if self._waiting:
            self._tell(self._store.flushed_offset)

    def give_up_waiting(self) -> None:
        """Tell everybody that waits that it is done: nobody will sync any more."""
        self._tell(None)

    def _tell(self, flushed_offset: int | None) -> None:
        waiting = self._waiting
        told = [one for one in waiting if flushed_offset is None or one[0] <= flushed_offset]
        self._waiting = [one for one in waiting if one not in told]
        for _, call, timer in told:
            timer.cancel()
            call(True)
