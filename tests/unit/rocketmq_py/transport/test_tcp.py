"""Pairing, waiting and ending of calls over real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, cast

import pytest

from rocketmq_py.client.background import Timer
from rocketmq_py.errors import (
    RemotingSendRequestException,
    RemotingTimeoutException,
    RemotingTooMuchRequestException,
)
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.transport import tcp
from rocketmq_py.transport.calls import CallTable, Done
from rocketmq_py.transport.channel import Channel
from rocketmq_py.transport.io_thread import IoThread
from tests.socket_buffers import bound_buffers
from tests.unit.rocketmq_py.scripted import Peer, ScriptedServer
from tests.unit.rocketmq_py.transport.conftest import ChannelMaker, begun

ECHO = 9001
HELD = 9002
SILENT = 9003
DEAF = 9004
LARGE = bytes(2_000_000)


def echo(request: RemotingCommand, _: Peer) -> RemotingCommand:
    return request.answer(0, ext_fields=dict(request.ext_fields), body=request.body)


class Holding:
    """Keeps requests until the test lets them go, in the order it wants."""

    def __init__(self, server: ScriptedServer) -> None:
        self.held: list[tuple[RemotingCommand, Peer]] = []
        server.on(HELD, self.hold)

    def hold(self, request: RemotingCommand, peer: Peer) -> None:
        self.held.append((request, peer))

    def release(self, order: Iterable[int]) -> None:
        for number in order:
            request, peer = self.held[number]
            peer.send(request.answer(0, body=request.body))


def command(code: int, body: bytes = b"") -> RemotingCommand:
    return RemotingCommand(code, body=body)


def test_a_call_alone_on_its_connection_gets_its_answer(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.on(ECHO, echo)
    channel = connect()
    bodies = [channel.invoke(command(ECHO, b"%d" % n), 3_000).body for n in range(50)]
    assert bodies == [b"%d" % n for n in range(50)]
    assert channel.in_flight == 0


def test_many_threads_share_a_connection_without_mixing_answers(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.on(ECHO, echo)
    channel = connect()

    def call(number: int) -> bool:
        body = b"%d" % number
        return channel.invoke(command(ECHO, body), 5_000).body == body

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(400)))


def test_many_calls_go_out_together_and_each_gets_its_own_outcome(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.on(ECHO, echo)
    holding = Holding(server)
    channel = connect()
    found: SimpleQueue[tuple[int, bytes | Exception | None]] = SimpleQueue()

    def done(number: int) -> Done:
        return lambda answer, error: found.put((number, answer.body if answer else error))

    commands = [command(HELD if number == 2 else ECHO, b"%d" % number) for number in range(5)]
    channel.begin_many(commands, 300, [done(number) for number in range(5)])
    server.wait_for(HELD, 1)
    outcomes = dict(found.get(timeout=30) for _ in range(5))
    assert isinstance(outcomes.pop(2), RemotingTimeoutException)
    assert outcomes == {number: b"%d" % number for number in (0, 1, 3, 4)}
    assert (channel.in_flight, len(holding.held)) == (0, 1)
    channel.close()
    with pytest.raises(RemotingSendRequestException):
        channel.begin_many([command(ECHO)], 300, [done(9)])
    assert found.empty()


def test_a_connection_that_ends_ends_all_of_many_calls(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.on(HELD, lambda _request, peer: peer.close())
    channel = connect()
    errors: SimpleQueue[Exception | None] = SimpleQueue()
    dones: list[Done] = [lambda _answer, error: errors.put(error)] * 3
    channel.begin_many([command(HELD) for _ in range(3)], 5_000, dones)
    found = [errors.get(timeout=30) for _ in range(3)]
    assert all(isinstance(error, RemotingSendRequestException) for error in found)


@pytest.mark.case("W16")
def test_answers_in_reverse_order_reach_their_own_futures(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    holding = Holding(server)
    channel = connect()
    futures = [begun(channel, command(HELD, b"%d" % n), 5_000) for n in range(3)]
    server.wait_for(HELD, 3)
    holding.release(reversed(range(3)))
    assert [future.result(30).body for future in futures] == [b"0", b"1", b"2"]


@pytest.mark.case("W15")
def test_a_broker_request_with_our_own_opaque_does_not_end_our_call(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    pushed: list[RemotingCommand] = []
    channel = connect(on_request=lambda _, request: pushed.append(request))

    def heartbeat(request: RemotingCommand, peer: Peer) -> RemotingCommand:
        code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        peer.send(RemotingCommand(code, opaque=request.opaque, ext_fields={"consumerGroup": "G"}))
        return request.answer(0, "the answer of 34")

    server.on(RequestCode.HEART_BEAT, heartbeat)
    beat = command(RequestCode.HEART_BEAT)
    answer = channel.invoke(beat, 3_000)
    assert answer.remark == "the answer of 34"
    assert [(p.code, p.opaque) for p in pushed] == [(40, beat.opaque)]


@pytest.mark.case("W17")
def test_a_closing_peer_fails_every_call_in_flight_at_once(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    closed = threading.Event()
    server.silent(SILENT)
    channel = connect(on_closed=lambda _: closed.set())
    # Their time is longer than a test may take: they end by the close.
    futures = [begun(channel, command(SILENT), 600_000) for _ in range(4)]
    with ThreadPoolExecutor(1) as pool:
        blocking = pool.submit(channel.invoke, command(SILENT), 600_000)
        server.wait_for(SILENT, 5)
        server.drop_peers()
        for future in [*futures, blocking]:
            with pytest.raises(RemotingSendRequestException, match=r"127\.0\.0\.1"):
                future.result(10)
    assert closed.wait(30)
    assert not channel.is_open


def test_a_lonely_caller_notices_the_closing_peer(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.on(SILENT, lambda _, peer: peer.close())
    with pytest.raises(RemotingSendRequestException, match="server closed it"):
        connect().invoke(command(SILENT), 60_000)


def test_a_caller_that_is_let_go_leaves_the_connection_to_the_others(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    """It reads itself here, unless the platform cannot take a socket out of the watch."""
    server.silent(SILENT)
    server.on(ECHO, echo)
    channel, stop = connect(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(channel.invoke, command(SILENT), 60_000, stop)
        server.wait_for(SILENT)
        assert channel.invoke(command(ECHO, b"other"), 5_000).body == b"other"
        stop.set()
        with pytest.raises(RemotingSendRequestException, match="shut down") as caught:
            call.result(10)
    assert caught.value.request_left
    assert channel.in_flight == 0
    assert channel.invoke(command(ECHO, b"next"), 5_000).body == b"next"


@pytest.mark.case("W11")
def test_a_late_answer_is_dropped_and_the_next_call_is_fine(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    holding = Holding(server)
    server.on(ECHO, echo)
    channel = connect()
    with pytest.raises(RemotingTimeoutException, match="within 50 ms"):
        channel.invoke(command(HELD, b"late"), 50)
    assert channel.in_flight == 0
    server.wait_for(HELD)
    holding.release(range(1))
    assert channel.invoke(command(ECHO, b"next"), 3_000).body == b"next"


def test_an_asynchronous_call_ends_by_its_own_time_limit(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.silent(SILENT)
    channel = connect()
    with pytest.raises(RemotingTimeoutException):
        begun(channel, command(SILENT), 30).result(10)
    assert channel.in_flight == 0


def test_a_caller_behind_another_call_times_out_too(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.silent(SILENT)
    channel = connect()
    begun(channel, command(SILENT), 60_000)
    with pytest.raises(RemotingTimeoutException):
        channel.invoke(command(SILENT), 30)
    assert channel.in_flight == 1


def test_calls_beyond_the_permits_are_refused_at_once(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.silent(SILENT)
    channel = connect(permits=2)
    for _ in range(2):
        begun(channel, command(SILENT), 60_000)
    with pytest.raises(RemotingTooMuchRequestException, match="client_async_permits"):
        begun(channel, command(SILENT), 60_000).result(1)


def test_a_frame_larger_than_the_send_buffer_arrives_whole_and_so_does_its_answer(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.on(ECHO, echo)
    channel = connect()
    body = bytes(range(256)) * 40_000
    assert channel.invoke(command(ECHO, body), 20_000).body == body
    assert channel.invoke(command(ECHO, b"small"), 3_000).body == b"small"


class Deaf:
    """A server that takes no byte of a connection until it is told to."""

    def __init__(self, server: ScriptedServer, connect: ChannelMaker, **options: int) -> None:
        self._hears = threading.Event()
        server.on(DEAF, self._wait)
        server.on(ECHO, echo)
        self.channel = connect(**options)
        self.channel.invoke_oneway(command(DEAF), 1_000)
        server.wait_for(DEAF)
        bound_buffers(cast("socket.socket", self.channel._sock))

    def _wait(self, _request: RemotingCommand, peer: Peer) -> None:
        bound_buffers(peer.sock)
        self._hears.wait(10)

    def hear(self) -> None:
        self._hears.set()

    def fill(self) -> list[Future[RemotingCommand]]:
        """Begin calls with more bytes than the buffers of both systems take: the first leaves."""
        calls = [begun(self.channel, command(ECHO, b"first"), 60_000)]
        while not self.channel._outbox.size:
            calls.append(begun(self.channel, command(ECHO, LARGE), 60_000))
        return calls


def test_a_server_that_does_not_read_holds_up_nobody_who_begins_a_call(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    deaf = Deaf(server, connect)
    calls = [begun(deaf.channel, command(ECHO, LARGE), 2_000) for _ in range(12)]
    assert not any(call.done() for call in calls)
    deaf.hear()
    assert {call.result(10).body for call in calls} == {LARGE}


def test_bytes_in_flight_are_bounded_and_there_is_room_again_after_the_answers(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    deaf = Deaf(server, connect, bytes_max=3 * len(LARGE))
    calls = [begun(deaf.channel, command(ECHO, LARGE), 60_000) for _ in range(3)]
    refused = begun(deaf.channel, command(ECHO, LARGE), 60_000)
    with pytest.raises(RemotingTooMuchRequestException, match="client_async_bytes") as caught:
        refused.result(1)
    assert not caught.value.request_left
    with pytest.raises(RemotingTooMuchRequestException, match="client_async_bytes"):
        deaf.channel.begin_many([command(ECHO, LARGE)], 60_000, [lambda *_: None])
    deaf.hear()
    assert [call.result(10).code for call in calls] == [0] * 3
    assert begun(deaf.channel, command(ECHO, LARGE), 60_000).result(10).code == 0


def test_an_error_says_whether_its_request_has_left(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    deaf = Deaf(server, connect)
    calls = deaf.fill()
    behind = begun(deaf.channel, command(ECHO, b"small"), 1)
    with pytest.raises(RemotingTimeoutException, match="not even written") as unwritten:
        behind.result(30)
    assert not unwritten.value.request_left
    with pytest.raises(RemotingTimeoutException) as lonely:
        deaf.channel.invoke(command(ECHO), 1)
    assert not lonely.value.request_left
    deaf.channel.close()
    found = []
    for call in calls:
        error = call.exception(30)
        assert isinstance(error, RemotingSendRequestException)
        found.append(error.request_left)
    deaf.hear()
    assert (found[0], found[-1]) == (True, False)


def test_what_timed_out_before_it_was_written_never_reaches_the_server(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    deaf = Deaf(server, connect)
    calls = deaf.fill()
    for _ in range(3):
        with pytest.raises(RemotingTimeoutException):
            begun(deaf.channel, command(ECHO, b"too late"), 1).result(30)
    last = begun(deaf.channel, command(ECHO, b"in time"), 60_000)
    deaf.hear()
    assert last.result(10).body == b"in time"
    assert len(server.of(ECHO)) == len(calls) + 1


def test_a_request_without_answer_waits_until_it_is_written_or_for_nothing(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    deaf = Deaf(server, connect)
    deaf.fill()
    with pytest.raises(RemotingTimeoutException, match="not even written"):
        deaf.channel.invoke_oneway(command(SILENT), 1)
    deaf.channel.invoke_oneway(command(HELD), 0)
    writer = threading.Thread(target=deaf.channel.invoke_oneway, args=(command(HELD), 10_000))
    writer.start()
    deaf.hear()
    writer.join(10)
    assert not writer.is_alive()
    server.wait_for(HELD, 2)
    assert server.of(SILENT) == []


def test_oneway_requests_are_written_and_wait_for_nothing(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    channel = connect()
    request = command(ECHO)
    request.flag = 2
    channel.invoke_oneway(request, 1_000)
    assert server.wait_for(ECHO)[0].is_oneway
    assert channel.in_flight == 0


def test_a_reply_to_a_broker_request_carries_its_opaque(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.on(ECHO, echo)

    def answer(channel: Channel, request: RemotingCommand) -> None:
        channel.reply(request.answer(0, "ours"))

    channel = connect(on_request=answer)
    channel.invoke(command(ECHO), 1_000)
    server.peers[0].send(RemotingCommand(307, opaque=4711))
    reply = server.wait_for(0)[0]
    assert (reply.is_response, reply.opaque, reply.remark) == (True, 4711, "ours")


def test_bytes_that_are_no_frame_end_the_connection(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.on(SILENT, lambda _, peer: peer.sock.sendall(b"\xff" * 16))
    channel = connect()
    with pytest.raises(RemotingSendRequestException, match="cannot be read"):
        channel.invoke(command(SILENT), 5_000)
    assert not channel.is_open


def test_a_closed_channel_refuses_calls_and_closes_twice_in_peace(connect: ChannelMaker) -> None:
    channel = connect()
    channel.close()
    channel.close()
    with pytest.raises(RemotingSendRequestException, match="closed"):
        channel.invoke(command(ECHO), 1_000)
    with pytest.raises(RemotingSendRequestException):
        channel.invoke_oneway(command(ECHO), 1_000)
    with pytest.raises(RemotingSendRequestException):
        channel.reply(command(ECHO))


def test_closing_while_a_caller_reads_wakes_the_caller(
    server: ScriptedServer, connect: ChannelMaker
) -> None:
    server.silent(SILENT)
    channel = connect()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(channel.invoke, command(SILENT), 60_000)
        server.wait_for(SILENT)
        channel.close()
        with pytest.raises(RemotingSendRequestException):
            waiting.result(10)


def test_an_interrupted_caller_leaves_the_connection_usable(
    server: ScriptedServer, connect: ChannelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.silent(SILENT)
    server.on(ECHO, echo)
    channel = connect()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tcp.TcpChannel, "_read_own", interrupt)
        patched.setattr(CallTable, "outcome", interrupt)
        with pytest.raises(KeyboardInterrupt):
            channel.invoke(command(SILENT), 60_000)
    assert channel.invoke(command(ECHO, b"x"), 3_000).body == b"x"


def test_a_caller_is_alone_again_after_its_answer_came_through_the_io_thread(
    server: ScriptedServer, timer: Timer
) -> None:
    """Else one asynchronous call would make every later blocking call take the slow way."""
    holding = Holding(server)
    server.on(ECHO, echo)
    io = IoThread("test-io")
    channel = tcp.over(
        socket.create_connection(("127.0.0.1", server.port)),
        server.address,
        io_thread=io,
        schedule=timer.schedule_after,
        permits=10,
        bytes_max=1_000,
        on_request=lambda *_: None,
        on_closed=lambda _: None,
    )
    future = begun(channel, command(HELD), 5_000)
    channel.invoke(command(ECHO), 5_000)  # not alone: the I/O thread reads its answer
    holding.release(range(1))
    future.result(30)
    readers: list[object] = []
    read_own = channel._read_own

    def spy(*arguments: Any) -> None:
        readers.append(channel._reader.name)
        read_own(*arguments)

    channel._read_own = spy  # type: ignore[method-assign,assignment] # to see who reads
    for _ in range(20):
        channel.invoke(command(ECHO), 5_000)
    channel.close()
    io.close(5)
    assert readers == ["CALLER"] * 20
