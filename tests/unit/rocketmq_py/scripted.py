"""A server that does what a test says: real sockets on loopback, real frames.

A handler per request code gets the request and the peer it came from. It returns the answer, or
None to answer later (`Peer.send`) or never. Heartbeats and goodbyes are answered by default.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable

from rocketmq_py.protocol.bodies.topics import BrokerData, QueueData, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder

WAIT_S = 10.0


class Peer:
    """One accepted connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._lock = threading.Lock()

    def send(self, *commands: RemotingCommand) -> None:
        with self._lock, contextlib.suppress(OSError):
            self.sock.sendall(b"".join(command.encode() for command in commands))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


Handler = Callable[[RemotingCommand, Peer], RemotingCommand | None]


class ScriptedServer:
    """Listens at once; `close` ends everything.

    `prepare` says what it answers before anybody reaches it: on a port that somebody tries again
    and again, later is too late.
    """

    def __init__(
        self, port: int = 0, prepare: Callable[[ScriptedServer], None] | None = None
    ) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.requests: list[RemotingCommand] = []
        self.peers: list[Peer] = []
        self._handlers: dict[int, Handler] = {}
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._closed = False
        for code in (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT):
            self.on(code, lambda request, _: request.answer(ResponseCode.SUCCESS))
        if prepare is not None:
            prepare(self)
        self._spawn(self._accept)

    def on(self, code: int, handler: Handler) -> None:
        self._handlers[code] = handler

    def answer(self, code: int, result: int, remark: str | None = None) -> None:
        """Answer every request of this code with one response code."""
        self.on(code, lambda request, _: request.answer(result, remark))

    def silent(self, code: int) -> None:
        self.on(code, lambda *_: None)

    def of(self, code: int) -> list[RemotingCommand]:
        """What was asked so far with this code."""
        return [request for request in list(self.requests) if request.code == code]

    def wait_for(self, code: int, count: int = 1) -> list[RemotingCommand]:
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self.of(code)) >= count, WAIT_S)
        assert arrived, f"{count} x {code} wanted, seen {[r.code for r in self.requests]}"
        return self.of(code)

    def drop_peers(self) -> None:
        """Close every connection, keep listening."""
        for peer in self.peers:
            peer.close()
        self.peers.clear()

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_peers()
        for thread in self._threads:
            thread.join(WAIT_S)

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = Peer(sock)
            self.peers.append(peer)
            if self._closed:
                peer.close()
            self._spawn(self._serve, peer)

    def _serve(self, peer: Peer) -> None:
        decoder = FrameDecoder()
        with peer.sock:
            while True:
                try:
                    data = peer.sock.recv(65_536)
                except OSError:
                    return
                if not data:
                    return
                for frame in decoder.feed(data):
                    self._handle(RemotingCommand.decode(frame), peer)

    def _handle(self, request: RemotingCommand, peer: Peer) -> None:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        handler = self._handlers.get(request.code)
        answer = None
        if handler is not None:
            answer = handler(request, peer)
        elif not request.is_oneway and not request.is_response:
            answer = request.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not scripted")
        if answer is not None and not request.is_oneway:
            peer.send(answer)


def route_of(brokers: Iterable[tuple[str, str]], queues: int = 4, perm: int = 6) -> TopicRouteData:
    """A route over (broker name, address)."""
    pairs = list(brokers)
    return TopicRouteData(
        queue_datas=[QueueData(name, queues, queues, perm) for name, _ in pairs],
        broker_datas=[BrokerData("c", name, {0: address}) for name, address in pairs],
    )


def name_server(brokers: Iterable[tuple[str, str]]) -> ScriptedServer:
    """A name server that says of every topic that these brokers (name, address) have it."""
    body = route_of(brokers).encode(standard=True)
    server = ScriptedServer()
    server.on(
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        lambda request, _: request.answer(ResponseCode.SUCCESS, body=body),
    )
    return server


def stored(request: RemotingCommand, code: int = 0, **more: str) -> RemotingCommand:
    """The answer of a broker that has taken the message."""
    fields = {
        "msgId": "7F00000100002A9F00000000000000ED",
        "queueId": request.ext_fields["e"],
        "queueOffset": "7",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        **more,
    }
    return request.answer(code, ext_fields=fields)


class ScriptedCluster:
    """A name server and brokers; every topic in `routes` is known, brokers store what comes."""

    def __init__(self, brokers: int = 1) -> None:
        self.name_server = ScriptedServer()
        self.brokers = [ScriptedServer() for _ in range(brokers)]
        self.names = [f"broker-{'abcdef'[number]}" for number in range(brokers)]
        self.routes: dict[str, TopicRouteData] = {"T": self.whole_route()}
        self.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, self._route)
        for broker in self.brokers:
            for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
                broker.on(code, lambda request, _: stored(request))

    @property
    def namesrv_addr(self) -> str:
        return self.name_server.address

    def whole_route(self, queues: int = 4) -> TopicRouteData:
        pairs = zip(self.names, (broker.address for broker in self.brokers), strict=True)
        return route_of(pairs, queues)

    def sends(self) -> list[RemotingCommand]:
        """Every single message that any broker got, by broker."""
        code = RequestCode.SEND_MESSAGE_V2
        return [request for broker in self.brokers for request in broker.of(code)]

    def close(self) -> None:
        for server in (self.name_server, *self.brokers):
            server.close()

    def _route(self, request: RemotingCommand, _: Peer) -> RemotingCommand:
        topic = request.ext_fields["topic"]
        route = self.routes.get(topic)
        if route is None:
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, f"No topic route: {topic}")
        return request.answer(ResponseCode.SUCCESS, body=route.encode(standard=True))
