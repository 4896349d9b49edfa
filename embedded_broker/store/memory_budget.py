"""Memory budget of a store: how much it may take, and how much it takes.

Answers: what the files of a memory store occupy, in pages that were written; from where on old
files should go; and when messages of clients are refused. What is the default, and how the brokers
of a cluster share it. A quarter more is left to what the broker
itself must store: timers that are due, retries, ends of transactions. Must not know: which files
may go, who is refused. Read on: ``memory_fs.py``, which counts; ``retention.py`` for the rule and
``embedded_broker/lifecycle/aging.py`` for who lets files go.
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final

from attrs import define, field

from embedded_broker.errors import StoreError

BUDGET_MIN: Final = 256 * 1024 * 1024
EACH_MIN: Final = 96 * 1024 * 1024
"""The least for one of many brokers: four files of the commit log have room in it."""
SETTING: Final = "memoryStoreMaxBytes"
_SHARE: Final = 4
_RESERVE: Final = 4
_KIB: Final = 1024
_GROUP_LIMITS: Final = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def _nothing() -> None:
    """Nobody lets files go."""


class MemoryBudget:
    """Bytes in use and the most that may be; without a limit until ``allow``. Any thread.

    ``on_pressure`` is called whenever bytes are added while more than ``pressed_at`` are in use;
    ``on_full`` by ``has_room``, under the door: who makes room meanwhile may be behind.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.used = 0
        self.bytes_max = 0
        """0: there is no limit."""
        self.pressed_at = 0
        self.is_full = False
        """Whether messages of clients are to be refused."""
        self.on_pressure: Callable[[], None] = _nothing
        self.on_full: Callable[[], None] = _nothing

    def allow(self, bytes_max: int, pressed_at: int) -> None:
        """Set the limit, and from where on room should be made; 0 takes both away."""
        with self._lock:
            self.bytes_max, self.pressed_at = bytes_max, pressed_at
            self._decide()

    def take(self, size: int, path: str) -> None:
        """Add to what is in use; raises ``StoreError`` when not even the reserve has room."""
        with self._lock:
            used = self.used + size
            most = self.bytes_max + self.bytes_max // _RESERVE
            if most and used > most:
                raise StoreError(
                    f"{path}: no room for {size} bytes. The memory store has {self.used} bytes, "
                    f"at most {self.bytes_max} ({SETTING}) and a quarter more for the broker's own"
                )
            self.used = used
            self._decide()
        if self.bytes_max and used > self.pressed_at:
            self.on_pressure()

    def give_back(self, size: int) -> None:
        """Take off what is in use no more."""
        with self._lock:
            self.used -= size
            self._decide()

    def has_room(self) -> bool:
        """Whether a message of a client may be stored; what need not be kept goes first."""
        if self.is_full:
            self.on_full()
        return not self.is_full

    def refusal(self) -> str:
        """Say why a message is refused."""
        return (
            f"service not available now: the memory store has {self.used} bytes, at most "
            f"{self.bytes_max} are kept ({SETTING}). What all groups have consumed is gone already"
            f": consume or recall what waits, or raise {SETTING}"
        )

    def _decide(self) -> None:
        self.is_full = 0 < self.bytes_max <= self.used


def default_budget() -> int:
    """Give a quarter of the memory that is available now, and 256 MiB at least."""
    return max(_available() // _SHARE, BUDGET_MIN)


@define
class MemoryShares:
    """What the brokers of a process may take together if no option says so, found out once."""

    brokers: int = 1
    _together: int = field(factory=default_budget, init=False)

    @property
    def each(self) -> int:
        """The bytes of one broker."""
        return max(self._together // self.brokers, EACH_MIN)


_UNKNOWN: Final = 1 << 50


@cache
def physical_memory() -> int:
    """Give the bytes of this machine's memory; where nobody says, more than any log has."""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return _UNKNOWN


def _available() -> int:
    """Give the bytes that this process could still take; 0 where nobody says."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found += [int(one.split()[1]) * _KIB for one in lines if one.startswith("MemAvailable:")]
    except OSError:
        if (memory := physical_memory()) < _UNKNOWN:
            found.append(memory)
    for limit, used in _GROUP_LIMITS:
        try:
            most = Path(limit).read_text(encoding="ascii").strip()
            if most.isdecimal():
                found.append(max(0, int(most) - int(Path(used).read_text(encoding="ascii"))))
        except OSError:  # not a container, or not this kind of one
            continue
    return min(found, default=0)
