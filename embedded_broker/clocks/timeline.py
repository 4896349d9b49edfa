"""Deadlines: how everything that fires by itself tells the clock when, and is fired.

Answers: what a timer engine, a level scheduler or a session timer must offer so that the clock
driver (``embedded_broker/clocks/clock.py``) can fire it in global due order. Must not know: clocks,
threads, messages. Read on: ``embedded_broker/clocks/clock.py`` for who calls this, and
``embedded_broker/lifecycle/parts.py`` for ``BrokerParts.sources``.
"""

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from rocketmq_py.clock import monotonic_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from embedded_broker.door import Door

DOOR_BUDGET_MS = 5
"""How long one entry may hold the door before it yields."""


NEVER_MS = 1 << 62
UNRANKED = -1
"""The rank of what is no message: it comes before all messages."""


class Deadline(NamedTuple):
    """When something fires next (epoch milliseconds of its clock), and what it is in words."""

    due_ms: int
    what: str


class Budget:
    """How much wall time one entry through the door has left."""

    __slots__ = ("_end_ns",)

    def __init__(self, milliseconds: float = DOOR_BUDGET_MS) -> None:
        self._end_ns = monotonic_ns() + int(milliseconds * 1_000_000)

    def exhausted(self) -> bool:
        """Say whether the time is used up; the holder then stops and is called again."""
        return monotonic_ns() >= self._end_ns


class Turn(Budget):
    """A budget that also ends when ``is_over`` says that it is the turn of another source."""

    __slots__ = ("_is_over", "_left")

    def __init__(self, left: Budget, is_over: "Callable[[], bool]") -> None:
        self._left = left
        self._is_over = is_over

    def exhausted(self) -> bool:
        """Say whether the holder stops and is called again."""
        return self._is_over() or self._left.exhausted()


class Alarm:
    """By which a source has the clock driver ask for its next deadline. Used under the door."""

    __slots__ = ("at_ms",)

    def __init__(self) -> None:
        self.at_ms = 0
        """The earliest time that was named since the driver asked last."""

    def ring(self, due_ms: int = 0) -> None:
        """Say that something may be due at ``due_ms``, earlier than before; by default at once."""
        self.at_ms = min(self.at_ms, due_ms)

    def clear(self) -> None:
        """Wait for the next call: the driver asks now."""
        self.at_ms = NEVER_MS


class DeadlineSource(Protocol):
    """Something that fires by itself. Both calls are made under the door.

    Its alarm rings when its next deadline may have come nearer, but for what ``fire`` does.
    """

    @property
    def alarm(self) -> Alarm:
        """What it rings."""

    def next_deadline(self) -> Deadline | None:
        """Return the earliest deadline, or None."""

    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:
        """Fire what is due at or before ``now_ms`` in due order, until ``budget`` is exhausted.

        ``horizon_ms`` is the end of the running clock jump when roll elision is on, else
        ``now_ms``. Returns how many things a user can see were released. After a call that did
        not exhaust the budget ``next_deadline`` is later than ``now_ms``.
        """


@runtime_checkable
class Ranked(Protocol):
    """A source that can tell which of two things with the same due time came first."""

    def head_rank(self, due_ms: int) -> int:
        """Give the commit-log offset of the first thing that is due at exactly this time.

        ``UNRANKED`` when it is a preparation, or not known. Asked only when another source has
        something due at the same time.
        """


class LongWork(Protocol):
    """Work that takes longer than the door may be held."""

    done: bool

    def step(self, budget: Budget) -> None:
        """Go on until the budget is used up. Under the door."""


def step_in_turns(door: "Door", work: LongWork) -> None:
    """Do all of it, each step in an entry of its own. Called outside the door."""
    while not work.done:
        with door.quiet:
            work.step(Budget())


class LookAhead(LongWork, Protocol):
    """A search for the next thing that a user can see; see ``Foreseeing``."""

    @property
    def first_due_ms(self) -> int | None:
        """When the first such thing is due; None when there is none."""


@runtime_checkable
class Foreseeing(Protocol):
    """A source whose ``next_deadline`` may be preparations that nobody sees."""

    def look_ahead(self) -> LookAhead:
        """Begin to search for the first thing that a user will see. Under the door."""
