"""The network between clients and brokers, and the name server: a process that no fault ends.

`python -m tests.soak.network NAME=PORT:BROKER_PORT ...` listens at each PORT and carries bytes from
and to BROKER_PORT. It prints the address of its name server, whose routes lead here, and obeys
lines of `NAME MODE SECONDS`. It is a process of its own, so that what it does is not measured as
the clients', and no broker's: those die. `Network` starts it and gives the orders.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Coroutine, Mapping

from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.names import is_retry_topic
from tests.pages import ROOT
from tests.unit.rocketmq_py.scripted import Peer, ScriptedServer, route_of

HOST = "127.0.0.1"
BACKLOG = 128
CUT_DELAY_S = 0.05
CUT_AFTER_S = 0.5
"""Of a network that cuts connections: how long one lives, and how long bytes are under way."""
FILLERS = 4
"""More connects than a listener without a queue takes."""


class Relay:
    """The way to one broker. `mode` says what happens to bytes and connects."""

    def __init__(self, name: str, port: int, broker_port: int) -> None:
        self.name, self.port, self.broker_port = name, port, broker_port
        self.mode = "clear"
        self._delay_s = 0.0
        self._flows = asyncio.Event()
        self._pumps: dict[asyncio.Task[None], None] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._fillers: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    def become(self, mode: str, seconds: float) -> None:
        """Take a mode: clear, slow, cut (again and again), gone (refuses connects) or hole."""
        self.mode = mode
        self._delay_s = {"slow": seconds, "cut": CUT_DELAY_S}.get(mode, 0.0)
        if mode in {"cut", "gone"}:
            for writer in self._writers:
                writer.transport.abort()
        if mode in {"hole", "gone"} and self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
        if mode == "gone" and self._listener is not None:
            self._listener.close()
            self._listener = None
        if mode == "hole":
            self._flows.clear()
            self._fill()
        elif mode != "gone":
            self._flows.set()
            self._let_in()

    def _let_in(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server((HOST, self.port))
            self._listener.setblocking(False)
        self._listener.listen(BACKLOG)
        while self._fillers:
            self._fillers.pop().close()
        if self._accepting is None:
            self._accepting = asyncio.create_task(self._accept(self._listener))

    def _fill(self) -> None:
        """Let the kernel drop whoever knocks: the queue of connects is full."""
        assert self._listener is not None
        self._listener.listen(0)
        for _ in range(FILLERS):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((HOST, self.port))
            self._fillers.append(filler)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            self._spawn(self._connect(sock))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._pumps[task] = None
        task.add_done_callback(self._pumps.pop)

    async def _connect(self, sock: socket.socket) -> None:
        from_client, to_client = await asyncio.open_connection(sock=sock)
        try:
            from_broker, to_broker = await asyncio.open_connection(HOST, self.broker_port)
        except OSError:
            to_client.transport.abort()
            return
        if self.mode == "cut":
            asyncio.get_running_loop().call_later(CUT_AFTER_S, to_client.transport.abort)
        self._spawn(self._pump(from_client, to_broker, to_client))
        await self._pump(from_broker, to_client, to_broker)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        self._writers.add(sink)
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65_536):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        sink.transport.abort()
        back.transport.abort()
        self._writers.discard(sink)


def name_server(relays: Mapping[str, Relay], topic: str) -> ScriptedServer:
    """A name server that knows the brokers whose connections it still has, as a real one does."""
    server = ScriptedServer()

    def route(request: RemotingCommand, _: Peer) -> RemotingCommand:
        asked = request.ext_fields["topic"]
        if asked != topic and not is_retry_topic(asked):
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, f"No topic route: {asked}")
        pairs = [(o.name, f"{HOST}:{o.port}") for o in relays.values() if o.mode != "gone"]
        body = route_of(pairs, 4 if asked == topic else 1).encode(standard=True)
        return request.answer(ResponseCode.SUCCESS, body=body)

    server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, route)
    return server


async def obey(topic: str, *ways: str) -> None:
    """Serve until standard input ends."""
    relays: dict[str, Relay] = {}
    for way in ways:
        name, _, ports = way.partition("=")
        relays[name] = Relay(name, *map(int, ports.split(":")))
        relays[name].become("clear", 0)
    names = name_server(relays, topic)
    print(names.address, flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        name, mode, seconds = line.split()
        relays[name].become(mode, float(seconds))
        print("done", flush=True)
    names.close()


class Network:
    """The process, for who gives the orders."""

    def __init__(self, topic: str, ways: Mapping[str, tuple[int, int]]) -> None:
        named = [f"{name}={port}:{broker_port}" for name, (port, broker_port) in ways.items()]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.network", topic, *named],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.namesrv_addr = self._said()

    def become(self, name: str, mode: str, seconds: float = 0.0) -> None:
        """Change the way to a broker; it is done when this returns."""
        assert self._process.stdin is not None
        print(name, mode, seconds, file=self._process.stdin, flush=True)
        assert self._said() == "done"

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=10)

    def _said(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the network's process has ended"
        return line


if __name__ == "__main__":
    asyncio.run(obey(*sys.argv[1:]))
