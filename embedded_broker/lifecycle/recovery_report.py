"""Recovery report: what the broker found and repaired when it opened a store.

Answers: what ``broker.restart()`` returns. Must not know: how it was found. Read on:
``embedded_broker/store/recovery.py`` and ``embedded_broker/timer/wheel/recovery.py`` for that.
"""

from collections.abc import Iterable

from attrs import frozen

from embedded_broker.lifecycle.unsynced import Lost
from embedded_broker.store.recovery import StoreRecovery
from embedded_broker.timer.outcomes import TimerRecovery


@frozen(kw_only=True)
class RecoveryReport:
    """What the broker found when it opened its store.

    ``clean``: the last owner closed the store. ``records_read``: how many records of the commit log
    were checked. ``truncated_bytes``: how many bytes behind the last good record were given up.
    ``entries_added``: consume-queue entries that were missing or wrong. ``entries_dropped``:
    entries of messages that are not there. ``timers_pending``: timers that wait.
    ``timer_records_read`` and ``timer_truncated_bytes``: the same for the timer log.
    ``timers_already_released``: timers that the wheel still names and that will not be released
    again. ``damaged_places`` of the commit log were left out (``damagedRecords=skip``), and
    ``entries_left_out`` messages with them. ``messages_lost`` and ``timers_lost`` were accepted
    before the last ``crash()`` of this broker object and are gone, because they were not synced; of
    the crash of another process nothing is known, and they are 0. ``problems``: what was wrong with
    files, and what was done about it, a line each.
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
    damaged_places: int = 0
    entries_left_out: int = 0
    messages_lost: int = 0
    timers_lost: int = 0
    problems: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, store: StoreRecovery, timers: TimerRecovery, problems: Iterable[str], lost: Lost
    ) -> "RecoveryReport":
        """Join the reports of the store and of its timers, what was wrong, and what is gone."""
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
            damaged_places=store.damaged_places,
            entries_left_out=store.entries_left_out,
            messages_lost=lost.messages,
            timers_lost=lost.timers,
            problems=tuple(problems),
        )
