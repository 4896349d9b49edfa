"""Waiting until clients are idle, and moving time whenever they are.

Answers: how a test waits for its consumers and producers without sleeping. Must not know: how a
broker tells that a client is idle (``embedded_broker/lifecycle/idleness.py``), what fires. Read on:
``embedded_broker/clocks/clock.py``, whose ``settle`` and ``autojump`` these are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, Protocol

from attrs import frozen

from embedded_broker.clocks.waiting import LOOK_AGAIN_S, Onlookers, refuse_in_event_loop
from embedded_broker.door import Door
from embedded_broker.errors import BrokerStateError, SettleTimeout
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import RocketMQError

NAMED_MAX: Final = 5
"""Most busy clients that the text of an error names."""
DOWN_S: Final = 5.0
"""A crashed broker that is not back by then is not waited for: who would restart it waits here."""
NOBODY: Final = "no broker runs on this clock: call start(), or restart() after a crash"
JUST_NOW: Final = "a request arrived while the clients were being asked"


@frozen
class Settled:
    """Whether every client was idle. If not, ``busy`` says what each of them was doing.

    ``notes`` say what keeps nobody busy and may still be a mistake of the test: a subscription to
    a topic that does not exist, members of one group that subscribe to different things.
    """

    ok: bool
    busy: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Resident(Protocol):
    """One broker that lives by a clock; ``embedded_broker.lifecycle.idleness.Idleness`` is one."""

    @property
    def door(self) -> Door:
        """Where everything that happens in the broker goes through."""

    @property
    def is_down(self) -> bool:
        """Whether it crashed and was not started again."""

    def busy(self, groups: frozenset[str] | None) -> Sequence[str]:
        """Say in words what is still going on, for these consumer groups or all. Outside the door.

        Raises ``BrokerStateError`` when the broker is not running.
        """

    def notes(self, groups: frozenset[str] | None) -> Sequence[str]:
        """Say what may be a mistake although nobody is busy with it. Outside the door."""


def wait_until_settled(
    residents: Callable[[], Sequence[Resident]],
    *,
    timeout_s: float,
    check: bool,
    groups: Iterable[str] | None = None,
) -> Settled:
    """Return once all clients are idle at one instant; see ``BrokerClock.settle``."""
    refuse_in_event_loop("clock.settle(...)", "await broker.aio.settle(...)")
    if isinstance(groups, str):
        groups = (groups,)
    wanted = None if groups is None else frozenset(groups)
    began = monotonic()
    busy = _wait(residents, timeout_s, wanted, Event(), down_s=DOWN_S)
    notes = tuple(dict.fromkeys(note for one in residents() for note in one.notes(wanted)))
    if busy and check:
        raise _too_busy(min(timeout_s, round(monotonic() - began, 1)), busy, notes)
    return Settled(not busy, busy, notes)


def _wait(
    residents: Callable[[], Sequence[Resident]],
    timeout_s: float,
    groups: frozenset[str] | None,
    stop: Event,
    *,
    down_s: float | None = None,
) -> tuple[str, ...]:
    """Look until nobody is busy, the time is up or ``stop`` is set; give who was busy last.

    A broker that was down for ``down_s`` seconds ends the wait, too, and so does none at all.
    """
    deadline = monotonic() + timeout_s
    seen_up = monotonic()
    changed = Event()
    doors = {one.door for one in residents()}
    for door in doors:
        door.watch(changed)
    try:
        while True:
            changed.clear()
            busy = _look(residents(), groups)
            here = residents()
            if here and not any(one.is_down for one in here):
                seen_up = monotonic()
            elif down_s is not None and monotonic() - seen_up >= down_s:
                return busy
            left_s = deadline - monotonic()
            if not busy or left_s <= 0 or stop.is_set():
                return busy
            if busy != (JUST_NOW,):
                changed.wait(min(left_s, LOOK_AGAIN_S))
    finally:
        for door in doors:
            door.unwatch(changed)


def _look(residents: Sequence[Resident], groups: frozenset[str] | None) -> tuple[str, ...]:
    """Ask every broker. When something happened meanwhile, the answers do not count."""
    if not residents:
        return (NOBODY,)
    before = [_count_entries(one.door) for one in residents]
    try:
        busy = [reason for one in residents for reason in one.busy(groups)]
    except BrokerStateError as error:
        return (str(error),)
    if not busy and before != [one.door.entries for one in residents]:
        return (JUST_NOW,)
    return tuple(dict.fromkeys(busy))


def _count_entries(door: Door) -> int:
    """Count what was done in a broker; who is inside now is waited for, and counted."""
    with door.quiet:
        return door.entries


def _too_busy(
    timeout_s: float, busy: tuple[str, ...], notes: tuple[str, ...] = ()
) -> SettleTimeout:
    named = "; ".join(busy[:NAMED_MAX])
    more = f"; and {len(busy) - NAMED_MAX} more" if len(busy) > NAMED_MAX else ""
    also = "".join(f". Note: {note}" for note in notes[:NAMED_MAX])
    return SettleTimeout(
        f"clients were not idle within {timeout_s:g} s: {named}{more}. To leave out groups "
        f"whose clients commit rarely, name the others: settle(groups=[...]){also}",
        busy,
    )


@contextmanager
def autojumping(
    residents: Callable[[], Sequence[Resident]],
    jump_on: Callable[[], bool],
    watchdog_s: float,
    onlookers: Onlookers,
) -> Iterator[None]:
    """Jump from deadline to deadline on a thread of its own while the body runs.

    ``jump_on`` moves time to the next deadline; it says whether there was one. Time does not move
    once a wait of the body is over, until the next one begins.
    """
    onlookers.begin()
    stop = Event()
    failures: list[RocketMQError] = []

    def jump_when_idle() -> None:
        while not stop.is_set():
            begun = onlookers.begun
            busy = _wait(residents, watchdog_s, None, stop)
            if stop.is_set():
                return
            if busy:
                raise _too_busy(watchdog_s, busy)
            if not onlookers.may_jump(stop, begun) or not jump_on():
                stop.wait(LOOK_AGAIN_S)

    def run() -> None:
        try:
            jump_when_idle()
        except RocketMQError as error:
            failures.append(error)

    thread = Thread(target=run, name="embedded-broker-autojump", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]
