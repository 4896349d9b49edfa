"""How a command reaches an address: the open connection, hooks, signature, GO_AWAY.

One connection per address, shared by everybody in the client instance; opened by the first caller
who needs it, in-process or by TCP. Client side of the original's ``NettyRemotingClient``. Must not
know topics or routes. Read on in ``transport/channel.py``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from attrs import define, field

from rocketmq_py.client.answers import is_refusal
from rocketmq_py.client.background import Timer, WorkerPool
from rocketmq_py.client.hooks import RPCHook
from rocketmq_py.clock import monotonic
from rocketmq_py.config import ClientConfig, Credentials
from rocketmq_py.errors import RemotingConnectException, RocketMQError
from rocketmq_py.protocol.codes import FLAG_ONEWAY, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.transport import inproc
from rocketmq_py.transport.channel import Channel, Done, future_of

if TYPE_CHECKING:
    from rocketmq_py.transport.io_thread import IoThread

_log = logging.getLogger(__name__)


@define(eq=False, repr=False)
class Remoting:
    """All connections of one client instance. Every call is safe from any thread."""

    _config: ClientConfig
    _hooks: tuple[RPCHook, ...]
    _client_id: str
    _timer: Timer
    _background: WorkerPool
    _on_request: Callable[[Channel, RemotingCommand], None]
    _on_connected: Callable[[str], None]
    _run_user_code: Callable[..., None]
    _is_busy: Callable[[], str | None]
    _unrouted: Callable[[inproc.Existing], list[tuple[str, str]]]
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _channels: dict[str, Channel] = field(factory=dict, init=False)
    _opening: dict[str, threading.Lock] = field(factory=dict, init=False)
    _leaving: list[Channel] = field(
        factory=list, init=False
    )  # told GO_AWAY: open until their calls have ended
    _io: IoThread | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)

    # --- calls -----------------------------------------------------------------------------

    def invoke(self, address: str, command: RemotingCommand, timeout_ms: float) -> RemotingCommand:
        """Call and wait; the answer may have any code.

        Raises `RemotingConnectException`, `RemotingSendRequestException`,
        `RemotingTimeoutException`, `RemotingTooMuchRequestException`, and what a hook raises.
        """
        deadline = monotonic() + timeout_ms / 1000
        channel = self._channels.get(address)
        if channel is None or not channel.is_open:
            channel = self.channel(address, timeout_ms)
            timeout_ms = (deadline - monotonic()) * 1000
        used = None
        if self._hooks or self._config.credentials is not None:
            used = self._prepare(address, command)
        answer = channel.invoke(command, timeout_ms)
        if answer.code == ResponseCode.GO_AWAY:
            # The server is closing: once more, on a connection of its own.
            self._leave(channel)
            left_ms = (deadline - monotonic()) * 1000
            answer = self.channel(address, left_ms).invoke(command, left_ms)
        if answer.code and used is not None and self._renewed(answer, used):
            left_ms = (deadline - monotonic()) * 1000
            channel = self.channel(address, left_ms)
            self._prepare(address, command)
            answer = channel.invoke(command, left_ms)
        if self._hooks:
            self._after(address, command, answer)
        return answer

    def begin(self, address: str, command: RemotingCommand, timeout_ms: float, done: Done) -> None:
        """Call without waiting; ``done`` gets the outcome on any thread and must not block.

        Opens the connection first when needed. Raises, instead of calling ``done``, what `invoke`
        raises before the request is written.
        """
        deadline = monotonic() + timeout_ms / 1000
        channel = self.channel(address, timeout_ms)
        used = self._prepare(address, command)
        outcome = self._outcome(channel, command, deadline, done, used)
        channel.begin(command, (deadline - monotonic()) * 1000, outcome)

    def begin_many(
        self,
        address: str,
        commands: Sequence[RemotingCommand],
        timeout_ms: float,
        dones: Sequence[Done],
    ) -> None:
        """Make many calls with one write; each of ``dones`` gets the outcome of its command.

        Raises, instead of calling any of them, what `invoke` raises before something is written.
        """
        deadline = monotonic() + timeout_ms / 1000
        channel = self.channel(address, timeout_ms)
        outcomes = []
        for command, done in zip(commands, dones, strict=True):
            used = self._prepare(address, command)
            outcomes.append(self._outcome(channel, command, deadline, done, used))
        channel.begin_many(commands, (deadline - monotonic()) * 1000, outcomes)

    def _outcome(
        self,
        channel: Channel,
        command: RemotingCommand,
        deadline: float,
        done: Done,
        used: Credentials | None,
    ) -> Done:
        """Wrap who takes an outcome: hooks see answers, and a call can go once more.

        That is after GO_AWAY, and after a refusal of credentials for which there are others.
        """

        def outcome(answer: RemotingCommand | None, error: RocketMQError | None) -> None:
            if answer is not None:
                if answer.code == ResponseCode.GO_AWAY:
                    self._leave(channel)
                    address = channel.address
                    if self._background.submit(self._again, address, command, deadline, done):
                        return
                if answer.code and used is not None and self._can_renew(answer):
                    # Renewing may read a file, which is nothing for the thread that reads answers.
                    refused = channel.address, command, deadline, (answer, used), done
                    if self._background.submit(self._again_when_renewed, *refused):
                        return
                if self._hooks:
                    # A hook that blocks must not keep other answers from being read.
                    self._run_user_code(self._after, channel.address, command, answer)
            done(answer, error)

        return outcome

    def invoke_async(
        self, address: str, command: RemotingCommand, timeout_ms: float
    ) -> Future[RemotingCommand]:
        """Call without waiting; every outcome, also a failed connect, is in the future.

        It never stays open longer than ``timeout_ms``. Its callbacks run on the thread that has
        read the answer, so they must not block.
        """
        return future_of(lambda done: self.begin(address, command, timeout_ms, done))

    def invoke_oneway(self, address: str, command: RemotingCommand, timeout_ms: float) -> None:
        """Write a request that has no answer; raises as `invoke`."""
        channel = self.channel(address, timeout_ms)
        command.flag |= FLAG_ONEWAY
        self._prepare(address, command)
        channel.invoke_oneway(command, timeout_ms)

    def _again(self, address: str, command: RemotingCommand, deadline: float, done: Done) -> None:
        left_ms = (deadline - monotonic()) * 1000
        try:
            self.channel(address, left_ms).begin(command, left_ms, done)
        except RocketMQError as error:
            done(None, error)

    def _again_when_renewed(
        self,
        address: str,
        command: RemotingCommand,
        deadline: float,
        refused: tuple[RemotingCommand, Credentials],
        done: Done,
    ) -> None:
        answer, used = refused
        if not self._renewed(answer, used):
            if self._hooks:
                self._after(address, command, answer)
            done(answer, None)
            return
        try:
            self._prepare(address, command)
        except RocketMQError as error:
            done(None, error)
            return
        self._again(address, command, deadline, done)

    def _can_renew(self, answer: RemotingCommand) -> bool:
        """Whether the answer refuses credentials of a source that may give others."""
        return hasattr(self._config.credentials, "renew") and is_refusal(answer)

    def _renewed(self, answer: RemotingCommand, used: Credentials) -> bool:
        """Ask the source for other credentials than the refused ones; True when it has some."""
        if not self._can_renew(answer):
            return False
        try:
            return bool(self._config.credentials.renew(used))  # type: ignore[union-attr]
        except Exception:  # noqa: BLE001 - code of the application; the refusal stands
            _log.exception("credentials cannot be renewed")
            return False

    def _prepare(self, address: str, command: RemotingCommand) -> Credentials | None:
        """Run hooks and sign; return the credentials that signed."""
        for hook in self._hooks:
            hook.before_request(address, command)
        source = self._config.credentials
        if source is None:
            return None
        credentials = source if isinstance(source, Credentials) else source()
        _sign(command, credentials)
        return credentials

    def _after(self, address: str, command: RemotingCommand, answer: RemotingCommand) -> None:
        for hook in self._hooks:
            try:
                hook.after_response(address, command, answer)
            except Exception:  # noqa: BLE001 - a hook cannot break calls
                _log.exception("RPC hook failed after_response hook=%r", hook)

    # --- connections -----------------------------------------------------------------------

    def channel(self, address: str, timeout_ms: float) -> Channel:
        """Return the open connection to ``address``, opening one when there is none."""
        channel = self._channels.get(address)
        if channel is not None and channel.is_open:
            return channel
        deadline = monotonic() + min(timeout_ms, self._config.connect_timeout) / 1000
        with self._lock:
            opening = self._opening.setdefault(address, threading.Lock())
        if not opening.acquire(timeout=max(0.0, deadline - monotonic())):
            raise RemotingConnectException(
                f"cannot connect to {address} within {timeout_ms:.0f} ms: another thread is "
                "still trying",
                address=address,
            )
        try:
            channel = self._channels.get(address)  # opened while this thread waited?
            if channel is not None and channel.is_open:
                return channel
            channel = self._open(address, max(1.0, (deadline - monotonic()) * 1000))
            with self._lock:
                if not self._closed:
                    self._channels[address] = channel
            if self._closed:
                channel.close()
                raise self._shut(address)
        finally:
            opening.release()
        self._on_connected(address)
        return channel

    def _open(self, address: str, timeout_ms: float) -> Channel:
        if self._closed:
            raise self._shut(address)
        permits = self._config.client_async_permits
        if self._config.transport == "auto":
            server = inproc.lookup(address)
            if server is not None:
                from rocketmq_py.transport import inproc_channel

                return inproc_channel.connect(
                    address,
                    server,
                    name=self._client_id,
                    schedule=self._timer.schedule_after,
                    permits=permits,
                    on_request=self._on_request,
                    on_closed=self._forget,
                    is_busy=self._is_busy,
                    unrouted=self._unrouted,
                )
        from rocketmq_py.transport import tcp

        return tcp.connect(
            address,
            timeout_ms,
            io_thread=self._io_thread(address),
            schedule=self._timer.schedule_after,
            permits=permits,
            on_request=self._on_request,
            on_closed=self._forget,
        )

    def _io_thread(self, address: str) -> IoThread:
        from rocketmq_py.transport.io_thread import IoThread

        with self._lock:
            if self._closed:  # meanwhile; nobody would close a thread that is made now
                raise self._shut(address)
            if self._io is None:
                self._io = IoThread("rocketmq-client-io")
            return self._io

    def _shut(self, address: str) -> RemotingConnectException:
        return RemotingConnectException(
            f"no connection to {address}: client {self._client_id} is shut down", address=address
        )

    def _forget(self, channel: Channel) -> None:
        with self._lock:
            if self._channels.get(channel.address) is channel:
                del self._channels[channel.address]
            if channel in self._leaving:
                self._leaving.remove(channel)

    def _leave(self, channel: Channel) -> None:
        with self._lock:
            if self._channels.get(channel.address) is channel:
                del self._channels[channel.address]
                self._leaving.append(channel)

    def is_connected(self, address: str | None) -> bool:
        """Whether a call to ``address`` needs no new connection."""
        channel = self._channels.get(address) if address is not None else None
        return channel is not None and channel.is_open

    def connected(self) -> set[str]:
        """Return the addresses with an open connection."""
        with self._lock:
            return set(self._channels)

    def keep_only(self, addresses: Collection[str]) -> None:
        """Close connections to all other addresses: no route mentions them any more."""
        with self._lock:
            channels = [c for address, c in self._channels.items() if address not in addresses]
        for channel in channels:
            _log.info("broker address gone: %s", channel.address)
            channel.close()

    def close_idle(self) -> None:
        """Close what nobody used for ``channel_max_idle`` ms, and what the server told to go."""
        oldest = monotonic() - self._config.channel_max_idle / 1000
        with self._lock:
            idle = [c for c in self._channels.values() if c.last_used < oldest]
            idle += self._leaving
        for channel in idle:
            if channel.in_flight == 0:
                channel.close()

    def close(self, timeout: float) -> None:
        """Close every connection; calls in flight fail; the I/O thread ends within ``timeout``."""
        with self._lock:
            self._closed = True
            channels = [*self._channels.values(), *self._leaving]
            io = self._io
        for channel in channels:
            channel.close()
        if io is not None:
            io.close(timeout)

    def drop_inherited(self) -> None:
        """Release the descriptors in a forked child; takes no lock, tells no server."""
        self._closed = True
        for channel in [*self._channels.values(), *self._leaving]:
            channel.drop_inherited()
        if self._io is not None:
            self._io.drop_inherited()


def _sign(command: RemotingCommand, credentials: Credentials) -> None:
    """Add key and signature; runs after every hook, because it covers all fields."""
    from rocketmq_py.protocol import signing  # hashing is not loaded by clients without a key

    fields = command.ext_fields
    fields[signing.ACCESS_KEY] = credentials.access_key
    if credentials.security_token is not None:
        fields[signing.SECURITY_TOKEN] = credentials.security_token
    fields[signing.SIGNATURE] = signing.sign(credentials.secret_key, fields, command.body)
