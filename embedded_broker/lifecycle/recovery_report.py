"""What opening a store found and mended, for a test to look at.

Answers: what ``broker.restart()`` returns. Must not know: how it was found. Read on:
``embedded_broker/store/recovery.py`` and ``embedded_broker/timer/wheel/recovery.py`` for that.
"""

from attrs import frozen

from embedded_broker.store.recovery import StoreRecovery
from embedded_broker.timer.wheel.recovery import TimerRecovery

__all__ = ["RecoveryReport"]


@frozen(kw_only=True)
class RecoveryReport:
    """What the broker found when it opened its store.

    ``clean``: the last owner had closed it. ``records_read`` of the commit log were checked and
    ``truncated_bytes`` behind its last good one given up; ``entries_added`` consume-queue entries
    lacked or were wrong, ``entries_dropped`` named messages that are not there. Of the timers
    ``timers_pending`` wait, ``timer_records_read`` records were read again,
    ``timer_truncated_bytes`` given up, and ``timers_already_released`` will not be released
    again although the wheel still names them.
    """

    clean: bool
    records_read: int
    truncated_bytes: int
    entries_added: int
    entries_dropped: int
    timers_pending: int
    timer_records_read: int
    timer_truncated_bytes: int
    timers_already_released: int

    @classmethod
    def of(cls, store: StoreRecovery, timers: TimerRecovery) -> "RecoveryReport":
        """Join what the two halves of the store reported."""
        return cls(
            clean=store.clean,
            records_read=store.records_read,
            truncated_bytes=store.truncated_bytes,
            entries_added=store.entries_added,
            entries_dropped=store.entries_dropped,
            timers_pending=timers.pending,
            timer_records_read=timers.records_scanned,
            timer_truncated_bytes=timers.truncated_bytes,
            timers_already_released=timers.already_released,
        )
