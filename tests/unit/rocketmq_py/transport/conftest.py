"""A scripted server, and channels to it that are cleaned up."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from rocketmq_py.client.background import Timer
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.transport import tcp
from rocketmq_py.transport.calls import BYTES_MAX
from rocketmq_py.transport.channel import Channel, future_of
from rocketmq_py.transport.io_thread import IoThread
from tests.unit.rocketmq_py.scripted import ScriptedServer

ChannelMaker = Callable[..., tcp.TcpChannel]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()
    yield scripted
    scripted.close()


@pytest.fixture
def timer() -> Iterator[Timer]:
    made = Timer("test-timer")
    yield made
    made.close(5)


@pytest.fixture(params=["epoll", "portable"])
def connect(
    request: pytest.FixtureRequest, server: ScriptedServer, timer: Timer
) -> Iterator[ChannelMaker]:
    """Open channels to the server, watched by either kind of I/O thread."""
    io = IoThread("test-io", portable=request.param == "portable")
    made: list[tcp.TcpChannel] = []

    def ignore(_channel: Channel, _command: RemotingCommand) -> None:
        return

    def forget(_channel: Channel) -> None:
        return

    def make(
        *,
        permits: int = 65_535,
        bytes_max: int = BYTES_MAX,
        on_request: Callable[[Channel, RemotingCommand], None] = ignore,
        on_closed: Callable[[Channel], None] = forget,
    ) -> tcp.TcpChannel:
        channel = tcp.over(
            socket.create_connection(("127.0.0.1", server.port)),
            server.address,
            io_thread=io,
            schedule=timer.schedule_after,
            permits=permits,
            bytes_max=bytes_max,
            on_request=on_request,
            on_closed=on_closed,
        )
        made.append(channel)
        return channel

    yield make
    for channel in made:
        channel.close()
    io.close(5)


def begun(channel: Channel, command: RemotingCommand, timeout_ms: float) -> Future[RemotingCommand]:
    """Call without waiting; the future ends by answer, error or time."""
    return future_of(lambda done: channel.begin(command, timeout_ms, done))
