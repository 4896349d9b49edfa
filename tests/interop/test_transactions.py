"""Transactions: Java's producer with our broker, our producer and our broker with a real 5.3.3."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQPushConsumer,
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionMQProducer,
)
from tests.interop.conftest import Serve
from tests.interop.java_tools import client_program
from tests.interop.real_broker import real_cluster
from tests.waiting import HANG_S

TOPIC = "TransactionTopic"
STATES = {
    b"commit": LocalTransactionState.COMMIT_MESSAGE,
    b"rollback": LocalTransactionState.ROLLBACK_MESSAGE,
    b"asked": LocalTransactionState.UNKNOW,
    b"open": LocalTransactionState.UNKNOW,
}


@pytest.mark.parametrize("version", ["4.9.4", "5.3.3"])
def test_a_java_producer_commits_rolls_back_and_is_asked(serve: Serve, version: str) -> None:
    options = ("--topic", TOPIC, "--set", "transactionTimeOut=1500")
    with (
        serve(*options) as namesrv,
        client_program(
            version, "TimerReceive", namesrv, TOPIC, "2", str(HANG_S), "TransactionReceive"
        ) as receiver,
        client_program(version, "TransactionSend", namesrv, TOPIC, "30") as sender,
    ):
        assert sender.finish(HANG_S) == 0, sender.lines
        assert receiver.finish(HANG_S) == 0, receiver.lines
    sent = {way: msg_id for way, msg_id, _status in sender.table("SENT")}
    assert sender.table("CHECKED") == [["UNKNOW", sent["UNKNOW"], TOPIC]]
    received = {row[0]: row[1] for row in receiver.table("RECEIVED")}
    assert received == {way: sent[way] for way in ("COMMIT_MESSAGE", "UNKNOW")}
    assert len(receiver.table("RECEIVED")) == 2


class Bank:
    """Decides as the message's body says; what is asked about is committed, but for `open`."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        del arg
        return STATES[message.body]

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        self.asked.append(message.body)
        if message.body == b"open":
            return LocalTransactionState.UNKNOW
        return LocalTransactionState.COMMIT_MESSAGE


class Heir(Bank):
    """Another process of the same group, which knows how the open one ended."""

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        self.asked.append(message.body)
        return LocalTransactionState.COMMIT_MESSAGE


def test_our_producer_at_a_real_broker_and_then_our_broker_on_its_store(tmp_path: Path) -> None:
    arrived: queue.Queue[MessageExt] = queue.Queue()

    def listen(
        messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            arrived.put(message)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    bank = Bank()
    # A real broker gathers removal marks for 3 s by default, and until they are written it asks
    # about transactions that have ended.
    settings = {
        "transactionTimeOut": "3000",
        "transactionCheckInterval": "5000",
        "transactionOpBatchInterval": "100",
    }
    with real_cluster(tmp_path, settings=settings) as real:
        consumer = DefaultMQPushConsumer("TransactionReceive", namesrv_addr=real.namesrv_addr)
        consumer.consume_from_where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer.subscribe(TOPIC, "*")
        consumer.register_message_listener(listen)
        with (
            TransactionMQProducer(
                "Bank", transaction_listener=bank, namesrv_addr=real.namesrv_addr
            ) as producer,
            consumer,
        ):
            ids = {
                body: producer.send_message_in_transaction(Message(TOPIC, body)).msg_id
                for body in STATES
            }
            got = [arrived.get(timeout=HANG_S) for _ in range(2)]
    assert {message.body: message.msg_id for message in got} == {
        body: ids[body] for body in (b"commit", b"asked")
    }
    assert set(bank.asked) == {b"asked", b"open"}
    assert arrived.empty()

    with EmbeddedBroker(store=tmp_path / "store", clock=VirtualClock()) as broker:
        parts = broker._parts()
        with parts.door.quiet:
            assert parts.transactions.count() == 1
        heir = Heir()
        with TransactionMQProducer(
            "Bank", transaction_listener=heir, namesrv_addr=broker.namesrv_addr
        ):
            broker.wait_for(lambda b: b._parts().tables.producers.members("Bank"))
            broker.clock.advance(30)
            broker.wait_delivered(TOPIC, 3)
        bodies = sorted(message.body for message in broker.messages.in_topic(TOPIC))
    assert heir.asked == [b"open"]
    assert bodies == [b"asked", b"commit", b"open"]
