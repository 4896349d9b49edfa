"""A connection to a server of this process: frames handed over by a call, no socket.

The server may answer inside our ``send``, on this very stack, or later from any thread; both end
the same call. Must not know routes or retries. The registry and the words are in ``inproc.py``.
"""

import threading
from collections.abc import Callable, Sequence

from attrs import define, field

from rocketmq_py.clock import monotonic
from rocketmq_py.errors import RemotingCommandException, RemotingConnectException, RocketMQError
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.transport.calls import Call, CallTable, Done, Schedule
from rocketmq_py.transport.channel import Channel
from rocketmq_py.transport.inproc import InprocConnection, InprocServer, LocalClient
from rocketmq_py.transport.runs import RequestRun


def connect(
    address: str,
    server: InprocServer,
    *,
    name: str,
    schedule: Schedule,
    permits: int,
    on_request: Callable[[Channel, RemotingCommand], None],
    on_closed: Callable[[Channel], None],
    client: LocalClient,
) -> "InprocChannel":
    """Open a connection of ``client`` to ``server``; raises `RemotingConnectException`."""
    calls = CallTable(address, schedule, permits)
    channel = InprocChannel(address, calls, on_request, on_closed, client)
    try:
        channel.attach(server.connect(channel, name=name))
    except ConnectionError as error:
        raise RemotingConnectException(
            f"the server of this process at {address} takes no connection: {error}",
            address=address,
        ) from error
    return channel


@define(eq=False, repr=False)
class InprocChannel:
    """A `Channel` into a server of this process; to the server it is the mailbox."""

    address: str
    _calls: CallTable
    _on_request: Callable[[Channel, RemotingCommand], None]
    _on_closed: Callable[[Channel], None]
    client: LocalClient
    last_used: float = field(factory=monotonic, init=False)
    asked_at: None = field(default=None, init=False)  # a server of this process is never lost
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _connection: InprocConnection | None = field(default=None, init=False)
    _is_open: bool = field(default=True, init=False)

    def __repr__(self) -> str:
        state = "open" if self._is_open else "closed"
        return f"InprocChannel({self.address}, {state}, in_flight={len(self._calls)})"

    def attach(self, connection: InprocConnection) -> None:
        """Take the server's end; called once, right after connecting."""
        self._connection = connection

    @property
    def is_open(self) -> bool:
        """False once closed by either side."""
        return self._is_open

    @property
    def in_flight(self) -> int:
        """Calls that wait for their answer."""
        return len(self._calls)

    # --- calling ---------------------------------------------------------------------------

    def invoke(
        self, command: RemotingCommand, timeout_ms: float, stop: threading.Event | None = None
    ) -> RemotingCommand:
        """Call and wait; most answers are there when the hand-over returns."""
        self.last_used = now = monotonic()
        call = self._calls.open(command)
        call.arm()
        try:
            self._send(command, call)
        except BaseException:
            self._calls.drop(command)
            raise
        return self._calls.outcome(command, call, now + timeout_ms / 1000, timeout_ms, stop)

    def begin(self, command: RemotingCommand, timeout_ms: float, done: Done) -> None:
        """Call without waiting; ``done`` may run before this returns."""
        self.last_used = now = monotonic()
        call = self._calls.open(command, done)
        try:
            self._send(command, call)
        except BaseException:
            if self._calls.drop(command):
                raise
            return
        if call.done is not None:  # most calls are answered by now
            self._calls.limit((call,), timeout_ms, now)

    def begin_many(
        self, commands: Sequence[RemotingCommand], timeout_ms: float, dones: Sequence[Done]
    ) -> None:
        """Call one by one: here nothing is gained by writing them together."""
        self._calls.check_room(commands)
        for command, done in zip(commands, dones, strict=True):
            try:
                self.begin(command, timeout_ms, done)
            except RocketMQError as error:
                done(None, error)

    def begin_run(self, run: RequestRun, timeout_ms: float) -> None:
        """Call one by one, as `begin_many` does."""
        self.begin_many(run.commands(), timeout_ms, run.dones())

    def invoke_oneway(self, command: RemotingCommand, timeout_ms: float) -> None:  # noqa: ARG002
        """Hand over a request that has no answer; never waits."""
        self.last_used = monotonic()
        self._calls.number(command)
        self._send(command)

    def reply(self, command: RemotingCommand) -> None:
        """Hand over the answer to a request of the server."""
        self._send(command)

    def _send(self, command: RemotingCommand, call: Call | None = None) -> None:
        connection = self._connection
        if connection is None or not self._is_open:
            raise self._calls.broken("it is closed")
        if call is not None:
            call.left = True
        try:
            connection.send(command.encode())
        except ConnectionError as error:
            self._end(str(error))
            raise self._calls.broken(str(error)) from error

    # --- mailbox ---------------------------------------------------------------------------

    def deliver(self, frames: list[bytes]) -> None:
        """Take whole frames of the server: answers end their calls, requests go to background."""
        try:
            for data in frames:
                for frame in FrameDecoder().feed(data):
                    command = RemotingCommand.decode(frame)
                    if command.is_response:
                        self._calls.answered(command)
                    else:
                        self.last_used = monotonic()
                        self._on_request(self, command)
        except RemotingCommandException as error:
            self._end(f"the server sent what cannot be read: {error}")

    def closed(self) -> None:
        """Learn that the server ended the connection."""
        self._end("the server closed it")

    # --- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection; calls in flight fail at once."""
        self._end("the client closed it")

    def _end(self, reason: str) -> None:
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
        self._calls.fail_all(reason)
        if self._connection is not None:
            self._connection.close()
        self._on_closed(self)

    def drop_inherited(self) -> None:
        """Forget the parent's server in a forked child, without a call into it."""
        self._is_open = False
        self._connection = None
