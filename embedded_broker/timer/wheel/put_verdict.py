"""What the answer to a put means for a message that is due.

Answers: which answers say that it is stored, which that it never will be, which that trying again
helps, and how a run of such puts can end. Must not know: engines. The table of
`org.apache.rocketmq.store.timer.TimerMessageStore.doPut`.

Read on: `release.py` and `timer/slices/fire.py`, which act on it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from embedded_broker.store.inner import PutStatus

__all__ = ["ATTEMPTS", "DONE", "HOPELESS", "SOON_BETTER", "UNKNOWN_ERROR_WAIT_MS", "Release"]


class Release(Enum):
    """How a run of releases ended."""

    DRAINED = auto()
    OUT_OF_TIME = auto()
    BLOCKED = auto()


ATTEMPTS: Final = 3
"""How often a put is tried when timerEnableRetryUntilSuccess is off."""
UNKNOWN_ERROR_WAIT_MS: Final = 50

DONE: Final = frozenset(
    {
        PutStatus.PUT_OK,
        # The message lies in the log; putting it again would double it.
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)
HOPELESS: Final = frozenset(
    {
        PutStatus.MESSAGE_ILLEGAL,
        PutStatus.PROPERTIES_SIZE_EXCEEDED,
        PutStatus.WHEEL_TIMER_NOT_ENABLE,
        PutStatus.WHEEL_TIMER_MSG_ILLEGAL,
    }
)
SOON_BETTER: Final = frozenset(
    {
        PutStatus.SERVICE_NOT_AVAILABLE,
        PutStatus.OS_PAGE_CACHE_BUSY,
        PutStatus.CREATE_MAPPED_FILE_FAILED,
    }
)
