"""The producer of the 5.0 API on an embedded broker."""

from __future__ import annotations

import time
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve

from compat.v5 import (
    BadRequestError,
    ClientConfiguration,
    ClientException,
    ClosedException,
    ConnectionException,
    ForbiddenError,
    IllegalArgumentException,
    IllegalStateException,
    InternalError,
    Message,
    MessageBuilder,
    MessageView,
    NotFoundError,
    PayloadTooLargeError,
    Producer,
    ProducerBuilder,
    ProxyTimeoutError,
    RecallReceipt,
    RequestHeaderFieldsTooLargeError,
    SendReceipt,
    TooManyRequestsError,
    TransactionChecker,
    TransactionResolution,
    UnsupportedError,
)
from embedded_broker import EmbeddedBroker
from rocketmq_py import ClientClosedError, DefaultMQProducer, RocketMQError, SendResult, SendStatus
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.compat.v5.v5_bench import Bench

PATIENCE_S = 10.0
SEND = RequestCode.SEND_MESSAGE_V2
COMMIT, ROLLBACK = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK


def plain(topic: str = "T", body: bytes = b"x") -> Message:
    return MessageBuilder().set_topic(topic).set_body(body).build()


def due_in(bench: Bench, seconds: float, topic: str = "T") -> Message:
    due_ms = int(bench.broker.clock.now_ms + seconds * 1000)
    return MessageBuilder().set_topic(topic).set_body(b"x").set_delivery_timestamp(due_ms).build()


def test_a_send_tells_where_the_message_is(bench: Bench) -> None:
    message = plain()
    receipt = bench.producer("T").send(message)
    (stored,) = bench.broker.messages.in_topic("T")
    assert isinstance(receipt, SendReceipt)
    assert receipt.message_id == message.message_id == stored.msg_id
    assert (receipt.message_queue.queue_id, receipt.offset) == (stored.queue_id, 0)
    assert (receipt.transaction_id or "", receipt.recall_handle) == (stored.msg_id, None)
    assert str(receipt) == f"message_id:{receipt.message_id}"


def test_an_asynchronous_send_tells_the_same(bench: Bench) -> None:
    producer = bench.producer()
    calls = [producer.send_async(plain()) for _ in range(3)]
    receipts = [call.result(PATIENCE_S) for call in calls]
    assert len({one.message_id for one in receipts}) == 3
    bench.broker.faults.on(SEND).respond(ResponseCode.NO_PERMISSION).always()
    failed: Future[SendReceipt] = producer.send_async(plain())
    assert isinstance(failed.exception(PATIENCE_S), ForbiddenError)


def test_a_callback_that_waits_for_another_call_does_not_stop_the_client(bench: Bench) -> None:
    """As many callbacks wait as there are threads for them, and each needs an outcome."""
    producer = bench.producer("T")
    ended: list[Future[str]] = []

    def again(done: Future[SendReceipt]) -> None:
        done.result()
        ended[0].set_result(producer.send_async(plain()).result(PATIENCE_S).message_id)

    for _ in range(20):
        ended.insert(0, Future())
        producer.send_async(plain()).add_done_callback(again)
        assert ended[0].result(PATIENCE_S)


def test_seconds_of_the_official_client_are_seconds(bench: Bench) -> None:
    message = plain()
    message.delivery_timestamp = bench.broker.clock.now_ms // 1000 + 60
    bench.producer().send(message)
    bench.broker.clock.advance(50)
    assert bench.broker.messages.in_topic("T") == []
    bench.broker.clock.advance(10)
    assert len(bench.broker.messages.in_topic("T")) == 1


@pytest.mark.case("T56")
def test_a_delayed_message_can_be_recalled(bench: Bench) -> None:
    producer = bench.producer()
    first, second = (producer.send(due_in(bench, 60)) for _ in range(2))
    assert first.recall_handle is not None
    assert second.recall_handle is not None
    recalled = producer.recall_message("T", first.recall_handle)
    assert isinstance(recalled, RecallReceipt)
    assert recalled == recalled.message_id == first.message_id
    later = producer.recall_message_async("T", second.recall_handle)
    assert later.result(PATIENCE_S).message_id == second.message_id
    bench.broker.clock.advance(3600)
    assert bench.broker.messages.in_topic("T") == []
    with pytest.raises(BadRequestError):
        producer.recall_message("T", first.recall_handle)
    for wrong in ("?", "", None):
        handle: Any = wrong
        with pytest.raises(BadRequestError, match="recall handle"):
            producer.recall_message("T", handle)
        failed = producer.recall_message_async("T", handle)
        assert isinstance(failed.exception(), BadRequestError)


def test_what_is_no_transaction_and_no_topic_is_refused_by_name(bench: Bench) -> None:
    other: Any = "mine"
    with pytest.raises(TypeError, match="a transaction comes from begin_transaction, not 'mine'"):
        bench.producer("T", checker=Checker()).send(plain(), other)
    with pytest.raises(TypeError, match=r"topics are texts, not \(None,\)"):
        bench.producer(None)  # type: ignore[arg-type]


def test_a_server_that_does_not_recall_is_named() -> None:
    message = plain()
    message.delivery_timestamp = int(time.time()) + 100
    with (
        EmbeddedBroker(config={"recallMessageEnable": False}, topics=["T"]) as broker,
        Producer(ClientConfiguration(broker.namesrv_addr)) as producer,
    ):
        receipt = producer.send(message)
        with pytest.raises(UnsupportedError, match="recallMessageEnable"):
            producer.recall_message("T", str(receipt.recall_handle))


@pytest.mark.case("T93")
def test_a_message_that_is_not_of_the_kind_of_its_topic_is_refused(bench: Bench) -> None:
    topics = bench.broker.topics
    topics.create("normal", message_type="NORMAL")
    topics.create("delay", message_type="DELAY")
    producer = bench.producer()
    with pytest.raises(IllegalArgumentException, match=r"type NORMAL .* is of type DELAY"):
        producer.send(due_in(bench, 5, "normal"))
    wrong = producer.send_async(plain("delay")).exception(PATIENCE_S)
    assert isinstance(wrong, IllegalArgumentException)
    assert producer.send(due_in(bench, 5, "delay")).recall_handle
    assert producer.send_async(due_in(bench, 5, "delay")).result(PATIENCE_S).recall_handle
    assert bench.requests(SEND) == 2
    assert bench.requests(RequestCode.GET_TOPIC_CONFIG) == 2
    unchecked = bench.producer(validate_message_type=False)
    assert unchecked.send(plain("delay")).message_id
    assert unchecked.send_async(plain("delay")).result(PATIENCE_S).message_id


@pytest.mark.case("T98")
@pytest.mark.parametrize(("fifo_hash", "expected"), [("proxy", {6, 7, 3}), ("sip", {4, 5, 7})])
def test_messages_of_a_group_lie_in_one_queue(
    bench: Bench, fifo_hash: Any, expected: set[int]
) -> None:
    bench.broker.topics.create("fifo", queues=8, message_type="FIFO")
    producer = bench.producer(fifo_hash=fifo_hash)
    found: dict[str, set[int]] = {}
    for group in ("g1", "abc", "order-1"):
        message = MessageBuilder().set_topic("fifo").set_body(b"x").set_message_group(group).build()
        receipts = [producer.send(message) for _ in range(25)]
        receipts += [producer.send_async(message).result(PATIENCE_S) for _ in range(25)]
        found[group] = {one.message_queue.queue_id for one in receipts}
    assert [len(one) for one in found.values()] == [1, 1, 1]
    assert set().union(*found.values()) == expected


# --- transactions ------------------------------------------------------------------------------


class Checker(TransactionChecker):
    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[MessageView] = []

    def check(self, message: MessageView) -> TransactionResolution:
        self.asked.append(message)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return] # whatever a test wants to say


@pytest.mark.case("T58", "T97")
def test_a_transaction_has_one_message_which_its_end_decides_about(bench: Bench) -> None:
    producer = bench.producer("T", checker=Checker())
    kept, given_up = producer.begin_transaction(), producer.begin_transaction()
    with pytest.raises(IllegalStateException, match="has no message") as early:
        kept.commit()
    assert isinstance(early.value, RuntimeError)
    receipt = producer.send(plain(body=b"kept"), kept)
    producer.send(plain(body=b"given up"), given_up)
    assert kept.message_id == receipt.message_id == receipt.transaction_id
    with pytest.raises(ValueError, match="has a message already"):
        producer.send(plain(), kept)
    assert bench.broker.messages.in_topic("T") == []
    kept.commit()
    given_up.rollback()
    with pytest.raises(IllegalStateException, match="already"):
        kept.rollback()
    bench.broker.wait_delivered("T")
    bench.broker.clock.advance(3600)
    assert [one.body for one in bench.broker.messages.in_topic("T")] == [b"kept"]


def test_what_nobody_ends_the_checker_is_asked_about_until_it_knows(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    checker = Checker(TransactionResolution.UNKNOWN, None, "yes", RuntimeError("down"), COMMIT)
    producer = bench.producer("T", checker=checker)
    receipt = producer.send(plain(body=b"late"), producer.begin_transaction())
    bench.broker.clock.run(timedelta(hours=1))
    assert [one.message_id for one in checker.asked] == [receipt.message_id] * 5
    assert checker.asked[0].body == b"late"
    assert [one.body for one in bench.broker.messages.in_topic("T")] == [b"late"]
    (warned,) = [one for one in caplog.records if one.levelname == "WARNING"]
    assert warned.exc_info is None
    told = f"returned 'yes', a str, for message {receipt.message_id} of topic T"
    assert told in warned.getMessage()
    assert warned.getMessage().endswith("return a TransactionResolution")


@pytest.mark.case("T59")
def test_a_producer_that_was_started_anew_is_asked_about_earlier_transactions(
    bench: Bench,
) -> None:
    with Producer(bench.configuration, ("T",), Checker()) as first:
        first.send(plain(body=b"orphan"), first.begin_transaction())
    checker = Checker(COMMIT)
    bench.producer("T", checker=checker)
    bench.broker.clock.run(timedelta(minutes=5))
    assert [one.body for one in bench.broker.messages.in_topic("T")] == [b"orphan"]


def test_transactions_need_a_checker_and_a_plain_message(bench: Bench) -> None:
    with pytest.raises(IllegalArgumentException, match="a producer with a checker"):
        bench.producer().begin_transaction()
    producer = bench.producer("T", checker=Checker())
    transaction = producer.begin_transaction()
    with pytest.raises(ValueError, match="no message_group and no delivery_timestamp"):
        producer.send(due_in(bench, 5), transaction)
    with pytest.raises(IllegalArgumentException, match="a producer with a checker"):
        bench.producer().send(plain(), transaction)
    with pytest.raises(IllegalArgumentException, match="need topics, or a producer_group"):
        Producer(bench.configuration, checker=Checker())
    wrong: Any = lambda _message: COMMIT  # noqa: E731 - it has no method check
    with pytest.raises(TypeError, match="no TransactionChecker"):
        Producer(bench.configuration, ("T",), wrong)
    assert Producer(bench.configuration, checker=Checker(), producer_group="bank")
    producer.send(plain(), transaction)
    transaction.rollback()


# --- errors and life ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ResponseCode.MESSAGE_ILLEGAL, BadRequestError),
        (ResponseCode.SYSTEM_BUSY, TooManyRequestsError),
        (ResponseCode.FLOW_CONTROL, TooManyRequestsError),
        (ResponseCode.TOPIC_NOT_EXIST, NotFoundError),
        (ResponseCode.SYSTEM_ERROR, InternalError),
        (ResponseCode.NO_PERMISSION, ForbiddenError),
        (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, UnsupportedError),
    ],
)
def test_what_a_server_answers_decides_about_the_error(
    bench: Bench, code: ResponseCode, kind: type[ClientException]
) -> None:
    producer = bench.producer(max_attempts=1)
    bench.broker.faults.on(SEND).respond(code).always()
    with pytest.raises(kind) as told:
        producer.send(plain())
    assert isinstance(producer.send_async(plain()).exception(PATIENCE_S), kind)
    assert told.value.code == told.value.response_code == code
    assert isinstance(told.value.__cause__, RocketMQError)


@pytest.mark.parametrize(
    "status",
    [SendStatus.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT, SendStatus.SLAVE_NOT_AVAILABLE],
)
def test_what_is_not_stored_as_safely_as_wanted_is_an_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, status: SendStatus
) -> None:
    send = DefaultMQProducer.send

    def less_safe(self: DefaultMQProducer, message: Any, **more: Any) -> SendResult:
        return evolve(send(self, message, **more), send_status=status)

    monkeypatch.setattr(DefaultMQProducer, "send", less_safe)
    message = plain()
    with pytest.raises(ProxyTimeoutError, match=f"is stored, but .*{status.value}"):
        bench.producer().send(message)
    assert message.message_id


def test_attempts_are_as_many_as_were_asked_for(bench: Bench) -> None:
    bench.broker.faults.on(SEND).respond(ResponseCode.SYSTEM_ERROR).always()
    with pytest.raises(ClientException):
        bench.producer(max_attempts=2).send(plain())
    assert bench.requests(SEND) == 2


def test_a_body_that_is_too_large_is_refused(bench: Bench) -> None:
    with pytest.raises(PayloadTooLargeError, match="4194304 at most"):
        bench.producer().send(plain(body=b"x" * 4_194_305))


def test_properties_that_are_too_large_are_refused(bench: Bench) -> None:
    message = plain()
    message.add_property("long", "x" * 32_767)
    with pytest.raises(RequestHeaderFieldsTooLargeError, match="32767 at most"):
        bench.producer().send(message)


def test_without_a_server_it_is_a_connection_error() -> None:
    configuration = ClientConfiguration("127.0.0.1:9", request_timeout=0.2)
    with Producer(configuration, max_attempts=1) as producer:
        with pytest.raises(ConnectionException) as told:
            producer.send(plain())
        assert isinstance(told.value, ConnectionError)
        assert isinstance(producer.send_async(plain()).exception(PATIENCE_S), ConnectionException)


def test_it_is_used_between_its_start_and_its_end(bench: Bench) -> None:
    producer = Producer(bench.configuration, ("T",))
    with pytest.raises(IllegalStateException, match="not started"):
        producer.send(plain())
    producer.startup()
    assert (producer.is_running, bool(producer.client_id)) == (True, True)
    assert producer.client_configuration is bench.configuration
    producer.shutdown()
    producer.close()
    for call in (producer.send, producer.send_async):
        with pytest.raises(ClosedException) as closed:
            call(plain())
        assert isinstance(closed.value, ClientClosedError)
    with pytest.raises(ClosedException):
        producer.startup()


def test_a_builder_starts_what_it_builds(bench: Bench) -> None:
    builder = ProducerBuilder().set_topics("T").set_max_attempts(1)
    with pytest.raises(IllegalArgumentException, match="set_client_configuration"):
        builder.build()
    builder.set_client_configuration(bench.configuration)
    with builder.set_transaction_checker(Checker()).build() as producer:
        transaction = producer.begin_transaction()
        producer.send(plain(), transaction)
        transaction.commit()
        bench.broker.wait_delivered("T")


@pytest.mark.parametrize(
    "more",
    [{"max_attempts": 0}, {"max_attempts": "3"}, {"max_attempts": None}, {"fifo_hash": "md5"}],
)
def test_settings_that_cannot_be_are_refused(bench: Bench, more: dict[str, Any]) -> None:
    with pytest.raises(IllegalArgumentException, match=next(iter(more))):
        bench.producer(**more)
