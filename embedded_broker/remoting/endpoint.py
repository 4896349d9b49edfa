"""Request dispatch for one address: frames become requests, results become frames.

Answers: in which order a request is seen (guards, journal, faults, handler), how an answer is given
now or later, and how the broker asks a client. Must not know: sockets, threads, what any request
means. Everything but ``receive`` runs under the door. Read on: ``handlers/__init__.py``, and
``tcp_connection.py`` and ``inproc.py`` for who calls ``receive``.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Final, Protocol

from attrs import define, field

from embedded_broker.clocks.session import Session
from embedded_broker.core.client_calls import Call, ClientCalls
from embedded_broker.core.durability import Durability
from embedded_broker.core.guards import Caller, Guards
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.door import Door
from embedded_broker.remoting.claims import SignedRequest
from embedded_broker.remoting.client_requests import answer_of, request_for
from embedded_broker.remoting.code_meanings import action_of, code_for, wanted_by
from embedded_broker.remoting.idle_connections import IdleConnections
from embedded_broker.remoting.journal import HEADER_KEPT_MAX, Exchange, Journal, shortened
from embedded_broker.remoting.long_requests import LongRequests, Work, do_at_once, do_in_turns
from embedded_broker.remoting.rate_limited_log import RateLimitedLog
from embedded_broker.remoting.requests import (
    Answer,
    Connection,
    GroupHandler,
    Handler,
    Request,
    RequestError,
    SharedBytes,
)
from embedded_broker.remoting.turns import TURN_NS
from embedded_broker.settings.profiles import Profile
from embedded_broker.tables.peer import Peer
from rocketmq_py.clock import Clock, monotonic_ns
from rocketmq_py.errors import FrameError, HeaderError, RemotingCommandException
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.codes import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    LanguageCode,
    ResponseCode,
    SerializeType,
)
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Buffer, Frame, FrameDecoder, encode_head

logger = get_logger(__name__)

COMMANDS_PER_ENTRY = 64
"""Most requests handled in one hold of the door."""
LONG_COUNTS = 8
"""A request that may take long counts as so many, 64 KiB of what it says or gets as one more."""
HEADER_BYTES_MAX = 1024 * 1024
"""A peer whose header is longer is disconnected."""
SMALL_BODY_MAX = 8192
"""A longer body of a request that `register_long` takes is read outside the door."""
BODY_BYTES_MAX = 1024 * 1024
"""A longer body of such a request is not read."""
GRPC_PREFACE: Final = b"PRI * HTTP/2.0"
GRPC_SPOKEN: Final = (
    "this is a gRPC client of RocketMQ 5, at a port of the remoting protocol. Start the broker "
    "with grpc=True (--grpc-port) and give the client its endpoints"
)
_JSON: Final = SerializeType.JSON
REMARK_MAX = 4096
"""Characters of a remark; names and values of clients stand in it."""


class Interceptor(Protocol):
    """Who may let requests and answers go wrong; ``request_faults.RequestFaults`` does."""

    def incoming(self, endpoint: "Endpoint", request: Request) -> Callable[[], None] | None:
        """Give what is done instead of handling the request; None lets it be handled.

        It is done when the requests before this one have been handled.
        """

    def outgoing(self, request: Request, parts: list[bytes]) -> list[bytes]:
        """Give what leaves as the answer whose frame is made of these parts."""


@define(eq=False, kw_only=True)
class Endpoint:
    """One address that is asked: a broker's, or the name server's.

    ``guards`` are asked about every request. ``interceptors`` see what guards let pass, in turn.
    """

    name: str
    door: Door
    clock: Clock
    session: Session
    _journal: Journal
    _profile: Profile
    guards: Guards = field(factory=Guards)
    durability: Durability | None = None
    calls: ClientCalls | None = None
    """Who waits for the answers of clients; None drops them: nobody is called."""
    handlers: dict[int, Handler | GroupHandler] = field(factory=dict)
    long_requests: LongRequests = field(factory=LongRequests, init=False)
    is_namesrv: bool = False
    _silent_unknown: bool = False
    most_idle_ms: int = 0
    """A connection that is not used for so much session time is closed; 0 is for ever."""
    connections: set[Connection] = field(factory=set, init=False)
    on_disconnected: list[Callable[[Connection], None]] = field(factory=list, init=False)
    interceptors: list[Interceptor] = field(factory=list, init=False)
    """Who lets requests and answers go wrong, while somebody does."""
    _long: set[int] = field(factory=set, init=False)
    answered: int = field(default=0, init=False)
    """Bytes of the answers to the present request, or what counts like them."""
    _speaker: "Endpoint" = field(init=False)
    """Who receives the requests: after a reset another one, which has the connections."""
    _bad: RateLimitedLog = field(factory=partial(RateLimitedLog, logger), init=False)
    _pushed: Iterator[int] = field(factory=partial(count, 1), init=False)
    _idle: IdleConnections = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._speaker = self
        self._idle = IdleConnections(self.door, self.connections, self.most_idle_ms)
        if self.calls is not None:
            self.calls.wires.append(self)

    def cut(self, client_id: str, status: str) -> bool:  # noqa: ARG002 - as a gRPC endpoint has it
        """End what a client listens to: nothing here."""
        return False

    def register(self, code: int, handler: Handler | GroupHandler) -> None:
        """Handle ``code`` with ``handler``, unless the profile's version does not know it."""
        if code not in self._profile.unsupported_codes:
            self.handlers[int(code)] = handler

    def register_long(self, code: int, begin: Callable[[Request], Work]) -> None:
        """Handle ``code`` with work that is done in turns, on another thread, if it takes long.

        Of a request whose body is small the first turn is here.
        """

        def handle(request: Request) -> RemotingCommand | None:
            size = len(request.command.body)
            if size > BODY_BYTES_MAX:
                raise Refused(
                    Reason.FAILED, f"the body has {size} bytes, at most {BODY_BYTES_MAX} are read"
                )
            work = begin(request)
            if size <= SMALL_BODY_MAX:
                response = do_at_once(work)
                if response is not None:
                    return response
            self.long_requests.do(partial(self._do_in_turns, request, work))
            return None

        self.register(code, handle)
        self._long.add(int(code))

    def end_entry(self) -> None:
        """Handle what comes next in another hold of the door: this one has done much. Inside."""
        self._speaker.answered = COMMANDS_PER_ENTRY << 16

    def _do_in_turns(self, request: Request, work: Work) -> None:
        """Do long work and answer. Outside the door."""
        try:
            response = do_in_turns(self.door, work)
        except Exception as error:  # noqa: BLE001 - as for any handler
            response = self.refusal(request.command, error)
        with self.door:
            self.answer(request, response)

    def become(self, other: "Endpoint") -> None:
        """Ask another broker state from now on, on behalf of the same connections. Under the door.

        Nobody reaches the other endpoint any more; what its handlers say later leaves by it as if
        it were this one.
        """
        other.interceptors = self.interceptors
        other._speaker = self._speaker  # noqa: SLF001 - of the same class
        self.speak_for(other)
        self.guards, self.handlers = other.guards, other.handlers
        self._long = other._long  # noqa: SLF001 - of the same class
        self.on_disconnected = other.on_disconnected
        self.durability = other.durability
        self.calls = other.calls
        if self.calls is not None:
            self.calls.wires = [self if wire is other else wire for wire in self.calls.wires]

    def speaks_for(self, other: "Endpoint") -> bool:
        """Whether it uses the clocks of another address."""
        return self.session is other.session

    def speak_for(self, other: "Endpoint") -> None:
        """Use the clocks of another address from now on: those of a broker that still runs."""
        self.clock, self.session = other.clock, other.session
        self._idle.begin_anew(self.session)

    # -- requests -----------------------------------------------------------------------------

    def read(self, connection: Connection, decoder: FrameDecoder, data: bytes) -> None:
        """Cut frames and handle them; a frame that cannot be one ends the connection."""
        try:
            frames = decoder.feed(data)
        except FrameError as error:
            if decoder.salvaged:
                self.receive(connection, decoder.salvaged)
            told = GRPC_SPOKEN if data.startswith(GRPC_PREFACE) else str(error)
            self._bad.warn(f"closing {connection!r}: {told}")
            connection.close()
            return
        if frames:
            self.receive(connection, frames)

    def receive(
        self, connection: Connection, frames: list[Frame], arrived_ns: int | None = None
    ) -> None:
        """Handle whole frames in order. A header that cannot be decoded closes the connection.

        Called by adapters on their own thread, outside the door. While the broker is paused they
        wait. What takes long is done in turns, where the adapter has turns.
        """
        connection.used_ms = self.session.now_ms
        pause = self.door.pause
        if pause.on:

            def later() -> None:
                self._take(connection, frames, arrived_ns)

            if pause.keep(connection, frames, later):
                return
        self._take(connection, frames, arrived_ns)

    def _take(self, connection: Connection, frames: list[Frame], arrived_ns: int | None) -> None:
        begun_ns = monotonic_ns()
        started_ns = begun_ns if arrived_ns is None else arrived_ns
        handled = 0
        while handled < len(frames) and not connection.closed:
            some = frames[handled : handled + COMMANDS_PER_ENTRY]
            try:
                handled += self._handle(connection, some, started_ns)
            except RemotingCommandException as error:
                self._bad.warn(f"closing {connection!r}: {error}")
                connection.close()
                return
            if handled < len(frames) and monotonic_ns() - begun_ns >= TURN_NS:
                rest = frames[handled:]
                if connection.give_way(partial(self.receive, connection, rest, started_ns)):
                    return

    def _handle(self, connection: Connection, frames: list[Frame], started_ns: int) -> int:
        """Handle frames in one hold of the door, as many as it may take; give their number.

        Requests that follow each other and have the same group handler are handled together.
        Raises what is wrong with the first bad header.
        """
        with self.door:
            now_ms, left, self.answered = self.clock.now_ms, COMMANDS_PER_ENTRY, 0
            group: list[Request] = []
            handler: GroupHandler | None = None
            try:
                for number, frame in enumerate(frames, 1):
                    if len(frame.header) > HEADER_BYTES_MAX:
                        raise _too_long(frame)
                    command = RemotingCommand.decode(frame)
                    if command.flag & FLAG_RESPONSE:
                        step: GroupHandler | Callable[[], None]
                        step = partial(self._note_answer, connection, command)
                    else:
                        request = self._note(connection, frame, command, now_ms, started_ns)
                        step = self._next_step(request)
                    if handler is not None and step is not handler:
                        complete, handler = handler, None
                        self._handle_group(complete, group)
                    if not isinstance(step, GroupHandler):
                        step()
                    elif handler is None:
                        handler, group = step, [request]
                    else:
                        group.append(request)
                    left -= LONG_COUNTS if command.code in self._long else 1
                    left -= len(frame.body) + self.answered >> 16
                    self.answered = 0
                    if left <= 0:
                        return number
            finally:
                if handler is not None:
                    self._handle_group(handler, group)
        return len(frames)

    def _next_step(self, request: Request) -> GroupHandler | Callable[[], None]:
        """Ask guards and interceptors; give who handles the request, or what is to be done."""
        refused = self.check(request)
        if refused is not None:
            return partial(self.respond, request, self.refusal(request.command, refused))
        for interceptor in self.interceptors:
            instead = interceptor.incoming(self, request)
            if instead is not None:
                return instead
        handler = self.handlers.get(request.command.code)
        if isinstance(handler, GroupHandler):
            return handler
        return partial(self._handle_with, handler, request)

    def check(self, request: Request) -> Refused | None:
        """Ask the guards: when a request comes, and again when it has waited for a message."""
        connection, command, _ = request
        guards = self.guards
        if not guards or not guards.concern(action_of(command.code)):
            return None
        code, fields, body = command.code, command.ext_fields, command.body
        action, resources, also = wanted_by(code, fields, body)
        claim = SignedRequest(code, fields, body)
        return guards.check(connection, action, resources, also=also, claim=claim)

    def caller(self, request: Request) -> Caller:
        """Give who asks, for what a handler finds out only later."""
        connection, command, _ = request
        claim = SignedRequest(command.code, command.ext_fields, command.body)
        return Caller(self.guards, connection, claim)

    def connected(self, connection: Connection) -> None:
        """Note a new peer. Called outside the door."""
        with self.door:
            self.connections.add(connection)
            self._idle.has_come(connection, self.session)

    def disconnected(self, connection: Connection) -> None:
        """Forget a peer whose connection has ended. Called outside the door."""
        with self.door:
            self.connections.discard(connection)
            for listener in self.on_disconnected:
                listener(connection)

    def _note_answer(self, connection: Connection, command: RemotingCommand) -> None:
        """Give a client's answer to one of our calls to who waits for it."""
        if self.calls is not None:
            self.calls.answered(connection, command.opaque, answer_of(command))

    def _note(
        self,
        connection: Connection,
        frame: Frame,
        command: RemotingCommand,
        now_ms: int,
        started_ns: int,
    ) -> Request:
        """Write a request into the journal."""
        kind, header, body = frame
        kept = header if len(header) <= HEADER_KEPT_MAX else shortened(command)
        exchange = Exchange(self.name, connection, kind, kept, len(body), now_ms, started_ns)
        self._journal.append(exchange)
        return Request(connection, command, exchange)

    def handle(self, request: Request) -> None:
        """Let the request's handler answer it. Under the door."""
        handler = self.handlers.get(request.command.code)
        if isinstance(handler, GroupHandler):
            self._handle_group(handler, [request])
        else:
            self._handle_with(handler, request)

    def _handle_group(self, handler: GroupHandler, requests: Sequence[Request]) -> None:
        answers: Sequence[Answer | None]
        try:
            answers = handler.take(requests)
        except Exception as error:  # noqa: BLE001 - the broker outlives any handler
            answers = [self.refusal(request.command, error) for request in requests]
        for request, answer in zip(requests, answers, strict=True):
            if answer is not None:
                self.respond(request, answer)

    def _handle_with(self, handler: Handler | None, request: Request) -> None:
        command = request.command
        response: Answer | None = None
        if handler is not None:
            try:
                response = handler(request)
            except Exception as error:  # noqa: BLE001 - the broker outlives any handler
                response = self.refusal(command, error)
        elif not self._silent_unknown:
            remark = f" request type {command.code} not supported"
            response = command.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        if response is not None:
            self.respond(request, response)

    def answers_in_json(self, command: RemotingCommand) -> bool:
        """Say whether the header of the answer to a request is written as JSON."""
        return command.serialize_type == _JSON or not self._profile.answers_with_request_type

    def respond(self, request: Request, response: Answer) -> None:
        """Encode an answer and hand it to the door; nothing leaves for a oneway request."""
        connection, command, exchange = request
        if isinstance(response, RemotingCommand):
            self._complete(response, command)
        exchange.response_code, exchange.remark = response.code, response.remark
        exchange.micros = (monotonic_ns() - exchange.started_ns) // 1000
        if command.flag & FLAG_ONEWAY:
            return
        try:
            parts = _frame_of(response, in_parts=connection.is_stream)
        except RemotingCommandException as error:
            logger.error("the answer to request %d cannot be sent: %s", command.code, error)  # noqa: TRY400
            remark = f"the answer cannot be sent: {error}"
            other = command.answer(ResponseCode.SYSTEM_ERROR, remark)
            self._complete(other, command)
            exchange.response_code, exchange.remark = other.code, other.remark
            parts = _frame_of(other, in_parts=False)
        self._speaker.answered += sum(map(len, parts))
        for interceptor in self.interceptors:
            parts = interceptor.outgoing(request, parts)
        if parts:
            self.door.emit_all(connection, parts)

    def _complete(self, response: RemotingCommand, command: RemotingCommand) -> None:
        """Say in an answer what all answers of the broker say."""
        remark = response.remark
        if remark is not None and len(remark) > REMARK_MAX:
            response.remark = remark[:REMARK_MAX] + "..."
        response.language = LanguageCode.JAVA  # what brokers say; some clients know no other
        response.version = self._profile.version
        if self.answers_in_json(command):
            response.serialize_type = _JSON

    def refusal(self, command: RemotingCommand, error: Exception) -> RemotingCommand:
        """Give the answer to a request that was refused, or whose handler failed."""
        if isinstance(error, Refused):
            return command.answer(code_for(error.reason, self._profile), error.remark)
        if isinstance(error, RequestError):
            return command.answer(error.code, error.remark, error.ext_fields)
        if isinstance(error, RemotingCommandException):
            return command.answer(ResponseCode.SYSTEM_ERROR, str(error))
        logger.error("request %d failed", command.code, exc_info=error)
        return command.answer(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    # -- answers that come later ----------------------------------------------------------------

    def answer(self, request: Request, response: Answer) -> None:
        """Give the answer of a parked request."""
        if not request.connection.closed:
            request.connection.used_ms = self.session.now_ms
            self.respond(request, response)

    def answer_when_durable(
        self, request: Request, response: RemotingCommand, log_end: int
    ) -> RemotingCommand | None:
        """Return ``response`` now, or None and give it once the log is safe up to ``log_end``.

        Waits only under ``flushDiskType=SYNC_FLUSH`` and ``brokerRole=SYNC_MASTER``. After
        ``syncFlushTimeout`` of session time the answer goes out with code 10, after
        ``slaveTimeout`` with 12.
        """
        durability = self.durability
        if durability is None or durability.is_reached(log_end):
            return response

        def give(reason: Reason | None) -> None:
            if reason is not None:
                response.code = code_for(reason, self._profile)
            self.answer(request, response)

        durability.when_reached(log_end, give)
        return None

    # -- requests of the broker to its clients ----------------------------------------------------

    def call(self, peer: Peer, call: Call) -> int | None:
        """Send one of the broker's calls to a client; see ``core/client_calls.py``."""
        return self.push(peer, request_for(call))

    def push(self, connection: Peer, command: RemotingCommand) -> int | None:
        """Send a request of the broker to a client; gives its opaque, of our own numbering.

        A peer of another wire is left out, and one that is gone: None.
        """
        if connection.closed or not isinstance(connection, Connection):
            return None
        command.opaque = next(self._pushed) & 0x7FFF_FFFF
        command.language = LanguageCode.JAVA
        command.version = self._profile.version
        command.serialize_type = SerializeType.JSON
        now_ms, size = self.clock.now_ms, len(command.body)
        exchange = Exchange(
            self.name, connection, SerializeType.JSON, command, size, now_ms, monotonic_ns()
        )
        exchange.pushed = True
        connection.used_ms = self.session.now_ms
        self._journal.append(exchange)
        self.door.emit(connection, command.encode())
        return command.opaque


def _too_long(frame: Frame) -> HeaderError:
    problem = f"has {len(frame.header)} bytes, at most {HEADER_BYTES_MAX}"
    return HeaderError("header", None, problem)


def _frame_of(response: Answer, *, in_parts: bool) -> list[bytes]:
    """Write the frame of an answer; a body that others get, too, is a part of its own if it may."""
    body: Sequence[Buffer] = response.body_parts
    if isinstance(response, RemotingCommand):
        if response.body:
            body = (response.body, *body)
        head = response.encode_head(sum(map(len, body)))
    else:
        head = encode_head(_JSON, response.header, sum(map(len, body)))
    if not body:
        return [head]
    if in_parts and len(body) == 1 and isinstance(body[0], SharedBytes):
        return [head, body[0]]
    return [b"".join((head, *body))]
