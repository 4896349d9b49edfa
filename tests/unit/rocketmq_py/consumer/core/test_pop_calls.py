"""Requests of POP consumers and what their answers mean, with answers of the test."""

from __future__ import annotations

import pytest

from rocketmq_py.consumer.core.pop_calls import (
    ALL_QUEUES,
    GIVEN_BACK_MS,
    POP_GRACE_MS,
    Assignment,
    PopAnswer,
    PopAsk,
    PopCalls,
    PopStatus,
    Receipt,
    read_ack,
    read_assignments,
    read_invisible_time,
    read_pop,
)
from rocketmq_py.errors import (
    BodyError,
    HeaderError,
    MQBrokerException,
    MQClientException,
    RecordError,
    RemotingConnectException,
)
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.bodies.pop import (
    BIT_SET_BYTES_MAX,
    BatchAckRequest,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueueAssignment,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.pop import PopMessageResponseHeader
from rocketmq_py.protocol.pop_handles import PopHandle
from rocketmq_py.protocol.properties import Prop, encode_properties
from rocketmq_py.send_result import MessageQueue
from tests.records import encode_record
from tests.unit.rocketmq_py.consumer.fake_engine import (
    ADDRESS,
    BROKER,
    GROUP,
    HOST,
    ME,
    FakeEngine,
    ok,
    refusal,
)

QUEUE = MessageQueue("T", BROKER, 0)
ANY = MessageQueue("T", BROKER, ALL_QUEUES)
POP_TIME = 1_700_000_000_000
RETRY_V1, RETRY_V2 = f"%RETRY%{GROUP}_T", f"%RETRY%{GROUP}+T"
EVERYTHING = SubscriptionData("T", "*")
ASK = PopAsk(ANY, 32, 60_000, 15_000, EVERYTHING)
HANDLE = PopHandle(7, POP_TIME, 60_000, 3, "0", BROKER, 0, 9)
RECEIPT = Receipt("T", HANDLE, 0, 9)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def calls(engine: FakeEngine) -> PopCalls:
    return PopCalls(engine, GROUP)


def stored(
    offset: int,
    *,
    topic: str = "T",
    queue_id: int = 0,
    reconsume_times: int = 0,
    properties: dict[str, str] | None = None,
) -> bytes:
    return encode_record(
        topic=topic,
        queue_id=queue_id,
        flag=0,
        queue_offset=offset,
        commit_log_offset=offset * 100,
        sys_flag=0,
        born_timestamp=POP_TIME - 5,
        born_host=HOST,
        store_timestamp=POP_TIME - 4,
        store_host=HOST,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=0,
        body=b"m%d" % offset,
        properties=encode_properties(properties or {}),
    )


def popped(
    *records: bytes,
    starts: str | None = None,
    offsets: str | None = None,
    counts: str | None = None,
    code: int = ResponseCode.SUCCESS,
) -> RemotingCommand:
    header = PopMessageResponseHeader(
        pop_time=POP_TIME,
        invisible_time=60_000,
        revive_qid=3,
        rest_num=2,
        start_offset_info=starts,
        msg_offset_info=offsets,
        order_count_info=counts,
    )
    return RemotingCommand(code, ext_fields=header.to_ext(), body=b"".join(records))


def handles(answer: PopAnswer) -> list[str]:
    return [receipt.handle.text() for _, receipt in answer.popped]


# --- what is asked ---------------------------------------------------------------------------


def test_a_pop_says_what_it_wants_and_leaves_its_time_of_birth_to_the_broker(
    engine: FakeEngine, calls: PopCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    invoke = engine.invoke

    def noting(address: str, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        waited.append(timeout_ms)
        return invoke(address, command, timeout_ms)

    monkeypatch.setattr(engine, "invoke", noting)
    engine.answers[RequestCode.POP_MESSAGE] = lambda _: ok()
    calls.ask_pop(ASK)
    subscription = SubscriptionData("T", "a > 1", expression_type="SQL92")
    calls.ask_pop(PopAsk(QUEUE, 8, 9_000, 0, subscription, True, True, "attempt"))
    fields = [command.ext_fields for command in engine.called(RequestCode.POP_MESSAGE)]
    common = {"consumerGroup": GROUP, "topic": "T", "bornTime": "0", "bname": BROKER}
    assert fields == [
        common
        | {
            "queueId": "-1",
            "maxMsgNums": "32",
            "invisibleTime": "60000",
            "pollTime": "15000",
            "initMode": "0",
            "expType": "TAG",
            "exp": "*",
            "order": "false",
        },
        common
        | {
            "queueId": "0",
            "maxMsgNums": "8",
            "invisibleTime": "9000",
            "pollTime": "0",
            "initMode": "1",
            "expType": "SQL92",
            "exp": "a > 1",
            "order": "true",
            "attemptId": "attempt",
        },
    ]
    assert waited == [15_000 + POP_GRACE_MS, POP_GRACE_MS]


@pytest.mark.parametrize(
    ("flag", "topic"), [("0", "T"), ("1", RETRY_V1), ("2", RETRY_V2)], ids=["own", "v1", "v2"]
)
def test_an_ack_names_the_topic_in_which_the_message_lies(
    engine: FakeEngine, calls: PopCalls, flag: str, topic: str
) -> None:
    engine.answers[RequestCode.ACK_MESSAGE] = lambda _: ok()
    engine.answers[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] = lambda _: ok()
    receipt = RECEIPT._replace(handle=HANDLE._replace(flag=flag))
    calls.ask_ack(receipt)
    calls.ask_invisible_time(receipt, 10_000)
    expected = {
        "consumerGroup": GROUP,
        "topic": topic,
        "queueId": "0",
        "extraInfo": f"7 {POP_TIME} 60000 3 {flag} {BROKER} 0 9",
        "offset": "9",
        "bname": BROKER,
    }
    (_, ack), (_, longer) = engine.calls
    assert ack.ext_fields == expected
    assert longer.ext_fields == expected | {"invisibleTime": "10000"}


def test_acks_of_one_pop_are_bits_and_each_broker_gets_one_request(
    engine: FakeEngine, calls: PopCalls
) -> None:
    engine.addresses["broker-b", 0] = "10.0.0.8:10911"
    engine.answers[RequestCode.BATCH_ACK_MESSAGE] = lambda _: ok()
    engine.answers[RequestCode.ACK_MESSAGE] = lambda _: ok()

    def receipt(offset: int, pop_time_ms: int = POP_TIME, broker_name: str = BROKER) -> Receipt:
        handle = HANDLE._replace(offset=offset, pop_time_ms=pop_time_ms, broker_name=broker_name)
        return Receipt("T", handle, 0, offset)

    far = 7 + 8 * BIT_SET_BYTES_MAX
    elsewhere = receipt(7, broker_name="broker-b")
    batches = calls.ask_ack_batch(
        [receipt(7), receipt(10), receipt(8, pop_time_ms=5), elsewhere, receipt(far), receipt(8)]
    )
    single, here, there = batches
    assert [one.offset for one in single.receipts] == [far]
    assert [one.offset for one in here.receipts] == [7, 10, 8, 8]
    assert there.receipts == [elsewhere]
    assert all(read_ack(batch.answer.result(), "T") for batch in batches)
    bodies = [
        BatchAckRequest.decode(command.body)
        for command in engine.called(RequestCode.BATCH_ACK_MESSAGE)
    ]
    assert [body.broker_name for body in bodies] == [BROKER, "broker-b"]
    first, second = bodies[0].acks
    assert (list(first.offsets()), list(second.offsets())) == ([7, 8, 10], [8])
    assert (first.group, first.topic, first.retry, first.start_offset) == (GROUP, "T", "0", 7)
    assert (first.queue_id, first.revive_queue, first.invisible_ms) == (0, 3, 60_000)
    assert (first.pop_time_ms, second.pop_time_ms) == (POP_TIME, 5)


def test_no_receipts_are_no_request(engine: FakeEngine, calls: PopCalls) -> None:
    assert calls.ask_ack_batch([]) == []
    assert engine.calls == []


def test_queues_are_asked_of_a_broker_that_is_not_silent(
    engine: FakeEngine, calls: PopCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = "10.0.0.8:10911"
    engine.addresses["broker-b", 0] = silent
    engine.silent = frozenset({silent})
    monkeypatch.setattr(engine, "addresses_to_ask", lambda _: [silent, ADDRESS])
    engine.answers[RequestCode.QUERY_ASSIGNMENT] = lambda _: ok(body=b"{}")
    calls.ask_assignments("T", "AVG")
    ((address, command),) = engine.calls
    assert address == ADDRESS
    assert QueryAssignmentRequest.decode(command.body) == QueryAssignmentRequest(
        "T", GROUP, ME, "AVG", "CLUSTERING"
    )


def test_a_failure_is_in_the_future_whatever_it_is(engine: FakeEngine, calls: PopCalls) -> None:
    with pytest.raises(MQClientException, match="no broker of topic T is known"):
        calls.ask_assignments("T", "AVG").result()
    assert engine.route_questions == ["T"]
    with pytest.raises(RemotingConnectException):
        calls.ask_pop(ASK).result()
    engine.addresses.clear()
    for future in (
        calls.ask_pop(ASK),
        calls.ask_ack(RECEIPT),
        calls.ask_invisible_time(RECEIPT, 1),
        calls.ask_ack_batch([RECEIPT])[0].answer,
    ):
        with pytest.raises(MQClientException, match=BROKER):
            future.result()


def test_only_masters_are_asked(engine: FakeEngine, calls: PopCalls) -> None:
    asked: list[bool] = []

    def require(topic: str, broker_name: str, *, only_this: bool = False) -> str:
        del topic, broker_name
        asked.append(only_this)
        raise MQClientException("no master")

    engine.require_address = require  # type: ignore[method-assign, assignment]
    calls.ask_pop(ASK)
    calls.ask_ack(RECEIPT)
    assert asked == [True, True]


def test_a_retry_topic_is_not_popped_by_itself(engine: FakeEngine, calls: PopCalls) -> None:
    ask = ASK._replace(queue=MessageQueue(RETRY_V1, BROKER, 0))
    with pytest.raises(MQClientException, match="is pulled"):
        calls.ask_pop(ask).result()
    assert engine.calls == []


# --- what a pop got --------------------------------------------------------------------------


def test_each_message_has_the_handle_that_a_java_client_would_make() -> None:
    answer = read_pop(
        popped(
            stored(7),
            stored(9),
            stored(0, queue_id=1),
            starts="0 0 7;0 1 0",
            offsets="0 0 7,9;0 1 0",
        ),
        ASK,
    )
    assert (answer.status, answer.left, answer.problem) == (PopStatus.FOUND, 2, None)
    assert handles(answer) == [
        f"7 {POP_TIME} 60000 3 0 {BROKER} 0 7",
        f"7 {POP_TIME} 60000 3 0 {BROKER} 0 9",
        f"0 {POP_TIME} 60000 3 0 {BROKER} 1 0",
    ]
    assert [one.message.properties[Prop.POP_CK] for one in answer.popped] == handles(answer)
    message, receipt = answer.popped[1]
    assert (message.topic, message.broker_name, message.body) == ("T", BROKER, b"m9")
    assert message.properties[Prop.FIRST_POP_TIME] == str(POP_TIME)
    assert (receipt.topic, receipt.queue_id, receipt.offset) == ("T", 0, 9)


def test_the_handle_that_the_broker_wrote_wins_and_the_first_pop_time_stays() -> None:
    own = f"3 {POP_TIME} 60000 3 1 {BROKER} 0 4"
    back = stored(4, reconsume_times=2, properties={Prop.POP_CK: own, Prop.FIRST_POP_TIME: "17"})
    answer = read_pop(popped(stored(7), back, starts="0 0 7;1 0 3", offsets="0 0 7;1 0 4"), ASK)
    assert handles(answer)[1] == own
    message, receipt = answer.popped[1]
    assert (message.topic, message.reconsume_times) == ("T", 2)
    assert message.properties[Prop.FIRST_POP_TIME] == "17"
    assert (receipt.handle.flag, receipt.queue_id, receipt.offset) == ("1", 0, 4)


@pytest.mark.parametrize(("topic", "flag"), [(RETRY_V1, "1"), (RETRY_V2, "2")])
def test_a_message_that_came_back_under_its_retry_topic_has_the_popped_topic_again(
    topic: str, flag: str
) -> None:
    answer = read_pop(
        popped(
            stored(7),
            stored(4, topic=topic),
            starts=f"0 0 7;{flag} 0 3",
            offsets=f"0 0 7;{flag} 0 4",
        ),
        ASK,
    )
    assert handles(answer)[1] == f"3 {POP_TIME} 60000 3 {flag} {BROKER} 0 4"
    assert answer.popped[1].message.topic == "T"


@pytest.mark.parametrize(
    "text", ["mine", f"3 {POP_TIME} 60000 3 0 {BROKER}", f"1 2 3 4 9 {BROKER} 0 7"]
)
def test_a_handle_that_no_broker_wrote_is_not_used(text: str) -> None:
    record = stored(7, properties={Prop.POP_CK: text})
    answer = read_pop(popped(record, starts="0 0 7", offsets="0 0 7"), ASK)
    assert handles(answer) == [f"7 {POP_TIME} 60000 3 0 {BROKER} 0 7"]


def test_without_offsets_a_pop_began_at_its_first_message_of_the_queue() -> None:
    answer = read_pop(popped(stored(7), stored(9), stored(2, queue_id=1)), ASK)
    assert [receipt.handle.start_offset for _, receipt in answer.popped] == [7, 7, 2]
    assert [receipt.offset for _, receipt in answer.popped] == [7, 9, 2]


def test_offsets_of_the_header_count_in_their_order_when_those_of_records_differ() -> None:
    answer = read_pop(popped(stored(0), stored(1), starts="0 0 107", offsets="0 0 107,108"), ASK)
    assert [receipt.offset for _, receipt in answer.popped] == [107, 108]
    back = stored(4, properties={Prop.POP_CK: f"3 {POP_TIME} 60000 3 1 {BROKER} 0 4"})
    among = read_pop(popped(back, stored(0), starts="0 0 107", offsets="0 0 107"), ASK)
    assert [receipt.offset for _, receipt in among.popped] == [4, 107]


def test_an_ordered_pop_says_how_often_a_message_was_handed_out() -> None:
    records = [stored(offset, reconsume_times=1) for offset in (7, 8)]
    answer = popped(*records, starts="0 0 7", offsets="0 0 7,8", counts="0 qo0%7 3;0 0 0")
    ordered = read_pop(answer, ASK._replace(order=True))
    assert [message.reconsume_times for message, _ in ordered.popped] == [3, 1]
    unordered = read_pop(answer, ASK)
    assert [message.reconsume_times for message, _ in unordered.popped] == [1, 1]


def test_messages_of_another_tag_are_given_back_to_be_acked() -> None:
    records = [stored(7, properties={"TAGS": "a"}), stored(8, properties={"TAGS": "b"}), stored(9)]
    answer = read_pop(
        popped(*records, starts="0 0 7", offsets="0 0 7,8,9"), ASK, tags=frozenset({"a"})
    )
    assert [message.queue_offset for message, _ in answer.popped] == [7]
    assert [receipt.offset for receipt in answer.unwanted] == [8, 9]


def test_a_message_of_a_transaction_has_its_id() -> None:
    record = stored(7, properties={"TRAN_MSG": "true", "UNIQ_KEY": "U"})
    (one,) = read_pop(popped(record), ASK).popped
    assert one.message.transaction_id == "U"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.POLLING_TIMEOUT, PopStatus.NOTHING),
        (ResponseCode.PULL_NOT_FOUND, PopStatus.NOTHING),
        (ResponseCode.NO_MESSAGE, PopStatus.NOTHING),
        (ResponseCode.POLLING_FULL, PopStatus.FULL),
    ],
)
def test_nothing_is_no_error(code: int, status: PopStatus) -> None:
    assert read_pop(popped(code=code), ASK) == PopAnswer(status, left=2)


@pytest.mark.parametrize("code", [1, 3, 16, 17, 23, 26, 29])
def test_any_other_code_is_an_error_of_the_broker(code: int) -> None:
    with pytest.raises(MQBrokerException, match="as wished") as raised:
        read_pop(refusal(code, "as wished"), ASK, address=ADDRESS)
    assert (raised.value.code, raised.value.broker_addr) == (code, ADDRESS)


@pytest.mark.parametrize(
    ("starts", "offsets", "piece"),
    [
        ("0 1 7", "0 0 7,8", "startOffsetInfo.*offset 7 of queue 0"),
        ("0 0 7", "0 1 7,8", "msgOffsetInfo.*offset 7 of queue 0"),
        ("0 0 7", None, "msgOffsetInfo"),
    ],
)
def test_messages_without_a_receipt_are_left_out_and_that_is_told(
    starts: str, offsets: str | None, piece: str
) -> None:
    good = stored(
        3, topic=RETRY_V1, properties={Prop.POP_CK: f"3 {POP_TIME} 60000 3 1 {BROKER} 0 3"}
    )
    answer = read_pop(popped(stored(7), good, starts=starts, offsets=offsets), ASK)
    assert [receipt.offset for _, receipt in answer.popped] == [3]
    with pytest.raises(HeaderError, match=piece):
        raise answer.problem or AssertionError


def test_a_record_that_cannot_be_read_ends_the_answer_and_is_told() -> None:
    damaged = bytearray(stored(8))
    damaged[4] ^= 255
    answer = read_pop(popped(stored(7), bytes(damaged), starts="0 0 7", offsets="0 0 7,8"), ASK)
    assert [receipt.offset for _, receipt in answer.popped] == [7]
    assert isinstance(answer.problem, RecordError)


@pytest.mark.parametrize(
    ("starts", "offsets", "field"),
    [("x", "0 0 7", "startOffsetInfo"), ("0 0 7", "0 0 x", "msgOffsetInfo")],
)
def test_offsets_without_sense_are_an_error(starts: str, offsets: str, field: str) -> None:
    with pytest.raises(HeaderError, match=field):
        read_pop(popped(stored(7), starts=starts, offsets=offsets), ASK)
    with pytest.raises(HeaderError, match="orderCountInfo"):
        read_pop(popped(stored(7), counts="x"), ASK._replace(order=True))
    with pytest.raises(HeaderError, match="popTime"):
        read_pop(ok(), ASK)


# --- acks, new invisible times, queues -------------------------------------------------------


def test_an_ack_is_taken_or_its_message_is_gone_or_it_is_refused() -> None:
    assert read_ack(ok(), "T")
    assert not read_ack(refusal(ResponseCode.NO_MESSAGE), "T")
    assert not read_ack(refusal(ResponseCode.MESSAGE_ILLEGAL), "T")
    with pytest.raises(MQBrokerException, match="no such topic"):
        read_ack(refusal(ResponseCode.TOPIC_NOT_EXIST, "no such topic"), "T", ADDRESS)


def test_a_new_invisible_time_has_a_new_receipt() -> None:
    times = {"popTime": "5", "invisibleTime": "10000", "reviveQid": "2"}
    receipt = read_invisible_time(ok(times), RECEIPT)
    assert receipt is not None
    assert receipt.handle.text() == f"9 5 10000 2 0 {BROKER} 0 9"
    assert receipt._replace(handle=HANDLE) == RECEIPT
    nothing = dict.fromkeys(times, "0")
    assert read_invisible_time(ok(nothing), RECEIPT) is None
    assert read_invisible_time(refusal(ResponseCode.NO_MESSAGE), RECEIPT) is None
    with pytest.raises(MQBrokerException):
        read_invisible_time(refusal(ResponseCode.INVALID_PARAMETER), RECEIPT)
    with pytest.raises(HeaderError):
        read_invisible_time(ok(), RECEIPT)


def test_queues_are_pulled_or_popped_or_stay_as_they_are() -> None:
    answer = QueryAssignmentResponse(
        [
            QueueAssignment(MessageQueueKey("T", BROKER, -1), "POP", {"a": "b"}),
            QueueAssignment(MessageQueueKey("T", BROKER, 0)),
        ]
    )
    assert read_assignments(ok(body=answer.encode()), "T") == [
        Assignment(ANY, "POP", {"a": "b"}),
        Assignment(QUEUE, "PULL"),
    ]
    assert read_assignments(ok(body=QueryAssignmentResponse([]).encode()), "T") == []
    assert read_assignments(ok(body=b"{}"), "T") is None


def test_an_unknown_mode_and_a_refusal_are_errors() -> None:
    strange = QueryAssignmentResponse([QueueAssignment(MessageQueueKey("T", BROKER, 0), "PUSH")])
    with pytest.raises(BodyError, match="'PUSH'"):
        read_assignments(ok(body=strange.encode()), "T")
    with pytest.raises(MQBrokerException, match="not supported"):
        read_assignments(refusal(3, "not supported"), "T", ADDRESS)


@pytest.mark.parametrize(("order", "read"), [(False, [0, 2]), (True, [0])])
def test_in_order_nothing_overtakes_a_message_without_a_receipt(
    order: bool, read: list[int]
) -> None:
    answer = popped(stored(0), stored(1, queue_id=1), stored(2), starts="0 0 0", offsets="0 0 0,2")
    got = read_pop(answer, ASK._replace(order=order))
    assert [one.receipt.offset for one in got.popped] == read
    assert isinstance(got.problem, HeaderError)


def test_what_is_given_back_to_a_broker_that_has_gone_waits_for_no_route(
    engine: FakeEngine, calls: PopCalls
) -> None:
    engine.answers[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] = lambda _: ok()
    calls.give_back(RECEIPT)
    (asked,) = engine.called(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
    assert asked.ext_fields["invisibleTime"] == str(GIVEN_BACK_MS)
    engine.addresses.clear()
    calls.give_back(RECEIPT)
    assert (len(engine.calls), engine.route_questions) == (1, [])
