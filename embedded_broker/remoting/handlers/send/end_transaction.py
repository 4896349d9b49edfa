"""How a transaction ends: request 37.

RocketMQ's EndTransactionProcessor: the half message must be the one that the producer names, then a
commit stores it under its real topic and a rollback only marks it as done. A delay of the message
counts from the commit, because only then it passes the put hooks with its own topic. Which
transactions are open is known in `core/transactions/service.py`.
"""

import logging

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.core.transactions.half import custom_immunity_ms, delivery
from embedded_broker.remoting.endpoint import Request, RequestError
from embedded_broker.remoting.handlers.send.put_status import STORED, outcome_of
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.transactions import EndTransactionRequestHeader
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK

logger = logging.getLogger(__name__)

NOT_FOUND = "Find prepared transaction message failed"


class EndTransactionProcessor:
    """Commits and rolls back. Clients send 37 one-way: what is refused is read in the journal."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._transactions = core.transactions

    def register(self) -> None:
        """Take over the request of this module."""
        self._core.endpoint.register(RequestCode.END_TRANSACTION, self.end)

    def end(self, request: Request) -> RemotingCommand | None:
        """37: 8 commits, 12 rolls back; anything else says nothing and gets no answer.

        No half message at the offset, another group or queue offset: 1. After a custom immunity
        has passed, without having been asked: 604. What the store refuses is answered as a send
        is, and the half message stays. A repeated commit delivers again, as on a real broker,
        unless transactionEndOnce is set (then 1).
        """
        core = self._core
        header = EndTransactionRequestHeader.from_ext(request.command.ext_fields)
        if core.config.text("brokerRole") == "SLAVE":
            raise RequestError(
                ResponseCode.SLAVE_NOT_AVAILABLE, "a slave ends no transactions: brokerRole=SLAVE"
            )
        outcome = header.commit_or_rollback
        if outcome not in {TRANSACTION_COMMIT, TRANSACTION_ROLLBACK}:
            logger.info("transaction %s is not decided yet", header.msg_id)
            return None
        half = self._transactions.find(header.commit_log_offset)
        if half is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"{NOT_FOUND}: no half message at commit log offset {header.commit_log_offset}",
            )
        self._refuse_late(header, half)
        _refuse_another(header, half)
        once = core.config.flag("transactionEndOnce")
        if once and not self._transactions.is_open(half.queue_offset):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"{NOT_FOUND}: it has ended already, or a check made a newer copy of it "
                "(transactionEndOnce=true)",
            )
        if outcome == TRANSACTION_COMMIT:
            self._deliver(half)
        self._transactions.remove(half.queue_offset)
        return request.command.answer(ResponseCode.SUCCESS)

    def _deliver(self, half: MessageRecord) -> None:
        message = delivery(half)
        if message is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, "the half message names no topic and queue to go to"
            )
        result = self._core.store.put(message)
        if result.status not in STORED:
            raise RequestError(*_refusal(*outcome_of(result, self._core.config)))

    def _refuse_late(self, header: EndTransactionRequestHeader, half: MessageRecord) -> None:
        """Refuse with 604 who was due to be asked by now and speaks up unasked.

        Only for messages with an immunity of their own, which counts if it is longer than
        transactionTimeOut.
        """
        immunity_ms = custom_immunity_ms(half.properties)
        if (
            header.from_transaction_check
            or Prop.CHECK_IMMUNITY_TIME_IN_SECONDS not in half.properties
        ):
            return
        limit_ms = max(immunity_ms or 0, self._core.config.int("transactionTimeOut"))
        age_ms = self._core.clock.now_ms - half.store_timestamp
        if age_ms > limit_ms:
            raise RequestError(
                ResponseCode.ILLEGAL_OPERATION,
                f"the half message is {age_ms} ms old and its check immunity was {limit_ms} ms: "
                "wait for the broker to ask",
            )


def _refuse_another(header: EndTransactionRequestHeader, half: MessageRecord) -> None:
    """Refuse who does not name this half message (checkPrepareMessage)."""
    group = half.properties.get(Prop.PGROUP)
    if group != header.producer_group:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"The producer group wrong: {header.producer_group}, the half message is of {group}",
        )
    if half.queue_offset != header.tran_state_table_offset:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"The transaction state table offset wrong: {header.tran_state_table_offset}, "
            f"the half message has {half.queue_offset}",
        )


def _refusal(code: ResponseCode, remark: str | None) -> tuple[ResponseCode, str]:
    return code, remark or "the message was not stored"
