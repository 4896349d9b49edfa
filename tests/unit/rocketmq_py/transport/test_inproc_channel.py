"""Calls into a server of this process, answered on the spot, later, or never."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from rocketmq_py.client.background import Timer
from rocketmq_py.errors import (
    RemotingConnectException,
    RemotingSendRequestException,
    RemotingTimeoutException,
)
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.transport import inproc_channel
from rocketmq_py.transport.channel import Channel
from rocketmq_py.transport.inproc import InprocConnection, LocalClient, Mailbox
from rocketmq_py.transport.inproc_channel import InprocChannel
from tests.client_instances import AskedClient
from tests.unit.rocketmq_py.transport.conftest import begun


class Server:
    """Answers code 1 on the spot, code 2 from another thread, others never."""

    def __init__(self) -> None:
        self.requests: list[RemotingCommand] = []
        self.mailbox: Mailbox | None = None
        self.open = True
        self.threads: list[threading.Thread] = []

    def connect(self, mailbox: Mailbox, *, name: str) -> InprocConnection:
        if not self.open:
            raise ConnectionRefusedError(f"no connections for {name}")
        self.mailbox = mailbox
        return self

    def expect(self, client: LocalClient, *, name: str) -> None:
        """Note nobody."""

    def send(self, data: bytes) -> None:
        if not self.open:
            raise ConnectionResetError("the broker is gone")
        for frame in FrameDecoder().feed(data):
            request = RemotingCommand.decode(frame)
            self.requests.append(request)
            answers = [request.answer(0, body=request.body).encode()]
            if request.code == 1:
                self.push(answers)
            elif request.code == 2:
                thread = threading.Thread(target=self.push, args=(answers,))
                self.threads.append(thread)
                thread.start()

    def push(self, frames: list[bytes]) -> None:
        assert self.mailbox is not None
        self.mailbox.deliver(frames)

    def close(self) -> None:
        self.open = False


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    for thread in made.threads:
        thread.join(30)


@pytest.fixture
def asked() -> list[RemotingCommand]:
    return []


@pytest.fixture
def channel(server: Server, asked: list[RemotingCommand]) -> Iterator[InprocChannel]:
    timer = Timer("test-timer")
    made = connected(server, timer, asked)
    yield made
    made.close()
    timer.close(5)


def connected(
    server: Server,
    timer: Timer,
    asked: list[RemotingCommand],
    client: AskedClient | None = None,
) -> InprocChannel:
    def on_request(_: Channel, request: RemotingCommand) -> None:
        asked.append(request)

    return inproc_channel.connect(
        "127.0.0.1:1",
        server,
        name="me",
        schedule=timer.schedule_after,
        permits=100,
        on_request=on_request,
        on_closed=lambda _: None,
        client=client or AskedClient(),
    )


@pytest.mark.parametrize("code", [1, 2])
def test_answers_on_the_spot_and_from_another_thread_end_the_same_call(
    channel: InprocChannel, code: int
) -> None:
    assert channel.invoke(RemotingCommand(code, body=b"b"), 5_000).body == b"b"
    assert begun(channel, RemotingCommand(code, body=b"f"), 5_000).result(30).body == b"f"
    assert channel.in_flight == 0


def test_who_is_let_go_waits_no_more(channel: InprocChannel) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(RemotingSendRequestException, match="shut down") as caught:
        channel.invoke(RemotingCommand(3), 60_000, stop)
    assert caught.value.request_left
    assert channel.in_flight == 0


def test_no_answer_ends_by_time(channel: InprocChannel) -> None:
    with pytest.raises(RemotingTimeoutException) as waiting:
        channel.invoke(RemotingCommand(3), 20)
    with pytest.raises(RemotingTimeoutException) as later:
        begun(channel, RemotingCommand(3), 20).result(30)
    assert (waiting.value.request_left, later.value.request_left) == (True, True)


def test_requests_of_the_broker_go_to_the_handler_and_are_answered(
    channel: InprocChannel, server: Server, asked: list[RemotingCommand]
) -> None:
    server.push([RemotingCommand(307, opaque=5).encode()])
    channel.reply(asked[0].answer(0))
    assert (server.requests[0].is_response, server.requests[0].opaque) == (True, 5)


def test_oneway_waits_for_nothing(channel: InprocChannel, server: Server) -> None:
    channel.invoke_oneway(RemotingCommand(3, flag=2), 10)
    assert [request.code for request in server.requests] == [3]


def test_the_end_of_the_connection_fails_calls_in_flight(
    channel: InprocChannel, server: Server
) -> None:
    future = begun(channel, RemotingCommand(3), 60_000)
    assert server.mailbox is not None
    server.mailbox.closed()
    with pytest.raises(RemotingSendRequestException, match="server closed it"):
        future.result(30)
    with pytest.raises(RemotingSendRequestException):
        channel.invoke(RemotingCommand(1), 10)


def test_a_hand_over_that_fails_is_a_send_error_and_ends_the_connection(
    channel: InprocChannel, server: Server
) -> None:
    server.open = False
    with pytest.raises(RemotingSendRequestException, match="the broker is gone") as caught:
        channel.invoke(RemotingCommand(1), 10)
    assert not caught.value.request_left
    assert not channel.is_open


def test_frames_that_cannot_be_read_end_the_connection(
    channel: InprocChannel, server: Server
) -> None:
    server.push([b"\xff" * 16])
    assert not channel.is_open


def test_a_refused_connection_is_a_connect_error(server: Server) -> None:
    server.open = False
    with pytest.raises(RemotingConnectException, match="no connections for me"):
        connected(server, Timer("unused"), [])


def test_a_forked_child_forgets_the_server_without_a_word(
    channel: InprocChannel, server: Server
) -> None:
    channel.drop_inherited()
    assert (channel.is_open, server.open) == (False, True)


def test_the_server_can_ask_the_client(server: Server, timer: Timer) -> None:
    client = AskedClient()
    channel = connected(server, timer, [], client)
    assert server.mailbox is not None
    assert server.mailbox.client is client
    channel.close()
