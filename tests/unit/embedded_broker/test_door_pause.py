"""A paused broker: it accepts connections, says nothing, and then goes on."""

import socket
from collections.abc import Callable, Iterator

import pytest

from embedded_broker import BrokerStateError, EmbeddedBroker, VirtualClock
from embedded_broker.door import HELD_BYTES_MAX, Pause
from rocketmq_py import DefaultMQProducer, Message, RemotingTooMuchRequestException
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.frame import Frame
from tests.unit.embedded_broker.peers import Peer, RawClient
from tests.unit.embedded_broker.wire_peer import WirePeer, pull_fields

GUARD_S = 30.0


Waiting = tuple[EmbeddedBroker, socket.socket, int]


@pytest.fixture
def broker_and_pull() -> Iterator[Waiting]:
    """A broker with a pull that waits, and the socket on which its answer will come."""
    with EmbeddedBroker(topics=["T"], inproc=False) as broker, WirePeer(broker.addr) as peer:
        fields = pull_fields("T", 0, sysFlag="6", suspendTimeoutMillis="60000")
        opaque = peer.post(RequestCode.PULL_MESSAGE, fields)
        broker.wait_for(lambda b: len(b._parts().consume.waiters) == 1, timeout=GUARD_S)
        yield broker, peer.socket, opaque


@pytest.mark.case("K22")
@pytest.mark.parametrize("inproc", [True, False])
def test_a_send_to_a_paused_broker_times_out_and_its_late_answer_does_no_harm(
    inproc: bool,
) -> None:
    with (
        EmbeddedBroker(topics=["T"], inproc=inproc) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        producer.send(Message("T", b"before"))
        broker.pause()

        with pytest.raises(RemotingTooMuchRequestException, match="no answer"):
            producer.send(Message("T", b"while paused"), timeout=300)
        assert broker.topics["T"].count() == 1  # nothing was handled
        broker.resume()

        result = producer.send(Message("T", b"after"))
        assert result.msg_id
        bodies = [message.body for message in broker.messages.in_topic("T")]
        assert bodies == [b"before", b"while paused", b"after"]


def test_connections_are_accepted_and_requests_answered_in_order_after_the_pause(
    dial: Callable[[str], RawClient],
) -> None:
    with EmbeddedBroker(topics=["T"]) as broker:
        broker.pause()
        client = dial(broker.addr)
        client.socket.settimeout(0.05)
        with pytest.raises(socket.timeout):
            client.ask(9999)
        with pytest.raises(socket.timeout):
            client.ask(9998)

        broker.resume()

        client.socket.settimeout(GUARD_S)
        assert [client.receive().remark, client.receive().remark] == [
            " request type 9999 not supported",
            " request type 9998 not supported",
        ]


def test_the_tests_own_calls_and_the_clock_go_on_and_deliveries_wait(
    dial: Callable[[str], RawClient],
) -> None:
    clock = VirtualClock()
    with EmbeddedBroker(topics=["T"], clock=clock) as broker:
        broker.pause()
        broker.pause()
        broker.send("T", b"own", delay=5)
        clock.advance(5)

        assert broker.topics["T"].count() == 1
        assert clock.settle(0, check=False).busy == ("broker broker-a is paused: call resume()",)
        broker.resume()
        broker.resume()
        assert clock.settle(GUARD_S).ok
        assert dial(broker.addr).ask(9999).code == 3


def test_a_message_for_a_waiting_pull_leaves_after_the_pause(broker_and_pull: Waiting) -> None:
    broker, peer, opaque = broker_and_pull
    broker.pause()
    broker.send("T", b"for the one who waits", queue=0)
    peer.settimeout(0.1)
    with pytest.raises(TimeoutError):
        peer.recv(1)

    broker.resume()

    peer.settimeout(GUARD_S)
    assert peer.recv(1)
    assert opaque


def test_a_broker_that_does_not_run_cannot_be_paused() -> None:
    with pytest.raises(BrokerStateError, match=r"call start\(\)"):
        EmbeddedBroker(tcp=False).pause()


def test_what_waits_is_bounded_and_what_comes_from_a_closed_peer_is_dropped() -> None:
    pause, handled = Pause(), list[str]()
    gone, greedy, patient = Peer(), Peer(), Peer()
    small, large = [Frame(0, b"", b"x")], [Frame(0, b"", bytes(HELD_BYTES_MAX))]
    assert not pause.keep(patient, small, lambda: handled.append("too early"))
    pause.begin()
    assert pause.keep(patient, small, lambda: handled.append("patient"))
    assert pause.keep(gone, small, lambda: handled.append("gone"))
    assert pause.keep(greedy, large, lambda: handled.append("greedy"))
    assert greedy.closed
    gone.close()

    pause.end()

    assert handled == ["patient"]
    assert not pause.on
