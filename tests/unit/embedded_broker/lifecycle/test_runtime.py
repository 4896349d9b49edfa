"""What brokers share: addresses and the order of start and end."""

import contextlib
import random
import socket

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster
from embedded_broker.lifecycle.runtime import Runtime
from embedded_broker.remoting import server
from embedded_broker.remoting.inproc import LocalClients
from embedded_broker.remoting.journal import Journal
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.errors import ConfigError
from tests.unit.embedded_broker.wire_peer import WirePeer


def runtime_of(broker: EmbeddedBroker) -> Runtime:
    return Runtime(broker._arguments, Journal(), 7, LocalClients())


def test_without_tcp_addresses_are_names_no_other_process_can_reach() -> None:
    runtime = runtime_of(EmbeddedBroker(tcp=False, broker_port=1234))

    assert runtime.open_namesrv(0) == "inproc-7.invalid:9876"
    assert runtime.open_address(1234, 10_911, 8) == "inproc-8.invalid:1234"


def test_with_tcp_a_free_port_is_bound_and_given_back_without_ever_starting() -> None:
    runtime = runtime_of(EmbeddedBroker())

    address = runtime.open_address(0, 10_911, 7)
    runtime.close()
    second = runtime_of(EmbeddedBroker())
    again = second.open_address(int(address.rpartition(":")[2]), 10_911, 7)
    second.close()

    assert address.startswith("127.0.0.1:")
    assert again == address


def test_a_port_that_was_had_before_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = EmbeddedBroker(topics=["T"])
    broker.start()
    address = broker.addr
    broker.close()
    listened = server.listen
    with socket.create_server(split(address)) as other:

        def listen_and_free(host: str, port: int) -> socket.socket:
            try:
                return listened(host, port)
            except ConfigError:
                other.close()  # whoever took it gives it back when it was asked for once
                raise

        monkeypatch.setattr(server, "listen", listen_and_free)
        broker.start()
    assert broker.addr == address
    broker.close()


def test_a_port_that_was_had_before_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "AGAIN_S", 0.0)
    broker = EmbeddedBroker()
    broker.start()
    address = broker.namesrv_addr
    broker.close()
    with (
        socket.create_server(split(address)),
        pytest.raises(ConfigError, match=f"'{address}' is not possible: Address already in use"),
    ):
        broker.start()
    broker.start()
    assert broker.namesrv_addr == address
    broker.close()


def split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


@pytest.mark.parametrize(("seed", "same"), [(5, True), (None, False)])
def test_random_choices_repeat_with_the_seed(seed: int | None, same: bool) -> None:
    drawn = [runtime_of(EmbeddedBroker(seed=seed)).random.getrandbits(64) for _ in range(2)]

    assert (drawn[0] == drawn[1]) is same


# --- the VIP channel -------------------------------------------------------------------------


def beside(broker: EmbeddedBroker) -> str:
    """The address of a broker's VIP channel."""
    host, _, port = broker.addr.rpartition(":")
    return f"{host}:{int(port) - 2}"


@pytest.fixture
def free_port() -> int:
    """A port that nobody has, nor its neighbours; the system gives none of these by itself."""
    while True:
        port = random.randrange(20_000, 30_000)
        with contextlib.ExitStack() as taken, contextlib.suppress(OSError):
            for one in range(port - 2, port + 4):
                taken.enter_context(socket.create_server(("127.0.0.1", one)))
            return port


@pytest.mark.case("W100")
def test_a_client_with_vip_channel_sends_to_the_second_port(free_port: int) -> None:
    with (
        EmbeddedBroker(broker_port=free_port, topics=["T"]) as broker,
        DefaultMQProducer(
            "P", namesrv_addr=broker.namesrv_addr, vip_channel_enabled=True, transport="tcp"
        ) as producer,
    ):
        producer.send(Message("T", b"x"))
        ports = {peer.local[1] for peer in broker._parts().endpoint.connections}
        assert free_port - 2 in ports
        assert [message.body for message in broker.messages.in_topic("T")] == [b"x"]


def test_a_restart_and_a_reset_keep_the_channel(free_port: int) -> None:
    with EmbeddedBroker(broker_port=free_port) as broker:
        for again in (broker.restart, broker.reset):
            again()
            with WirePeer(beside(broker)) as peer:
                assert peer.send("T").code == 0


def test_a_taken_second_port_is_told_and_the_broker_starts(
    free_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        socket.create_server(("127.0.0.1", free_port - 2)),
        EmbeddedBroker(broker_port=free_port) as broker,
        WirePeer(broker.addr) as peer,
    ):
        assert peer.send("T").code == 0
    (told,) = caplog.records
    assert "has no VIP channel" in told.getMessage()


def test_nothing_is_told_of_neighbours_in_a_cluster(
    free_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedCluster(brokers=3, broker_port=free_port, namesrv_port=free_port + 3) as cluster:
        for broker in cluster.brokers:
            with WirePeer(broker.addr) as peer:
                assert peer.send("T").code == 0
    assert caplog.records == []
