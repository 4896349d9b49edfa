"""Which calls are in flight on one connection, and how each of them ends.

`CallTable` is the book that every channel keeps: answers are paired by opaque, each call ends
exactly once, a late answer finds nobody and is dropped. Requests of the server are told from
answers by the flag bit, so an equal opaque does no harm. Must not know sockets, routes or retries.
Read on in ``runs.py`` for many requests as one call, ``channel.py`` for who keeps such a book.
"""

import threading
from _thread import LockType, allocate_lock
from collections.abc import Callable, Sequence
from itertools import count, islice
from typing import Protocol

from rocketmq_py.clock import monotonic
from rocketmq_py.errors import (
    RemotingSendRequestException,
    RemotingTimeoutException,
    RemotingTooMuchRequestException,
    RocketMQError,
)
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.command import RemotingCommand

_log = get_logger(__name__)

Done = Callable[[RemotingCommand | None, RocketMQError | None], None]
"""Takes the outcome of a call, exactly once: an answer or an error, the other is None."""

OPAQUE_MASK = 0x7FFF_FFFF
BYTES_MAX = 64 << 20
BIG_BODY = 4_096
"""Smaller bodies are not counted in bytes: the number of calls limits them well enough."""
PROMPT_MS = 10_000
NEVER = float("inf")
LOOK_PAUSE_S = 0.005
"""Calls out of time are looked for no sooner again."""
LET_GO_S = 0.05
"""Who waits and has a ``stop`` looks so often whether it is set; answers are faster, mostly."""
ENDING_S = 1.0
"""How long a caller waits for whoever has taken its call out to end it."""

_opaques = count(1)


def wait_for(lock: LockType, seconds: float, stop: threading.Event | None = None) -> bool:
    """Take a lock, waiting so long, but not when ``stop`` is set; says whether it was taken."""
    if stop is None:
        return lock.acquire(timeout=max(0.0, seconds))
    deadline = monotonic() + seconds
    while not lock.acquire(timeout=max(0.0, min(seconds, LET_GO_S))):
        seconds = deadline - monotonic()
        if seconds <= 0 or stop.is_set():
            return False
    return True


class Handle(Protocol):
    """A scheduled deadline."""

    def cancel(self) -> None:
        """Forget it."""


Schedule = Callable[[float, Callable[[], object]], Handle]
"""Runs a task after so many milliseconds, on a thread of the owner."""


class Unwritten(Protocol):
    """A request that waits to be written."""

    def withdraw(self) -> bool:
        """Take it back; False when the server has some of it already."""


class Call:
    """One request in flight; ``left``: its bytes may have reached the server."""

    __slots__ = (
        "deadline",
        "done",
        "error",
        "left",
        "response",
        "size",
        "timeout_ms",
        "unwritten",
        "waiter",
    )

    def __init__(self, done: Done | None, size: int = 0) -> None:
        self.done = done
        self.size = size
        self.left = False
        self.unwritten: Unwritten | None = None
        self.waiter: LockType | None = None
        self.response: RemotingCommand | None = None
        self.error: RocketMQError | None = None
        self.deadline = NEVER
        self.timeout_ms = 0.0

    def arm(self) -> None:
        """Make the lock that the caller waits on; released when the call ends."""
        self.waiter = waiter = allocate_lock()
        waiter.acquire()

    def finish(self, response: RemotingCommand | None, error: RocketMQError | None) -> None:
        """End the call; who took it out of the table is the only one who may."""
        self.response = response
        self.error = error
        if self.waiter is not None:
            self.waiter.release()
        done = self.done
        if done is None:
            return
        self.done = None
        try:
            done(response, error)
        except Exception:  # noqa: BLE001 - the reader outlives who takes the outcome
            _log.exception("taking the outcome of a call failed")

    def fail(self, opaque: int, error: RocketMQError) -> None:  # noqa: ARG002 - it has only one
        """End by an error what was entered under this opaque; who took that out may."""
        self.finish(None, error)


class CallTable:
    """The calls in flight of one connection.

    Calls that nobody waits for are limited, in number by ``permits`` and in bytes by
    ``bytes_max``: what a silent server does not answer must not fill the memory.
    """

    __slots__ = (
        "_address",
        "_bytes",
        "_bytes_max",
        "_calls",
        "_lock",
        "_look",
        "_look_at",
        "_permits",
        "_schedule",
    )

    def __init__(
        self, address: str, schedule: Schedule, permits: int, bytes_max: int = BYTES_MAX
    ) -> None:
        self._address = address
        self._schedule = schedule
        self._permits = permits
        self._bytes_max = bytes_max
        self._bytes = 0
        self._lock = allocate_lock()
        self._calls: dict[int, Call] = {}
        self._look_at = NEVER
        self._look: Handle | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def open(self, command: RemotingCommand, done: Done | None = None) -> Call:
        """Number the request and enter its call; raises when too many are in flight."""
        if len(self._calls) >= self._permits:
            raise self._full()
        size = 0
        if done is not None and len(command.body) >= BIG_BODY:
            size = len(command.body)
            self._make_room(size)
        command.opaque = opaque = next(_opaques) & OPAQUE_MASK
        call = Call(done, size)
        self._calls[opaque] = call
        return call

    def open_many(self, call: Call, number: int) -> int:
        """Enter a call under so many opaques in a row, and give the first; raises as `open` does.

        Each of them counts as a call, and for the size that the call says.
        """
        if len(self._calls) + number > self._permits:
            raise self._full()
        if call.size:
            self._make_room(call.size * number)
        opaques = list(islice(_opaques, number))
        while opaques[-1] - opaques[0] != number - 1:  # another thread took one of them
            opaques = list(islice(_opaques, number))
        self._calls.update(dict.fromkeys([one & OPAQUE_MASK for one in opaques], call))
        return opaques[0] & OPAQUE_MASK

    def check_room(self, commands: Sequence[RemotingCommand]) -> None:
        """Raise when so many calls more would be too many."""
        if len(self._calls) + len(commands) > self._permits:
            raise self._full()
        if self._bytes and self._bytes + sum(len(c.body) for c in commands) > self._bytes_max:
            raise self._too_large()

    def _make_room(self, size: int) -> None:
        with self._lock:
            if self._bytes and self._bytes + size > self._bytes_max:
                raise self._too_large()
            self._bytes += size

    def find(self, opaque: int) -> Call | None:
        """Return a call in flight and leave it there."""
        return self._calls.get(opaque)

    def pop(self, opaque: int) -> Call | None:
        """Take a call out; whoever gets it is the only one who may end it."""
        call = self._calls.pop(opaque, None)
        if call is not None and call.size:
            with self._lock:
                self._bytes -= call.size
        return call

    def _full(self) -> RemotingTooMuchRequestException:
        return RemotingTooMuchRequestException(
            f"{len(self._calls)} calls are in flight to {self._address}, and client_async_permits "
            f"is {self._permits}: wait for answers before sending more",
            address=self._address,
        )

    def _too_large(self) -> RemotingTooMuchRequestException:
        return RemotingTooMuchRequestException(
            f"{self._bytes} bytes are in flight to {self._address}, and client_async_bytes is "
            f"{self._bytes_max}: wait for answers before sending more. Perhaps the server does not "
            "read",
            address=self._address,
        )

    def end(self, opaque: int, error: RocketMQError) -> None:
        """End a call by an error, unless it has ended."""
        call = self.pop(opaque)
        if call is not None:
            call.fail(opaque, error)

    def limit(self, calls: Sequence[Call], timeout_ms: float, began: float) -> None:
        """End the calls by `RemotingTimeoutException` when ``timeout_ms`` have passed."""
        deadline = began + timeout_ms / 1000
        for call in calls:
            call.timeout_ms = timeout_ms
            call.deadline = deadline
        if deadline < self._look_at:
            self._look_before(deadline, timeout_ms)

    def _look_before(self, deadline: float, wait_ms: float) -> None:
        """Look for calls out of time then: one task for all, since hardly any ever is."""
        with self._lock:
            if deadline >= self._look_at:
                return
            self._look_at = deadline
            former, self._look = self._look, self._schedule(wait_ms, self._end_late)
        if former is not None:
            former.cancel()

    def _end_late(self) -> None:
        with self._lock:
            self._look_at, self._look = NEVER, None
        now, following = monotonic(), NEVER
        calls = list(self._calls.items())
        for opaque, call in calls:
            if call.deadline > now:
                following = min(following, call.deadline)
            elif self.pop(opaque) is not None:
                call.fail(opaque, self.timed_out(call.timeout_ms, call))
        if following < NEVER:
            # With many calls not for each by itself: looking takes time.
            pause = LOOK_PAUSE_S * (1 + len(calls) / 1_000)
            following = max(following, now + pause)
            self._look_before(following, (following - monotonic()) * 1000)

    def outcome(
        self,
        command: RemotingCommand,
        call: Call,
        deadline: float,
        timeout_ms: float,
        stop: threading.Event | None = None,
    ) -> RemotingCommand:
        """Wait for the end of an armed call until ``deadline``; give its answer, raise its error.

        A call that nobody waits for by its lock has been read by its own caller.
        """
        waiter = call.waiter
        if (
            waiter is not None
            and not wait_for(waiter, deadline - monotonic(), stop)
            and not self.drop(command)
        ):
            waiter.acquire(timeout=ENDING_S)  # somebody is ending the call this very moment
        if call.response is not None:
            return call.response
        if call.error is not None:
            raise call.error
        self.drop(command)
        if stop is not None and stop.is_set():
            raise self._given_up(call)
        raise self.timed_out(timeout_ms, call)

    def drop(self, command: RemotingCommand) -> bool:
        """Take the call out unanswered; False when somebody is ending it right now."""
        return self.pop(command.opaque) is not None

    def take(self, response: RemotingCommand) -> Call | None:
        """Take out the call of an answer, to be finished; None: it came late and is dropped."""
        call = self.pop(response.opaque)
        if call is None:
            _log.debug("late answer dropped from=%s opaque=%d", self._address, response.opaque)
        return call

    def answered(self, response: RemotingCommand) -> None:
        """Give an answer to its call, if somebody still waits for it."""
        call = self.take(response)
        if call is not None:
            call.finish(response, None)

    def number(self, command: RemotingCommand) -> None:
        """Number a request that has no answer."""
        command.opaque = next(_opaques) & OPAQUE_MASK

    def fail_all(self, reason: str, cause: BaseException | None = None) -> None:
        """End every call, each with an error of its own."""
        for opaque in list(self._calls):
            call = self.pop(opaque)
            if call is None:
                continue  # answered meanwhile
            error = self.broken(reason, left=call.left)
            error.__cause__ = cause
            call.fail(opaque, error)

    def timed_out(self, timeout_ms: float, call: Call) -> RemotingTimeoutException:
        """Build the error of a call without answer; what was not written yet never will be."""
        left = _has_left(call)
        hint = (
            "the request may have been carried out; raise the timeout or look at the server"
            if left
            else "the request was not even written, because the server does not read"
        )
        error = RemotingTimeoutException(
            f"no answer from {self._address} within {timeout_ms:.0f} ms: {hint}",
            address=self._address,
            elapsed_ms=round(timeout_ms),
        )
        error.request_left = left
        return error

    def broken(self, reason: str, *, left: bool = False) -> RemotingSendRequestException:
        """Build the error of calls on a connection that ended."""
        return self._unanswered(f"connection to {self._address} ended: {reason}", left=left)

    def _given_up(self, call: Call) -> RemotingSendRequestException:
        reason = f"the answer of {self._address} is not waited for: whoever asked was shut down"
        return self._unanswered(reason, left=_has_left(call))

    def _unanswered(self, reason: str, *, left: bool) -> RemotingSendRequestException:
        told = "may or may not have been carried out" if left else "has not left this client"
        error = RemotingSendRequestException(f"{reason}; the request {told}", address=self._address)
        error.request_left = left
        return error


def _has_left(call: Call) -> bool:
    """Say whether the server may have a call's request; one that waits here is taken back."""
    unwritten = call.unwritten
    return call.left if unwritten is None else not unwritten.withdraw()
