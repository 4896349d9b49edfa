"""TCP server: one thread carries bytes between sockets and endpoints.

Answers: who answers at which address, how addresses come and go, and how everything ends. Must not
know: requests. Read on: ``tcp_connection.py`` for one client, ``socket_loop.py`` for the thread's
loop, ``turns.py`` for who is served next, ``connection_limits.py`` for what all connections may
hold up together, and ``inproc.py`` for clients of the same process.
"""

import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from errno import EADDRINUSE, EADDRNOTAVAIL
from functools import partial
from threading import Event, Thread, get_ident
from typing import Final, Protocol

from embedded_broker.door import Door
from embedded_broker.errors import BrokerStateError
from embedded_broker.remoting.connection_limits import ConnectionLimits
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.forks import keep_from_children
from embedded_broker.remoting.rate_limited_log import RateLimitedLog
from embedded_broker.remoting.socket_loop import SOCKETS_MAX, SocketLoop
from embedded_broker.remoting.socket_transport import Acceptor, Received
from embedded_broker.remoting.spare_memory import give_back_soon
from embedded_broker.remoting.tcp_connection import SocketProtocol, TcpConnection
from embedded_broker.remoting.turns import TURN_NS, Turns
from embedded_broker.settings.tls import Tls, TlsMode
from embedded_broker.threads import has_ended
from rocketmq_py.clock import monotonic, monotonic_ns
from rocketmq_py.errors import ConfigError
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

BACKLOG: Final = 512
START_S: Final = 10.0
HAND_OVER_S: Final = 5.0
CLOSE_S: Final = 10.0
GIVE_BACK_S = 1.0
AGAIN_S = 5.0
"""A port that was had before is waited for so long."""
AGAIN_EVERY_S: Final = 0.02


def listen(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket; ``ConfigError`` says why the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = None
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
        keep_from_children(listener)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        if isinstance(error, socket.gaierror) or error.errno == EADDRNOTAVAIL:
            limit = f"an address of this machine: {error.strerror or error}"
            raise ConfigError("host", host, limit) from error
        hint = ". Port 0 takes a free port" if error.errno == EADDRINUSE else ""
        raise ConfigError(
            "address", f"{host}:{port}", f"{error.strerror or error}{hint}"
        ) from error
    return listener


def stop_listening(listener: socket.socket) -> None:
    """Refuse who connects from now on, also where a forked child still has a copy of the socket."""
    with suppress(OSError):  # some systems shut down connections only
        listener.shutdown(socket.SHUT_RDWR)


def listen_again(host: str, port: int) -> socket.socket:
    """Listen on a port that was had before, as ``listen`` does, but wait for it for some seconds.

    While nobody listens there the system may give it to whoever connects to somewhere.
    """
    deadline = monotonic() + AGAIN_S
    while True:
        try:
            return listen(host, port)
        except ConfigError as error:
            cause = error.__cause__
            is_taken = isinstance(cause, OSError) and cause.errno == EADDRINUSE
            if not is_taken or monotonic() >= deadline:
                raise
        Event().wait(AGAIN_EVERY_S)


class Open(Protocol):
    """A connection, as far as its end goes."""

    def abort(self) -> None:
        """Close at once. On the loop's thread."""

    def reset_on_close(self) -> None:
        """Let the kernel send a reset when the socket closes. On the loop's thread."""


class TcpServer:
    """Accepts on every added listener until ``close``; owns the loop, its thread, the sockets.

    Addresses may come and go while it runs: ``open`` and ``close_address``.
    """

    def __init__(self, limits: ConnectionLimits | None = None, tls: Tls | None = None) -> None:
        self.limits = ConnectionLimits() if limits is None else limits
        self.tls_mode: TlsMode = "disabled" if tls is None else tls.mode
        self.tls = None if tls is None else tls.make_context()
        self.slow = RateLimitedLog(logger)
        """What is told of peers that do not read."""
        self.refused = RateLimitedLog(logger)
        """What is told of peers that are not served."""
        self._listeners: dict[str, socket.socket] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._protocols: dict[str, Callable[[], Received]] = {}
        self._acceptors: dict[str, Acceptor] = {}
        self._connections: dict[Open, str] = {}
        self._loop: SocketLoop | None = None
        self._writing: deque[TcpConnection] = deque()
        self.turns = Turns(self.call_soon)
        self._doors: set[Door] = set()
        self._is_giving_back = False
        self.limits.on_spare = self._give_back_later
        self._reset = False
        self._thread: Thread | None = None
        self._ready = Event()
        self._failure: BaseException | None = None
        self.thread_id = 0

    def add(self, address: str, listener: socket.socket) -> None:
        """Take over a listening socket; peers wait in its backlog until ``start`` or ``open``."""
        listener.setblocking(False)
        self._listeners[address] = listener

    def serve(self, address: str, endpoint: Endpoint) -> None:
        """Say who answers on the listener of an address. Before ``start`` or ``open``."""
        self._endpoints[address] = endpoint
        self.serve_by(address, partial(SocketProtocol, self, endpoint, address))

    def serve_by(self, address: str, make: Callable[[], Received]) -> None:
        """Say who serves a socket that is accepted at an address, whatever it speaks there."""
        self._protocols[address] = make

    def endpoint(self, address: str) -> Endpoint:
        """Give who answers at an address."""
        return self._endpoints[address]

    def start(self) -> None:
        """Accept connections; returns when every listener is served."""
        try:
            # Here and not on its thread: ``close`` finds it, also before that has begun.
            self._loop = loop = SocketLoop()
        except OSError as error:
            raise BrokerStateError(f"the TCP thread failed: {error}") from error
        self._thread = Thread(
            target=self._run, args=(loop,), name="embedded-broker-tcp", daemon=True
        )
        self._thread.start()
        if not self._ready.wait(START_S):
            raise BrokerStateError(f"the TCP thread did not start within {START_S} s")
        if self._failure is not None:
            raise BrokerStateError(f"the TCP thread failed: {self._failure}") from self._failure

    def open(self, address: str) -> None:
        """Accept at one more address while the others go on; returns when it is served."""
        loop = self._loop
        if loop is None:
            raise BrokerStateError("the TCP thread does not run")
        self._on_loop(partial(self._open, loop, address))

    def close_address(self, address: str) -> None:
        """Close one listener and its connections while the others go on; idempotent."""
        if self._loop is not None and address in self._listeners:
            self._on_loop(partial(self._close_address, address))
        else:
            self._close_listener(address)

    def _on_loop(self, work: Callable[[], None]) -> None:
        """Do ``work`` on the loop's thread, and wait until what it asks for is done, bounded."""
        if self.thread_id == get_ident():
            work()
            return
        loop = self._loop
        if loop is None:
            raise BrokerStateError("the TCP thread does not run")
        done, failures = Event(), list[Exception]()

        def do() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - raised where it was asked for
                failures.append(error)
            loop.call_behind(done.set)  # behind the ends of connections

        if not loop.call_soon(do):
            raise BrokerStateError("the TCP thread does not run")
        if not done.wait(CLOSE_S):
            raise BrokerStateError(f"the TCP thread has been busy for {CLOSE_S} s")
        if failures:
            raise failures[0]

    def call_soon(self, call: Callable[[], None]) -> bool:
        """Run ``call`` on the loop's thread; false after ``close``, when nothing may happen."""
        loop = self._loop
        return loop is not None and loop.call_soon(call)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Run ``call`` on the loop's thread in so many seconds, unless it ends before. There."""
        if self._loop is not None:
            self._loop.call_later(seconds, call)

    def after_this(self, call: Callable[[], None]) -> None:
        """Run ``call`` right behind what the loop's thread does now. On that thread."""
        if self._loop is not None:
            self._loop.after_this(call)

    def write_later(self, connection: "TcpConnection") -> None:
        """Let a connection write its next piece when it is its turn. On the loop's thread."""
        if not self._writing:
            self.call_soon(self._write_pieces)
        self._writing.append(connection)

    def _write_pieces(self) -> None:
        """Write pieces in turn, a few milliseconds long; then others are served."""
        writing, until_ns = self._writing, monotonic_ns() + TURN_NS
        while writing:
            connection = writing.popleft()
            try:
                is_more = connection.write_piece()
            except Exception:
                logger.exception("closing %r: a long answer cannot be written", connection)
                connection.abort()
                is_more = False
            if is_more:
                writing.append(connection)
            if monotonic_ns() >= until_ns:
                break
        if writing:
            self.call_soon(self._write_pieces)

    def _give_back_later(self) -> None:
        """Give memory back in a while: connections that were closed still have some."""
        if not self._is_giving_back:
            self._is_giving_back = True
            self.call_later(GIVE_BACK_S, self._give_back)

    def _give_back(self) -> None:
        self._is_giving_back = False
        give_back_soon()

    def hand_over(self) -> None:
        """Wait until what was delivered before this call is written to its socket."""
        if get_ident() == self.thread_id:
            return
        loop, written = self._loop, Event()
        if loop is not None and loop.call_behind(written.set):
            written.wait(HAND_OVER_S)

    def close(self, *, reset: bool = False) -> None:
        """Close listeners and connections, join the thread; idempotent.

        With ``reset`` peers see a connection reset instead of an end.
        """
        self._reset = reset
        thread, loop = self._thread, self._loop
        if thread is not None:
            self.call_soon(self._close_all)
            if not has_ended(thread, CLOSE_S):
                logger.error("the TCP thread did not end within %s s", CLOSE_S)
                self._thread = None
                for listener in list(self._listeners.values()):  # it closes them when it goes on
                    stop_listening(listener)
                return
            self._thread = None
        if loop is not None and not self.thread_id:  # its thread never began
            self._loop = None
            loop.close()
        self._close_listeners()

    def adopt(self, connection: Open, address: str) -> None:
        """Note an open connection, to be closed with its address."""
        self._connections[connection] = address

    def has_room(self) -> bool:
        """Say whether one more connection is served; who is refused is told of now and then."""
        most = min(self.limits.connections_max, SOCKETS_MAX)
        if len(self._connections) < most:
            return True
        limit = "the most that this system waits for" if most == SOCKETS_MAX else "maxConnections"
        self.refused.warn(f"a connection is refused: {most} are open ({limit})")
        return False

    def forget(self, connection: Open) -> None:
        """Note that a connection has ended."""
        self._connections.pop(connection, None)

    # -- on the loop's thread ---------------------------------------------------------------

    def _run(self, loop: SocketLoop) -> None:
        self.thread_id = get_ident()
        try:
            try:
                for address in self._protocols:
                    self._open(loop, address)
                self._ready.set()
                loop.run()
            finally:
                self._close_all()
                self._loop = None
                loop.close()
        except BaseException as error:
            self._failure = error
            logger.exception("the TCP thread ended")
        finally:
            for door in self._doors:
                door.use_turns(None)
            self.thread_id = 0  # a later thread may get the same one
            self._ready.set()

    def _open(self, loop: SocketLoop, address: str) -> None:
        endpoint = self._endpoints.get(address)
        if endpoint is not None and endpoint.door not in self._doors:
            self._doors.add(endpoint.door)
            endpoint.door.use_turns(partial(self.turns.wait, again=True))
        make = partial(self._make, address)
        self._acceptors[address] = Acceptor(loop, self._listeners[address], make, self.refused)

    def _make(self, address: str) -> Received:
        """Give who serves one more socket: not always who did when the address was opened."""
        return self._protocols[address]()

    def _close_address(self, address: str) -> None:
        acceptor = self._acceptors.pop(address, None)
        if acceptor is not None:
            acceptor.close()
        self._close_listener(address)
        for connection, served_at in list(self._connections.items()):
            if served_at == address:
                self._abort(connection)

    def _abort(self, connection: Open) -> None:
        try:
            if self._reset:
                connection.reset_on_close()
            connection.abort()
        except Exception:
            logger.exception("%r does not end as it should", connection)

    def _close_listeners(self) -> None:
        for address in list(self._listeners):
            self._close_listener(address)

    def _close_listener(self, address: str) -> None:
        self._endpoints.pop(address, None)
        self._protocols.pop(address, None)
        listener = self._listeners.pop(address, None)
        if listener is not None:
            stop_listening(listener)
            listener.close()

    def _close_all(self) -> None:
        """Close everything; the loop ends when connections have heard of it. Idempotent."""
        try:
            for address in {*self._acceptors, *self._listeners, *self._connections.values()}:
                self._close_address(address)
        finally:
            if self._loop is not None:
                self._loop.stop()
