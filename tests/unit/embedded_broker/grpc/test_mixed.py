"""One conversation over both protocols: one store, one state of groups."""

from __future__ import annotations

import logging
import socket
from datetime import timedelta
from threading import Event, Thread

import grpc
import pytest

from embedded_broker import EmbeddedBroker, SettleTimeout, VirtualClock
from embedded_broker.grpc.schema import ClientType
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
)
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.rpc import Rpc
from tests.unit.embedded_broker.grpc.conftest import Open
from tests.unit.embedded_broker.grpc.raw_client import RawClient, gathered, handles
from tests.unit.embedded_broker.grpc.test_receiving import parked
from tests.unit.embedded_broker.wire_peer import WirePeer


@pytest.mark.case("G58")
def test_what_one_protocol_sends_the_other_receives(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    message = Message(queue, b"remoting", tags="t", keys="k", properties={"a": "b"})
    message.set_delay(timedelta(seconds=5))
    with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
        sent = producer.send(message)
    broker.clock.advance(5)
    (found,) = client.receive_all(queue, group, 1)
    said = found.system_properties
    assert (found.body, said.tag, list(said.keys)) == (b"remoting", "t", ["k"])
    assert (said.message_id, found.user_properties["a"]) == (sent.msg_id, "b")

    got: list[tuple[bytes, str, str | None, str | None]] = []
    consumer = DefaultMQPushConsumer(f"{group}-r", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe(queue, "*")

    def listen(messages: list[MessageExt], _context: object) -> ConsumeConcurrentlyStatus:
        got.extend((one.body, one.msg_id, one.tags, one.properties.get("c")) for one in messages)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    consumer.register_message_listener(listen)
    consumer.start()
    try:
        at_ms = broker.clock.now_ms + 7_000
        later = client.message(
            queue, b"grpc", tag="x", properties={"c": "d"}, delivery_timestamp=at_ms
        )
        client.send(later)
        broker.clock.run(seconds=7)
        broker.wait_for(lambda _: any(one[0] == b"grpc" for one in got))
    finally:
        consumer.shutdown()
    assert (b"grpc", later.system_properties.message_id, "x", "d") in got


@pytest.mark.case("G76")
def test_a_handle_of_one_protocol_is_good_in_the_other(open_client: Open) -> None:
    with EmbeddedBroker(grpc=True, clock=VirtualClock(), topics={"T": 1}) as broker:
        client, peer = open_client(broker), WirePeer(broker.addr)
        client.send(client.message("T"), client.message("T"))
        first, second = handles(client.receive_all("T", "G", 2))
        for handle, code in ((first, RequestCode.ACK_MESSAGE),):
            ext = {
                "consumerGroup": "G",
                "topic": "T",
                "queueId": handle.split(" ")[6],
                "offset": handle.split(" ")[7],
                "extraInfo": handle,
            }
            assert peer.ask(code, ext).code == 0
        assert client.ack("T", "G", first).status.code == 40013
        assert client.ack("T", "G", second).status.code == 20000
        client.send(client.message("T"))
        pop = {
            "consumerGroup": "G",
            "topic": "T",
            "queueId": "-1",
            "maxMsgNums": "1",
            "invisibleTime": "60000",
            "pollTime": "0",
            "bornTime": "0",
            "initMode": "0",
            "expType": "TAG",
            "exp": "*",
            "order": "false",
        }
        answer = peer.ask(RequestCode.POP_MESSAGE, pop)
        said = answer.ext_fields
        offset = said["msgOffsetInfo"].split(" ")[2]
        handle = (
            f"{said['startOffsetInfo'].split(' ')[2]} {said['popTime']} {said['invisibleTime']} "
            f"{said['reviveQid']} 0 broker-a 0 {offset}"
        )
        assert client.ack("T", "G", handle).status.code == 20000
        broker.clock.advance(3600)
        assert broker.groups["G"].unread() == 0
        peer.close()


def test_a_grpc_client_at_a_remoting_port_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker, caplog.at_level(logging.WARNING):
        for address in (broker.addr, broker.namesrv_addr):
            host, _, port = address.rpartition(":")
            with socket.create_connection((host, int(port))) as peer:
                peer.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                assert peer.recv(1) == b""
    assert caplog.text.count("this is a gRPC client of RocketMQ 5") == 2
    assert "grpc=True" in caplog.text


def test_clients_are_idle_when_they_wait_and_have_nothing_in_hand(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    client.be_consumer(group, queue)
    clock = broker.clock
    with pytest.raises(SettleTimeout, match=f"no pull waits at any queue of {queue}"):
        clock.settle(0.1, groups=[group])
    request = client.receive_request(queue, group, poll_ms=20_000)
    waiting = client.parked(Rpc.RECEIVE_MESSAGE, request)
    parked(broker)
    assert clock.settle(5, groups=[group]).ok
    client.send(client.message(queue))
    _, messages = gathered(list(waiting))
    with pytest.raises(SettleTimeout, match="popped but not acked"):
        clock.settle(0.1, groups=[group])
    client.ack(queue, group, *handles(messages))
    again = client.parked(Rpc.RECEIVE_MESSAGE, request)
    parked(broker)
    assert clock.settle(5, groups=[group]).ok
    again.cancel()
    client.leave(group)


def test_a_simple_consumer_is_idle_between_its_receives(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    client.be_consumer(group, queue, kind=ClientType.SIMPLE_CONSUMER)
    client.send(client.message(queue))
    messages = client.receive_all(queue, group, 1)
    client.ack(queue, group, *handles(messages))
    assert broker.clock.settle(5, groups=[group]).ok
    client.send(client.message(queue))
    with pytest.raises(SettleTimeout, match="are not handed out yet"):
        broker.clock.settle(0.1, groups=[group])
    client.leave(group)


@pytest.mark.case("G74")
def test_calls_go_wrong_on_purpose(broker: EmbeddedBroker, client: RawClient, queue: str) -> None:
    busy = broker.faults.on("SendMessage", topic=queue).respond("TOO_MANY_REQUESTS").times(2)
    codes = [client.send(client.message(queue)).status.code for _ in range(3)]
    assert (codes, busy.hits) == ([42900, 42900, 20000], 2)
    for fault, status in (
        (broker.faults.on("SendMessage", topic=queue).abort("UNAVAILABLE"), "UNAVAILABLE"),
        (broker.faults.on("SendMessage", topic=queue).close(after=True), "UNAVAILABLE"),
        (broker.faults.on("SendMessage", client=client.client_id).drop(), "DEADLINE_EXCEEDED"),
        (broker.faults.on("SendMessage", topic=queue).drop_response(), "DEADLINE_EXCEEDED"),
    ):
        request = client.request(Rpc.SEND_MESSAGE)
        request.messages.append(client.message(queue))
        with pytest.raises(grpc.RpcError) as raised:
            client.call(Rpc.SEND_MESSAGE, request, timeout=0.5)
        assert (raised.value.code().name, fault.hits) == (status, 1)
    assert broker.topics[queue].count() == 3  # one was answered, two answers were lost
    broker.faults.assert_all_used()
    with pytest.raises(ConfigError, match="abort"):
        broker.faults.on("SEND_MESSAGE_V2").abort()
    with pytest.raises(ConfigError, match=r"one of .*UNAVAILABLE"):
        broker.faults.on("SendMessage").abort("GONE")
    with pytest.raises(ConfigError, match="did you mean SendMessage"):
        broker.faults.on("sendmessage")
    damaged = broker.faults.on("QueryRoute").corrupt()
    with pytest.raises(Exception, match=r"[Pp]arsing|decode|Error"):
        client.route(queue)
    assert damaged.hits == 1


@pytest.mark.case("G68")
def test_a_paused_broker_answers_later(
    broker: EmbeddedBroker, client: RawClient, queue: str
) -> None:
    answered = Event()
    codes: list[int] = []

    def send() -> None:
        codes.append(client.send(client.message(queue)).status.code)
        answered.set()

    broker.pause()
    try:
        Thread(target=send).start()
        assert not answered.wait(0.1)
        assert broker.topics[queue].count() == 0
    finally:
        broker.resume()
    assert answered.wait(10)
    assert codes == [20000]


@pytest.mark.case("G70", "G71")
def test_calls_go_on_after_a_restart_and_waiting_receives_end_before(open_client: Open) -> None:
    with EmbeddedBroker(grpc=True, clock=VirtualClock(), topics={"T": 1}, tcp=False) as broker:
        client = open_client(broker)
        client.be_consumer("G", "T")
        client.send(client.message("T", b"unacked"))
        client.receive_all("T", "G", 1, auto_renew=True, invisible_ms=None)
        request = client.receive_request("T", "G", poll_ms=20_000)
        waiting = [client.parked(Rpc.RECEIVE_MESSAGE, request) for _ in range(50)]
        parked(broker, 50)
        broker.restart()
        assert {gathered(list(one))[0].code for one in waiting} == {40401}
        other = open_client(broker)
        assert other.send(other.message("T", b"after")).status.code == 20000
        broker.clock.advance(10)
        bodies = sorted(one.body for one in other.receive_all("T", "G", 2))
        assert bodies == [b"after", b"unacked"]
        assert broker.groups["G"].unread() == 0


@pytest.mark.case("G72")
def test_a_crash_ends_calls_and_handles_follow_the_store(open_client: Open) -> None:
    with EmbeddedBroker(grpc=True, clock=VirtualClock(), topics={"T": 1}, tcp=False) as broker:
        client = open_client(broker)
        client.send(client.message("T"))
        (message,) = client.receive_all("T", "G", 1)
        request = client.receive_request("T", "G", poll_ms=20_000)
        waiting = client.parked(Rpc.RECEIVE_MESSAGE, request)
        parked(broker)
        broker.crash()
        with pytest.raises(grpc.RpcError) as raised:
            list(waiting)
        assert raised.value.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
        broker.restart()
        other = open_client(broker)
        assert other.ack("T", "G", *handles([message])).status.code == 20000
        broker.clock.advance(3600)
        assert broker.groups["G"].unread() == 0


def test_a_reset_keeps_streams_and_parked_receives(open_client: Open) -> None:
    with EmbeddedBroker(grpc=True, clock=VirtualClock(), topics={"T": 1}, tcp=False) as broker:
        client = open_client(broker)
        client.be_consumer("G", "T")
        client.send(client.message("T", b"before"))
        client.receive_all("T", "G", 1)
        request = client.receive_request("T", "G", poll_ms=20_000)
        waiting = client.parked(Rpc.RECEIVE_MESSAGE, request)
        parked(broker)
        assert broker.reset().consumers == {"G": (client.client_id,)}
        client.send(client.message("T", b"after"))
        status, (message,) = gathered(list(waiting))
        assert (status.code, message.body) == (20000, b"after")
        assert client.ack("T", "G", *handles([message])).status.code == 20000
