"""A half message that a broker gave up is asked about again when an administrator wishes it."""

from __future__ import annotations

from datetime import timedelta

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    LocalTransactionState,
    Message,
    MessageExt,
    MessageQueue,
    TransactionMQProducer,
)
from rocketmq_py.admin import AdminClient

PARKED = "TRANS_CHECK_MAX_TIME_TOPIC"


class Bank:
    """Does not know, until it is told."""

    answer = LocalTransactionState.UNKNOW

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return self.answer

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        return self.answer


def test_a_transaction_that_was_given_up_is_decided_after_all() -> None:
    bank = Bank()
    with (
        EmbeddedBroker(
            clock=VirtualClock(), topics=["T"], config={"transactionCheckMax": 2}
        ) as broker,
        TransactionMQProducer(
            "P", namesrv_addr=broker.namesrv_addr, transaction_listener=bank
        ) as producer,
        AdminClient(namesrv_addr=broker.namesrv_addr) as admin,
    ):
        producer.send_message_in_transaction(Message("T", b"x"), None)
        broker.clock.run(timedelta(hours=1))
        parked = admin.message_at(MessageQueue(PARKED, "broker-a", 0), 0)
        assert parked is not None
        assert parked.body == b"x"
        bank.answer = LocalTransactionState.COMMIT_MESSAGE
        broker.clock.run(timedelta(hours=1))
        assert broker.topics["T"].count() == 0
        admin.ask_again(parked)
        broker.clock.run(timedelta(hours=1))
        assert broker.topics["T"].count() == 1
