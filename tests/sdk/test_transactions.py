"""Messages that depend on local work: delivered, dropped, or asked about."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.pytest_plugin import Recorders
from rocketmq_py import (
    LocalTransactionState,
    Message,
    MessageExt,
    SendStatus,
    TransactionMQProducer,
)

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW
ASKED_S = 60
"""Brokers ask after 6 s, when they look next."""


class Bank:
    """Local work gives what it is told; a question is answered with ``answer``."""

    def __init__(self) -> None:
        self.answer = COMMIT
        self.asked: SimpleQueue[MessageExt] = SimpleQueue()

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        del message
        assert isinstance(arg, LocalTransactionState)
        return arg

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        self.asked.put(message)
        return self.answer


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def producer(
    rocketmq_broker: EmbeddedBroker, rocketmq_group: str, bank: Bank
) -> Iterator[TransactionMQProducer]:
    with TransactionMQProducer(
        rocketmq_group, transaction_listener=bank, namesrv_addr=rocketmq_broker.namesrv_addr
    ) as made:
        yield made


@pytest.mark.case("T58")
def test_a_committed_message_arrives_and_a_rolled_back_one_does_not(
    rocketmq_topic: str, producer: TransactionMQProducer, rocketmq_recorder: Recorders
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    dropped = producer.send_message_in_transaction(Message(rocketmq_topic, b"no"), ROLLBACK)
    result = producer.send_message_in_transaction(
        Message(rocketmq_topic, b"pay", tags="a", keys=["k"]), COMMIT
    )
    assert dropped.send_status is result.send_status is SendStatus.SEND_OK
    got = arrived.expect("pay")
    assert (got.msg_id, got.tags, got.keys) == (result.msg_id, "a", ["k"])
    assert result.transaction_id in {None, result.msg_id}  # brokers of 4.9 name none
    arrived.expect_nothing()


@pytest.mark.case("T58")
def test_an_unknown_outcome_is_asked_about_and_the_answer_counts(
    rocketmq_topic: str, producer: TransactionMQProducer, bank: Bank, rocketmq_recorder: Recorders
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    result = producer.send_message_in_transaction(Message(rocketmq_topic, b"x"), UNKNOW)
    arrived.expect_nothing()
    assert arrived.expect("x", within=ASKED_S).msg_id == result.msg_id
    asked = bank.asked.get_nowait()
    assert (asked.topic, asked.body) == (rocketmq_topic, b"x")
    assert asked.transaction_id == result.msg_id
