"""Single queues by offset, against the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    Credentials,
    MessageQueue,
    MQBrokerException,
    MQClientException,
    NoRouteError,
    NotStartedError,
    RecallHandle,
    RemotingConnectException,
    SendStatus,
    TopicNotExistError,
)
from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.message_codec import encode_batch
from rocketmq_py.protocol.properties import encode_properties
from rocketmq_py.raw import MessageIds, QueueAccess, QueueBounds, RawMessages
from tests.waiting import until

QUEUE = MessageQueue("T", "broker-a", 0)


@pytest.fixture(params=[True, False], ids=["in process", "tcp"])
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), inproc=request.param) as started:
        started.topics.create("T", queues=2)
        yield started


@pytest.fixture
def access(broker: EmbeddedBroker) -> Iterator[QueueAccess]:
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as started:
        yield started


def text(**properties: str) -> str:
    return encode_properties({"UNIQ_KEY": "0" * 32} | properties).decode()


def test_a_broker_that_tells_no_statistics_is_asked_queue_by_queue(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    broker.send("T", b"x", queue=1)
    asked = broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO)
    asked.respond(ResponseCode.REQUEST_CODE_NOT_SUPPORTED).always()
    other = MessageQueue("T", "broker-a", 1)
    assert access.bounds("T") == {QUEUE: QueueBounds(0, 0), other: QueueBounds(0, 1)}
    broker.faults.clear()
    broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO).respond(ResponseCode.SYSTEM_BUSY).always()
    with pytest.raises(MQBrokerException):
        access.bounds("T")
    broker.faults.clear()


def test_the_master_stands_in_for_another_broker_of_its_name(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    access.read_queues("T")
    assert access.address_of("broker-a") == broker.addr
    assert access.address_of("broker-a", 7) == broker.addr  # the master stands in
    assert access.address_of("broker-a", 7, only_this=True) is None


def test_reading_makes_no_group(broker: EmbeddedBroker, access: QueueAccess) -> None:
    before = set(broker.groups)
    access.read_queues("T")
    access.pull(QUEUE, 0).result(30)
    assert set(broker.groups) - {"TOOLS_CONSUMER"} == before - {"TOOLS_CONSUMER"}
    assert broker.groups["TOOLS_CONSUMER"].members == ()


def test_pulls_leave_together_and_each_has_its_own_answer(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    for number in range(9):
        broker.send("T", b"%d" % number, queue=0)
    pulled = access.pull_run(QUEUE, [0, 6, 2, 8, 9, 100], 2).result(30)
    answers = [pulled.answer(number) for number in range(len(pulled))]
    first = [RawMessages.decode(one.records).body for one in answers if one.records]
    assert first == [b"0", b"6", b"2", b"8"]
    assert [one.code for one in answers] == [0, 0, 0, 0, 19, 21]
    assert [one.next_offset for one in answers] == [2, 8, 4, 9, 9, 9]
    with pytest.raises(ValueError, match="at least one offset"):
        access.pull_run(QUEUE, [])


@pytest.mark.parametrize("credentials", [None, Credentials("AK", "SK")], ids=["plain", "signed"])
def test_pulls_that_bring_all_up_to_the_next_one_are_like_one_pull(
    broker: EmbeddedBroker, credentials: Credentials | None
) -> None:
    for number in range(9):
        broker.send("T", b"%d" % number, queue=0)
    with QueueAccess(namesrv_addr=broker.namesrv_addr, credentials=credentials) as access:
        one = access.pull(QUEUE, 1, 6).result(30)
        pulled = access.pull_run(QUEUE, [1, 3, 5], 2).result(30)
    assert (one.next_offset, one.max_offset) == (7, 9)
    brought = pulled.records(7)
    assert brought == [pulled.answer(at).records for at in range(3)]
    assert b"".join(brought) == one.records
    assert pulled.answer(2).max_offset == one.max_offset


@pytest.mark.parametrize(
    ("offsets", "until"),
    [([1, 4, 6], 8), ([1, 3, 5], 8), ([1, 3, 9], 11), ([1, 3, 700], 702)],
    ids=["a gap", "too little at the end", "nothing there", "out of bounds"],
)
def test_pulls_that_bring_anything_else_are_not(
    broker: EmbeddedBroker, access: QueueAccess, offsets: list[int], until: int
) -> None:
    for number in range(9):
        broker.send("T", b"%d" % number, queue=0)
    assert access.pull_run(QUEUE, offsets, 2).result(30).records(until) is None


def test_of_many_pulls_one_is_refused_and_the_others_are_not(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    broker.send("T", b"x", queue=0)
    broker.faults.on(RequestCode.PULL_MESSAGE).respond(ResponseCode.SYSTEM_BUSY).times(1)
    pulled = access.pull_run(QUEUE, [0, 0], 1).result(30)
    assert pulled.answer(1).code == 0
    assert pulled.records(1) is None
    with pytest.raises(MQBrokerException):
        pulled.answer(0)


def test_many_pulls_of_a_host_that_is_away_fail_together(access: QueueAccess) -> None:
    pulled = access.pull_run(QUEUE, [0, 1], 1, address="127.0.0.1:9")
    with pytest.raises(RemotingConnectException):
        pulled.result(30)


def test_bodies_are_sent_as_they_are(broker: EmbeddedBroker, access: QueueAccess) -> None:
    access.write_queues("T")
    sent = access.send(QUEUE, b"one", properties=text(a="1"), flag=4).result(30)
    assert (sent.status, sent.queue, sent.queue_offset) == (SendStatus.SEND_OK, QUEUE, 0)
    items = [(n, b"b%d" % n, encode_properties({"UNIQ_KEY": f"{n:032}"})) for n in range(3)]
    batch = access.send(QUEUE, encode_batch(items), batch=True).result(30)
    assert batch.queue_offset == 1
    stored = broker.messages.in_topic("T")
    assert [message.body for message in stored] == [b"one", b"b0", b"b1", b"b2"]
    assert stored[0].properties["a"] == "1"
    delayed = access.send(QUEUE, b"later", properties=text(TIMER_DELAY_MS="5000")).result(30)
    assert delayed.recall_handle


def test_a_delayed_send_is_taken_back_by_its_handle(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    delayed = access.send(QUEUE, b"later", properties=text(TIMER_DELAY_MS="5000")).result(30)
    handle = str(delayed.recall_handle)
    assert access.recall("T", handle).result(30) == "0" * 32
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(6)
    assert broker.messages.in_topic("T") == []
    with pytest.raises(MQBrokerException) as late:
        access.recall("T", handle).result(30)
    assert late.value.code == 604
    with pytest.raises(MQClientException, match="handle"):
        access.recall("T", "no handle")
    elsewhere = RecallHandle("T", "broker-z", 1, "A" * 32).encode()
    with pytest.raises(MQClientException, match="broker-z is in no route"):
        access.recall("T", elsewhere).result(30)


def test_refusals_and_unknown_topics_are_errors(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    access.read_queues("T")
    with pytest.raises(NoRouteError, match="no route of topic Nowhere"):
        access.read_queues("Nowhere")
    with pytest.raises(TopicNotExistError):
        access.pull(MessageQueue("Nowhere", "broker-a", 0), 0).result(30)
    with pytest.raises(NotStartedError):
        QueueAccess(namesrv_addr=broker.namesrv_addr).read_queues("T")


def test_blocks_of_ids_never_overlap() -> None:
    ids = MessageIds()
    seen: set[str] = set()
    for count in (1, 100_000, 3, 70_000, 1):
        prefix, first = ids.block(count)
        block = {f"{prefix}{first + number:012X}" for number in range(count)}
        assert not seen & block
        seen |= block
    assert {len(one) for one in seen} == {32}
    size = 1 << 24  # more than its milliseconds hold: the block borrows from later ones
    prefix, first = ids.block(size)
    assert ids.block(1) == (prefix, first + size)


def test_a_broker_tells_its_time(broker: EmbeddedBroker, access: QueueAccess) -> None:
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    access.read_queues("T")
    assert 0 <= clock.now_ms - access.broker_time_ms("T", "broker-a") < 1_000
    clock.advance(days=2, hours=5, minutes=7)
    assert 0 <= clock.now_ms - access.broker_time_ms("T", "broker-a") < 1_000
    broker.faults.on(RequestCode.GET_BROKER_RUNTIME_INFO).respond(ResponseCode.NO_PERMISSION)
    with pytest.raises(MQBrokerException):
        access.broker_time_ms("T", "broker-a")


def test_a_broker_tells_its_settings_its_figures_and_how_far_its_timers_are(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    access.read_queues("T")
    settings = access.broker_settings("T", "broker-a")
    assert (settings["brokerName"], settings["timerPrecisionMs"]) == ("broker-a", "1000")
    assert access.broker_figures("T", "broker-a")["timerReadBehind"] == "0"
    checkpoint = access.timer_check_point("T", "broker-a")
    assert checkpoint.last_read_time_ms <= broker.clock.now_ms
    broker.faults.on(RequestCode.GET_TIMER_CHECK_POINT).respond(ResponseCode.SYSTEM_ERROR)
    with pytest.raises(MQBrokerException):
        access.timer_check_point("T", "broker-a")


def test_queues_that_an_administrator_fixed_are_known_without_their_broker(
    access: QueueAccess,
) -> None:
    assert access.configured_queues("T") == ()
    access.read_queues("T")
    assert access.configured_queues("T") == ()
    access._instance.routes._routes["T"].order_topic_conf = "broker-b:2;broker-a:1"
    assert access.configured_queues("T") == (
        MessageQueue("T", "broker-a", 0),
        MessageQueue("T", "broker-b", 0),
        MessageQueue("T", "broker-b", 1),
    )


def test_a_record_is_decoded_without_its_body(broker: EmbeddedBroker, access: QueueAccess) -> None:
    queue = access.read_queues("T")[0]
    access.send(queue, b"no zlib", properties=text(KEYS="k"), sys_flag=1).result(30)
    records = access.pull(queue, 0).result(30).records
    message = RawMessages.decode(records, with_body=False)
    assert (message.body, message.sys_flag & 1, message.properties["KEYS"]) == (b"", 1, "k")
    with pytest.raises(BodyError, match="no zlib stream"):
        RawMessages.decode(records)
    found = access.message_at(queue, 0, with_body=False)
    assert found is not None
    assert (found.body, found.properties["KEYS"]) == (b"", "k")
    with pytest.raises(BodyError, match="no zlib stream"):
        access.message_at(queue, 0)


def test_every_message_of_a_batch_topic_is_found_at_its_offset(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    broker.topics.create("B", queues=1, queue_type="BatchCQ")
    queue = MessageQueue("B", "broker-a", 0)
    body = encode_batch((0, b"%d" % number, text(KEYS="k").encode()) for number in range(3))
    sent = access.send(queue, body, properties=text(), batch=True).result()
    assert (sent.queue_offset, "," in sent.offset_msg_id) == (0, False)
    access.send(queue, b"3", properties=text()).result()
    places = [(queue, offset) for offset in range(5)]
    found = access.messages_at(places)
    bodies = [getattr(found[place], "body", None) for place in places]
    assert bodies == [b"0", b"1", b"2", b"3", None]
    middle = access.message_at(queue, 1, with_body=False)
    assert middle is not None
    assert (middle.body, middle.queue_offset, middle.keys, middle.sys_flag) == (b"", 1, ["k"], 0)
    assert access.bounds("B")[queue].max_offset == 4


@pytest.mark.case("W18")
def test_a_connection_that_the_broker_found_idle_is_made_anew_by_the_next_call() -> None:
    session = VirtualClock()
    with (
        EmbeddedBroker(session_clock=session, topics=["T"], inproc=False) as broker,
        QueueAccess(namesrv_addr=broker.namesrv_addr) as access,
    ):
        before = access.bounds("T")
        channel = access._instance.connections.get
        old = channel(broker.addr)
        assert old is not None
        session.advance(120)
        until(lambda: channel(broker.addr) is None)
        assert access.bounds("T") == before
        assert channel(broker.addr) not in {None, old}
