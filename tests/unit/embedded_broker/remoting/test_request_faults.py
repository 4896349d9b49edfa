"""Requests of clients that go wrong because a test wants it."""

from collections.abc import Callable

import pytest

from embedded_broker import EmbeddedBroker, FaultNotUsedError, VirtualClock
from rocketmq_py import DefaultMQProducer, Message, SendFailedError
from rocketmq_py.errors import ConfigError, RemotingTooMuchRequestException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.peers import RawClient

SEND = RequestCode.SEND_MESSAGE_V2
GUARD_S = 30.0


def stored(broker: EmbeddedBroker) -> list[bytes]:
    return [message.body for message in broker.messages.in_topic("T")]


@pytest.mark.case("K17")
@pytest.mark.parametrize("inproc", [True, False])
def test_the_second_send_is_refused_once_and_repeated_by_the_client(inproc: bool) -> None:
    with (
        EmbeddedBroker(topics=["T"], inproc=inproc) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        fault = broker.faults.on(SEND, topic="T", nth=2).respond(ResponseCode.SYSTEM_BUSY)

        for number in range(3):
            producer.send(Message("T", b"%d" % number))

        assert fault.hits == 1
        assert sorted(stored(broker)) == [b"0", b"1", b"2"]
        codes = [entry.response_code for entry in broker.journal.requests(code=SEND)]
        assert codes == [0, ResponseCode.SYSTEM_BUSY, 0, 0]
        broker.faults.assert_all_used()


@pytest.mark.case("K18")
def test_a_lost_answer_makes_the_client_send_again_and_both_copies_share_the_id() -> None:
    with (
        EmbeddedBroker(topics=["T"]) as broker,
        DefaultMQProducer(
            "P", namesrv_addr=broker.namesrv_addr, send_msg_max_timeout_per_request=200
        ) as producer,
    ):
        fault = broker.faults.on(SEND, group="P").drop_response()

        producer.send(Message("T", b"once or twice"))

        assert fault.hits == 1
        first, second = broker.messages.in_topic("T")
        assert first.body == second.body == b"once or twice"
        assert first.msg_id == second.msg_id
        assert first.offset != second.offset or first.queue_id != second.queue_id


def test_a_lost_answer_that_uses_up_the_whole_time_names_the_setting_that_helps() -> None:
    with (
        EmbeddedBroker(topics=["T"], tcp=False) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr, send_msg_timeout=100) as producer,
    ):
        producer.send(Message("T", b"connects"), timeout=10_000)
        broker.faults.on(SEND).drop_response()
        with pytest.raises(
            RemotingTooMuchRequestException, match=r"send_msg_timeout.*send_msg_max_timeout_per"
        ):
            producer.send(Message("T", b"x"))


@pytest.mark.case("K19")
def test_a_fault_that_never_happened_is_an_error_that_names_it() -> None:
    with EmbeddedBroker(tcp=False) as broker:
        broker.faults.on(RequestCode.PULL_MESSAGE, group="G").drop()
        broker.faults.on(4711, client="c")
        with pytest.raises(FaultNotUsedError) as caught:
            broker.faults.assert_all_used()
        assert "on(PULL_MESSAGE, group='G').drop, 0 hits" in str(caught.value)
        assert "on(4711, client='c').has no verb yet" in str(caught.value)


def test_a_delayed_request_is_handled_after_session_time(dial: Callable[[str], RawClient]) -> None:
    session = VirtualClock()
    with EmbeddedBroker(session_clock=session, topics=["T"]) as broker:
        fault = broker.faults.on(9999).delay(5).times(2)
        client = dial(broker.addr)
        client.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.ask(9999)
        assert client.ask(9998).code == 3
        client.socket.settimeout(GUARD_S)
        session.advance(5)
        assert client.receive().remark == " request type 9999 not supported"
        assert fault.hits == 1


def test_a_dropped_request_is_not_handled_and_a_late_refusal_comes_late(
    dial: Callable[[str], RawClient],
) -> None:
    session = VirtualClock()
    with EmbeddedBroker(session_clock=session, topics=["T"]) as broker:
        client = dial(broker.addr)
        broker.faults.on(9999).drop()
        refused = broker.faults.on(9999).delay(1).respond(77, "no")
        client.socket.settimeout(0.05)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                client.ask(9999)
        client.socket.settimeout(GUARD_S)
        session.advance(1)
        answer = client.receive()
        assert (answer.code, answer.remark) == (77, "no")
        assert refused.hits == 1
        assert client.ask(9999).code == 3


@pytest.mark.parametrize("after", [False, True])
def test_a_connection_is_closed_before_or_after_the_request_was_handled(
    after: bool, dial: Callable[[str], RawClient]
) -> None:
    with (
        EmbeddedBroker(topics=["T"]) as broker,
        DefaultMQProducer(
            "P", namesrv_addr=broker.namesrv_addr, retry_times_when_send_failed=0
        ) as producer,
    ):
        broker.faults.on(SEND).close(after=after)
        with pytest.raises(SendFailedError):
            producer.send(Message("T", b"x"))
        assert stored(broker) == ([b"x"] if after else [])
        producer.send(Message("T", b"y"))
        assert stored(broker)[-1] == b"y"
        broker.faults.on(9999).close(after=after)
        with pytest.raises(ConnectionError):
            dial(broker.addr).ask(9999)


def test_a_damaged_answer_cannot_be_read_and_the_message_is_stored() -> None:
    with (
        EmbeddedBroker(topics=["T"]) as broker,
        DefaultMQProducer(
            "P", namesrv_addr=broker.namesrv_addr, retry_times_when_send_failed=0
        ) as producer,
    ):
        fault = broker.faults.on(SEND).corrupt()
        with pytest.raises(SendFailedError):
            producer.send(Message("T", b"x"))
        assert fault.hits == 1
        assert stored(broker) == [b"x"]


def test_a_fault_ends_with_its_block_or_never_or_after_so_many_times(
    dial: Callable[[str], RawClient],
) -> None:
    with EmbeddedBroker(topics=["T"]) as broker:
        client = dial(broker.addr)
        with broker.faults.on(9999).respond(1).always() as always:
            assert [client.ask(9999).code for _ in range(4)] == [1, 1, 1, 1]
        assert client.ask(9999).code == 3
        assert always.hits == 4
        twice = broker.faults.on(9999, nth=2).respond(1).times(2)
        assert [client.ask(9999).code for _ in range(5)] == [3, 1, 1, 3, 3]
        assert twice.hits == 2


def test_the_tests_own_sends_are_spared_and_the_name_server_can_fail(
    dial: Callable[[str], RawClient],
) -> None:
    with EmbeddedBroker(topics=["T"]) as broker:
        sends = broker.faults.on(SEND).respond(ResponseCode.SYSTEM_ERROR)
        routes = broker.faults.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T").respond(1)
        broker.send("T", b"own")
        assert dial(broker.namesrv_addr).route("T").code == 1
        assert (sends.hits, routes.hits) == (0, 1)


def test_faults_outlive_a_restart_and_end_with_a_reset() -> None:
    with (
        EmbeddedBroker(topics=["T"], tcp=False) as broker,
        DefaultMQProducer(
            "P", namesrv_addr=broker.namesrv_addr, retry_times_when_send_failed=0
        ) as producer,
    ):
        fault = broker.faults.on(SEND).respond(ResponseCode.SYSTEM_ERROR).always()
        for how in ("go on", "close", "crash"):
            if how == "close":
                broker.restart()
            elif how == "crash":
                broker.crash()
                broker.start()
            with pytest.raises(SendFailedError, match="a test asked"):
                producer.send(Message("T", b"x"))
        assert fault.hits == 3
        broker.reset()
        producer.send(Message("T", b"y"))
        assert stored(broker) == [b"y"]


def test_impossible_faults_are_refused() -> None:
    faults = EmbeddedBroker(tcp=False).faults
    asks: list[Callable[[], object]] = [
        lambda: faults.on(1, nth=0),
        lambda: faults.on(1).times(0),
        lambda: faults.on(1).delay(0),
        lambda: faults.on(1).drop().respond(1),
    ]
    for ask in asks:
        with pytest.raises(ConfigError):
            ask()


def test_codes_are_taken_by_name_too_and_unknown_names_are_refused_with_the_nearest() -> None:
    with EmbeddedBroker(topics=["T"], tcp=False) as broker:
        fault = broker.faults.on("SEND_MESSAGE_V2", nth=2).respond("SYSTEM_BUSY")
        with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
            for number in range(2):
                producer.send(Message("T", b"%d" % number))
        assert (fault.code, fault.hits) == (SEND, 1)
        answered = broker.journal.requests(code="SEND_MESSAGE_V2")
        codes = [entry.response_code for entry in answered]
        assert codes == [0, ResponseCode.SYSTEM_BUSY, 0]
        with pytest.raises(ConfigError, match=r"code = 'SEND' .*did you mean .*SEND_MESSAGE"):
            broker.faults.on("SEND")
        with pytest.raises(ConfigError, match=r"did you mean .*PULL_MESSAGE"):
            broker.faults.on("pull_message")
        with pytest.raises(ConfigError, match=r"a name of ResponseCode.*SYSTEM_BUSY"):
            broker.faults.on(SEND).respond("SYSTEM_BUSI")
        with pytest.raises(ConfigError, match=r"code = 3\.5 "):
            broker.faults.on(3.5)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="did you mean SEND_MESSAGE_V2"):
            broker.journal.requests(code="SEND_MESSAGE_V")


def test_the_repr_of_all_faults_tells_what_was_asked_for() -> None:
    broker = EmbeddedBroker(tcp=False)
    assert repr(broker.faults) == "<faults: none of requests; <disk faults: none>>"
    broker.faults.on(SEND, topic="T").drop()
    broker.faults.disk.fail_next_flush()
    assert "on(SEND_MESSAGE_V2, topic='T').drop, 0 hits" in repr(broker.faults)
    assert "the sync failed because a test asked for it (0 hits)" in repr(broker.faults.disk)
