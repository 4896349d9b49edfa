"""A connection over TCP: callers write themselves, and read themselves when they are alone.

Who reads a socket is decided under one small lock: the I/O thread by default, or a caller whose
call is the only one in flight; never two. Nobody waits in order to write: what the server does not
take at once waits in its outbox. Whoever notices the end of the connection
fails all calls in flight at once, and the last reader closes the descriptor, so that no thread ever
uses a number that is somebody else's by now. Must not know routes or retries. Read on in
``connecting.py`` (before), ``outbox.py`` (writing), ``io_thread.py`` (watching), ``calls.py``
(pairing).
"""

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from rocketmq_py.clock import monotonic
from rocketmq_py.errors import (
    RemotingCommandException,
    RemotingException,
    RemotingTooMuchRequestException,
    RocketMQError,
)
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.transport.calls import LET_GO_S, NEVER, PROMPT_MS, Call, CallTable, Done, Schedule
from rocketmq_py.transport.channel import Channel
from rocketmq_py.transport.io_thread import IoThread
from rocketmq_py.transport.outbox import Frame, Outbox
from rocketmq_py.transport.runs import RequestRun, take_answers

if TYPE_CHECKING:
    from rocketmq_py.transport.tls import TlsSocket

RECEIVE_SIZE = 65_536
RECEIVE_SIZE_MAX = 1_048_576
"""Read at once of a frame that is known to be long: fewer turns of the interpreter's lock."""
CROWD = 16
"""With so many calls in flight, frames leave together."""
UNWRITTEN_MAX = 16 << 20
"""Bytes that may wait for a server before a request without answer, or a reply, is refused."""
LOST_AFTER_MS = 15_000
"""A connection ends on which the other host has confirmed no byte for so long."""


class _Reader(Enum):
    """Who may read the socket now."""

    WATCH = "the I/O thread, when there is something"
    THREAD = "the I/O thread, right now"
    CALLER = "a caller that is alone"
    NOBODY = "the descriptor is closed"


# Looking a member up in its class costs more than all the rest of handing over.
_WATCH, _THREAD, _CALLER, _NOBODY = _Reader


def over(
    sock: "socket.socket | TlsSocket",
    address: str,
    *,
    io_thread: IoThread,
    schedule: Schedule,
    permits: int,
    bytes_max: int,
    on_request: Callable[[Channel, RemotingCommand], None],
    on_closed: Callable[[Channel], None],
) -> "TcpChannel":
    """Make a channel of a connected socket."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # else the kernel believes in a lost host for minutes
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_AFTER_MS)
    sock.setblocking(False)
    calls = CallTable(address, schedule, permits, bytes_max)
    channel = TcpChannel(sock, address, calls, io_thread, on_request, on_closed)
    io_thread.add(channel)
    return channel


class TcpChannel:
    """A `Channel` over a connected socket."""

    def __init__(
        self,
        sock: "socket.socket | TlsSocket",
        address: str,
        calls: CallTable,
        io_thread: IoThread,
        on_request: Callable[[Channel, RemotingCommand], None],
        on_closed: Callable[[Channel], None],
    ) -> None:
        self.address = address
        self.last_used = monotonic()
        self.asked_at: float | None = None
        self._sock = sock
        self._fd = sock.fileno()
        self._io = io_thread
        self._calls = calls
        self._decoder = FrameDecoder()
        self._on_request = on_request
        self._on_closed = on_closed
        self._lock = threading.Lock()  # who reads, and whether it is over; held for moments
        self._outbox = Outbox(sock, io_thread, self._write_on)
        self._reader = _WATCH
        self._error: RemotingException | None = None
        self._holds_bytes = False
        self._has_runs = False
        self._can_read_alone = io_thread.can_pause

    def __repr__(self) -> str:
        state = "open" if self._error is None else "closed"
        return f"TcpChannel({self.address}, {state}, in_flight={len(self._calls)})"

    @property
    def is_open(self) -> bool:
        """False once closed by either side."""
        return self._error is None

    @property
    def in_flight(self) -> int:
        """Calls that wait for their answer."""
        return len(self._calls)

    def fileno(self) -> int:
        """Return the descriptor to watch."""
        return self._fd

    # --- calling ---------------------------------------------------------------------------

    def invoke(
        self, command: RemotingCommand, timeout_ms: float, stop: threading.Event | None = None
    ) -> RemotingCommand:
        """Call and wait: reading the answer itself when nothing else is in flight."""
        self.last_used = now = monotonic()
        if self.asked_at is None and timeout_ms < PROMPT_MS:
            self.asked_at = now
        deadline = now + timeout_ms / 1000
        with self._lock:
            self._check_open()
            alone = self._can_read_alone and not self._calls and self._reader is _WATCH
            call = self._calls.open(command)
            if alone:
                self._reader = _CALLER
                self._io.pause(self._fd)
            else:
                call.arm()
        try:
            self._write(command.encode(), (call,))
            if call.waiter is None:
                self._read_own(call, deadline, stop)
        except BaseException:
            self._calls.drop(command)
            if call.waiter is None and self._holds_bytes:
                self._fail("a caller was interrupted while it read")
            raise
        finally:
            if call.waiter is None:
                self._hand_back()
        return self._calls.outcome(command, call, deadline, timeout_ms, stop)

    def begin(self, command: RemotingCommand, timeout_ms: float, done: Done) -> None:
        """Call without waiting; ``done`` runs on the thread that reads the answer."""
        self.last_used = now = monotonic()
        if self.asked_at is None and timeout_ms < PROMPT_MS:
            self.asked_at = now
        with self._lock:
            self._check_open()
            together = len(self._calls) >= CROWD
            call = self._calls.open(command, done)
        try:
            self._write(command.encode(), (call,), together=together)
        except BaseException:
            # Whoever saw the connection break may have ended the call: `done` has told it.
            if self._calls.drop(command):
                raise
            return
        self._calls.limit((call,), timeout_ms, now)

    def begin_many(
        self, commands: Sequence[RemotingCommand], timeout_ms: float, dones: Sequence[Done]
    ) -> None:
        """Make many calls with one write; each of ``dones`` gets the outcome of its command."""
        self.last_used = now = monotonic()
        with self._lock:
            self._check_open()
            self._calls.check_room(commands)
            calls = [
                self._calls.open(command, done)
                for command, done in zip(commands, dones, strict=True)
            ]
        try:
            self._write(b"".join([command.encode() for command in commands]), calls)
        except RocketMQError as error:
            for command in commands:  # those that the end of the connection has not ended
                self._calls.end(command.opaque, error)
            return
        except BaseException:
            for command in commands:
                self._calls.drop(command)
            raise
        self._calls.limit(calls, timeout_ms, now)

    def begin_run(self, run: RequestRun, timeout_ms: float) -> None:
        """Make the calls of a run with one write."""
        self.last_used = now = monotonic()
        with self._lock:
            self._check_open()
            run.enter(self._calls)
            self._has_runs = True
        try:
            self._write(run.frames(), (run,))
        except RocketMQError as error:
            run.end_in(self._calls, error)  # what the end of the connection has not ended
            return
        except BaseException:
            run.drop_from(self._calls)
            raise
        self._calls.limit((run,), timeout_ms, now)

    def invoke_oneway(self, command: RemotingCommand, timeout_ms: float) -> None:
        """Write a request that has no answer."""
        self.last_used = monotonic()
        self._check_open()
        self._check_backlog()
        self._calls.number(command)
        call = Call(None)
        frame = self._write(command.encode(), (call,))
        if frame is None or timeout_ms <= 0:
            return
        in_time = self._outbox.wait(frame, timeout_ms / 1000)
        if self._error is not None:
            raise self._calls.broken("it ended before all was written")
        if not in_time:
            raise self._calls.timed_out(timeout_ms, call)

    def reply(self, command: RemotingCommand) -> None:
        """Write the answer to a request of the server."""
        self._check_open()
        self._check_backlog()
        self._write(command.encode(), ())

    def _check_backlog(self) -> None:
        if self._outbox.size > UNWRITTEN_MAX:
            raise RemotingTooMuchRequestException(
                f"{self._outbox.size} bytes wait to be written to {self.address}: the server "
                "does not read",
                address=self.address,
            )

    def _check_open(self) -> None:
        if self._error is not None:
            raise self._calls.broken("it is closed")

    # --- writing ---------------------------------------------------------------------------

    def _write(self, data: bytes, calls: Sequence[Call], *, together: bool = False) -> Frame | None:
        """Write a whole frame without waiting; return what the I/O thread writes later."""
        try:
            return self._outbox.write(data, calls, together=together)
        except BaseException as error:
            # Nobody knows how much of it is written: nothing can follow.
            self._fail(f"writing failed: {error}", error)
            if not isinstance(error, OSError):
                raise
            raise self._calls.broken(f"writing failed: {error}") from error

    def _write_on(self) -> None:
        """Write on the I/O thread what waits."""
        try:
            self._outbox.write_on()
        except OSError as error:
            self._fail(f"writing failed: {error}", error)

    # --- reading ---------------------------------------------------------------------------

    def on_readable(self) -> None:
        """Read on the I/O thread, unless a caller reads itself."""
        with self._lock:
            if self._reader is not _WATCH:
                return  # noticed just before a caller took over
            self._reader = _THREAD
        try:
            answered = self._read_available()
        finally:
            self._hand_back()
        # After handing back: a caller that is woken may call again at once, and must find itself
        # alone then, or its next answer would take the way through this thread too.
        for call, response in answered:
            call.finish(response, None)

    def _read_own(self, call: Call, deadline: float, stop: threading.Event | None) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        longest = NEVER if stop is None else LET_GO_S
        while call.response is None and call.error is None:
            left = deadline - monotonic()
            if left <= 0 or (stop is not None and stop.is_set()):
                return
            if not poll.poll(min(left, longest) * 1000):
                continue
            for answered, response in self._read_available():
                answered.finish(response, None)

    def _read_available(self) -> list[tuple[Call, RemotingCommand]]:
        """Read once; return the calls that are answered, taken out and not yet finished."""
        answered: list[tuple[Call, RemotingCommand]] = []
        self._holds_bytes = True
        try:
            missing = self._decoder.missing
            data = self._sock.recv(min(max(missing, RECEIVE_SIZE), RECEIVE_SIZE_MAX))
            if not data:
                self._fail("the server closed it")
            self.asked_at = None
            frames = self._decoder.feed(data)
            if self._has_runs:
                frames = take_answers(self._calls, frames)
            for frame in frames:
                command = RemotingCommand.decode(frame)
                if not command.is_response:
                    self.last_used = monotonic()
                    self._on_request(self, command)
                elif (call := self._calls.take(command)) is not None:
                    answered.append((call, command))
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail(str(error), error)
        except RemotingCommandException as error:
            self._fail(f"the server sent what cannot be read: {error}", error)
        self._holds_bytes = False
        return answered

    def _hand_back(self) -> None:
        """Stop reading: the I/O thread watches again, or the descriptor is closed for good."""
        with self._lock:
            over = self._error is not None
            if over:
                self._reader = _NOBODY
            else:
                if self._reader is _CALLER:
                    self._io.resume(self._fd)
                self._reader = _WATCH
        if over:
            self._release()

    # --- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection; calls in flight fail at once."""
        self._fail("the client closed it")

    def _fail(self, reason: str, cause: BaseException | None = None) -> None:
        with self._lock:
            if self._error is not None:
                return
            self._error = self._calls.broken(reason)
            unread = self._reader is _WATCH
            if unread:
                self._reader = _NOBODY
        # Wakes whoever waits for this socket; that reader closes the descriptor.
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._outbox.lose()
        self._calls.fail_all(reason, cause)
        if unread:
            self._release()
        self._on_closed(self)

    def _release(self) -> None:
        self._io.forget(self._fd)
        self._outbox.close()

    def drop_inherited(self) -> None:
        """Release the descriptor in a forked child; the parent's connection lives on."""
        self._sock.close()
