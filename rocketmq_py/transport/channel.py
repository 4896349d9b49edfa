"""What a connection to one server can do, whatever carries its bytes.

Must not know routes or retries. Read on in ``calls.py`` for the calls in flight, ``tcp.py`` and
``inproc_channel.py`` for what carries the bytes.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.transport.calls import Done
from rocketmq_py.transport.runs import RequestRun


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

    @property
    def asked_at(self) -> float | None:
        """Monotonic seconds of the first prompt call since something was read, None: no such.

        A call with a time limit of `PROMPT_MS` or more may take that long on a healthy server, so
        it proves nothing.
        """

    def invoke(
        self, command: RemotingCommand, timeout_ms: float, stop: threading.Event | None = None
    ) -> RemotingCommand:
        """Call and wait for the answer, whatever its code; no longer than until ``stop`` is set.

        Raises `RemotingSendRequestException` (closed before or while waiting, or stopped),
        `RemotingTimeoutException`, `RemotingTooMuchRequestException`.
        """

    def begin(self, command: RemotingCommand, timeout_ms: float, done: Done) -> None:
        """Call without waiting; ``done`` gets the outcome, on any thread, and must not block.

        Bytes that the server does not take yet wait here. Raises instead when the request could
        not begin; ``done`` is not called then.
        """

    def begin_many(
        self, commands: Sequence[RemotingCommand], timeout_ms: float, dones: Sequence[Done]
    ) -> None:
        """Make many calls at once; each of ``dones`` gets the outcome of its command.

        Raises only before anything is written: closed, or too many calls in flight.
        """

    def begin_run(self, run: RequestRun, timeout_ms: float) -> None:
        """Make the calls of a run with one write; it takes the outcome of each.

        Raises only before anything is written, as `begin_many` does.
        """

    def invoke_oneway(self, command: RemotingCommand, timeout_ms: float) -> None:
        """Write a request that has no answer; raises as `invoke`.

        Waits up to ``timeout_ms`` until the server takes the bytes; with 0 they are left to wait.
        """

    def reply(self, command: RemotingCommand) -> None:
        """Write the answer to a request of the server; raises as `begin`."""

    def close(self) -> None:
        """End the connection; calls in flight fail at once. Idempotent."""

    def drop_inherited(self) -> None:
        """Release what a forked child inherited, unnoticed by the server."""


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
