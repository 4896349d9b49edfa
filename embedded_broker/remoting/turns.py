"""Fair scheduling of connections on the thread of the sockets.

Answers: how much is done for connections before others have their turn. What takes longer is done
in steps, each connection's in turn. Whoever asked a moment ago goes before those whose requests
took long already: so a short request waits for a step of each of the others at most, and not for
all that they want. Must not know: requests, sockets. Used on the thread of the sockets only. Read
on: ``tcp_connection.py``, which stops reading from a connection that waits here.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from rocketmq_py.clock import monotonic_ns

TURN_NS: Final = 2_000_000
"""For so long work of one kind is done before the loop looks at its sockets again."""


class Turns:
    """Steps that wait for their turn. ``call_soon`` runs a call in the next turn of the loop."""

    __slots__ = ("_again", "_call_soon", "_fresh", "_is_set", "_used_ns", "is_over")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._fresh: deque[Callable[[], None]] = deque()
        self._again: deque[Callable[[], None]] = deque()
        self._is_set = False
        self._used_ns = 0
        self.is_over = False
        """Whether the time of this turn is used up: what comes now is to wait."""

    def use(self, took_ns: int) -> None:
        """Note that so much time of this turn has gone."""
        self._used_ns += took_ns
        self.is_over = self._used_ns >= TURN_NS
        self._set()

    def wait(self, step: Callable[[], None], *, again: bool) -> None:
        """Do a step later; ``again``: of work that had a turn already."""
        (self._again if again else self._fresh).append(step)
        self._set()

    def _set(self) -> None:
        if not self._is_set:
            self._is_set = True
            self._call_soon(self._run)

    def _run(self) -> None:
        """Do steps for the time of one turn: new ones first, but one of the others at least."""
        until_ns = monotonic_ns() + TURN_NS
        fresh, again = self._fresh, self._again
        try:
            while fresh:
                fresh.popleft()()
                if monotonic_ns() >= until_ns:
                    break
            while again:
                again.popleft()()
                if monotonic_ns() >= until_ns:
                    break
        finally:  # a step that fails holds up nobody else
            self._is_set = self.is_over = False
            self._used_ns = 0
            if fresh or again:
                self._set()
