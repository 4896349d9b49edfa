"""Gives freed memory back to the system after a burst of large requests or answers.

Answers: how memory of the allocator is returned. glibc keeps blocks of up to
32 MiB for later use once such a block was freed, and what lies below a block in use stays for good:
as much again as the budgets allow. Must not know: who held it. Where the C library has no
``malloc_trim`` nothing is done. Read on: ``connection_limits.py``, which says when.
"""

import ctypes
from threading import Lock, Thread
from typing import Final

from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

_one_at_a_time: Final = Lock()


def give_back_soon() -> None:
    """Give back what is free, on a thread of its own; not while that is done already."""
    if _one_at_a_time.acquire(blocking=False):
        Thread(target=_give_back, name="embedded-broker-memory", daemon=True).start()


def _give_back() -> None:
    try:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
    except (OSError, TypeError):  # no C library that could be asked
        logger.debug("the allocator cannot be told to give memory back")
    finally:
        _one_at_a_time.release()
