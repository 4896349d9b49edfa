"""Numbers of faults: how a program in another process names one.

Answers: which number a fault has, and which fault has a number, also of those that a test in this
process asked for. Must not know: what goes wrong. Read on: ``operations/faults.py``.
"""

from collections.abc import Iterable
from itertools import count
from threading import Lock
from weakref import WeakKeyDictionary

from embedded_broker.remoting.request_faults import Fault
from embedded_broker.store.fault_points import DiskFault

AnyFault = Fault | DiskFault


class FaultNumbers:
    """Gives each fault a number when it is first seen; from 1."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[AnyFault, int] = WeakKeyDictionary()
        self._next = count(1)
        self._lock = Lock()

    def of(self, fault: AnyFault) -> int:
        """Give the number of a fault."""
        with self._lock:
            number = self._numbers.get(fault)
            if number is None:
                number = self._numbers[fault] = next(self._next)
            return number

    def find(self, number: str, faults: Iterable[AnyFault]) -> AnyFault:
        """Give the fault with this number; ``KeyError`` names those that there are."""
        known = {str(self.of(fault)): fault for fault in faults}
        if number not in known:
            there = ", ".join(known) or "none"
            raise KeyError(f"no fault {number!r}; there are {there}")
        return known[number]
