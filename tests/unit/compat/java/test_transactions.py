"""Transactions whose listener has Java's names."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rocketmq_py
from compat.java import (
    DefaultMQProducer,
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionListener,
    TransactionMQProducer,
)
from embedded_broker import EmbeddedBroker
from rocketmq_py import ConfigError, MQClientException

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW


class Bank(TransactionListener):
    def __init__(self) -> None:
        self.worked: list[object] = []
        self.asked: list[MessageExt] = []

    def executeLocalTransaction(self, msg: rocketmq_py.Message, arg: Any) -> LocalTransactionState:
        self.worked.append(arg)
        if isinstance(arg, Exception):
            raise arg
        state: LocalTransactionState = arg
        return state

    def checkLocalTransaction(self, msg: MessageExt) -> LocalTransactionState:
        self.asked.append(msg)
        return COMMIT


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def producer(broker: EmbeddedBroker, bank: Bank) -> Iterator[TransactionMQProducer]:
    made = TransactionMQProducer("bank")
    made.setNamesrvAddr(broker.namesrv_addr)
    made.setTransactionListener(bank)
    made.start()
    yield made
    made.shutdown()


@pytest.mark.case("T58")
@pytest.mark.parametrize(("state", "delivered"), [(COMMIT, 1), (ROLLBACK, 0)])
def test_the_work_of_a_listener_with_java_names_decides(
    broker: EmbeddedBroker,
    producer: TransactionMQProducer,
    bank: Bank,
    state: LocalTransactionState,
    delivered: int,
) -> None:
    result = producer.sendMessageInTransaction(Message("T", "TagA", "k", b"pay"), state)
    assert result.getLocalTransactionState() is state
    assert bank.worked == [state]
    broker.wait_idle()
    assert broker.topics["T"].count() == delivered
    assert producer.getTransactionListener() is bank


@pytest.mark.case("T58")
@pytest.mark.case("T60")
@pytest.mark.parametrize("outcome", [UNKNOW, ValueError("no money")])
def test_the_broker_asks_later_about_work_that_is_not_decided(
    broker: EmbeddedBroker, producer: TransactionMQProducer, bank: Bank, outcome: object
) -> None:
    result = producer.sendMessageInTransaction(Message("T", b"pay"), outcome)
    assert result.getLocalTransactionState() is UNKNOW
    broker.wait_idle()
    broker.clock.advance(60)
    broker.wait_for(lambda _: broker.topics["T"].count() == 1)
    assert [asked.getTransactionId() for asked in bank.asked] == [result.getTransactionId()]


@pytest.mark.parametrize("wrong", [object(), Bank, print])
def test_what_is_no_listener_is_refused_when_it_is_set(wrong: Any) -> None:
    with pytest.raises(TypeError, match="is no TransactionListener"):
        TransactionMQProducer("bank").setTransactionListener(wrong)


def test_a_listener_that_lacks_a_question_cannot_be_made() -> None:
    class Half(TransactionListener):
        def executeLocalTransaction(
            self, msg: rocketmq_py.Message, arg: Any
        ) -> LocalTransactionState:
            return COMMIT

    with pytest.raises(TypeError, match="checkLocalTransaction"):
        Half()  # type: ignore[abstract]


def test_an_executor_answers_questions(broker: EmbeddedBroker, bank: Bank) -> None:
    with ThreadPoolExecutor(1) as pool:
        producer = TransactionMQProducer("bank")
        producer.setExecutorService(pool)
        producer.setTransactionListener(bank)
        producer.setNamesrvAddr(broker.namesrv_addr)
        producer.start()
        assert producer.getExecutorService() is pool
        producer.sendMessageInTransaction(Message("T", b"pay"), UNKNOW)
        broker.clock.advance(60)
        broker.wait_for(lambda _: broker.topics["T"].count() == 1)
        with pytest.raises(ConfigError, match=r"start\(\) has read this setting already"):
            producer.setCheckThreadPoolMaxSize(3)
        producer.shutdown()


def test_more_threads_at_least_than_at_most_are_refused_by_the_start(
    broker: EmbeddedBroker,
) -> None:
    producer = TransactionMQProducer("bank")
    producer.setNamesrvAddr(broker.namesrv_addr)
    producer.setCheckThreadPoolMinSize(2)
    with pytest.raises(ConfigError, match="must not exceed check_thread_pool_max, which is 1"):
        producer.start()
    producer.setCheckThreadPoolMaxSize(2)
    producer.start()
    producer.shutdown()


def test_a_plain_producer_has_no_transactions(producer: TransactionMQProducer) -> None:
    with pytest.raises(MQClientException, match="has no transactions"):
        DefaultMQProducer("g").sendMessageInTransaction(Message("T", b"x"), None)
