"""``clock.settle``: waits until clients are idle, moves time when they are; when the wait ends.

Answers: how a test waits for its consumers and producers without sleeping, and when it gives up: at
its timeout, or when a crashed broker is not back after 5 s. Must not know: how a broker tells that
a client is idle (``embedded_broker/lifecycle/idleness.py``), how the application tells it
(``activity.py``), what fires. Read on: ``embedded_broker/clocks/clock.py``, whose ``settle`` and
``autojump`` these are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, Protocol

from attrs import frozen

from embedded_broker.clocks.activity import Activity
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
JUST_NOW: Final = "a request arrived, or work began or ended, while everybody was being asked"


@frozen
class Settled:
    """Whether all were idle. If not, ``busy`` says what clients and application were doing.

    ``notes`` say what keeps nobody busy and may still be a mistake of the test: a subscription to
    a topic that does not exist, members of one group that subscribe to different things.
    """

    ok: bool
    busy: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@frozen
class _Seen:
    """Who was busy in one look."""

    clients: tuple[str, ...] = ()
    application: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Everybody who was."""
        return (*self.clients, *self.application)


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

    def hasten(self) -> None:
        """Let clients do at once what only waits for its time. Outside the door."""


def wait_until_settled(
    residents: Callable[[], Sequence[Resident]],
    activity: Activity,
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
    is_own = activity.held_by_caller()
    wait_s = 0 if is_own else timeout_s  # for itself it would wait in vain
    seen = _wait(residents, activity, wait_s, wanted, Event(), down_s=DOWN_S)
    told = notes_of(residents(), wanted)
    if seen.all and check:
        raise _too_busy(min(timeout_s, round(monotonic() - began, 1)), seen, told, is_own=is_own)
    return Settled(not seen.all, seen.all, told)


def notes_of(residents: Sequence[Resident], groups: frozenset[str] | None) -> tuple[str, ...]:
    """Give what may be a mistake of the test, whoever is busy."""
    return tuple(dict.fromkeys(note for one in residents for note in one.notes(groups)))


def _wait(
    residents: Callable[[], Sequence[Resident]],
    activity: Activity,
    timeout_s: float,
    groups: frozenset[str] | None,
    stop: Event,
    *,
    down_s: float | None = None,
) -> _Seen:
    """Look until nobody is busy, the time is up or ``stop`` is set; give who was busy last.

    A broker that was down for ``down_s`` seconds ends the wait, too, and so does none at all.
    """
    deadline = monotonic() + timeout_s
    seen_up = monotonic()
    changed = Event()
    doors = {one.door for one in residents()}
    for door in doors:
        door.watch(changed)
    activity.watch(changed)
    try:
        while True:
            changed.clear()
            seen = _look(residents(), activity, groups)
            here = residents()
            if here and not any(one.is_down for one in here):
                seen_up = monotonic()
            elif down_s is not None and monotonic() - seen_up >= down_s:
                return seen
            left_s = deadline - monotonic()
            if not seen.all or left_s <= 0 or stop.is_set():
                return seen
            if seen.all != (JUST_NOW,):
                for one in here:
                    one.hasten()
                changed.wait(min(left_s, LOOK_AGAIN_S))
    finally:
        activity.unwatch(changed)
        for door in doors:
            door.unwatch(changed)


def _look(
    residents: Sequence[Resident], activity: Activity, groups: frozenset[str] | None
) -> _Seen:
    """Ask every broker and the application. If something happened meanwhile, that does not count.

    Nobody can be asked at one instant: work may pass from a client that is asked later to a thread
    that was asked before, and back. It leaves a trace each time. A token that is taken or given
    back changes the mark, and what comes from a client and goes to one enters a door. A condition
    leaves none, so clients are asked before and after it.
    """
    if not residents:
        return _Seen(clients=(NOBODY,))
    before = (activity.mark, *(_count_entries(one.door) for one in residents))
    try:
        clients = _ask(residents, groups)
        application = (*activity.held(), *activity.unmet())
        if not clients and not application and activity.has_conditions:
            clients = _ask(residents, groups)
    except BrokerStateError as error:
        return _Seen(clients=(str(error),))
    seen = _Seen(clients, application)
    if not seen.all and before != (activity.mark, *(one.door.entries for one in residents)):
        return _Seen(clients=(JUST_NOW,))
    return seen


def _ask(residents: Sequence[Resident], groups: frozenset[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for one in residents for reason in one.busy(groups)))


def _count_entries(door: Door) -> int:
    """Count what was done in a broker; who is inside now is waited for, and counted."""
    with door.quiet:
        return door.entries


def _too_busy(
    timeout_s: float, seen: _Seen, notes: tuple[str, ...] = (), *, is_own: bool = False
) -> SettleTimeout:
    # The application first: what its threads hold up is often why clients are busy.
    busy = (*seen.application, *seen.clients)
    named = "; ".join(busy[:NAMED_MAX])
    more = f"; and {len(busy) - NAMED_MAX} more" if len(busy) > NAMED_MAX else ""
    also = "".join(f". Note: {note}" for note in notes[:NAMED_MAX])
    whose = "clients were" if seen.clients else "the application was"
    hint = ""
    if is_own:
        hint = ". This thread itself is inside clock.busy(), so it would wait for itself"
    elif seen.clients:
        hint = (
            ". To leave out groups whose clients commit rarely, name the others: "
            "settle(groups=[...])"
        )
    return SettleTimeout(
        f"{whose} not idle within {timeout_s:g} s: {named}{more}{hint}{also}", seen.all
    )


@contextmanager
def autojumping(
    residents: Callable[[], Sequence[Resident]],
    activity: Activity,
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
            seen = _wait(residents, activity, watchdog_s, None, stop)
            if stop.is_set():
                return
            if seen.all:
                raise _too_busy(watchdog_s, seen)
            if not onlookers.may_jump(stop, begun) or activity.held() or not jump_on():
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
