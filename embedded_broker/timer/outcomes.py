"""Results of recalling or moving a timer and of opening the timer files, as values.

Answers: how a recall, a move and an opening of the files can end, how far releases are. Must
not know: engines.

Read on: `interface.py` for the calls.
"""

from enum import Enum

from attrs import frozen


class RecallOutcome(Enum):
    """What `broker.timers.recall` did."""

    RECALLED = "recalled"
    ALREADY_DUE = "already due"
    UNKNOWN = "unknown"


class MoveOutcome(Enum):
    """What `broker.timers.reschedule` and `fire_now` did."""

    MOVED = "moved"
    ALREADY_DUE = "already due"
    UNKNOWN = "unknown"


@frozen(kw_only=True)
class TimerRecovery:
    """What `TimerEngine.load` found, for a report to the user.

    `records_scanned` of the engine's logs were read again, `truncated_bytes` behind their ends
    given up. `already_released` timers that may still lie there will not be released again.
    `whole_log` says that nothing told where to begin, and everything was read. `skipped` timers
    were too old (`timerSkipOldSlots`).
    """

    records_scanned: int = 0
    truncated_bytes: int = 0
    already_released: int = 0
    whole_log: bool = False
    skipped: int = 0
    queue_offset: int = 0
    read_time_ms: int = 0
    pending: int = 0


@frozen
class TimerProgress:
    """How far a store has released: what is due up to a time and entered before an entry.

    `queue_offset` is of the timer topic's queue. Of the millisecond after `until_ms` that is
    released whose first copy lies before `next_root` in the log.
    """

    until_ms: int
    queue_offset: int
    next_root: int = 0

    def includes(self, due_ms: int, root: int) -> bool:
        """Say whether a timer that entered has been released."""
        return (due_ms, root) < (self.until_ms + 1, self.next_root)
