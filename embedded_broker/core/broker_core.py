"""The broker's inside: state, dispatch, parked answers. Everything here runs under the door.

Answers: how a request becomes an answer, who owns which state, and how an answer that has to wait
is given later. Must not know: sockets, threads, what any request means. Read on:
``embedded_broker/remoting/handlers/__init__.py`` (``install`` fills the handler table and the
state), ``embedded_broker/remoting/server.py`` and ``remoting/inproc.py`` (who calls ``receive``),
``embedded_broker/door.py``.
"""

import logging
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol

from embedded_broker.clocks.timeline import DeadlineSource, SessionTimer, SessionTimers
from embedded_broker.core.journal import HEADER_KEPT_MAX, Exchange, Journal, kept_header
from embedded_broker.core.peer import Connection
from embedded_broker.door import Door
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import LIMITS, Limits, Profile
from rocketmq_py.clock import Clock, monotonic_ns
from rocketmq_py.errors import HeaderError, RemotingCommandException
from rocketmq_py.protocol.codes import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    LanguageCode,
    ResponseCode,
    SerializeType,
)
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame

if TYPE_CHECKING:
    from random import Random

    from embedded_broker.core.statistics import Traffic
    from embedded_broker.core.transactions.service import TransactionalMessageService
    from embedded_broker.core.waiters import ParkedPulls
    from embedded_broker.namesrv.name_server import NameServer
    from embedded_broker.remoting.handlers.send.plain_sends import PlainSend, PlainSends
    from embedded_broker.store.message_store import MessageStore
    from embedded_broker.tables.consumers.groups import GroupTable
    from embedded_broker.tables.consumers.locks import QueueLocks
    from embedded_broker.tables.consumers.producers import ProducerRegistry
    from embedded_broker.tables.consumers.registry import ConsumerRegistry
    from embedded_broker.tables.files import Table
    from embedded_broker.tables.offsets.deliveries import DeliveryLog
    from embedded_broker.tables.offsets.table import OffsetTable
    from embedded_broker.tables.topics.table import TopicTable
    from embedded_broker.timer.interface import TimerEngine
    from embedded_broker.timer.levels.service import ScheduleMessageService

__all__ = ["BrokerCore", "Endpoint", "Handler", "Request", "RequestError"]

logger = logging.getLogger(__name__)

COMMANDS_PER_ENTRY = 64
"""Most requests handled in one hold of the door."""


class Request(NamedTuple):
    """One command that wants an answer, and everything its handler may use."""

    connection: Connection
    command: RemotingCommand
    core: "BrokerCore"
    exchange: Exchange


Handler = Callable[[Request], RemotingCommand | None]
"""Returns the answer; None when it is given later (``core.answer``) or there is none."""


class RequestError(Exception):
    """Raised by a handler: answer ``code`` with ``remark`` and these header fields."""

    def __init__(self, code: int, remark: str, ext_fields: dict[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = int(code)
        self.remark = remark
        self.ext_fields = ext_fields


class Interceptor(Protocol):
    """Who may let requests and answers go wrong; ``request_faults.RequestFaults`` does."""

    def incoming(
        self,
        endpoint: "Endpoint",
        connection: Connection,
        command: RemotingCommand,
        exchange: Exchange,
    ) -> bool:
        """Say whether the request is dealt with, so that it must not be handled."""
        ...

    def outgoing(
        self, connection: Connection, exchange: Exchange, data: bytes, emit: Callable[[bytes], None]
    ) -> None:
        """Let an answer leave by ``emit``, or not."""
        ...


class Endpoint:
    """One address that is asked: a broker's, or the name server's.

    Owns the handler table of that address and turns frames into answers.
    """

    __slots__ = (
        "_any_type",
        "_journal",
        "_silent_unknown",
        "_version",
        "core",
        "door",
        "handlers",
        "interceptor",
        "name",
        "on_disconnected",
        "plain_sends",
    )

    def __init__(
        self, core: "BrokerCore", name: str, handlers: dict[int, Handler], *, silent_unknown: bool
    ) -> None:
        self.core = core
        self.name = name
        self.handlers = handlers
        self.door = core.door
        self.on_disconnected: list[Callable[[Connection], None]] = []
        self.interceptor: Interceptor | None = None
        """Who lets requests and answers go wrong, while somebody does."""
        self.plain_sends: PlainSends | None = None
        """The short way for sends that ask for nothing; None leads every request the same way."""
        self._journal = core.journal
        self._version = core.profile.version
        self._any_type = core.profile.answers_with_request_type
        self._silent_unknown = silent_unknown

    def receive(self, connection: Connection, frames: list[Frame]) -> None:
        """Handle whole frames in order. A header that cannot be decoded closes the connection.

        Called by adapters on their own thread, outside the door. While the broker is paused they
        wait.
        """
        pause = self.door.pause
        if pause.on and not connection.is_own:

            def later() -> None:
                self._take(connection, frames)

            if pause.keep(connection, frames, later):
                return
        self._take(connection, frames)

    def become(self, other: "Endpoint") -> None:
        """Ask another broker state from now on, on behalf of the same connections. Under the door.

        The other endpoint is not used any more.
        """
        self.core = other.core
        self.handlers = other.handlers
        self.on_disconnected = other.on_disconnected
        self.plain_sends = other.plain_sends

    def _take(self, connection: Connection, frames: list[Frame]) -> None:
        started_ns = monotonic_ns()
        for start in range(0, len(frames), COMMANDS_PER_ENTRY):
            broken = self._handle(
                connection, frames[start : start + COMMANDS_PER_ENTRY], started_ns
            )
            if broken is not None:
                logger.warning("closing %r: %s", connection, broken)
                connection.close()
                return

    def _handle(
        self, connection: Connection, frames: list[Frame], started_ns: int
    ) -> RemotingCommandException | None:
        """Handle frames in one hold of the door; give what is wrong with the first bad header."""
        plain_sends = self.plain_sends if self.interceptor is None else None
        plain: list[PlainSend] = []
        with self.door:
            now_ms = self.core.clock.now_ms
            try:
                for frame in frames:
                    send = None if plain_sends is None else plain_sends.read(frame)
                    if send is not None:
                        plain.append(send)
                        continue
                    if plain:
                        self._put_plain(connection, plain, now_ms, started_ns)
                        plain = []
                    command = RemotingCommand.decode(frame)
                    self._dispatch(connection, frame, command, now_ms, started_ns)
            except RemotingCommandException as error:
                return error
            finally:
                if plain:
                    self._put_plain(connection, plain, now_ms, started_ns)
        return None

    def _put_plain(
        self, connection: Connection, sends: "list[PlainSend]", now_ms: int, started_ns: int
    ) -> None:
        if self.plain_sends is None:
            return
        for frame in self.plain_sends.put(connection, sends, now_ms, started_ns):
            command = RemotingCommand.decode(frame)
            self._dispatch(connection, frame, command, now_ms, started_ns)

    def connected(self, connection: Connection) -> None:
        """Note a new peer. Called outside the door."""
        with self.door:
            self.core.connections.add(connection)

    def disconnected(self, connection: Connection) -> None:
        """Forget a peer whose connection has ended. Called outside the door."""
        with self.door:
            self.core.connections.discard(connection)
            for listener in self.on_disconnected:
                listener(connection)

    def _dispatch(
        self,
        connection: Connection,
        frame: Frame,
        command: RemotingCommand,
        now_ms: int,
        started_ns: int,
    ) -> None:
        flag = command.flag
        if flag & FLAG_RESPONSE:
            return  # an answer to one of our pushes; none of them waits for one
        header: bytes | RemotingCommand = frame.header
        if len(frame.header) > HEADER_KEPT_MAX:
            header = kept_header(frame, command)
        exchange = Exchange(
            self.name,
            connection,
            frame.serialize_type,
            header,
            len(command.body),
            now_ms,
            started_ns,
        )
        self._journal.append(exchange)
        interceptor = self.interceptor
        if interceptor is not None and interceptor.incoming(self, connection, command, exchange):
            return
        self.handle(connection, command, exchange)

    def handle(self, connection: Connection, command: RemotingCommand, exchange: Exchange) -> None:
        """Let the request's handler answer it. Under the door."""
        handler = self.handlers.get(command.code)
        response: RemotingCommand | None
        if handler is None:
            if self._silent_unknown:
                return
            response = command.answer(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f" request type {command.code} not supported",
            )
        else:
            try:
                response = handler(Request(connection, command, self.core, exchange))
            except Exception as error:  # noqa: BLE001 - the broker outlives any handler
                response = _failure(command, error)
        if response is not None:
            self.respond(connection, command, exchange, response)

    def respond(
        self,
        connection: Connection,
        command: RemotingCommand,
        exchange: Exchange,
        response: RemotingCommand,
    ) -> None:
        """Encode an answer and hand it to the door; nothing leaves for a oneway request."""
        exchange.response_code = response.code
        exchange.remark = response.remark
        exchange.micros = (monotonic_ns() - exchange.started_ns) // 1000
        if command.flag & FLAG_ONEWAY:
            return
        response.language = LanguageCode.JAVA  # what brokers say; some clients know no other
        response.version = self._version
        response.serialize_type = command.serialize_type if self._any_type else SerializeType.JSON
        try:
            data = response.encode()
        except RemotingCommandException as error:
            logger.error("the answer to request %d cannot be sent: %s", command.code, error)  # noqa: TRY400
            response = command.answer(
                ResponseCode.SYSTEM_ERROR, f"the answer cannot be sent: {error}"
            )
            exchange.response_code, exchange.remark = response.code, response.remark
            data = response.encode()
        if self.interceptor is None:
            self.door.emit(connection, data)
        else:
            emit = partial(self.door.emit, connection)
            self.interceptor.outgoing(connection, exchange, data, emit)


class BrokerCore:
    """State owner of one broker. ``handlers.install(core)`` adds the tables declared below."""

    topics: "TopicTable"
    groups: "GroupTable"
    consumers: "ConsumerRegistry"
    producers: "ProducerRegistry"
    offsets: "OffsetTable"
    deliveries: "DeliveryLog"
    locks: "QueueLocks"
    polls: "ParkedPulls"
    transactions: "TransactionalMessageService"
    traffic: "Traffic"

    def __init__(
        self,
        *,
        door: Door,
        clock: Clock,
        session_clock: Clock,
        config: BrokerConfig,
        profile: Profile,
        limits: Limits = LIMITS["broker"],
        store: "MessageStore",
        timers: "TimerEngine",
        levels: "ScheduleMessageService",
        namesrv: "NameServer",
        journal: Journal,
        random: "Random",
        session_timers: SessionTimers,
        cluster_name: str,
        broker_name: str,
        address: str,
    ) -> None:
        self.door = door
        self.clock = clock
        self.session_clock = session_clock
        self.config = config
        self.profile = profile
        self.limits = limits
        self.store = store
        self.timers = timers
        self.levels = levels
        self.namesrv = namesrv
        self.journal = journal
        self.random = random
        self.session_timers = session_timers
        self.cluster_name = cluster_name
        self.broker_name = broker_name
        self.address = address
        """The advertised ``host:port``."""
        self.handlers: dict[int, Handler] = {}
        self.connections: set[Connection] = set()
        self.sources: list[DeadlineSource] = [timers, levels]
        """What fires on the message clock."""
        self.housekeeping: list[Callable[[], None]] = []
        """Called under the door at the end of every clock jump: expiry, saves, metrics."""
        self.tables: dict[str, Table] = {}
        """What is kept in files, by path; see ``tables/files.py``."""
        self.on_close: list[Callable[[], None]] = []
        """Called under the door before the store closes: last saves."""
        self.before_crash: list[Callable[[], Callable[[], None]]] = []
        """Called under the door when a crash is played; what they return is run outside of it."""
        self.on_leave: list[Callable[[], None]] = []
        """Called under the door when this state stops acting, saved or not: unhook."""
        self.endpoint = Endpoint(self, broker_name, self.handlers, silent_unknown=False)
        self.sync_flush = config.text("flushDiskType") == "SYNC_FLUSH"
        self.request_flush: Callable[[], None] = _nothing
        """Wakes the flusher; set by whoever runs it."""
        self.flush_everything: Callable[[], None] = _nothing
        """Flushes now, for work that was given to ``in_background``; may raise ``StoreError``."""
        self.in_background: Callable[[Callable[[], None]], None] = door.after
        """Does slow work, such as writing a table's file, outside the door on another thread."""
        self._undurable: list[tuple[int, Callable[[bool], None], SessionTimer]] = []
        self._pushed = count(1)

    # -- requests ---------------------------------------------------------------------------

    def register(self, code: int, handler: Handler) -> None:
        """Handle ``code`` with ``handler``, unless the profile's version does not know it."""
        if code not in self.profile.unsupported_codes:
            self.handlers[int(code)] = handler

    def receive(self, connection: Connection, frames: list[Frame]) -> None:
        """Handle frames that reached the broker's own address."""
        self.endpoint.receive(connection, frames)

    def connected(self, connection: Connection) -> None:
        """Note a new peer of the broker's own address."""
        self.endpoint.connected(connection)

    def disconnected(self, connection: Connection) -> None:
        """Forget a peer of the broker's own address."""
        self.endpoint.disconnected(connection)

    @property
    def on_disconnected(self) -> list[Callable[[Connection], None]]:
        """Called under the door with every connection that has ended."""
        return self.endpoint.on_disconnected

    def answer(self, request: Request, response: RemotingCommand) -> None:
        """Give the answer of a parked request. Under the door."""
        if not request.connection.closed:
            self.endpoint.respond(request.connection, request.command, request.exchange, response)

    def push(self, connection: Connection, command: RemotingCommand) -> None:
        """Send a request of the broker to a client; it gets an opaque of our own numbering."""
        if connection.closed:
            return
        command.opaque = next(self._pushed) & 0x7FFF_FFFF
        command.language = LanguageCode.JAVA
        command.version = self.profile.version
        command.serialize_type = SerializeType.JSON
        exchange = Exchange(
            self.broker_name,
            connection,
            SerializeType.JSON,
            command,
            len(command.body),
            self.clock.now_ms,
            monotonic_ns(),
        )
        exchange.pushed = True
        self.journal.append(exchange)
        self.door.emit(connection, command.encode())

    def address_for(self, connection: Connection) -> str:
        """Return the address to tell this peer: the one it came through when we listen on all."""
        host, _, port = self.address.rpartition(":")
        if host in {"0.0.0.0", "::", "[::]"}:  # noqa: S104 - compared, not bound
            return f"{connection.local[0]}:{port}"
        return self.address

    # -- session time -------------------------------------------------------------------------

    def at(
        self, session_due_ms: int, call: Callable[[], None], what: str = "session"
    ) -> SessionTimer:
        """Call ``call`` under the door once the session clock reaches ``session_due_ms``."""
        return self.session_timers.at(session_due_ms, call, what)

    def after(self, delay_ms: int, call: Callable[[], None], what: str = "session") -> SessionTimer:
        """Call ``call`` under the door after ``delay_ms`` of session time."""
        return self.at(self.session_clock.now_ms + delay_ms, call, what)

    def every(self, period_ms: int, call: Callable[[], None], what: str = "housekeeping") -> None:
        """Call ``call`` under the door every ``period_ms`` of session time, first after one.

        A jump of the session clock makes the call once more, at its end, and not for every
        period on the way.
        """

        def again() -> None:
            due_ms = self.session_clock.now_ms + period_ms
            self.at(max(due_ms, self.session_timers.horizon_ms), again, what)
            call()

        self.after(period_ms, again, what)

    # -- synchronous flush --------------------------------------------------------------------

    def answer_when_durable(
        self, request: Request, response: RemotingCommand, log_end: int
    ) -> RemotingCommand | None:
        """Return ``response`` now, or None and give it once the log is synced up to ``log_end``.

        Parks only under ``flushDiskType=SYNC_FLUSH`` (CommitLog.GroupCommitService). After
        ``syncFlushTimeout`` of session time the answer goes out with code 10.
        """
        if not self.sync_flush or self.store.flushed_offset >= log_end:
            return response

        def give(durable: bool) -> None:
            if not durable:
                response.code = ResponseCode.FLUSH_DISK_TIMEOUT
            self.answer(request, response)

        self.when_durable(log_end, give)
        return None

    def when_durable(self, log_end: int, call: Callable[[bool], None]) -> None:
        """Call ``call(True)`` under the door once the log is synced up to ``log_end``.

        After ``syncFlushTimeout`` of session time it is ``call(False)``. Under the door; for a
        log that is not synced so far yet.
        """

        def give_up() -> None:
            self._undurable = [one for one in self._undurable if one[1] is not call]
            call(False)

        due_ms = self.session_clock.now_ms + self.config.int("syncFlushTimeout")
        timer = self.at(due_ms, give_up, "synchronous flush")
        self._undurable.append((log_end, call, timer))
        self.request_flush()

    def give_undurable(self) -> None:
        """Give every answer that waits for a sync as it is: nobody will sync. Under the door."""
        waiting, self._undurable = self._undurable, []
        for _, call, timer in waiting:
            timer.cancel()
            call(True)

    def flushed(self) -> None:
        """Give the answers whose bytes are synced by now. Under the door, after each flush."""
        if not self._undurable:
            return
        flushed_offset = self.store.flushed_offset
        waiting = self._undurable
        self._undurable = [one for one in waiting if one[0] > flushed_offset]
        for log_end, call, timer in waiting:
            if log_end <= flushed_offset:
                timer.cancel()
                call(True)


def _failure(command: RemotingCommand, error: Exception) -> RemotingCommand:
    """Return the answer to a request whose handler raised."""
    if isinstance(error, RequestError):
        return command.answer(error.code, error.remark, error.ext_fields)
    if isinstance(error, HeaderError):
        return command.answer(ResponseCode.SYSTEM_ERROR, str(error))
    logger.error("request %d failed", command.code, exc_info=error)
    return command.answer(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")


def _nothing() -> None:
    """Wake nobody: no flusher runs."""
