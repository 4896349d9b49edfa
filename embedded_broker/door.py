"""The door: the broker's one lock, and what must wait until it is released.

Answers: who may touch broker state (whoever is inside the door), and when bytes and callbacks leave
it (after release). While the broker is paused, requests wait outside and answers inside, as with a
process that was stopped for a while; what the test itself sends passes. Must not know: what a
request means, clocks, sockets. Read on: ``embedded_broker/remoting/endpoint.py``, which enters it
for requests, and ``embedded_broker/clocks/clock.py``, which enters it for timers.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from threading import Event, Lock, get_ident
from types import TracebackType
from typing import Final, Protocol, Self

from attrs import define, field

from embedded_broker.errors import DoorReentryError
from rocketmq_py.clock import monotonic_ns
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.frame import Frame

logger = get_logger(__name__)

HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of requests that wait at most; a peer that sends more is disconnected."""

_NO_FRAMES: "dict[Receiver, list[bytes]]" = {}
_NO_CALLS: list[Callable[[], None]] = []
_PATIENCE_NS: Final = 5_000_000


Turn = Callable[[Callable[[], None]], None]
"""Lets a call wait until others on the same thread had their turn."""


class Receiver(Protocol):
    """Where frames go after release; ``remoting.requests.Connection`` is one."""

    def deliver(self, frames: list[bytes]) -> None:
        """Take frames in order. Called outside the door, on any thread; must not block."""


@define(eq=False, repr=False)
class Door:
    """``with door:`` owns the broker's state; leaving it delivers what was collected inside.

    Not re-entrant: the same thread entering again gets ``DoorReentryError`` instead of a
    deadlock. One door serves every broker of a cluster. Frames for one receiver keep their
    order within one entry. A thread that comes back at once may enter before others that
    wait, because that costs least. Once a thread has waited for 5 ms, all others wait behind it.
    """

    _lock: Lock = field(factory=Lock, init=False)
    _turn: Lock = field(factory=Lock, init=False)
    _owner: int = field(default=0, init=False)
    _frames: dict[Receiver, list[bytes]] = field(factory=dict, init=False)
    _after: list[Callable[[], None]] = field(factory=list, init=False)
    _watchers: tuple[Event, ...] = field(default=(), init=False)
    _before_release: tuple[Callable[[], None], ...] = field(default=(), init=False)
    _waiting: dict[int, int] = field(factory=dict, init=False)
    _delivering: list[None] = field(factory=list, init=False)
    """One for each thread at it; append and pop are atomic."""
    _held: dict[Receiver, list[bytes]] = field(factory=dict, init=False)
    _holding: bool = field(default=False, init=False)
    _turns: dict[int, "Turn"] = field(factory=dict, init=False)
    entries: int = field(default=0, init=False)
    """How often the door was entered, quiet looks not counted."""
    pause: "Pause" = field(init=False)
    """The requests that wait while the broker is paused; see ``hold`` and ``resume``."""
    quiet: "_QuietEntry" = field(init=False)
    """``with door.quiet:`` enters only to look: nobody is told that state changed."""

    def __attrs_post_init__(self) -> None:
        self.pause, self.quiet = Pause(), _QuietEntry(self)

    def __enter__(self) -> Self:
        me = get_ident()
        if self._owner == me:
            raise DoorReentryError(
                "this thread is already inside the broker: put hooks and handlers must not call "
                "the broker; call it after they have returned"
            )
        if (self._waiting and self._is_line()) or not self._lock.acquire(blocking=False):
            self._wait(me)
        self._owner = me
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        frames = self._frames
        after = self._after
        try:
            for call in self._before_release:
                call()
        finally:
            # What is empty now is filled by the next one who enters: it must not be looked at.
            if not frames:
                frames = _NO_FRAMES
            else:
                self._frames = {}
                if self._holding:
                    self._hold_back(frames)
                    frames = _NO_FRAMES
                else:
                    self._delivering.append(None)
            if after:
                self._after = []
            else:
                after = _NO_CALLS
            watchers = self._watchers
            self.entries += 1
            self._owner = 0
            self._lock.release()
        if frames:
            for receiver, batch in frames.items():
                try:
                    receiver.deliver(batch)
                except Exception:
                    logger.exception("could not hand frames to %r", receiver)
            self._delivering.pop()
        if after:
            for later in after:
                try:
                    later()
                except Exception:
                    logger.exception("work after the door failed: %r", later)
        for event in watchers:
            event.set()

    def leave_quietly(self) -> None:
        """Release without hooks and without waking anybody; see ``quiet``."""
        if self._frames or self._after:
            self.__exit__(None, None, None)
            return
        self._owner = 0
        self._lock.release()

    def _wait(self, me: int) -> None:
        """Take the lock when it is our turn."""
        if me in self._waiting:
            # A signal handler of a thread that stands in the line: its turn ends with the handler.
            self._lock.acquire()
            return
        self._waiting[me] = monotonic_ns()
        try:
            with self._turn:
                self._lock.acquire()
        finally:
            self._waiting.pop(me, None)

    def _is_line(self) -> bool:
        """Whether a thread has waited for so long that no other may enter before it."""
        return monotonic_ns() - min(self._waiting.values(), default=1 << 63) > _PATIENCE_NS

    @property
    def contended(self) -> bool:
        """Whether some thread waits to come in."""
        return bool(self._waiting)

    @property
    def held(self) -> bool:
        """Whether the calling thread is inside."""
        return self._owner == get_ident()

    @property
    def delivering(self) -> bool:
        """Whether some thread is handing over what it collected inside."""
        return bool(self._delivering)

    def hold(self) -> None:
        """Begin a pause: requests wait, and nothing leaves."""
        with self:
            self._holding = True
            self.pause.begin()

    def resume(self) -> None:
        """End a pause: answers that were held back leave, then requests are handled. Outside."""
        with self:
            self._holding = False
            for receiver, batch in self._held.items():
                self._frames[receiver] = batch + self._frames.get(receiver, [])
            self._held = {}
        self.pause.end()

    def _hold_back(self, frames: dict[Receiver, list[bytes]]) -> None:
        """Keep what would leave until the pause ends. Under the door."""
        for receiver, batch in frames.items():
            self._held.setdefault(receiver, []).extend(batch)

    def emit(self, receiver: Receiver, frame: bytes) -> None:
        """Hand ``frame`` to ``receiver`` once the door is released."""
        batch = self._frames.get(receiver)
        if batch is None:
            self._frames[receiver] = [frame]
        else:
            batch.append(frame)

    def emit_all(self, receiver: Receiver, frames: list[bytes]) -> None:
        """Hand over frames as `emit` does each; the list is not the caller's any more."""
        batch = self._frames.setdefault(receiver, frames)
        if batch is not frames:
            batch += frames

    def after(self, call: Callable[[], None]) -> None:
        """Run ``call`` on this thread once the door is released and frames are handed over."""
        self._after.append(call)

    def in_turns(self, step: Callable[[], bool]) -> None:
        """Do a step in an entry of its own once the door is released; again while it says true.

        On this thread; in between others may enter, and have their turn on a thread that has turns.
        Until the last step the door counts as ``delivering``.
        """
        self._delivering.append(None)
        self._after.append(partial(self._do_in_turns, step))

    def _do_in_turns(self, step: Callable[[], bool]) -> None:
        turn = self._turns.get(get_ident())
        is_left = True
        try:
            while is_left:
                with self:
                    is_left = step()
                if is_left and turn is not None:
                    turn(partial(self._do_in_turns, step))
                    return
        except Exception:
            self._delivering.pop()
            raise
        self._delivering.pop()

    def use_turns(self, turn: Turn | None) -> None:
        """Say how work on this thread waits for its turn; None: there are no turns any more."""
        if turn is None:
            self._turns.pop(get_ident(), None)
        else:
            self._turns[get_ident()] = turn

    def before_release(self, call: Callable[[], None]) -> None:
        """Run ``call`` inside, at the end of every entry: the clock driver looks what is due."""
        self._before_release = (*self._before_release, call)

    def forget(self, call: Callable[[], None]) -> None:
        """Undo ``before_release``."""
        self._before_release = tuple(known for known in self._before_release if known != call)

    def watch(self, event: Event) -> None:
        """Set ``event`` after every entry, until ``unwatch``: waiters look again."""
        with self:
            self._watchers = (*self._watchers, event)

    def unwatch(self, event: Event) -> None:
        """Undo ``watch``."""
        with self:
            self._watchers = tuple(known for known in self._watchers if known is not event)


class _QuietEntry:
    """The context manager behind ``Door.quiet``."""

    __slots__ = ("_door",)

    def __init__(self, door: Door) -> None:
        self._door = door

    def __enter__(self) -> Door:
        return self._door.__enter__()

    def __exit__(self, *_: object) -> None:
        self._door.leave_quietly()


class Sender(Protocol):
    """Who sends requests, as far as a pause is concerned."""

    closed: bool

    def close(self) -> None:
        """End it."""


class Pause:
    """Requests that wait, in the order in which they came. ``on`` while the broker is paused."""

    def __init__(self) -> None:
        self.on = False
        self._lock = Lock()
        self._waiting: deque[tuple[Sender, Callable[[], None]]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, peer: Sender, frames: list[Frame], handle: Callable[[], None]) -> bool:
        """Let frames wait until ``handle`` is called for them; False when the pause is over."""
        size = sum(len(frame.header) + len(frame.body) for frame in frames)
        with self._lock:
            if not self.on:
                return False
            if self._bytes + size <= HELD_BYTES_MAX:
                self._bytes += size
                self._waiting.append((peer, handle))
                return True
        logger.warning("closing %r: over %d bytes wait for a paused broker", peer, HELD_BYTES_MAX)
        peer.close()
        return True

    def begin(self) -> None:
        """Let what comes from now on wait."""
        with self._lock:
            self.on = True

    def end(self) -> None:
        """Handle what waits, then let requests pass again. Outside the door."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._bytes = 0
                    self.on = False
                    return
                peer, handle = self._waiting.popleft()
            if not peer.closed:
                handle()
