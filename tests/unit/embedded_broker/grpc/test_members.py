from __future__ import annotations

from datetime import timedelta
from threading import Event

import grpc
import pytest

from embedded_broker import EmbeddedBroker, GrpcOptions, VirtualClock
from embedded_broker.core.administration.relays import Relayed
from embedded_broker.core.guards import Caller, Guards
from embedded_broker.grpc.calls.members import ClientWire
from embedded_broker.grpc.schema import ClientType, Language
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.rpc import Rpc
from tests.unit.embedded_broker.grpc.conftest import Open
from tests.unit.embedded_broker.grpc.raw_client import RawClient, RawStream, gathered
from tests.unit.embedded_broker.grpc.test_receiving import parked, put_group
from tests.unit.embedded_broker.peers import Peer

MINUTE_S = 60
STEPS_S = [
    *(1, 5, 10, 30),
    *(one * MINUTE_S for one in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)),
]


@pytest.mark.case("G14")
def test_settings_of_a_producer_come_back_completed(client: RawClient, topic: str) -> None:
    said = client.be_producer(topic).settings
    assert said.client_type == ClientType.PRODUCER
    assert [one.name for one in said.publishing.topics] == [topic]
    assert (said.publishing.max_body_size, said.publishing.validate_message_type) == (4 << 20, True)
    growing = said.backoff_policy.exponential_backoff
    assert said.backoff_policy.max_attempts == 3
    assert (growing.initial.ToMilliseconds(), growing.max.ToMilliseconds()) == (10, 1000)
    assert growing.multiplier == 2
    assert said.HasField("metric")
    assert not said.metric.on


@pytest.mark.case("G14")
@pytest.mark.parametrize("kind", [ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER])
def test_settings_of_a_consumer_come_back_completed(
    broker: EmbeddedBroker, client: RawClient, topic: str, group: str, kind: ClientType
) -> None:
    said = client.be_consumer(group, topic, kind=kind).settings
    assert said.subscription.receive_batch_size == 32
    assert said.subscription.long_polling_timeout.ToSeconds() == 20
    assert said.subscription.HasField("fifo")
    assert not said.subscription.fifo
    assert said.backoff_policy.max_attempts == 17
    waits = said.backoff_policy.customized_backoff.next
    assert [one.ToSeconds() for one in waits] == STEPS_S
    assert said.HasField("metric")
    (member,) = broker.groups[group].members
    assert member.client_id == client.client_id


@pytest.mark.case("G14", "G16")
def test_a_group_that_changes_is_told_to_its_clients(
    broker: EmbeddedBroker, client: RawClient, topic: str, group: str
) -> None:
    stream = client.be_consumer(group, topic)
    policy = {
        "type": "EXPONENTIAL",
        "exponentialRetryPolicy": {"initial": 1000, "max": 4000, "multiplier": 3},
    }
    put_group(
        broker, group, retry_max_times=5, consume_message_orderly=True, group_retry_policy=policy
    )
    said = stream.next().settings
    growing = said.backoff_policy.exponential_backoff
    assert (said.subscription.fifo, said.backoff_policy.max_attempts) == (True, 6)
    assert (growing.initial.ToSeconds(), growing.max.ToSeconds()) == (1, 4)
    assert growing.multiplier == 3
    steps = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}}
    put_group(broker, group, group_retry_policy=steps)
    waits = stream.next().settings.backoff_policy.customized_backoff.next
    assert [one.ToSeconds() for one in waits] == [1, 5]


@pytest.mark.case("G15")
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (ClientType.PRODUCER, {"without": True}),
        (ClientType.PUSH_CONSUMER, {"group": "", "topics": ("T",)}),
        (ClientType.PRODUCER, {"topics": ("",)}),
        (ClientType.LITE_PUSH_CONSUMER, {"group": "G", "topics": ("T",)}),
        (0, {"topics": ("T",)}),
    ],
)
def test_settings_that_are_wrong_end_the_stream(
    client: RawClient, topic: str, kind: int, said: dict[str, object]
) -> None:
    stream = client.stream()
    stream.say_settings(kind, **said)  # type: ignore[arg-type]
    with pytest.raises(grpc.RpcError) as raised:
        stream.next()
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert client.route(topic).status.code == 20000


@pytest.mark.case("G15")
def test_a_node_client_gets_its_settings_twice(open_client: Open) -> None:
    session = VirtualClock()
    with EmbeddedBroker(
        grpc=True, clock=VirtualClock(), session_clock=session, topics=["T"], tcp=False
    ) as broker:
        client = open_client(broker)
        stream = client.stream()
        stream.say_settings(ClientType.PRODUCER, topics=("T",), language=Language.NODE_JS)
        first = stream.next()
        session.advance(1)
        assert stream.next() == first


@pytest.mark.case("G17")
def test_a_silent_client_is_gone_after_two_minutes_of_session_time(open_client: Open) -> None:
    session = VirtualClock()
    with EmbeddedBroker(
        grpc=True, clock=VirtualClock(), session_clock=session, topics=["T"], tcp=False
    ) as broker:
        client = open_client(broker)
        assert client.heartbeat().status.code == 40015
        stream = client.be_consumer("G", "T")
        session.advance(119)
        assert client.heartbeat("G", ClientType.PUSH_CONSUMER).status.code == 20000
        session.advance(119)
        assert [one.client_id for one in broker.groups["G"].members] == [client.client_id]
        session.advance(1)
        assert not broker.groups["G"].members
        assert stream.next() is None
        assert client.heartbeat("G", ClientType.PUSH_CONSUMER).status.code == 40015
        assert [one.client_id for one in broker.groups["G"].members] == [client.client_id]


@pytest.mark.case("G65")
def test_what_a_silent_client_had_in_hand_comes_back_soon(open_client: Open) -> None:
    session = VirtualClock()
    with EmbeddedBroker(
        grpc=True, clock=VirtualClock(), session_clock=session, topics={"T": 1}, tcp=False
    ) as broker:
        client, other = open_client(broker), open_client(broker)
        client.be_consumer("G", "T")
        client.send(client.message("T"))
        client.receive_all("T", "G", 1, auto_renew=True, invisible_ms=None)
        client.close()
        session.advance(120)
        broker.clock.advance(1)
        (again,) = other.receive_all("T", "G", 1)
        assert again.system_properties.delivery_attempt == 2


def test_a_receive_without_a_deadline_ends_with_its_silent_client(open_client: Open) -> None:
    session = VirtualClock()
    with EmbeddedBroker(
        grpc=True, clock=VirtualClock(), session_clock=session, topics=["T"], tcp=False
    ) as broker:
        client = open_client(broker)
        client.be_consumer("G", "T")
        session.advance(119)
        request = client.receive_request("T", "G", poll_ms=20_000)
        waiting = client.parked(Rpc.RECEIVE_MESSAGE, request, None)
        parked(broker)
        session.advance(1)
        assert gathered(list(waiting))[0].code == 40401


@pytest.mark.case("G18")
def test_a_jump_of_a_month_disconnects_nobody(
    broker: EmbeddedBroker, client: RawClient, topic: str, group: str
) -> None:
    stream = client.be_consumer(group, topic)
    broker.clock.advance(days=30)
    assert [one.client_id for one in broker.groups[group].members] == [client.client_id]
    put_group(broker, group, retry_max_times=1)
    assert stream.next().settings.backoff_policy.max_attempts == 2


def test_a_newer_stream_takes_the_place_of_an_older_one(
    broker: EmbeddedBroker, client: RawClient, topic: str, group: str
) -> None:
    first = client.be_consumer(group, topic)
    second = client.stream()
    assert first.next() is None
    put_group(broker, group, retry_max_times=3)
    assert second.next().settings.backoff_policy.max_attempts == 4
    second.half_close()
    assert second.next() is None


def test_a_client_without_an_id_has_no_stream(broker: EmbeddedBroker, open_client: Open) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        open_client(broker, "").stream().next()
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.case("G73")
@pytest.mark.parametrize(
    "path",
    [
        "apache.rocketmq.v2.MessagingService/PullMessage",
        "apache.rocketmq.v2.MessagingService/GetOffset",
        "apache.rocketmq.v2.MessagingService/SyncLiteSubscription",
        "apache.rocketmq.v2.Admin/ChangeLogLevel",
    ],
)
def test_calls_that_are_missing_say_so(client: RawClient, path: str) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        client.channel.unary_unary(f"/{path}")(b"", timeout=10)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.case("G57")
def test_a_consumer_is_asked_for_its_threads_and_to_consume(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    stream = client.be_consumer(group, queue)
    client.send(client.message(queue, b"look"))
    parts, ended = broker._parts(), Event()
    told: list[Relayed] = []
    stored = parts.store.message(queue, 0, 0)
    assert stored is not None

    def tell(relayed: Relayed) -> None:
        told.append(relayed)
        ended.set()

    with parts.door:
        parts.administration.relays.running_info(group, client.client_id, tell, with_stacks=True)
    asked = stream.next().print_thread_stack_trace_command
    answer = client.v2.TelemetryCommand()
    answer.status.code = 20000
    answer.thread_stack_trace.nonce = asked.nonce
    answer.thread_stack_trace.thread_stack_trace = "main: waits"
    stream.say(answer)
    assert ended.wait(10)
    assert b"main: waits" in told.pop().body

    for code, result in ((20000, b"CR_SUCCESS"), (60000, b"CR_LATER"), (40016, b"CR_RETURN_NULL")):
        ended.clear()
        with parts.door:
            caller = Caller(Guards(), Peer())
            parts.administration.relays.consume(
                group, client.client_id, stored.offset_msg_id, queue, tell, caller
            )
        command = stream.next().verify_message_command
        assert command.message.body == b"look"
        answer = client.v2.TelemetryCommand()
        answer.status.code = code
        answer.verify_message_result.nonce = command.nonce
        stream.say(answer)
        assert ended.wait(10)
        assert result in told.pop().body


def test_the_journal_shows_calls(broker: EmbeddedBroker, client: RawClient, topic: str) -> None:
    client.send(client.message(topic, b"secret body", message_id="0A0B"))
    client.route("NoSuchTopic")
    (entry,) = broker.journal.requests(code="SendMessage", topic=topic)
    assert (entry.rpc, entry.code, entry.response_code) == ("SendMessage", 0, 20000)
    assert (entry.client_id, entry.fields["message_id"]) == (client.client_id, "0A0B")
    assert "body" not in entry.fields
    assert f"-> {Rpc.QUERY_ROUTE} [topic=NoSuchTopic" in broker.journal.dump()
    assert "40402 TOPIC_NOT_FOUND (No topic route info" in broker.journal.dump()
    assert broker.journal.requests(code="SEND_MESSAGE_V2") == []


@pytest.mark.case("G69")
def test_a_stream_that_is_cut_can_be_opened_again(
    broker: EmbeddedBroker, client: RawClient, topic: str, group: str
) -> None:
    stream = client.be_consumer(group, topic)
    broker.faults.cut_telemetry(client.client_id)
    with pytest.raises(grpc.RpcError) as raised:
        stream.next()
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    assert client.heartbeat(group, ClientType.PUSH_CONSUMER).status.code == 20000
    with pytest.raises(ConfigError, match="a gRPC client that has a stream open"):
        broker.faults.cut_telemetry("nobody")
    with pytest.raises(ConfigError, match="status = 'GONE'"):
        broker.faults.cut_telemetry(client.client_id, "GONE")
    again = client.stream()  # it does not say again who it is
    put_group_until_told(broker, group, again)


def put_group_until_told(broker: EmbeddedBroker, group: str, stream: RawStream) -> None:
    """Change a group once its client is known to be reached again."""
    known = broker._parts().calls.wires[-1]
    assert isinstance(known, ClientWire)
    (member,) = broker.groups[group].members
    client = known._endpoint.clients.find(member.client_id)
    assert client is not None
    broker.wait_for(lambda _: client.stream is not None)
    put_group(broker, group, retry_max_times=8)
    assert stream.next().settings.backoff_policy.max_attempts == 9


@pytest.mark.case("G36", "G39")
def test_an_empty_receive_ends_when_its_time_is_over(open_client: Open) -> None:
    session = VirtualClock()
    with EmbeddedBroker(
        grpc=True, clock=VirtualClock(), session_clock=session, topics=["T"], tcp=False
    ) as broker:
        client = open_client(broker)
        for said, timeout, wait_s in (
            ({"poll_ms": 5_000}, 60, 5),
            ({"poll_ms": 1_000}, 60, 5),
            ({"poll_ms": 60_000}, 60, 20),
            ({"poll_ms": None}, None, 5),
            ({"poll_ms": None}, 20, 18),  # as Go's: the deadline without half a request's time
        ):
            request = client.receive_request("T", "G", **said)
            waiting = client.parked(Rpc.RECEIVE_MESSAGE, request, timeout)
            parked(broker)
            session.advance(wait_s - 1)
            assert len(broker._parts().consume.waiters) == 1
            session.advance(2)
            status, messages = gathered(list(waiting))
            assert (status.code, messages) == (40401, [])


@pytest.mark.case("G36", "G62")
def test_a_receive_waits_as_long_as_the_options_say(open_client: Open) -> None:
    session, options = VirtualClock(), GrpcOptions(long_polling=1.5)
    with EmbeddedBroker(
        grpc=options, clock=VirtualClock(), session_clock=session, topics=["T"], tcp=False
    ) as broker:
        client = open_client(broker)
        told = client.be_consumer("G", "T").settings.subscription.long_polling_timeout
        assert told.ToMilliseconds() == 1_500
        for poll_ms in (100, 20_000):
            request = client.receive_request("T", "G", poll_ms=poll_ms)
            waiting = client.parked(Rpc.RECEIVE_MESSAGE, request, 3)
            parked(broker)
            session.advance(1.4)
            assert len(broker._parts().consume.waiters) == 1
            session.advance(0.2)
            assert gathered(list(waiting))[0].code == 40401


@pytest.mark.case("G62")
def test_a_push_consumer_ends_when_it_says_so_or_its_last_receive_does(open_client: Open) -> None:
    session = VirtualClock()
    with EmbeddedBroker(
        grpc=True, clock=VirtualClock(), session_clock=session, topics=["T"], tcp=False
    ) as broker:
        begun = session.now()
        for waits_first in (False, True):
            client = open_client(broker)
            client.be_consumer("G", "T")
            request = client.receive_request("T", "G", poll_ms=20_000)
            waiting = client.parked(Rpc.RECEIVE_MESSAGE, request, 60)
            parked(broker)
            if waits_first:  # as Java's, which leaves when its receive has ended
                session.advance(19.9)
                assert len(broker._parts().consume.waiters) == 1
                session.advance(0.1)
                assert gathered(list(waiting))[0].code == 40401
            assert client.leave("G").status.code == 20000
            if not waits_first:
                assert gathered(list(waiting))[0].code == 40401
                assert session.now() == begun
        assert session.now() - begun == timedelta(seconds=20)
        assert broker.grpc_clients() == ()


@pytest.mark.case("G64")
def test_what_a_simple_consumer_had_in_hand_comes_back_when_its_time_is_over(
    broker: EmbeddedBroker, client: RawClient, open_client: Open, queue: str, group: str
) -> None:
    client.be_consumer(group, queue, kind=ClientType.SIMPLE_CONSUMER)
    client.send(client.message(queue))
    client.receive_all(queue, group, 1, invisible_ms=20_000)
    client.close()
    broker.clock.advance(19)
    assert broker.groups[group].unread() == 0
    broker.clock.advance(1)
    (again,) = open_client(broker).receive_all(queue, group, 1)
    assert again.system_properties.delivery_attempt == 2
