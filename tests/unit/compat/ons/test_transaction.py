from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from compat.ons import (
    LocalTransactionChecker,
    LocalTransactionExecuter,
    Message,
    ONSClientException,
    ONSFactory,
    TransactionProducer,
    TransactionStatus,
)
from embedded_broker import EmbeddedBroker
from rocketmq_py import DelayConflictError
from tests.unit.compat.ons.ons_bench import PATIENCE

TOPIC = "TopicTestMQ"


class Checker(LocalTransactionChecker):
    """Remembers what it was asked about."""

    def __init__(self, answer: object = TransactionStatus.CommitTransaction) -> None:
        self.answer = answer
        self.asked: list[Message] = []
        self.called = threading.Event()

    def check(self, message: Message) -> TransactionStatus:
        self.asked.append(message)
        self.called.set()
        return cast("TransactionStatus", self.answer)


def producer_of(broker: EmbeddedBroker, checker: Any = None, **more: object) -> TransactionProducer:
    properties = {"NAMESRV_ADDR": broker.namesrv_addr, "GROUP_ID": "GID_bank", **more}
    return ONSFactory.createTransactionProducer(properties, checker or Checker())


def says(answer: object) -> Callable[[Message, object], TransactionStatus]:
    return lambda _message, _arg: cast("TransactionStatus", answer)


def test_a_commit_makes_the_message_visible_and_the_work_sees_its_id(
    broker: EmbeddedBroker,
) -> None:
    seen: list[tuple[str | None, object, int]] = []

    class Executer(LocalTransactionExecuter):
        def execute(self, message: Message, arg: object) -> TransactionStatus:
            seen.append((message.getMsgID(), arg, len(broker.messages.in_topic(TOPIC))))
            return TransactionStatus.CommitTransaction

    message = Message(TOPIC, "TagA", b"x")
    with producer_of(broker) as producer:
        result = producer.send(message, Executer(), {"amount": 5})
        broker.wait_delivered(TOPIC, 1)
    assert seen == [(result.getMessageId(), {"amount": 5}, 0)]
    assert result.getMessageId() == message.getMsgID()


def test_a_rollback_is_an_error_and_nobody_gets_the_message(broker: EmbeddedBroker) -> None:
    message = Message(TOPIC, "TagA", b"x")
    with producer_of(broker) as producer:
        with pytest.raises(ONSClientException, match="rolled back") as raised:
            producer.send(message, says(TransactionStatus.ROLLBACK_TRANSACTION), None)
        broker.clock.advance(600)
    assert raised.value.message_id == message.msg_id
    assert broker.messages.in_topic(TOPIC) == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [(TransactionStatus.Unknow, ""), (None, "returned None"), (True, "returned True, a bool")],
)
def test_of_what_is_not_known_the_checker_is_asked(
    broker: EmbeddedBroker, answer: object, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    checker = Checker()
    message = Message(TOPIC, "TagA", b"x")
    message.putUserProperties("colour", "red")
    with producer_of(broker, checker) as producer:
        result = producer.send(message, says(answer))
        assert broker.messages.in_topic(TOPIC) == []
        broker.clock.advance(6)
        assert checker.called.wait(PATIENCE)
        broker.wait_delivered(TOPIC, 1)
    (asked,) = checker.asked
    assert (asked.getMsgID(), asked.getTopic()) == (result.getMessageId(), TOPIC)
    assert asked.user_properties == {"colour": "red"}
    assert told in caplog.text
    assert ("returned" in caplog.text) is bool(told)


def test_work_that_raises_is_not_known_and_the_send_returns(broker: EmbeddedBroker) -> None:
    def fail(_message: Message, _arg: object) -> TransactionStatus:
        raise ZeroDivisionError

    checker = Checker(TransactionStatus.RollbackTransaction)
    with producer_of(broker, checker) as producer:
        assert producer.send(Message(TOPIC, "TagA", b"x"), fail).getTopic() == TOPIC
        broker.clock.advance(6)
        assert checker.called.wait(PATIENCE)
        broker.clock.advance(600)
    assert broker.messages.in_topic(TOPIC) == []


def test_the_first_question_comes_when_the_property_says(broker: EmbeddedBroker) -> None:
    checker = Checker()
    with producer_of(broker, checker, CheckImmunityTimeInSeconds=90) as producer:
        producer.send(Message(TOPIC, "TagA", b"x"), says(TransactionStatus.Unknow))
        broker.clock.advance(80)
        assert checker.asked == []
        broker.clock.advance(40)
        assert checker.called.wait(PATIENCE)
        broker.wait_delivered(TOPIC, 1)
    assert checker.asked[0].user_properties == {}
    with pytest.raises(ONSClientException, match="CheckImmunityTimeInSeconds = -1"):
        producer_of(broker, CheckImmunityTimeInSeconds=-1)


def test_a_delay_is_refused_unless_it_is_allowed_and_counts_from_the_commit(
    broker: EmbeddedBroker,
) -> None:
    done = says(TransactionStatus.COMMIT_TRANSACTION)
    with producer_of(broker) as producer:
        message = Message(TOPIC, "TagA", b"x").setStartDeliverTime(broker.clock.now_ms + 5000)
        with pytest.raises(DelayConflictError, match="allow_delay=True"):
            producer.send(message, done)
        assert broker.journal.requests(code="SEND_MESSAGE_V2", topic=TOPIC) == []
        producer.send(message, done, allow_delay=True)
        broker.wait_for(lambda b: b.timers.count() == 1, timeout=PATIENCE)
        broker.clock.advance(5)
        broker.wait_delivered(TOPIC, 1)


def test_a_half_message_that_is_not_stored_is_an_error_and_no_work_is_done(
    broker: EmbeddedBroker,
) -> None:
    broker.faults.on("SEND_MESSAGE_V2", topic=TOPIC).respond("MESSAGE_ILLEGAL")
    worked: list[object] = []
    with (
        producer_of(broker) as producer,
        pytest.raises(ONSClientException, match="half message was not stored"),
    ):
        producer.send(Message(TOPIC, "TagA", b"x"), lambda *given: worked.append(given))  # type: ignore[arg-type]
    assert worked == []


def test_without_a_checker_it_does_not_start(broker: EmbeddedBroker) -> None:
    properties = {"NAMESRV_ADDR": broker.namesrv_addr}
    producer = ONSFactory.create_transaction_producer(properties, None)
    with pytest.raises(ValueError, match="no checker"):
        producer.start()
    assert producer.isClosed()


@pytest.mark.parametrize(
    "wrong",
    [5, Checker, object(), lambda: TransactionStatus.Unknow],
    ids=["int", "class", "object", "function of nothing"],
)
def test_what_can_do_no_work_and_answer_nothing_is_refused(
    broker: EmbeddedBroker, wrong: Any
) -> None:
    with pytest.raises(TypeError, match="checker"):
        ONSFactory.create_transaction_producer({}, wrong)
    with producer_of(broker) as producer, pytest.raises(TypeError, match="executer"):
        producer.send(Message(TOPIC, "TagA", b"x"), wrong)
    assert broker.journal.requests(code="SEND_MESSAGE_V2", topic=TOPIC) == []


def test_bases_without_a_function_say_so() -> None:
    with pytest.raises(ONSClientException, match="override it"):
        LocalTransactionExecuter().execute(Message(), None)
    with pytest.raises(ONSClientException, match="override it"):
        LocalTransactionChecker().check(Message())
    done = LocalTransactionExecuter(says(TransactionStatus.CommitTransaction))
    assert done.execute(Message(), None) is TransactionStatus.COMMIT_TRANSACTION
    known = LocalTransactionChecker(lambda _: TransactionStatus.Unknow)
    assert known.check(Message()) is TransactionStatus.UNKNOW
