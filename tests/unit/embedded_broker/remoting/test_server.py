"""TCP: frames in any cut, bad frames, slow and vanishing peers."""

import errno
import gc
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event, Thread, get_ident
from threading import enumerate as threads
from typing import cast

import pytest

from embedded_broker.errors import BrokerStateError
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting import (
    connection_limits,
    endpoint,
    rate_limited_log,
    socket_loop,
    tcp_connection,
    turns,
)
from embedded_broker.remoting import server as server_module
from embedded_broker.remoting.requests import Connection, Handler, Request, SharedBytes
from embedded_broker.remoting.server import TcpServer, listen
from embedded_broker.remoting.socket_loop import SocketLoop
from embedded_broker.remoting.socket_transport import SocketTransport
from embedded_broker.remoting.tcp_connection import WRITE_BUFFER_PAUSE, TcpConnection
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.embedded_broker.peers import RawClient

Dial = Callable[[str], RawClient]
ASK = RequestCode.GET_ROUTEINFO_BY_TOPIC
BIG = RequestCode.PULL_MESSAGE


def echo(request: Request) -> RemotingCommand:
    return request.command.answer(ResponseCode.SUCCESS, ext_fields=request.command.ext_fields)


def big(request: Request) -> RemotingCommand:
    return request.command.answer(ResponseCode.SUCCESS, body=bytes(4_000_000))


class Rig:
    """A core without state behind a real listener."""

    def __init__(self, parts: BrokerParts) -> None:
        self.parts = parts
        parts.endpoint.register(ASK, echo)
        parts.endpoint.register(BIG, big)
        listener = listen("127.0.0.1", 0)
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"
        self.server = TcpServer()
        self.server.add(self.address, listener)
        self.server.serve(self.address, parts.endpoint)
        self.server.start()


@pytest.fixture
def rig(make_parts: Callable[..., BrokerParts], either_loop: str) -> Iterator[Rig]:
    rig = Rig(make_parts())
    yield rig
    rig.server.close()


def test_who_is_being_accepted_while_the_server_closes_is_closed_as_well(rig: Rig) -> None:
    host, _, port = rig.address.rpartition(":")
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(socket.create_connection((host, int(port)), 5))
        rig.server.close()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            gc.collect()
    assert [str(one.message) for one in told] == []


def ask(opaque: int, **fields: str) -> RemotingCommand:
    return RemotingCommand(code=ASK, opaque=opaque, ext_fields=fields)


@pytest.mark.case("W3")
def test_frames_are_found_whatever_the_cut(rig: Rig, dial: Dial) -> None:
    client = dial(rig.address)

    client.send(ask(1), ask(2))
    for byte in ask(3).encode():
        client.write(bytes([byte]))

    assert [client.receive().opaque for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("sizes", [(10, 20, 30), (5000, 6000, 7000), (5000, 10, 9000), (10, 5000)])
def test_answers_that_leave_together_leave_in_their_order(
    rig: Rig, dial: Dial, sizes: tuple[int, ...]
) -> None:
    client = dial(rig.address)
    texts = [str(number) * size for number, size in enumerate(sizes)]
    client.write(b"".join(ask(1, text=text).encode() for text in texts))
    assert [client.receive().ext_fields["text"] for _ in texts] == texts


@pytest.mark.case("W4")
def test_a_frame_over_the_limit_closes_that_connection_and_no_other(rig: Rig, dial: Dial) -> None:
    bad, good = dial(rig.address), dial(rig.address)

    bad.write((16_777_300).to_bytes(4, "big"))

    assert bad.closed_by_server()
    good.send(ask(1))
    assert good.receive().opaque == 1


@pytest.mark.case("W5")
@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x08\x00\x00\x00\x05{}{}",
        b"\x00\x00\x00\x06\x07\x00\x00\x02{}",
        b"\x00\x00\x00\x07\x00\x00\x00\x03{a:",
        b"\xff\xff\xff\xff",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["header-beyond-frame", "unknown-type", "broken-json", "negative", "tls", "http"],
)
def test_bytes_that_are_no_frame_close_the_connection_and_the_broker_lives(
    rig: Rig, dial: Dial, data: bytes
) -> None:
    bad = dial(rig.address)

    bad.write(data)

    assert bad.closed_by_server()
    good = dial(rig.address)
    good.send(ask(1))
    assert good.receive().opaque == 1


@pytest.mark.parametrize(
    "sent",
    [b"\xff\xff\xff\xff", ask(1).encode()[:8] + bytes(len(ask(1).encode()) - 8)],
    ids=["frame", "header"],
)
def test_many_bad_connections_are_one_line_each_second(
    rig: Rig,
    dial: Dial,
    sent: bytes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_ns = 0
    monkeypatch.setattr(rate_limited_log, "monotonic_ns", lambda: now_ns)
    for _ in range(30):
        peer = dial(rig.address)
        peer.write(sent)
        assert peer.closed_by_server()
    now_ns = rate_limited_log.EVERY_NS
    peer = dial(rig.address)
    peer.write(sent)
    assert peer.closed_by_server()
    told = [one.getMessage() for one in caplog.records if "closing" in one.getMessage()]
    assert len(told) == 2
    assert told[1].endswith("; 29 more lines like this were left out since the last one")


def test_requests_before_a_bad_frame_are_still_answered(rig: Rig, dial: Dial) -> None:
    client = dial(rig.address)

    client.write(ask(1).encode() + b"\xff\xff\xff\xff\xff\xff\xff\xff")

    assert client.receive().opaque == 1
    assert client.closed_by_server()


@pytest.mark.case("W8")
def test_an_unknown_code_is_answered_over_the_wire(rig: Rig, dial: Dial) -> None:
    answer = dial(rig.address).ask(9999)

    assert (answer.code, answer.remark) == (3, " request type 9999 not supported")


@pytest.mark.case("W9")
def test_nothing_comes_back_for_a_oneway_request(rig: Rig, dial: Dial) -> None:
    client = dial(rig.address)

    client.send(RemotingCommand(code=9999, opaque=1, flag=2), ask(2))

    assert client.receive().opaque == 2


@pytest.mark.case("W10")
def test_a_response_nobody_waits_for_is_dropped(rig: Rig, dial: Dial) -> None:
    client = dial(rig.address)

    client.send(RemotingCommand(code=ASK, opaque=1, flag=1), ask(2))

    assert client.receive().opaque == 2


def test_a_peer_that_reads_late_gets_everything(rig: Rig, dial: Dial) -> None:
    client = dial(rig.address)
    client.send(*(RemotingCommand(code=BIG, opaque=number) for number in range(8)))
    client.send(ask(99))

    sizes = [len(client.receive().body) for _ in range(8)]

    assert sizes == [4_000_000] * 8
    assert client.receive().opaque == 99


def test_the_core_hears_of_every_connection_and_its_end(rig: Rig, dial: Dial) -> None:
    gone: list[object] = []
    rig.parts.endpoint.on_disconnected.append(gone.append)
    client = dial(rig.address)
    client.ask(ASK)
    (connection,) = rig.parts.endpoint.connections
    assert connection.remote == client.socket.getsockname()
    assert connection.packed_remote[:4] == b"\x7f\x00\x00\x01"

    client.close()
    other = dial(rig.address)
    while not gone:
        other.ask(ASK)

    assert gone == [connection]
    assert connection.closed


def test_a_push_from_another_thread_is_written_by_the_loop(rig: Rig, dial: Dial) -> None:
    client = dial(rig.address)
    client.ask(ASK)
    (connection,) = rig.parts.endpoint.connections

    with rig.parts.door:
        rig.parts.endpoint.push(connection, RemotingCommand(code=40, flag=2))
        rig.parts.endpoint.push(connection, RemotingCommand(code=40, flag=2))
    rig.server.hand_over()

    assert [client.receive().opaque for _ in range(2)] == [1, 2]


def test_the_broker_can_close_a_connection(rig: Rig, dial: Dial) -> None:
    client = dial(rig.address)
    client.ask(ASK)
    (connection,) = rig.parts.endpoint.connections

    connection.close()

    assert client.closed_by_server()


def test_closing_ends_connections_and_the_thread_and_frees_the_port(rig: Rig, dial: Dial) -> None:
    client = dial(rig.address)
    client.ask(ASK)

    rig.server.close()
    rig.server.close()

    assert client.closed_by_server()
    assert not [thread for thread in threads() if thread.name == "embedded-broker-tcp"]
    listen("127.0.0.1", int(rig.address.rpartition(":")[2])).close()


@pytest.mark.parametrize("reset", [False, True])
def test_peers_see_an_end_or_a_reset_as_it_was_asked_for(
    rig: Rig, dial: Dial, *, reset: bool
) -> None:
    client = dial(rig.address)
    client.send(ask(1))
    client.receive()
    rig.server.close(reset=reset)
    if reset:
        with pytest.raises(ConnectionResetError):
            client.socket.recv(1)
    else:
        assert client.socket.recv(1) == b""


def test_a_server_that_cannot_start_says_why_at_once_and_gives_its_listeners_back(
    make_parts: Callable[..., BrokerParts], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket_loop, "make_event_loop", fail)
    server, listener = TcpServer(), listen("127.0.0.1", 0)
    server.add("a", listener)
    server.serve("a", make_parts().endpoint)
    with pytest.raises(BrokerStateError, match="Too many open files"):
        server.start()
    server.close()
    assert listener.fileno() == -1


def test_whoever_is_connected_is_told_when_the_thread_fails(
    rig: Rig, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = [dial(rig.address), dial(rig.address)]
    for client in clients:
        client.send(ask(1))
        client.receive()
    loop = rig.server._loop
    assert loop is not None

    def fail() -> None:
        raise KeyboardInterrupt

    loop._loop.call_soon_threadsafe(fail)
    assert all(client.closed_by_server() for client in clients)
    rig.server.close()
    assert not rig.server._connections
    assert not rig.parts.endpoint.connections


def test_a_connection_that_does_not_end_as_it_should_keeps_no_other_open(
    rig: Rig, dial: Dial
) -> None:
    client = dial(rig.address)
    client.send(ask(1))
    client.receive()
    bad = BadConnection()
    rig.server._connections = {bad: rig.address, **rig.server._connections}
    rig.server.close(reset=True)
    assert bad.tried
    with pytest.raises(ConnectionResetError):
        client.socket.recv(1)


class BadConnection:
    """One whose socket is in a state that nobody thought of."""

    tried = False

    def abort(self) -> None:
        raise AssertionError("it could not be reset")

    def reset_on_close(self) -> None:
        self.tried = True
        raise OSError(errno.EINVAL, "Invalid argument")


def test_a_long_answer_that_cannot_be_written_ends_its_connection_and_no_other(
    rig: Rig, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_piece, failed = TcpConnection.write_piece, list[TcpConnection]()

    def fail_once(connection: TcpConnection) -> bool:
        if not failed:
            failed.append(connection)
        if connection in failed:
            raise RuntimeError("no way to write it")
        return write_piece(connection)

    monkeypatch.setattr(TcpConnection, "write_piece", fail_once)
    first, second = dial(rig.address), dial(rig.address)
    first.send(RemotingCommand(code=BIG, opaque=1))
    assert first.closed_by_server()
    second.send(RemotingCommand(code=BIG, opaque=2))
    assert len(second.receive().body) == 4_000_000


def test_requests_that_fail_in_their_turn_end_their_connection(rig: Rig) -> None:
    transport = Transport()
    rig.server.thread_id, thread_id = get_ident(), rig.server.thread_id
    connection = TcpConnection(rig.server, cast("SocketTransport", transport))

    def fail() -> None:
        raise KeyboardInterrupt

    connection._go_on(fail)
    rig.server.thread_id = thread_id
    assert transport.is_aborted
    assert connection.closed


def test_a_server_that_never_started_gives_its_listeners_back() -> None:
    server = TcpServer()
    listener = listen("127.0.0.1", 0)
    server.add("x", listener)

    server.close()

    assert listener.fileno() == -1


def test_a_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}.*Port 0 takes a free port"):
            listen("127.0.0.1", port)


def test_a_host_that_is_not_this_machine_is_named_without_advice_on_ports() -> None:
    with pytest.raises(ConfigError, match=r"host = '192\.0\.2\.1'.*of this machine") as seen:
        listen("192.0.2.1", 0)
    assert "Port 0" not in str(seen.value)


def test_listening_on_ipv6_works_where_the_machine_has_it() -> None:
    try:
        probe = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 loopback on this machine")
    probe.close()

    with listen("::1", 0) as listener:
        assert listener.getsockname()[0] == "::1"


def test_an_address_comes_and_goes_while_another_goes_on(rig: Rig, dial: Dial) -> None:
    stays = dial(rig.address)
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    address = f"127.0.0.1:{port}"
    for _ in range(2):
        rig.server.add(address, listener)
        rig.server.serve(address, rig.parts.endpoint)
        rig.server.open(address)
        leaves = dial(address)
        leaves.send(ask(1))
        assert leaves.receive().opaque == 1

        rig.server.close_address(address)
        assert len(rig.parts.endpoint.connections) == 1  # who leaves has been heard of
        rig.server.close_address(address)

        assert leaves.closed_by_server()
        stays.send(ask(2))
        assert stays.receive().opaque == 2
        listener = listen("127.0.0.1", port)  # the port is free at once
    listener.close()


def shared(request: Request) -> RemotingCommand:
    answer = request.command.answer(ResponseCode.SUCCESS)
    answer.body_parts = [SHARED]
    return answer


def own(request: Request) -> RemotingCommand:
    return request.command.answer(ResponseCode.SUCCESS, body=bytes(SHARED))


SHARED = SharedBytes(bytes(range(256)) * 8_192)


@pytest.mark.parametrize("answer_long", [shared, own])
def test_a_long_answer_arrives_whole_and_in_order_with_what_comes_behind(
    rig: Rig, dial: Dial, answer_long: Handler
) -> None:
    rig.parts.endpoint.register(BIG, answer_long)
    clients = [dial(rig.address) for _ in range(5)]
    for client in clients:
        client.send(ask(1), RemotingCommand(code=BIG, opaque=2), ask(3), ask(4))

    for client in clients:
        assert [client.receive().opaque for _ in range(1)] == [1]
        answer = client.receive()
        assert (answer.opaque, answer.body) == (2, SHARED)
        assert [client.receive().opaque for _ in range(2)] == [3, 4]
    client = clients[0]
    client.send(ask(5))
    assert client.receive().opaque == 5


def test_many_requests_of_one_client_do_not_hold_up_another(
    rig: Rig, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, sent, seen = Event(), Event(), list[int]()

    def handle(request: Request) -> RemotingCommand:
        seen.append(request.command.opaque)
        if request.command.opaque == 1:
            begun.set()
            assert sent.wait(20)
        return request.command.answer(ResponseCode.SUCCESS)

    monkeypatch.setattr(endpoint, "TURN_NS", 0)
    monkeypatch.setattr(turns, "TURN_NS", 0)
    monkeypatch.setattr(endpoint, "COMMANDS_PER_ENTRY", 4)
    rig.parts.endpoint.register(BIG, handle)
    many, other = dial(rig.address), dial(rig.address)
    many.send(*(RemotingCommand(code=BIG, opaque=number) for number in range(1, 401)))
    assert begun.wait(20)
    other.send(RemotingCommand(code=BIG, opaque=1000))
    many.send(RemotingCommand(code=BIG, opaque=401))
    sent.set()

    assert other.receive().opaque == 1000
    assert [many.receive().opaque for _ in range(401)] == list(range(1, 402))
    assert [one for one in seen if one != 1000] == list(range(1, 402))
    assert seen.index(1000) < 100


def test_a_connection_that_is_closed_behind_a_long_answer_gives_it_before(
    rig: Rig, dial: Dial
) -> None:
    def last(request: Request) -> RemotingCommand:
        rig.parts.door.after(request.connection.close)
        return shared(request)

    rig.parts.endpoint.register(BIG, last)
    client = dial(rig.address)
    client.send(RemotingCommand(code=BIG, opaque=2))

    assert client.receive().body == SHARED
    assert client.closed_by_server()
    assert rig.server.limits.unread == 0


def served(rig: Rig, client: RawClient) -> Connection:
    """The server's side of a client's connection."""
    client.ask(ASK)
    (found,) = (
        one for one in rig.parts.endpoint.connections if one.remote == client.socket.getsockname()
    )
    return found


@pytest.mark.parametrize("buffer_bytes", [65_536, 1_048_576])
def test_a_peer_that_writes_nothing_more_gets_its_long_answers_whole(
    rig: Rig, dial: Dial, buffer_bytes: int
) -> None:
    rig.parts.endpoint.register(BIG, shared)
    client, other = dial(rig.address), dial(rig.address)
    connection = cast("TcpConnection", served(rig, client))
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    server_side = cast("SocketTransport", connection._transport)._socket
    server_side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
    questions = [RemotingCommand(code=BIG, opaque=number) for number in range(8)]
    client.send(*questions)
    client.socket.shutdown(socket.SHUT_WR)
    while not (connection.closed or connection._count_owed()):
        other.ask(ASK)  # the answers of 16 MiB are on their way before the client reads any
    assert [client.receive().body for _ in questions] == [SHARED] * 8
    assert client.closed_by_server()


def test_requests_in_front_of_an_end_are_all_answered_also_those_that_wait_for_their_turn(
    rig: Rig, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = Event()

    def handle(request: Request) -> RemotingCommand:
        if request.command.opaque == 1:
            assert ended.wait(20)
        return request.command.answer(ResponseCode.SUCCESS)

    monkeypatch.setattr(endpoint, "TURN_NS", 0)
    monkeypatch.setattr(turns, "TURN_NS", 0)
    monkeypatch.setattr(endpoint, "COMMANDS_PER_ENTRY", 4)
    rig.parts.endpoint.register(BIG, handle)
    client = dial(rig.address)
    client.send(*(RemotingCommand(code=BIG, opaque=number) for number in range(1, 201)))
    client.socket.shutdown(socket.SHUT_WR)
    ended.set()
    assert [client.receive().opaque for _ in range(200)] == list(range(1, 201))
    assert client.closed_by_server()


def test_who_reads_nothing_of_its_last_answers_is_waited_for_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, transport, loop = TcpServer(), SlowTransport(), SocketLoop()
    later: list[Callable[[], None]] = []
    monkeypatch.setattr(server, "call_later", lambda _, call: later.append(call))
    server.thread_id, server._loop = get_ident(), loop
    connection = TcpConnection(server, cast("SocketTransport", transport))
    connection._write([bytes(100_000)])
    connection.close()
    connection.close()
    loop.stop()
    loop.run()
    loop.close()
    assert len(later) == 1
    transport.left = 50_000  # it reads slowly
    later.pop()()
    fates = [transport.is_aborted]
    later.pop()()
    fates.append(transport.is_aborted)
    assert fates == [False, True]
    assert later == []


def test_who_reads_its_last_answers_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server, transport = TcpServer(), SlowTransport()
    later: list[Callable[[], None]] = []
    monkeypatch.setattr(server, "call_later", lambda _, call: later.append(call))
    connection = TcpConnection(server, cast("SocketTransport", transport))
    connection._write([bytes(100_000)])
    connection._end()
    transport.left = 0
    later.pop()()
    assert (transport.is_aborted, later) == (False, [])


def test_a_connection_that_is_closed_ends_though_its_peer_does_not_read(
    make_parts: Callable[..., BrokerParts], dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_connection, "CLOSING_S", 0.01)
    rig = Rig(make_parts())
    try:
        client, other = dial(rig.address), dial(rig.address)
        connection = served(rig, client)
        client.send(*(RemotingCommand(code=BIG, opaque=number) for number in range(4)))
        client.receive()
        connection.close()
        while connection in rig.parts.endpoint.connections:
            other.send(ask(1))
            other.receive()
        assert rig.server.limits.unread == 0
        assert other.ask(ASK).code == ResponseCode.SUCCESS  # nobody else is ended
    finally:
        rig.server.close()


def test_a_peer_that_goes_in_the_middle_of_a_long_answer_counts_no_more(
    rig: Rig, dial: Dial
) -> None:
    rig.parts.endpoint.register(BIG, shared)
    client, other = dial(rig.address), dial(rig.address)
    client.send(*(RemotingCommand(code=BIG, opaque=number) for number in range(10)))
    client.receive()
    client.close()

    while True:
        other.send(ask(1))
        other.receive()
        if not rig.server.limits.unread:
            break
    assert not rig.server.limits.closed


def test_a_request_that_arrives_in_part_is_counted_until_it_is_whole(rig: Rig, dial: Dial) -> None:
    client, other = dial(rig.address), dial(rig.address)
    data = ask(1, padding="x" * 10_000).encode()
    client.write(data[:-1])
    while rig.server.limits.unfinished != len(data) - 1:
        other.send(ask(2))
        other.receive()

    client.write(data[-1:])
    assert client.receive().opaque == 1
    other.send(ask(2))
    other.receive()
    assert rig.server.limits.unfinished == 0


class Transport:
    """A transport whose peer takes everything at once."""

    left = 0

    remote = local = ("127.0.0.1", 1)
    is_reading = True
    is_aborted = False

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        assert data
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return self.left

    def close(self) -> None:
        """Wait for the peer."""

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True


class SlowTransport(Transport):
    """A transport whose peer reads nothing for now."""

    left = 100_000


def test_answers_leave_when_the_work_that_gives_them_is_done_and_those_before_them_first() -> None:
    server, transport, loop = TcpServer(), Transport(), SocketLoop()
    server.thread_id, server._loop = get_ident(), loop
    connection = TcpConnection(server, cast("SocketTransport", transport))

    def work() -> None:
        Thread(target=connection.deliver, args=([b"first"],)).start()
        while not connection._outbox:
            pass
        connection.deliver([b"sec"])
        connection.deliver([b"ond"])
        assert transport.written == []

    loop.call_soon(work)
    loop.stop()
    loop.run()
    loop.close()
    assert transport.written == [b"first", b"second"]


def test_whoever_has_an_answer_finds_the_broker_through_with_the_request(
    rig: Rig, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, write, seen = rig.parts.door, SocketTransport.write, list[bool]()

    def look(transport: SocketTransport, data: bytes) -> None:
        seen.append(door.delivering or door.held)
        write(transport, data)

    monkeypatch.setattr(SocketTransport, "write", look)
    client = dial(rig.address)
    client.send(ask(1), ask(2))
    assert [client.receive().opaque for _ in range(2)] == [1, 2]
    assert seen
    assert not any(seen)


def test_a_peer_that_takes_all_at_once_may_ask_again() -> None:
    server, transport = TcpServer(), Transport()
    server.thread_id = get_ident()
    connection = TcpConnection(server, cast("SocketTransport", transport))
    connection._write([bytes(WRITE_BUFFER_PAUSE + 1)])
    reading = [transport.is_reading]
    while connection.write_piece():
        pass
    reading.append(transport.is_reading)
    assert reading == [False, True]


def test_memory_is_given_back_a_while_after_much_was_held_up(
    rig: Rig, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Event()
    monkeypatch.setattr(server_module, "give_back_soon", given.set)
    monkeypatch.setattr(server_module, "GIVE_BACK_S", 0.0)
    monkeypatch.setattr(connection_limits, "SPARE", 100_000)
    client, other = dial(rig.address), dial(rig.address)
    client.write(ask(1, padding="x" * 200_000).encode()[:-1])
    while rig.server.limits.unfinished < 100_000:
        other.send(ask(2))
        other.receive()
    assert not given.is_set()
    client.close()
    assert given.wait(20)
