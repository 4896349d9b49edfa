"""The gRPC listener: one thread, one asyncio loop, one server for all brokers of a cluster.

Answers: how calls reach the endpoint and answers their clients, and how the listener begins and
ends. Handlers run on the loop and enter the door themselves, for bounded work only; a receive or a
stream that waits is a parked coroutine, not a thread, so a thousand of them starve nobody. That is
why this is ``grpc.aio`` and not gRPC's pool of threads. The loop is asyncio's own: not uvloop, with
which ``grpc.aio`` does not work in one process. Must not know: what a call means. Read on:
``endpoint.py``.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from threading import Event, Lock, Thread, get_ident
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import grpc
from attrs import define, field
from grpc import aio

from embedded_broker.errors import BrokerStateError
from embedded_broker.grpc.auth import Metadata
from embedded_broker.grpc.call import Call
from embedded_broker.grpc.calls.members import MemberCalls
from embedded_broker.grpc.clients import GrpcClient
from embedded_broker.grpc.endpoint import GrpcEndpoint
from embedded_broker.grpc.schema import CALLS
from embedded_broker.grpc.status import Aborted, Rejected
from embedded_broker.settings.grpc import Certificates
from embedded_broker.threads import has_ended
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import ConfigError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.rpc import SERVICE, Rpc, RpcStatus

logger = get_logger(__name__)

RECEIVED_MAX: Final = 130 * 1024 * 1024
"""Bytes of a request."""
COMMANDS_MAX: Final = 64
"""Commands that wait for a client that does not read its stream."""
START_S: Final = 10.0
GRACE_S: Final = 1.0
CUT_S: Final = 0.1
CLOSE_S: Final = 10.0
HAND_OVER_S: Final = 5.0
AGAIN_S: Final = 5.0
"""A port that was had before is waited for so long."""
AGAIN_EVERY_S: Final = 0.02
OPTIONS: Final = (
    ("grpc.max_receive_message_length", RECEIVED_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.max_connection_idle_ms", 120_000),
)

Context = Any  # grpc has no types
_Given = TypeVar("_Given")
Answered = list[bytes] | Aborted


class Bridge:
    """Carries results from any thread to the futures of the loop: one wake-up for a burst."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._thread = get_ident()
        self._lock = Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_woken = False

    @property
    def is_here(self) -> bool:
        """Whether this is the loop's thread."""
        return get_ident() == self._thread

    def after_next_turn(self, call: Callable[[], None]) -> None:
        """Make a call when all that is ready now has had its turn. On the loop's thread."""
        self.loop.call_soon(self.loop.call_soon, call)

    def wait_for_turn(self, call: Callable[[], None]) -> None:
        """Make a call when others had their turn. On the loop's thread."""
        self.loop.call_soon(call)

    def call(self, call: Callable[[], None]) -> None:
        """Make a call on the loop's thread, at once if this is it; none after the loop's end."""
        if self.is_here:
            call()
            return
        with self._lock:
            self._waiting.append(call)
            if self._is_woken:
                return
            self._is_woken = True
        try:
            self.loop.call_soon_threadsafe(self._make_calls)
        except RuntimeError:  # the loop has ended
            self._waiting.clear()

    def _make_calls(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
            self._is_woken = False
        for call in waiting:
            try:
                call()
            except Exception:
                logger.exception("an answer could not be handed over")


class CommandStream:
    """The way to one client: commands wait here until they are written to its stream."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._commands: asyncio.Queue[bytes | Aborted | None] = asyncio.Queue()
        self._is_over = False

    def deliver(self, frames: list[bytes]) -> None:
        """Send commands; a client that does not read loses its stream. Any thread."""
        self._bridge.call(partial(self._put, frames))

    def _put(self, frames: Sequence[bytes]) -> None:
        if self._commands.qsize() + len(frames) > COMMANDS_MAX:
            told = f"{COMMANDS_MAX} commands wait: the client does not read them"
            self.stop(Aborted("RESOURCE_EXHAUSTED", told))
        elif not self._is_over:
            for frame in frames:
                self._commands.put_nowait(frame)

    def end(self) -> None:
        """Let the stream end well. Any thread."""
        self.stop(None)

    def stop(self, last: Aborted | None) -> None:
        """Let the stream end, well or not. Any thread."""
        self._bridge.call(partial(self._stop, last))

    def _stop(self, last: Aborted | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._commands.put_nowait(last)

    async def next(self) -> bytes | Aborted | None:
        """Wait for a command, or for the end."""
        return await self._commands.get()


@define(eq=False, kw_only=True)
class GrpcServer:
    """Listens for gRPC clients until ``close``. Used once.

    ``start`` binds and answers; ``host`` is an address of this machine. ``ports`` that were had
    ``again`` are waited for.
    """

    _endpoint: GrpcEndpoint
    _members: MemberCalls
    _host: str
    ports: tuple[int, int] = (0, 0)
    """Plain and with TLS; 0 takes a free one, and stays where there is no TLS."""
    _again: bool = False
    _certificates: Certificates | None = None
    _thread: Thread | None = field(default=None, init=False)
    _bridge: Bridge | None = field(default=None, init=False)
    _ready: Event = field(factory=Event, init=False)
    _failure: BaseException | None = field(default=None, init=False)
    _stop: "asyncio.Future[float] | None" = field(default=None, init=False)
    _open: dict[Call, None] = field(factory=dict, init=False)
    _streams: set[CommandStream] = field(factory=set, init=False)
    _is_closing: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._endpoint.on_gone.append(self._release)

    def _release(self, client: GrpcClient) -> None:
        """Answer the receives of a client that is gone: it may live, and wait. Under the door."""
        gone = Rejected(RpcStatus.MESSAGE_NOT_FOUND, "the client has left, or was silent too long")
        for call in list(self._open):
            if call.client is client and call.rpc is Rpc.RECEIVE_MESSAGE:
                self._endpoint.refuse(call, gone)

    def start(self) -> None:
        """Listen, and return when calls are answered."""
        self._thread = Thread(target=self._run, name="embedded-broker-grpc", daemon=True)
        self._thread.start()
        if not self._ready.wait(START_S):
            raise BrokerStateError(f"the gRPC thread did not start within {START_S} s")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            if isinstance(failure, ConfigError):
                raise failure
            raise BrokerStateError(f"the gRPC thread failed: {failure}") from failure

    def hand_over(self) -> None:
        """Wait until what was delivered before this call is on its way to its client."""
        bridge, handed = self._bridge, Event()
        if bridge is not None and not bridge.is_here:
            bridge.call(partial(bridge.after_next_turn, handed.set))
            handed.wait(HAND_OVER_S)

    def close(self, *, reset: bool = False) -> None:
        """End calls and streams, listen no longer and join the thread; idempotent.

        Calls under way have a second; with ``reset`` none.
        """
        thread, bridge, self._thread = self._thread, self._bridge, None
        if thread is None:
            return
        self._is_closing = True
        if bridge is not None:
            if not reset:
                self._let_go()
            bridge.call(partial(self._end, 0.0 if reset else GRACE_S))
        if not has_ended(thread, CLOSE_S):
            logger.error("the gRPC thread did not end within %s s", CLOSE_S)

    def _let_go(self) -> None:
        """Answer who waits, end streams, and give back what clients have in hand."""
        with self._endpoint.door:
            for services in self._endpoint.brokers.values():
                for call in list(self._open):
                    services.pop.service.waiters.release(call.client)
                services.pop.renewals.let_all_go()
        for stream in list(self._streams):
            stream.end()

    def _end(self, grace_s: float) -> None:
        if self._stop is not None and not self._stop.done():
            self._stop.set_result(grace_s)

    # -- on the loop's thread ---------------------------------------------------------------

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
            if self._ready.is_set():
                logger.exception("the gRPC thread ended")
        finally:
            self._bridge = None
            self._ready.set()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_leave_out_polls)
        bridge = Bridge(loop)
        self._stop = loop.create_future()
        server = aio.server(options=OPTIONS)
        handlers = {rpc.value: self._handler(rpc) for rpc in CALLS}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self.ports = await self._bind_both(server)
        self._endpoint.door.use_turns(bridge.wait_for_turn)
        await server.start()
        self._bridge = bridge
        self._ready.set()
        try:
            grace_s = await self._stop
            if not grace_s:
                self._cut_off()
            await server.stop(grace_s or CUT_S)
        finally:
            self._endpoint.door.use_turns(None)

    def _cut_off(self) -> None:
        """End what is under way, as when a process dies."""
        gone = Aborted("UNAVAILABLE", "the broker has gone")
        for call in list(self._open):
            call.tell(gone)
        for stream in list(self._streams):
            stream.stop(gone)

    async def _bind_both(self, server: Any) -> tuple[int, int]:
        plain, secure = self.ports
        found = await self._bind(plain, server.add_insecure_port)
        shown = self._certificates
        if shown is None:
            return found, 0
        credentials = grpc.ssl_server_credentials(
            [(shown.key, shown.chain)], shown.trusted, shown.asks_clients
        )
        add = partial(server.add_secure_port, server_credentials=credentials)
        return found, await self._bind(secure, add)

    async def _bind(self, port: int, add: Callable[[str], Any]) -> int:
        """Take a port; ``ConfigError`` says that it cannot be had."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        until = monotonic() + (AGAIN_S if self._again else 0)
        while True:
            try:
                return int(add(f"{host}:{port}"))
            except RuntimeError as error:
                if monotonic() >= until:
                    limit = f"free for gRPC clients: {error}. Port 0 takes a free port"
                    raise ConfigError("address", f"{host}:{port}", limit) from error
            await asyncio.sleep(AGAIN_EVERY_S)

    def _handler(self, rpc: Rpc) -> Any:
        shape = CALLS[rpc]
        if shape.streams_in:
            return grpc.stream_stream_rpc_method_handler(self._telemetry)
        if shape.streams_out:
            return grpc.unary_stream_rpc_method_handler(partial(self._answer_in_parts, rpc))
        return grpc.unary_unary_rpc_method_handler(partial(self._answer, rpc))

    async def _answer(self, rpc: Rpc, raw: bytes, context: Context) -> bytes:
        return await self._ask(rpc, raw, context, _first)

    async def _answer_in_parts(self, rpc: Rpc, raw: bytes, context: Context) -> None:
        async def write(frames: list[bytes]) -> None:
            for frame in frames:
                await context.write(frame)

        await self._ask(rpc, raw, context, write)

    async def _ask(
        self,
        rpc: Rpc,
        raw: bytes,
        context: Context,
        give: Callable[[list[bytes]], Awaitable[_Given]],
    ) -> _Given:
        """Ask the endpoint, wait for its answer and give it; who goes away is noted."""
        assert self._bridge is not None  # noqa: S101 - calls come after the start
        future: asyncio.Future[Answered] = self._bridge.loop.create_future()
        tell = partial(self._tell, self._bridge, future)
        metadata = Metadata.of(context.invocation_metadata())
        call = None
        try:
            call = self._endpoint.begin(
                rpc, raw, metadata, _address(context.peer()), _remaining_ms(context), tell
            )
            self._open[call] = None
            self._endpoint.receive(call, raw)
            return await give(_frames(await future))
        except Aborted as aborted:
            await context.abort(grpc.StatusCode[aborted.name], aborted.text)
            raise
        except BaseException:
            if call is not None:
                call.lost()
            raise
        finally:
            if call is not None:
                self._open.pop(call, None)

    @staticmethod
    def _tell(bridge: Bridge, future: "asyncio.Future[Answered]", answered: Answered) -> None:
        bridge.call(partial(_set, future, answered))

    async def _telemetry(self, _: Any, context: Context) -> None:
        assert self._bridge is not None  # noqa: S101 - as above
        metadata = Metadata.of(context.invocation_metadata())
        if not metadata.client_id:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, "the header x-mq-client-id is blank"
            )
        stream = CommandStream(self._bridge)
        self._streams.add(stream)
        with self._endpoint.door:
            client = self._endpoint.clients.peer(metadata.client_id, _address(context.peer()))
            self._members.opened(client, stream)
        reader = asyncio.ensure_future(self._read(client, stream, metadata, context))
        try:
            while (one := await stream.next()) is not None:
                if isinstance(one, Aborted):
                    await context.abort(grpc.StatusCode[one.name], one.text)
                else:
                    await context.write(one)
        finally:
            self._streams.discard(stream)
            reader.cancel()
            with self._endpoint.door:
                self._members.closed(client, stream)

    async def _read(
        self, client: GrpcClient, stream: CommandStream, metadata: Metadata, context: Context
    ) -> None:
        """Take what a client says until it says no more, or something wrong."""
        try:
            while (raw := await context.read()) is not aio.EOF:
                self._members.told(client, stream, metadata, raw)
        except Aborted as aborted:
            stream.stop(aborted)
        except Exception:
            logger.exception("the stream of client %s failed", metadata.client_id)
            stream.stop(Aborted("INTERNAL", "the command could not be handled"))
        else:
            stream.stop(None)


def _frames(answered: Answered) -> list[bytes]:
    if isinstance(answered, Aborted):
        raise answered
    return answered


async def _first(frames: list[bytes]) -> bytes:
    return frames[0]


def _set(future: "asyncio.Future[Answered]", answered: Answered) -> None:
    if not future.done():
        future.set_result(answered)


def _remaining_ms(context: Context) -> int | None:
    """Give how long a client waits; None for ever."""
    seconds = context.time_remaining()
    return None if seconds is None else int(seconds * 1000)


def _address(peer: str) -> tuple[str, int]:
    """Read who calls: ``ipv4:127.0.0.1:5000``, ``ipv6:%5B::1%5D:5000``."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return host.strip("[]") or "127.0.0.1", int(port) if port.isdecimal() else 0


def _leave_out_polls(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tell what went wrong on the loop, but for a wake-up that another loop has taken first.

    All loops of ``grpc.aio`` in a process are woken by one poller.
    """
    if not isinstance(context.get("exception"), BlockingIOError):
        loop.default_exception_handler(context)
