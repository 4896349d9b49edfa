"""The in-process channel: the same frames, without a socket."""

from collections.abc import Callable, Iterator

import pytest

from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.inproc import InprocAdapter, LocalClients
from embedded_broker.remoting.requests import Request
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.transport import inproc as registry
from tests.client_instances import AskedClient

ASK = RequestCode.GET_ROUTEINFO_BY_TOPIC
ADDRESS = "inproc-test.invalid:10911"


class Box:
    """A client's mailbox."""

    def __init__(self) -> None:
        self.answers: list[RemotingCommand] = []
        self.ended = 0
        self.client = AskedClient()

    def deliver(self, frames: list[bytes]) -> None:
        for data in frames:
            self.answers += [RemotingCommand.decode(one) for one in FrameDecoder().feed(data)]

    def closed(self) -> None:
        self.ended += 1


@pytest.fixture
def parts(make_parts: Callable[..., BrokerParts]) -> BrokerParts:
    def echo(request: Request) -> RemotingCommand:
        return request.command.answer(ResponseCode.SUCCESS)

    parts = make_parts()
    parts.endpoint.register(ASK, echo)
    return parts


@pytest.fixture
def adapter(parts: BrokerParts) -> Iterator[InprocAdapter]:
    adapter = InprocAdapter(parts.endpoint, ADDRESS)
    adapter.start()
    yield adapter
    adapter.close()


def connect(box: Box) -> registry.InprocConnection:
    server = registry.lookup(ADDRESS)
    assert server is not None
    return server.connect(box, name="test")


def test_a_client_finds_the_broker_by_its_address_and_is_answered(adapter: InprocAdapter) -> None:
    box = Box()
    connection = connect(box)

    connection.send(RemotingCommand(code=ASK, opaque=3).encode())

    assert [answer.opaque for answer in box.answers] == [3]


def test_frames_may_be_cut_anywhere(adapter: InprocAdapter) -> None:
    box = Box()
    connection = connect(box)
    data = RemotingCommand(code=ASK, opaque=1).encode()

    connection.send(data[:7])
    connection.send(data[7:] + data)

    assert len(box.answers) == 2


@pytest.mark.case("W5")
def test_bytes_that_are_no_frame_end_the_connection(adapter: InprocAdapter) -> None:
    box = Box()
    connection = connect(box)

    connection.send(RemotingCommand(code=ASK, opaque=1).encode() + b"\xff" * 8)

    assert box.ended == 1
    assert [answer.opaque for answer in box.answers] == [1]
    with pytest.raises(ConnectionError):
        connection.send(b"")


def test_a_header_that_cannot_be_decoded_ends_the_connection(adapter: InprocAdapter) -> None:
    box = Box()
    connection = connect(box)

    connection.send(b"\x00\x00\x00\x07\x00\x00\x00\x03{a:")

    assert box.ended == 1


def test_closing_from_either_side_is_heard_once(adapter: InprocAdapter, parts: BrokerParts) -> None:
    box = Box()
    connection = connect(box)
    assert len(parts.endpoint.connections) == 1

    connection.close()
    connection.close()

    assert box.ended == 1
    assert parts.endpoint.connections == set()


def test_the_broker_may_close_from_inside_the_door(
    adapter: InprocAdapter, parts: BrokerParts
) -> None:
    box = Box()
    connect(box)
    (connection,) = parts.endpoint.connections

    with parts.door:
        connection.close()

    assert box.ended == 1
    assert parts.endpoint.connections == set()


def test_a_closed_adapter_is_not_found_and_ends_its_connections(
    adapter: InprocAdapter, parts: BrokerParts
) -> None:
    box = Box()
    connect(box)

    adapter.close()
    adapter.close()

    assert registry.lookup(ADDRESS) is None
    assert box.ended == 1
    with pytest.raises(ConnectionRefusedError):
        adapter.connect(box, name="late")


def test_a_push_goes_to_the_mailbox(adapter: InprocAdapter, parts: BrokerParts) -> None:
    box = Box()
    connect(box)
    (connection,) = parts.endpoint.connections

    with parts.door:
        parts.endpoint.push(connection, RemotingCommand(code=40, flag=2))

    assert [command.code for command in box.answers] == [40]


def test_clients_can_be_asked_whether_they_are_busy_also_after_their_connection_ended(
    parts: BrokerParts,
) -> None:
    clients = LocalClients()
    adapter = InprocAdapter(parts.endpoint, ADDRESS, clients)
    adapter.start()
    box = Box()
    connect(box)
    adapter.close()
    assert clients.busy(()) == []

    box.client.busy = "one message in its listener"

    assert clients.busy(()) == ["client test: one message in its listener"]
    assert clients.busy(["test"]) == []
    box.client.routes = [registry.SubscribedRoute("G", "T", None)]
    assert clients.lacks({}) == [("test", "G", "T")]
    del box
    assert clients.busy(()) == []
