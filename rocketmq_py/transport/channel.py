"""What a connection to one server can do, whatever carries its bytes.

`Channel` is the interface; `CallTable` is the book of calls in flight that every channel keeps:
answers are paired by opaque, each call ends exactly once, a late answer finds nobody and is
dropped. Requests of the server are told from answers by the flag bit, so an equal opaque does no
harm. Must not know routes or retries. Read on in ``tcp.py`` and ``inproc_channel.py``.
"""

import itertools
import logging
from _thread import LockType, allocate_lock
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from rocketmq_py.clock import monotonic
from rocketmq_py.errors import (
    RemotingSendRequestException,
    RemotingTimeoutException,
    RemotingTooMuchRequestException,
    RocketMQError,
)
from rocketmq_py.protocol.command import RemotingCommand

_log = logging.getLogger(__name__)

Done = Callable[[RemotingCommand | None, RocketMQError | None], None]
"""Takes the outcome of a call, exactly once: an answer or an error, the other is None."""

OPAQUE_MASK = 0x7FFF_FFFF
ENDING_S = 1.0
"""How long a caller waits for whoever has taken its call out to end it."""

_opaques = itertools.count(1)


class Handle(Protocol):
    """A scheduled deadline."""

    def cancel(self) -> None:
        """Forget it."""


Schedule = Callable[[float, Callable[[], object]], Handle]
"""Runs a task after so many milliseconds, on a thread of the owner."""


class Channel(Protocol):
    """A connection to one server. Every call is safe from any thread."""

    @property
    def address(self) -> str:
        """``host:port`` of the server."""

    @property
    def is_open(self) -> bool:
        """False once closed by either side."""

    @property
    def in_flight(self) -> int:
        """Calls that wait for their answer."""

    @property
    def last_used(self) -> float:
        """Monotonic seconds of the latest call or broker request."""

    def invoke(self, command: RemotingCommand, timeout_ms: float) -> RemotingCommand:
        """Call and wait for the answer, whatever its code.

        Raises `RemotingSendRequestException` (closed before or while waiting),
        `RemotingTimeoutException`, `RemotingTooMuchRequestException`.
        """

    def begin(self, command: RemotingCommand, timeout_ms: float, done: Done) -> None:
        """Call without waiting; ``done`` gets the outcome, on any thread, and must not block.

        Raises instead when the request could not be written; ``done`` is not called then.
        """

    def begin_many(
        self, commands: Sequence[RemotingCommand], timeout_ms: float, dones: Sequence[Done]
    ) -> None:
        """Make many calls at once; each of ``dones`` gets the outcome of its command.

        Raises only before anything is written: closed, or too many calls in flight.
        """

    def invoke_oneway(self, command: RemotingCommand, timeout_ms: float) -> None:
        """Write a request that has no answer; raises as `begin`."""

    def reply(self, command: RemotingCommand) -> None:
        """Write the answer to a request of the server; raises as `begin`."""

    def close(self) -> None:
        """End the connection; calls in flight fail at once. Idempotent."""

    def drop_inherited(self) -> None:
        """Release what a forked child inherited, unnoticed by the server."""


class Call:
    """One request in flight."""

    __slots__ = ("deadline", "done", "error", "response", "waiter")

    def __init__(self, done: Done | None) -> None:
        self.done = done
        self.waiter: LockType | None = None
        self.response: RemotingCommand | None = None
        self.error: RocketMQError | None = None
        self.deadline: Handle | None = None

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
        if self.deadline is not None:
            self.deadline.cancel()
        self.done = None
        try:
            done(response, error)
        except Exception:  # noqa: BLE001 - the reader outlives who takes the outcome
            _log.exception("taking the outcome of a call failed")


class CallTable:
    """The calls in flight of one connection."""

    __slots__ = ("_address", "_calls", "_permits", "_schedule")

    def __init__(self, address: str, schedule: Schedule, permits: int) -> None:
        self._address = address
        self._schedule = schedule
        self._permits = permits
        self._calls: dict[int, Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def open(self, command: RemotingCommand, done: Done | None = None) -> Call:
        """Number the request and enter its call; raises when too many are in flight."""
        if len(self._calls) >= self._permits:
            raise self._full()
        command.opaque = opaque = next(_opaques) & OPAQUE_MASK
        call = Call(done)
        self._calls[opaque] = call
        return call

    def check_room(self, count: int) -> None:
        """Raise when so many calls more would be too many."""
        if len(self._calls) + count > self._permits:
            raise self._full()

    def _full(self) -> RemotingTooMuchRequestException:
        return RemotingTooMuchRequestException(
            f"{len(self._calls)} calls are in flight to {self._address}, and client_async_permits "
            f"is {self._permits}: wait for answers before sending more",
            address=self._address,
        )

    def end(self, opaque: int, error: RocketMQError) -> None:
        """End a call by an error, unless it has ended."""
        call = self._calls.pop(opaque, None)
        if call is not None:
            call.finish(None, error)

    def limit_many(self, opaques: Sequence[int], timeout_ms: float) -> Handle:
        """End those of the calls that are open after ``timeout_ms``: one deadline for all."""

        def expire() -> None:
            for opaque in opaques:
                if opaque in self._calls:
                    self.end(opaque, self.timed_out(timeout_ms))

        return self._schedule(timeout_ms, expire)

    def limit(self, command: RemotingCommand, call: Call, timeout_ms: float) -> None:
        """End the call by `RemotingTimeoutException` after ``timeout_ms``."""
        call.deadline = self.limit_many((command.opaque,), timeout_ms)
        if call.done is None:  # answered while the deadline was being set
            call.deadline.cancel()

    def outcome(
        self, command: RemotingCommand, call: Call, deadline: float, timeout_ms: float
    ) -> RemotingCommand:
        """Wait for the end of an armed call until ``deadline``; give its answer, raise its error.

        A call that nobody waits for by its lock has been read by its own caller.
        """
        waiter = call.waiter
        if (
            waiter is not None
            and not waiter.acquire(timeout=max(0.0, deadline - monotonic()))
            and not self.drop(command)
        ):
            waiter.acquire(timeout=ENDING_S)  # somebody is ending the call this very moment
        if call.response is not None:
            return call.response
        if call.error is not None:
            raise call.error
        self.drop(command)
        raise self.timed_out(timeout_ms)

    def drop(self, command: RemotingCommand) -> bool:
        """Take the call out unanswered; False when somebody is ending it right now."""
        return self._calls.pop(command.opaque, None) is not None

    def take(self, response: RemotingCommand) -> Call | None:
        """Take out the call of an answer, to be finished; None: it came late and is dropped."""
        call = self._calls.pop(response.opaque, None)
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
        while self._calls:
            try:
                _, call = self._calls.popitem()
            except KeyError:
                return  # the last one was answered meanwhile
            error = self.broken(reason)
            error.__cause__ = cause
            call.finish(None, error)

    def timed_out(self, timeout_ms: float) -> RemotingTimeoutException:
        """Build the error of a call without answer."""
        return RemotingTimeoutException(
            f"no answer from {self._address} within {timeout_ms:.0f} ms: the request may have "
            "been carried out; raise the timeout or look at the server",
            address=self._address,
            elapsed_ms=round(timeout_ms),
        )

    def broken(self, reason: str) -> RemotingSendRequestException:
        """Build the error of calls on a connection that ended."""
        return RemotingSendRequestException(
            f"connection to {self._address} ended: {reason}; the request may or may not have "
            "been carried out",
            address=self._address,
        )


def future_of(begin: Callable[[Done], None]) -> Future[RemotingCommand]:
    """Start a call by ``begin(done)`` and return its outcome as a future, errors included."""
    future: Future[RemotingCommand] = Future()

    def done(response: RemotingCommand | None, error: RocketMQError | None) -> None:
        if not future.set_running_or_notify_cancel():
            return  # the caller gave up
        if response is not None:
            future.set_result(response)
        else:
            future.set_exception(error)

    try:
        begin(done)
    except RocketMQError as error:
        done(None, error)
    return future
