"""Which sends of a producer have not ended yet, so that a shutdown can wait for them.

Every send enters and leaves this book exactly once; who takes it out decides its outcome. Must not
know what a send is.
"""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

__all__ = ["InFlight"]

_S = TypeVar("_S")


class InFlight(Generic[_S]):
    """The unfinished sends of one producer. Every call is safe from any thread."""

    def __init__(self) -> None:
        self._sends: dict[int, _S] = {}
        self._drained = threading.Event()
        self._draining = False

    def __len__(self) -> int:
        return len(self._sends)

    def enter(self, send: _S) -> None:
        """Note a send that begins."""
        self._sends[id(send)] = send

    def leave(self, send: _S) -> bool:
        """Take a send out; False when somebody did before and has decided its outcome."""
        left = self._sends.pop(id(send), None) is not None
        if self._draining and not self._sends:
            self._drained.set()
        return left

    def drain(self, timeout: float) -> list[_S]:
        """Wait up to ``timeout`` seconds until no send is left; return those that still are."""
        self._draining = True
        if self._sends:
            self._drained.wait(timeout)
        return list(self._sends.values())
