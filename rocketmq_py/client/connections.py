"""Which connections a client has, and how long anybody waits for one: the one place of both.

One connection per address, shared by everybody in the client instance and opened by the first who
needs it, in-process or by TCP. Nobody blocks while it opens: whoever needs it leaves word, each
with a time of its own (`Connections.reach`). A host that takes no connect is *silent* from then on:
who asks is told at once, and it is tried in background until it answers, so nothing waits for it
twice. A server that answers nothing on an open connection is silent, too, for those who have a
choice. Who is patient (`Wait`) gets a connection also after refusals, as soon as the server is
back. Must not know commands, topics or routes. Read on in ``transport/connecting.py``.
"""

from __future__ import annotations

import threading
from _thread import allocate_lock
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from attrs import define, field

from rocketmq_py.client.background import Timer, TimerHandle, WorkerPool
from rocketmq_py.client.name_servers import NameServers
from rocketmq_py.client.unreachable_servers import UnreachableServers
from rocketmq_py.clock import monotonic
from rocketmq_py.config import ClientConfig, split_host_port
from rocketmq_py.errors import (
    RemotingConnectException,
    RemotingException,
    RemotingTooMuchRequestException,
    RocketMQError,
)
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.transport import inproc
from rocketmq_py.transport.calls import wait_for
from rocketmq_py.transport.channel import Channel

if TYPE_CHECKING:
    import socket
    from ssl import SSLContext

    from rocketmq_py.transport.connecting import Connecting
    from rocketmq_py.transport.io_thread import IoThread
    from rocketmq_py.transport.tls import Securing, TlsSocket

_log = get_logger(__name__)

Reached = Callable[[Channel | None, RocketMQError | None], None]
"""Takes a connection or the reason why there is none, exactly once, on any thread."""

SILENT_AFTER_S = 0.4
"""A server is silent when a connect took so long and somebody could not wait longer."""
ANSWER_S = 0.5
"""A server is passed over that has not answered anything for so long after it was asked."""
LOOK_EVERY_S = 0.1
PROBE_WAIT_MS = 1_000
"""Pause between two tries to reach a silent server."""
PROBE_FOR_S = 60.0
"""A silent server for which nobody asks is tried for so long."""
AGAIN_FIRST_MS = 20
AGAIN_MAX_MS = 200
"""Pauses between tries at a server that refuses, while somebody waits for it."""
FOREVER_S = 1_000_000.0
"""A wait that ends otherwise."""
TOLD_AT_ONCE = 64
"""More than so many who wait are told in background: the I/O thread has other connections."""


class Wait(NamedTuple):
    """How long a call waits for its connection."""

    ms: float
    patient: bool = False
    """Wait on after a refusal, and for a silent server."""
    can_turn: bool = False
    """It can turn to another server: it is told as soon as this one counts as silent."""


@define(eq=False)
class _Waiter:
    """Somebody who needs a connection that is not open yet."""

    reached: Reached
    wait: Wait
    size: int
    late: bool = False
    """Came while a try was under way: how that ends says nothing of the server of now."""
    limit: TimerHandle | None = None


@define(eq=False)
class _Door:
    """The way to an address without an open connection."""

    address: str
    asked_at: float = 0.0
    began_at: float = 0.0
    silent: bool = False
    trying: bool = False
    again: TimerHandle | None = None
    pause_ms: float = AGAIN_FIRST_MS
    size: int = 0
    waiters: dict[_Waiter, None] = field(factory=dict)
    problem: Exception | None = None


@define(eq=False, repr=False)
class Connections:
    """All connections of one client instance. Every call is safe from any thread."""

    _config: ClientConfig
    _client_id: str
    _timer: Timer
    _background: WorkerPool
    _on_request: Callable[[Channel, RemotingCommand], None]
    _on_connected: Callable[[str], None]
    _on_unreachable: Callable[[str], None]
    _on_lost: Callable[[str], None]
    _client: inproc.LocalClient
    _name_servers: NameServers
    _unreachable: UnreachableServers = field(factory=UnreachableServers)
    _silent: frozenset[str] = field(default=frozenset(), init=False)
    _look_at: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _channels: dict[str, Channel] = field(factory=dict, init=False)
    _doors: dict[str, _Door] = field(factory=dict, init=False)
    _tries: list[Connecting | Securing] = field(
        factory=list, init=False
    )  # also for doors that are forgotten
    _leaving: list[Channel] = field(
        factory=list, init=False
    )  # told GO_AWAY: open until their calls have ended
    _io: IoThread | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)
    _tls: SSLContext | None = field(init=False)

    @_tls.default
    def _load_tls(self) -> SSLContext | None:
        return self._config.make_tls()

    # --- getting one -----------------------------------------------------------------------

    def get(self, address: str) -> Channel | None:
        """Return the open connection, None when there is none."""
        channel = self._channels.get(address)
        return channel if channel is not None and channel.is_open else None

    @property
    def silent(self) -> frozenset[str]:
        """Addresses that do not answer now: no connect, or nothing of what is asked.

        What is true of open connections is looked at now and then, because sends ask for it.
        """
        now = monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            with self._lock:
                found = {door.address for door in self._doors.values() if door.silent}
                for channel in self._channels.values():
                    asked_at = channel.asked_at
                    if asked_at is not None and now - asked_at > ANSWER_S:
                        found.add(channel.address)
            self._silent = frozenset(found)
        return self._silent

    def reach(self, address: str, wait: Wait, reached: Reached, *, size: int = 0) -> None:
        """Give ``reached`` the open connection, opening it when there is none; never blocks.

        ``size``: bytes that are kept for as long as it takes.
        """
        channel = self.get(address)
        if channel is not None:
            reached(channel, None)
            return
        error: RocketMQError | None = None
        begins = False
        with self._lock:
            channel = self.get(address)  # once more: a second one would be nobody's to close
            door = self._doors.get(address)
            if channel is not None:
                pass
            elif self._closed:
                error = self._shut(address)
            elif door is not None and door.silent and not wait.patient:
                door.asked_at = monotonic()
                error = self._unreachable_error(door)
            elif door is not None and self._is_crowded(door, size):
                error = self._crowded(door)
            else:
                if door is None:
                    door = self._doors[address] = _Door(address)
                begins = self._enter(door, wait, _Waiter(reached, wait, size))
        if channel is not None or error is not None:
            reached(channel, error)
        elif begins and door is not None:
            self._try(door)

    def channel(self, address: str, wait: Wait, stop: threading.Event | None = None) -> Channel:
        """Return the open connection, waiting for it, but not when ``stop`` is set.

        Raises `RemotingConnectException`.
        """
        channel = self.get(address)
        if channel is not None:
            return channel
        outcome: list[tuple[Channel | None, RocketMQError | None]] = []
        waiter = allocate_lock()
        waiter.acquire()

        def reached(channel: Channel | None, error: RocketMQError | None) -> None:
            outcome.append((channel, error))
            waiter.release()

        self.reach(address, wait, reached)
        if not wait_for(waiter, FOREVER_S, stop) and not outcome:
            raise RemotingConnectException(
                f"no connection to {address}: whoever waited for it was shut down", address=address
            )
        channel, error = outcome[0]
        if channel is None:
            raise error or self._shut(address)
        return channel

    def _enter(self, door: _Door, wait: Wait, waiter: _Waiter) -> bool:
        """Let somebody wait, under the lock; True when a try must begin now."""
        door.asked_at = monotonic()
        waiter.late = door.trying
        door.waiters[waiter] = None
        door.size += waiter.size
        waiter.limit = self._timer.schedule_after(wait.ms, partial(self._give_up, door, waiter))
        if door.trying or door.silent or (door.again is not None and wait.patient):
            return False
        if door.again is not None:  # who is not patient learns at once whether it still refuses
            door.again.cancel()
            door.again = None
        door.trying = True
        return True

    def _is_crowded(self, door: _Door, size: int) -> bool:
        config = self._config
        too_large = door.size > 0 and door.size + size > config.client_async_bytes
        return too_large or len(door.waiters) >= config.client_async_permits

    def _crowded(self, door: _Door) -> RocketMQError:
        return RemotingTooMuchRequestException(
            f"{len(door.waiters)} calls with {door.size} bytes wait for a connection to "
            f"{door.address}, more than client_async_permits or client_async_bytes allow",
            address=door.address,
        )

    def _give_up(self, door: _Door, waiter: _Waiter) -> None:
        """Tell somebody whose time is over, and with the first one all who can turn elsewhere."""
        with self._lock:
            if waiter not in door.waiters:
                return
            is_late = door.trying and monotonic() - door.began_at >= SILENT_AFTER_S
            is_news = is_late and self._note_silence(door)
            told = [waiter]
            if is_news:  # all at once: hundreds of timers that fire one by one cost the others
                told += [one for one in door.waiters if one.wait.can_turn and one is not waiter]
            for one in told:
                del door.waiters[one]
                door.size -= one.size
        if is_news:
            self._tell_silence(door)
            self._on_unreachable(door.address)
        self._tell(told, None, lambda: self._unreachable_error(door))

    def _note_silence(self, door: _Door) -> bool:
        """Pass over a server from now on, under the lock; says whether that is new."""
        is_news, door.silent = not door.silent, True
        self._look_at = 0.0
        return is_news

    def _tell_silence(self, door: _Door) -> None:
        """Log it, outside the lock: a handler of the log may send by this very client."""
        self._unreachable.failed(door.address, "connecting", self._unreachable_error(door))

    def announce(self, addresses: Iterable[str]) -> None:
        """Let servers of this process know that the client will ask them."""
        for server in filter(None, map(self._inproc_server, addresses)):
            server.expect(self._client, name=self._client_id)

    def _inproc_server(self, address: str) -> inproc.InprocServer | None:
        """Return the server of this process at an address, unless all goes by TCP."""
        if self._config.transport == "auto" and self._tls is None:
            return inproc.lookup(address)
        return None

    # --- trying ----------------------------------------------------------------------------

    def _try(self, door: _Door) -> None:
        """Begin a try; ``door.trying`` is set already."""
        door.began_at = monotonic()
        address = door.address
        try:
            server = self._inproc_server(address)
            if server is not None:
                self._begin_inproc(door, server)
                return
            from rocketmq_py.transport.connecting import Connecting

            io_thread = self._io_thread(address)
            connecting = Connecting(
                address,
                self._config.connect_timeout,
                io_thread=io_thread,
                schedule=self._timer.schedule_after,
                look_up=self._background.submit,
                done=partial(self._ended, door, io_thread),
            )
        except (RocketMQError, OSError) as error:
            self._failed(door, error, is_silence=False)
            return
        with self._lock:
            if not self._closed:
                under_way = (one for one in self._tries if not one.is_over)
                self._tries = [*under_way, connecting]
                return
        connecting.cancel()

    def _begin_inproc(self, door: _Door, server: inproc.InprocServer) -> None:
        # One that restarts lets its clients wait, which is nothing for whoever needs it here.
        if not self._background.submit(self._connect_inproc, door, server):
            self._failed(door, self._shut(door.address), is_silence=False)

    def _connect_inproc(self, door: _Door, server: inproc.InprocServer) -> None:
        try:
            channel = self._inproc_channel(door.address, server)
        except RocketMQError as error:
            self._failed(door, error, is_silence=False)
        else:
            self._opened(door, channel)

    def _inproc_channel(self, address: str, server: inproc.InprocServer) -> Channel:
        from rocketmq_py.transport import inproc_channel

        return inproc_channel.connect(
            address,
            server,
            name=self._client_id,
            schedule=self._timer.schedule_after,
            permits=self._config.client_async_permits,
            on_request=self._on_request,
            on_closed=self._forget,
            client=self._client,
        )

    def _ended(
        self, door: _Door, io_thread: IoThread, sock: socket.socket | None, error: OSError | None
    ) -> None:
        """Take how a TCP connect ended, on the I/O thread or another one."""
        if sock is None:
            # A name that nobody knows is told at once, as a refusal is, or it takes its time.
            took_long = monotonic() - door.began_at >= SILENT_AFTER_S
            is_silence = took_long and not isinstance(error, ConnectionError)
            self._failed(door, error, is_silence=is_silence or isinstance(error, TimeoutError))
        elif self._tls is None:
            self._use(door, io_thread, sock)
        else:
            self._secure(door, io_thread, sock, self._tls)

    def _secure(
        self, door: _Door, io_thread: IoThread, sock: socket.socket, context: SSLContext
    ) -> None:
        """Begin the TLS handshake of a connection."""
        from rocketmq_py.transport.tls import Securing, TlsSocket

        try:
            securing = Securing(
                TlsSocket(sock, context, split_host_port(door.address)[0]),
                self._config.connect_timeout,
                io_thread=io_thread,
                schedule=self._timer.schedule_after,
                done=partial(self._secured, door, io_thread),
            )
        except (OSError, ValueError) as error:  # a host that no certificate can name
            sock.close()
            self._failed(door, error, is_silence=False)
            return
        with self._lock:
            if not self._closed:
                self._tries.append(securing)
                return
        securing.cancel()

    def _secured(
        self, door: _Door, io_thread: IoThread, sock: TlsSocket | None, error: OSError | None
    ) -> None:
        """Take how a handshake ended, on the I/O thread or another one."""
        if sock is None:
            self._failed(door, error, is_silence=isinstance(error, TimeoutError))
        else:
            self._use(door, io_thread, sock)

    def _use(self, door: _Door, io_thread: IoThread, sock: socket.socket | TlsSocket) -> None:
        """Make a channel of a connection."""
        from rocketmq_py.transport import tcp

        try:
            channel = tcp.over(
                sock,
                door.address,
                io_thread=io_thread,
                schedule=self._timer.schedule_after,
                permits=self._config.client_async_permits,
                bytes_max=self._config.client_async_bytes,
                on_request=self._on_request,
                on_closed=self._forget,
            )
        except OSError as trouble:  # it ended at once
            sock.close()
            self._failed(door, trouble, is_silence=False)
        else:
            self._opened(door, channel)

    def _opened(self, door: _Door, channel: Channel) -> None:
        with self._lock:
            door.trying = False
            waiters, door.waiters = list(door.waiters), {}
            closed = self._closed or self._doors.get(door.address) is not door
            if not closed:
                del self._doors[door.address]
                self._channels[door.address] = channel
                self._look_at = 0.0
        if closed:
            channel.close()
            self._tell(waiters, None, lambda: self._shut(door.address))
            return
        if door.silent:
            self._unreachable.answered(door.address)
        self._on_connected(door.address)
        self._tell(waiters, channel, lambda: self._unreachable_error(door))

    def _failed(self, door: _Door, problem: Exception | None, *, is_silence: bool) -> None:
        """Tell who is not patient, and try again: at once for who came late, else later."""
        with self._lock:
            door.trying, door.problem = False, problem
            is_news = is_silence and not self._closed and self._note_silence(door)
            waiters, told, at_once = door.waiters, [], False
            door.waiters, door.size = {}, 0
            for one in waiters:
                has_its_own_try = one.late and not is_silence
                if self._closed or not (one.wait.patient or has_its_own_try):
                    told.append(one)
                    continue
                one.late, at_once = False, at_once or has_its_own_try
                door.waiters[one] = None
                door.size += one.size
            wanted = door.silent and monotonic() - door.asked_at < PROBE_FOR_S
            if self._closed or self._doors.get(door.address) is not door:
                pass
            elif door.waiters or wanted:
                wait_ms = 0 if at_once else door.pause_ms if door.waiters else PROBE_WAIT_MS
                door.pause_ms = min(door.pause_ms * 2, AGAIN_MAX_MS)
                door.again = self._timer.schedule_after(wait_ms, partial(self._again, door))
            else:
                self._drop(door)
            over = self._closed
        if is_news:
            self._tell_silence(door)
        if not over:
            self._on_unreachable(door.address)
        self._tell(told, None, lambda: self._unreachable_error(door))

    def _again(self, door: _Door) -> None:
        with self._lock:
            door.again = None
            if door.trying or self._doors.get(door.address) is not door:
                return
            if not door.waiters and not door.silent:
                self._drop(door)
                return
            door.trying = True
        self._try(door)

    def _drop(self, door: _Door) -> None:
        """Forget an address that nobody needs now, under the lock."""
        del self._doors[door.address]
        self._look_at = 0.0

    def _tell(
        self, waiters: list[_Waiter], channel: Channel | None, error: Callable[[], RocketMQError]
    ) -> None:
        if len(waiters) > TOLD_AT_ONCE and self._background.submit(
            self._tell_all, waiters, channel, error
        ):
            return
        self._tell_all(waiters, channel, error)

    def _tell_all(
        self, waiters: list[_Waiter], channel: Channel | None, error: Callable[[], RocketMQError]
    ) -> None:
        for waiter in waiters:
            if waiter.limit is not None:
                waiter.limit.cancel()
            try:
                waiter.reached(channel, error() if channel is None else None)
            except Exception:  # noqa: BLE001 - the others wait, too
                _log.exception("taking a connection failed")

    def _unreachable_error(self, door: _Door) -> RemotingException:
        error = RemotingConnectException(
            f"cannot connect to {door.address}: {door.problem or 'it does not answer'}; "
            f"{self._advice(door)}",
            address=door.address,
        )
        error.__cause__ = door.problem
        return error

    def _advice(self, door: _Door) -> str:
        """Say what to do about a server that cannot be reached."""
        if self._tls is not None:
            from ssl import SSLCertVerificationError

            if isinstance(door.problem, SSLCertVerificationError):
                return (
                    "TlsConfig says who is trusted: ca_file names the authorities, and "
                    "check_hostname=False takes a certificate that is for another host"
                )
        advice = "is the server up and reachable from here?"
        if door.address in self._name_servers.addresses:  # which nobody has announced
            return advice
        setting = getattr(self._config.address_mapper, "setting", "address_mapper")
        return (
            f"{advice} If a broker announces an address that works only inside its own network, "
            f"set {setting}"
        )

    def _io_thread(self, address: str) -> IoThread:
        from rocketmq_py.transport.io_thread import IoThread

        with self._lock:
            if self._closed:  # meanwhile; nobody would close a thread that is made now
                raise self._shut(address)
            if self._io is None:
                self._io = IoThread("rocketmq-client-io", schedule_after=self._timer.schedule_after)
            return self._io

    def _shut(self, address: str) -> RemotingConnectException:
        return RemotingConnectException(
            f"no connection to {address}: client {self._client_id} is shut down", address=address
        )

    # --- having them -----------------------------------------------------------------------

    def _forget(self, channel: Channel) -> None:
        with self._lock:
            if self._channels.get(channel.address) is channel:
                del self._channels[channel.address]
            if channel in self._leaving:
                self._leaving.remove(channel)
            closed = self._closed
        if not closed:
            self._on_lost(channel.address)

    def leave(self, channel: Channel) -> None:
        """Use this connection no more, and close it when its calls have ended."""
        with self._lock:
            if self._channels.get(channel.address) is channel:
                del self._channels[channel.address]
                self._leaving.append(channel)

    def addresses(self) -> set[str]:
        """Return the addresses with an open connection."""
        with self._lock:
            return set(self._channels)

    def keep_only(self, addresses: Collection[str]) -> None:
        """Close connections to all other addresses: no route mentions them any more."""
        with self._lock:
            channels = [c for address, c in self._channels.items() if address not in addresses]
            for door in [d for d in self._doors.values() if d.address not in addresses]:
                if not door.waiters:
                    self._drop(door)
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
            doors = list(self._doors.values())
            waiters = [waiter for door in doors for waiter in door.waiters]
            for door in doors:
                door.waiters = {}
            self._doors.clear()
            tries, self._tries = self._tries, []
            io = self._io
        for one in tries:
            one.cancel()
        self._tell_all(waiters, None, lambda: self._shut("a server"))
        for channel in channels:
            channel.close()
        if io is not None:
            io.close(timeout)

    def drop_inherited(self) -> None:
        """Release the descriptors in a forked child; takes no lock, tells no server."""
        self._closed = True
        for channel in [*self._channels.values(), *self._leaving]:
            channel.drop_inherited()
        for one in self._tries:
            one.drop_inherited()
        if self._io is not None:
            self._io.drop_inherited()
