"""Peers of a broker in tests: one that keeps what it gets, and a raw TCP client."""

from pathlib import Path

from embedded_broker.core.guards import Caller, Guards
from embedded_broker.remoting.requests import Connection
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame, FrameDecoder
from tests.unit.embedded_broker.socket_peer import SocketPeer


class Peer(Connection):
    """A connection that keeps its answers, decoded."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__((host, 40_000), ("127.0.0.1", 10_911))
        self.answers: list[RemotingCommand] = []
        self.frames: list[Frame] = []

    def deliver(self, frames: list[bytes]) -> None:
        for data in frames:
            for frame in FrameDecoder().feed(data):
                self.frames.append(frame)
                self.answers.append(RemotingCommand.decode(frame))

    def close(self) -> None:
        self.closed = True


OWNER = Caller(Guards(), Peer())
"""Somebody who may do everything: nobody guards the broker."""


class RawClient(SocketPeer):
    """A socket that speaks frames and nothing else."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.decoder = FrameDecoder()
        self.arrived: list[Frame] = []

    def send(self, *commands: RemotingCommand) -> None:
        self.write(b"".join(command.encode() for command in commands))

    def frame(self) -> Frame:
        """The next frame; ``ConnectionError`` when the server closes first."""
        while not self.arrived:
            self.arrived += self.decoder.feed(self.read())
        return self.arrived.pop(0)

    def receive(self) -> RemotingCommand:
        return RemotingCommand.decode(self.frame())

    def ask(self, code: int, body: bytes = b"", **fields: str) -> RemotingCommand:
        """One request and the answer that carries its opaque; pushes before it are dropped."""
        request = RemotingCommand(code=code, opaque=77, ext_fields=fields, body=body)
        self.send(request)
        while True:
            answer = self.receive()
            if answer.is_response and answer.opaque == 77:
                return answer

    def route(self, topic: str = "TBW102") -> RemotingCommand:
        return self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)

    def closed_by_server(self) -> bool:
        """Whether the server ends the connection without another byte."""
        try:
            return self.socket.recv(65_536) == b""
        except ConnectionResetError:
            return True


def open_files() -> set[str]:
    """What this process has open: files, sockets, everything."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{entry.name}:{entry.readlink()}")
        except OSError:  # the descriptor of the listing itself
            continue
    return found
