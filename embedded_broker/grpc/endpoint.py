"""Dispatch of gRPC calls: each is handled under the door, and its result becomes an answer.

Answers: in which order a call is seen (journal, client id, reading, guards, faults, handling), and
how an answer is given now or later. Must not know: sockets, loops, what any call means. Read on:
``embedded_broker/remoting/endpoint.py`` for the same of RocketMQ's own protocol, ``server.py`` for
who calls ``receive``, ``calls/`` for what is done.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

from attrs import define, field
from google.protobuf.message import DecodeError

from embedded_broker.core.client_calls import Answer, ClientCalls
from embedded_broker.core.durability import Durability
from embedded_broker.core.guards import Caller
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.door import Door
from embedded_broker.grpc.auth import Metadata, SignedCall
from embedded_broker.grpc.broker_services import Brokers
from embedded_broker.grpc.call import Asked, Call
from embedded_broker.grpc.clients import GrpcClient, GrpcClients
from embedded_broker.grpc.descriptors import Messages, load_messages
from embedded_broker.grpc.journal_text import told_of
from embedded_broker.grpc.outgoing import Outgoing
from embedded_broker.grpc.schema import CALLS
from embedded_broker.grpc.status import Aborted, Codes, Rejected
from embedded_broker.remoting.journal import Exchange, Journal, RpcHeader
from embedded_broker.remoting.request_faults import Fault, RequestFaults
from rocketmq_py.clock import monotonic_ns
from rocketmq_py.errors import RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.frame import Frame
from rocketmq_py.protocol.rpc import Rpc, RpcStatus

logger = get_logger(__name__)

TEXT_MAX = 4096
"""Characters of the text of a status; names and values of clients stand in it."""
NAME = "grpc"
ASKED_MAX = 10_000
"""Most commands whose answers are awaited."""

Read = Callable[[Call], Asked]
"""Reads a call, outside the door; raises `Rejected`."""


@define(eq=False, kw_only=True)
class GrpcEndpoint:
    """Where gRPC clients ask the brokers of one cluster, all behind one address."""

    door: Door
    _journal: Journal
    codes: Codes = field(factory=Codes)
    brokers: Brokers = field(factory=Brokers)
    v2: Messages = field(factory=load_messages)
    out: Outgoing = field(init=False)
    clients: GrpcClients = field(init=False)
    readers: dict[Rpc, Read] = field(factory=dict, init=False)
    interceptors: list[RequestFaults] = field(factory=list, init=False)
    on_gone: list[Callable[[GrpcClient], None]] = field(factory=list, init=False)
    """Called under the door with a client that is gone."""
    _numbers: Iterator[int] = field(factory=partial(count, 1), init=False)
    _asked: dict[int, ClientCalls] = field(factory=dict, init=False)
    """Who waits for the answer to a command, by its number."""

    def __attrs_post_init__(self) -> None:
        self.out = Outgoing(self.v2)
        self.clients = GrpcClients(self._client_gone)

    # -- calls --------------------------------------------------------------------------------

    def begin(
        self,
        rpc: Rpc,
        raw: bytes,
        metadata: Metadata,
        remote: tuple[str, int],
        remaining_ms: int | None,
        tell: Callable[[list[bytes] | Aborted], None],
    ) -> Call:
        """Read the bytes of a call; raises `Aborted` for what is no message. Outside the door."""
        request = self.parse(CALLS[rpc].request, raw)
        client = self._client(metadata, remote)
        fields = told_of(request)
        exchange = self.note(rpc, client, metadata, fields, len(raw))
        return Call(
            fields=fields,
            rpc=rpc,
            client=client,
            metadata=metadata,
            request=request,
            remaining_ms=remaining_ms,
            exchange=exchange,
            door=self.door,
            tell=tell,
        )

    # Any: messages of protobuf are made at run time.
    def parse(self, name: str, raw: bytes) -> Any:
        """Read a message; raises `Aborted` for what is none."""
        try:
            return getattr(self.v2, name).FromString(raw)
        except DecodeError as error:
            status = "UNKNOWN" if self.codes.is_strict else "INTERNAL"
            raise Aborted(status, f"the request is no {name}: {error}") from error

    def _client(self, metadata: Metadata, remote: tuple[str, int]) -> GrpcClient:
        return self.clients.peer(metadata.client_id, remote)

    def note(
        self,
        rpc: Rpc,
        client: GrpcClient,
        metadata: Metadata,
        fields: dict[str, str],
        size: int,
    ) -> Exchange:
        """Write a call into the journal."""
        header = RpcHeader(rpc, metadata.language, metadata.version, fields)
        now_ms = self.brokers.first.env.clock.now_ms if self.brokers else 0
        exchange = Exchange(NAME, client, 0, header, size, now_ms, monotonic_ns())
        self._journal.append(exchange)
        return exchange

    def receive(self, call: Call, raw: bytes = b"") -> None:
        """Answer a call, now or later. Outside the door; while the broker is paused it waits."""
        pause = self.door.pause
        if pause.on and pause.keep(call, [Frame(0, b"", raw)], partial(self._take, call)):
            return
        self._take(call)

    def _take(self, call: Call) -> None:
        try:
            _check_client(call.metadata)
            asked = self.readers[call.rpc](call)
        except Exception as error:  # noqa: BLE001 - the broker outlives any call
            with self.door:
                self.refuse(call, error)
            return
        with self.door:
            if not self.brokers:
                call.abort("UNAVAILABLE", "no broker runs here at present")
            elif not call.closed:
                self._do(call, asked)

    def _do(self, call: Call, asked: Asked) -> None:
        """Ask guards and faults, then handle it. Under the door."""
        try:
            self.demand(call.client, call.rpc, call.metadata, asked)
        except Rejected as rejected:
            self.refuse(call, rejected)
            return
        for faults in self.interceptors:
            fault = faults.choose(call.rpc, call.fields, call.client)
            if fault is not None:
                self._go_wrong(call, asked, fault)
                return
        self.handle(call, asked)

    def _go_wrong(self, call: Call, asked: Asked, fault: Fault) -> None:
        """Do what a fault asks for, now or when its delay is over."""
        if fault.delay_ms:
            later = partial(self._instead, call, asked, fault)
            self.brokers.first.env.session.after(fault.delay_ms, later, "a delayed call")
        else:
            self._instead(call, asked, fault)

    def _instead(self, call: Call, asked: Asked, fault: Fault) -> None:
        if call.closed or fault.verb == "drop":
            return
        number, text = fault.response
        if fault.verb == "respond":
            self.answer(call, self.answer_of(call.rpc, number, text))
        elif fault.verb in {"abort", "close"}:
            name = text if fault.verb == "abort" else "UNAVAILABLE"
            call.abort(name, "a test asked for this end")
        else:
            call.spoilt = fault.verb
            self.handle(call, asked)

    def handle(self, call: Call, asked: Asked) -> None:
        """Do what a call asks for, and answer unless that comes later. Under the door."""
        try:
            answer = asked.handle()
        except Exception as error:  # noqa: BLE001 - as above
            self.refuse(call, error)
            return
        if answer is not None:
            self.answer(call, answer)

    def demand(self, client: GrpcClient, rpc: Rpc, metadata: Metadata, asked: Asked) -> None:
        """Refuse what guards refuse. Under the door."""
        guards = self.brokers.first.guards
        if not guards or not guards.concern(asked.action):
            return
        claim = SignedCall(rpc, metadata)
        refused = guards.check(client, asked.action, asked.resources, also=asked.also, claim=claim)
        if refused is not None:
            code = self.codes.of_reason(refused.reason)
            denied = refused.reason is Reason.NO_PERMISSION
            raise Rejected(RpcStatus.UNAUTHORIZED if denied else code, refused.remark)

    def caller(self, call: Call) -> Caller:
        """Give who calls, for what is found out only later."""
        return Caller(self.brokers.first.guards, call.client, SignedCall(call.rpc, call.metadata))

    # -- answers ------------------------------------------------------------------------------

    def answer(self, call: Call, answer: Any) -> None:
        """Give an answer: a message, or a list of those of a stream. Under the door."""
        if call.is_answered or call.closed:
            return
        call.is_answered = True
        answers = answer if isinstance(answer, list) else [answer]
        self._note_end(call.exchange, answers[0].status)
        if call.spoilt == "drop_response":
            return
        if call.spoilt == "close_after":
            call.abort("UNAVAILABLE", "a test asked for this end")
            return
        frames = [one.SerializeToString() for one in answers]
        if call.spoilt == "corrupt":
            frames = [bytes(byte ^ 0xFF for byte in frame) for frame in frames]
        self.door.emit_all(call, frames)

    def _note_end(self, exchange: Exchange, status: Any) -> None:
        exchange.response_code, exchange.remark = status.code, status.message
        exchange.micros = (monotonic_ns() - exchange.started_ns) // 1000

    def refuse(self, call: Call, error: Exception) -> None:
        """Answer a call that was refused, or failed, and undo what it has done. Under the door."""
        call.take_back()
        code, text = self.codes.told(error)
        if not isinstance(error, (Rejected, Refused, RocketMQError)):
            logger.error("call %s failed", call.rpc, exc_info=error)
        self.answer(call, self.answer_of(call.rpc, code, text))

    def answer_of(self, rpc: Rpc, code: RpcStatus | int, text: str) -> Any:
        """Make an answer that is only a status; that of a receive says when it was given."""
        if len(text) > TEXT_MAX:
            text = text[:TEXT_MAX] + "..."
        status = self.v2.Status(code=code, message=text)
        made = getattr(self.v2, CALLS[rpc].response)(status=status)
        if rpc is not Rpc.RECEIVE_MESSAGE:
            return made
        return [made, self.delivery_time()]

    def delivery_time(self) -> Any:
        """Make the last message of a receive."""
        made = self.v2.ReceiveMessageResponse()
        now_ms = self.brokers.first.env.clock.now_ms if self.brokers else 0
        self.out.set_time(made.delivery_timestamp, now_ms)
        return made

    def answer_when_durable(
        self,
        call: Call,
        durability: Durability,
        log_end: int,
        finish: Callable[[Reason | None], Any],
    ) -> Any:
        """Give an answer now, or None and give it once the log is safe up to an end."""
        if not log_end or durability.is_reached(log_end):
            return finish(None)

        def give(reason: Reason | None) -> None:
            self.answer(call, finish(reason))

        durability.when_reached(log_end, give)
        return None

    # -- commands to clients ------------------------------------------------------------------

    def number(self, calls: ClientCalls) -> int:
        """Give a number to a command whose answer somebody waits for."""
        number = next(self._numbers)
        self._asked[number] = calls
        while len(self._asked) > ASKED_MAX:
            self._asked.pop(next(iter(self._asked)))
        return number

    def answered(self, client: GrpcClient, nonce: str, answer: Answer) -> None:
        """Give a client's answer to who waits for it. Under the door."""
        number = int(nonce) if nonce.isascii() and nonce.isdecimal() and len(nonce) < 18 else 0
        calls = self._asked.pop(number, None)
        if calls is not None:
            calls.answered(client, number, answer)

    def push(self, client: GrpcClient, command: Any) -> bool:
        """Send a command to a client; false when it has no stream. Under the door."""
        if client.closed or client.stream is None:
            return False
        header = RpcHeader(Rpc.TELEMETRY, client.language, client.version, told_of(command))
        now_ms = self.brokers.first.env.clock.now_ms
        exchange = Exchange(NAME, client, 0, header, command.ByteSize(), now_ms, monotonic_ns())
        exchange.pushed = True
        self._journal.append(exchange)
        self.door.emit(client.stream, command.SerializeToString())
        return True

    def cut(self, client_id: str, status: str) -> bool:
        """End the stream of a client with a status of gRPC; false when it has none."""
        client = self.clients.find(client_id)
        if client is None or client.stream is None:
            return False
        client.stream.stop(Aborted(status, "a test asked for this end"))
        return True

    def _client_gone(self, client: GrpcClient) -> None:
        """Undo what is kept of a client."""
        stream, client.stream = client.stream, None
        if stream is not None:
            stream.end()
        if self.door.held:
            self._forget(client)
        else:
            with self.door:
                self._forget(client)

    def _forget(self, client: GrpcClient) -> None:
        for listener in self.on_gone:
            listener(client)


def _check_client(metadata: Metadata) -> None:
    if not metadata.client_id:
        raise Rejected(RpcStatus.CLIENT_ID_REQUIRED, "the header x-mq-client-id is blank")
