"""Book of the application's own activity, which a test clock asks before it moves on.

Answers: which work of the application's own threads and tasks is under way (tokens of activity),
and which conditions it wants to hold before time moves on. Must not know: clients, brokers, who
waits, how a function is counted. Read on: ``application.py`` for the calls of the application,
``settle.py`` for who asks.

There is no lock here. A token is taken and given back by single steps of a dict, which are atomic.
So a signal handler, a garbage collection and a child that was forked at any moment can do it.
"""

import inspect
import os
from collections.abc import Callable
from itertools import count
from threading import Event, current_thread, get_ident
from types import TracebackType
from typing import Final, Self

from attrs import define, field

from embedded_broker.errors import ClockError
from rocketmq_py.clock import check_activity_name, monotonic
from rocketmq_py.errors import ConfigError
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

LEASES_MAX: Final = 1000
"""Most tokens of other processes at a time."""


@define(eq=False)
class Token:
    """Work under way. Time stands while it is held."""

    what: str
    thread: int | None
    """The thread which has to give it back by itself; None: anybody may."""
    lease_s: float | None = None
    began: float = field(factory=monotonic, init=False)
    by: str = field(factory=lambda: current_thread().name, init=False)

    @property
    def has_run_out(self) -> bool:
        """Whether its lease is over."""
        return self.lease_s is not None and monotonic() - self.began >= self.lease_s

    def told(self) -> str:
        """Say what is held, by whom and for how long."""
        held_s = monotonic() - self.began
        by = f"thread {self.by}" if self.lease_s is None else "another process"
        return f"{self.what} is held for {held_s:.1f} s by {by}"


@define(eq=False)
class _Here:
    """What is known in one process. A forked child begins with nothing."""

    tokens: dict[Token, None] = field(factory=dict)
    leases: dict[int, Token] = field(factory=dict)
    conditions: "dict[Condition, None]" = field(factory=dict)
    watchers: dict[Event, None] = field(factory=dict)


class Activity:
    """The tokens and conditions of the application that lives by one clock."""

    def __init__(self) -> None:
        self._of_process: dict[int, _Here] = {}
        self._numbers = count(1)
        self.mark = object()
        """Another object after every change: who has seen the same twice has missed nothing."""

    @property
    def _here(self) -> _Here:
        process = os.getpid()
        return self._of_process.get(process) or self._of_process.setdefault(process, _Here())

    # -- tokens ------------------------------------------------------------------------------

    def begin(self, what: str, *, thread: int | None = None, lease_s: float | None = None) -> Token:
        """Take a token, which holds up time until its ``end``."""
        token = Token(what, thread, lease_s)
        self._here.tokens[token] = None
        self.mark = object()
        return token

    def end(self, token: Token, *, wake: bool = True) -> None:
        """Give a token back; idempotent. In a forked child a token of the parent is none.

        ``wake=False`` touches no lock, so that a garbage collection may do it: who waits looks
        again by itself, 10 ms later.
        """
        here = self._here
        here.tokens.pop(token, None)
        self.mark = object()
        if wake:
            for event in tuple(here.watchers):
                event.set()

    def lease(self, name: str, lease_s: float) -> tuple[int, Token]:
        """Take a token for another process, which counts for so many seconds at most."""
        check_activity_name("busy", name)
        here = self._here
        self._end_old_leases(here)
        if len(here.leases) >= LEASES_MAX:
            raise ClockError(
                f"clock.busy({name!r}): {LEASES_MAX} tokens are held by other processes already: "
                "end them, or wait until their leases are over"
            )
        number = next(self._numbers)
        token = here.leases[number] = self.begin(f"busy({name!r})", lease_s=lease_s)
        return number, token

    def give_back(self, number: int) -> Token:
        """End the token of another process; ``KeyError`` when there is none, or none any more."""
        here = self._here
        self._end_old_leases(here)
        token = here.leases.pop(number, None)
        if token is None:
            there = ", ".join(map(str, here.leases)) or "none"
            raise KeyError(f"no token {number}, or its lease is over; there are {there}")
        self.end(token)
        return token

    def _end_old_leases(self, here: _Here) -> None:
        for number, token in list(here.leases.items()):
            if token.has_run_out and here.leases.pop(number, None) is not None:
                self.end(token)
                logger.warning("the lease is over: %s; time is no longer held", token.told())

    def held(self) -> list[str]:
        """Tell of the tokens that are held."""
        here = self._here
        self._end_old_leases(here)
        return [token.told() for token in list(here.tokens)]

    def held_by_caller(self) -> bool:
        """Whether the calling thread holds a token that only it can give back."""
        return any(token.thread == get_ident() for token in list(self._here.tokens))

    # -- conditions --------------------------------------------------------------------------

    def add(self, condition: "Condition") -> None:
        """Ask a condition from now on; ``ConfigError`` when its name is taken."""
        conditions = self._here.conditions
        name = condition.name
        taken = next((one for one in list(conditions) if one.name == name), None)
        if name is not None and taken is not None:
            wanted = f"another name, for {taken.what} has it: call forget({name!r}) first"
            raise ConfigError("name", name, wanted)
        conditions[condition] = None
        self.mark = object()

    def remove(self, condition: "Condition") -> None:
        """Ask a condition no longer; idempotent."""
        here = self._here
        here.conditions.pop(condition, None)
        self.mark = object()
        for event in tuple(here.watchers):
            event.set()

    def remove_named(self, name: str) -> None:
        """Ask the condition of this name no longer; ``KeyError`` when there is none."""
        conditions = list(self._here.conditions)
        found = [one for one in conditions if one.name == name]
        if not found:
            there = ", ".join(repr(one.name) for one in conditions if one.name) or "none"
            raise KeyError(f"no condition is named {name!r}; there are {there}")
        for one in found:
            self.remove(one)

    def unmet(self) -> list[str]:
        """Tell of the conditions that do not hold; ``ClockError`` when one cannot be asked."""
        return [f"{one.what} is not true" for one in list(self._here.conditions) if not one.holds()]

    @property
    def has_conditions(self) -> bool:
        """Whether there are conditions to ask."""
        return bool(self._here.conditions)

    # -- who waits ---------------------------------------------------------------------------

    def watch(self, event: Event) -> None:
        """Set the event whenever a token is given back or a condition forgotten."""
        self._here.watchers[event] = None

    def unwatch(self, event: Event) -> None:
        """Leave the event alone."""
        self._here.watchers.pop(event, None)

    def clear(self) -> None:
        """Forget all tokens and conditions: the test that had them has ended."""
        here = self._here
        for conditions_or_tokens in (here.leases, here.tokens, here.conditions):
            conditions_or_tokens.clear()
        self.mark = object()


class Condition:
    """A condition of the application that must hold before time moves on.

    It is asked until ``forget``, or until the end of its ``with`` block.
    """

    def __init__(
        self, activity: Activity, predicate: Callable[[], object], name: str | None, place: str
    ) -> None:
        self._activity = activity
        self._predicate = predicate
        self.name = name
        shown = getattr(predicate, "__qualname__", repr(predicate)) if name is None else repr(name)
        self.what = f"idle_when({shown}) at {place}"

    def __repr__(self) -> str:
        return f"<clock.{self.what}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.forget()

    def forget(self) -> None:
        """Ask it no longer; idempotent."""
        self._activity.remove(self)

    def holds(self) -> bool:
        """Whether the application is idle by it; ``ClockError`` when the question fails."""
        try:
            answer = self._predicate()
            if not inspect.isawaitable(answer):
                return bool(answer)
        except Exception as error:
            raise ClockError(
                f"clock.{self.what} raised {error!r}: it must answer whether the application is "
                "idle. It is called by the thread that waits, while others work"
            ) from error
        if inspect.iscoroutine(answer):
            answer.close()
        raise ClockError(
            f"clock.{self.what} gave {answer!r}, which nobody awaits: it must answer at once "
            "whether the application is idle"
        )
