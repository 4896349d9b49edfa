"""Waiters: who waits for a message, and which of them are asked again when one arrives.

RocketMQ's PullRequestHoldService without its thread. A waiter is asked again when a message that
it may want arrives in one of its queues, when its time is up on the session clock (to the
millisecond; the original looks every 5 s), or when it is woken for another reason. It is gone when
its peer is.

Arrivals only mark a waiter. It is asked at the end of the door entry in which they happened, so a
batch, or a burst of timers, is one answer and not one message. When many are marked, each entry
asks some of them, fewer when they have much to judge: others may enter in between. What arrived is
not judged here: whoever waits reads and says whether that was an answer. Must not know: what is
asked and how it is answered. Read on: `consume.py`.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final

from attrs import define, field

from embedded_broker.clocks.session import Session, SessionTimer
from embedded_broker.store.filter_budget import Filter
from embedded_broker.store.message_run import Arrivals
from embedded_broker.tables.peer import Peer

PARKED_MAX: Final = 100_000
"""Most waiters at one time; more are answered at once, as if nothing had been asked to wait.
Far above what queues times clients of a test cluster need."""

WOKEN_AT_ONCE: Final = 32
"""So many are asked in one entry of the door; each takes some 50 us."""


@define(slots=True, eq=False)
class Waiter:
    """Somebody who waits.

    `queues` are topic and queue, each with the offset of the first message that is awaited there.
    `answer` is called with whether the wait is over; then it must answer, whatever it finds. Before
    that it may give False: it goes on waiting. It must not raise.
    """

    peer: Peer
    group: str
    queues: Mapping[tuple[str, int], int]
    wanted: Filter | None
    answer: Callable[[bool], bool]
    asked: object = None
    """What it waits for an answer to; by this it is taken out, see `Waiters.cancel`."""
    place: str = field(default="", init=False)
    """Where it waits with others, in words of the one who asked; see `Waiters.count_at`."""
    due_ms: int = field(default=0, init=False)
    timer: SessionTimer | None = field(default=None, init=False)


def _at_once(step: Callable[[], bool]) -> None:
    """Do all steps here: without a door there is nobody to let in."""
    while step():
        pass


class Waiters:
    """The waiters of one broker, by topic and queue. Used under the door."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: dict[tuple[str, int], dict[Waiter, None]] = {}
        self._by_peer: dict[Peer, dict[Waiter, None]] = {}
        self._woken: deque[tuple[Waiter, bool]] = deque()
        self._count = 0
        self._places: Counter[str] = Counter()
        self._is_going_on = False
        self.in_turns: Callable[[Callable[[], bool]], None] = _at_once
        """Does steps in further entries of the door; see ``Door.in_turns``."""
        self.is_used_up: Callable[[], bool] = lambda: False
        """Whether this entry has no room for more that is to be judged; see ``Judging``."""

    def __len__(self) -> int:
        return self._count

    @property
    def is_waking(self) -> bool:
        """Whether somebody is marked who was not asked yet."""
        return bool(self._woken)

    def is_waiting(self, group: str, topic: str, queue_id: int) -> bool:
        """Say whether a group waits for a queue."""
        return any(one.group == group for one in self._waiting.get((topic, queue_id), ()))

    def count_at(self, place: str) -> int:
        """Say how many wait at a place."""
        return self._places.get(place, 0)

    def count_of(self, peer: Peer) -> int:
        """Say for how much a peer waits."""
        return len(self._by_peer.get(peer, ()))

    def add(self, waiter: Waiter, wait_ms: int) -> bool:
        """Let somebody wait for so much session time; false when there is no room."""
        if self._count >= PARKED_MAX:
            return False
        waiter.due_ms = self._session.now_ms + wait_ms
        self._enter(waiter)
        return True

    def resume(self, waiter: Waiter) -> None:
        """Let somebody wait on who was taken out, or end the wait if its time is up by now."""
        if waiter.peer.closed:
            return
        if waiter.due_ms <= self._session.now_ms:
            waiter.answer(True)
        else:
            self._enter(waiter)

    def on_arrival(self, arrivals: Arrivals) -> None:
        """Mark those who may want a message of those that just became visible."""
        if not self._waiting:
            return
        queue = (arrivals.topic, arrivals.queue_id)
        waiting = self._waiting.get(queue)
        if not waiting:
            return
        for waiter in list(waiting):
            codes = None if waiter.wanted is None else waiter.wanted.codes
            if arrivals.has(waiter.queues[queue], codes):
                self._leave(waiter)
                self._woken.append((waiter, False))

    def run_woken(self) -> None:
        """Ask who is marked, some at a time; called at the end of each door entry."""
        if self._woken and self._ask_some() and not self._is_going_on:
            self._is_going_on = True
            self.in_turns(self._go_on)

    def _ask_some(self) -> bool:
        """Ask some of those who are marked; say whether there are more."""
        woken = self._woken
        for _ in range(WOKEN_AT_ONCE):
            if not woken:
                return False
            if self.is_used_up():
                break
            waiter, is_over = woken.popleft()
            if not waiter.peer.closed and not waiter.answer(is_over):
                self._enter(waiter)
        return bool(woken)

    def _go_on(self) -> bool:
        self._is_going_on = self._ask_some()
        return self._is_going_on

    def wake(self, group: str, topic: str, queue_id: int, *, is_over: bool = True) -> None:
        """Mark a group's waiters of a queue: something else than a message came.

        They must answer then; with `is_over` false they may go on waiting.
        """
        for waiter in list(self._waiting.get((topic, queue_id), ())):
            if waiter.group == group:
                self._leave(waiter)
                self._woken.append((waiter, is_over))

    def drain(self) -> list[Waiter]:
        """Take everybody out, unanswered."""
        waiters = [waiter for waiting in self._waiting.values() for waiter in waiting]
        drained = list(dict.fromkeys(waiters))
        for waiter in drained:
            self._leave(waiter)
        return drained

    def forget(self, peer: Peer) -> None:
        """Drop the waiters of a peer that is gone; nothing is answered."""
        for waiter in list(self._by_peer.get(peer, ())):
            self._leave(waiter)

    def cancel(self, peer: Peer, asked: object) -> None:
        """Drop who waits for the answer to something; nothing is answered."""
        for waiter in list(self._by_peer.get(peer, ())):
            if waiter.asked is asked:
                self._leave(waiter)

    def release(self, peer: Peer) -> None:
        """Let the waiters of a peer answer now: it wants to leave."""
        for waiter in list(self._by_peer.get(peer, ())):
            self._expire(waiter)

    def _expire(self, waiter: Waiter) -> None:
        self._leave(waiter)
        if not waiter.peer.closed:
            waiter.answer(True)

    def _enter(self, waiter: Waiter) -> None:
        for queue in waiter.queues:
            self._waiting.setdefault(queue, {})[waiter] = None
        self._by_peer.setdefault(waiter.peer, {})[waiter] = None
        self._count += 1
        if waiter.place:
            self._places[waiter.place] += 1
        waiter.timer = self._session.at(waiter.due_ms, lambda: self._expire(waiter), "long poll")

    def _leave(self, waiter: Waiter) -> None:
        for queue in waiter.queues:
            waiting = self._waiting[queue]
            del waiting[waiter]
            if not waiting:
                del self._waiting[queue]
        own = self._by_peer[waiter.peer]
        del own[waiter]
        if not own:
            del self._by_peer[waiter.peer]
        self._count -= 1
        if waiter.place:
            self._places[waiter.place] -= 1
            if not self._places[waiter.place]:
                del self._places[waiter.place]
        if waiter.timer is not None:
            waiter.timer.cancel()
