"""End of a transaction: commit or rollback.

RocketMQ's EndTransactionProcessor behind its header: the half message must be the one that the
producer names, then a commit stores it under its real topic and a rollback only marks it as done. A
delay of the message counts from the commit, because only then it passes the put hooks with its own
topic. Must not know: headers, response codes. Read on: `service.py` for which transactions are
open.
"""

from functools import partial
from typing import NamedTuple

from attrs import define

from embedded_broker.core.environment import Environment
from embedded_broker.core.guards import Action, Caller
from embedded_broker.core.produce import Produce
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.transactions.half import custom_immunity_ms, delivery
from embedded_broker.core.transactions.service import TransactionalMessageService
from embedded_broker.store.queue_names import destination
from rocketmq_py.protocol.handles import decode_offset_id
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.properties import Prop

NOT_FOUND = "Find prepared transaction message failed"


class Ending(NamedTuple):
    """What a producer says of its half message; ``was_asked`` if the broker has asked about it."""

    producer_group: str
    commit_log_offset: int
    queue_offset: int
    commits: bool
    was_asked: bool


@define(eq=False, kw_only=True)
class EndTransactions:
    """Commits and rolls back. Used under the door."""

    _env: Environment
    _transactions: TransactionalMessageService
    _produce: Produce

    def check_role(self) -> None:
        """Refuse on a slave."""
        if self._env.config.text("brokerRole") == "SLAVE":
            remark = "a slave (brokerRole=SLAVE) cannot end transactions"
            raise Refused(Reason.SLAVE_NOT_AVAILABLE, remark)

    def end(self, ending: Ending, caller: Caller) -> None:
        """Commit or roll back a half message.

        Refused: no half message at the offset, one for a topic to which the caller may not send,
        another group or queue offset, a late word without having been asked. What the store refuses
        is refused as a send is, and the half message stays. A repeated commit delivers again, as on
        a real broker, unless transactionEndOnce is set.
        """
        half = self._transactions.find(ending.commit_log_offset)
        if half is None:
            raise Refused(
                Reason.FAILED,
                f"{NOT_FOUND}: no half message at commit log offset {ending.commit_log_offset}",
            )
        _demand(Action.PUB, half, caller)
        self._refuse_late(ending, half)
        _refuse_another(ending, half)
        once = self._env.config.flag("transactionEndOnce")
        if once and not self._transactions.is_open(half.queue_offset):
            raise Refused(
                Reason.FAILED,
                f"{NOT_FOUND}: it has ended already, or a check made a newer copy of it "
                "(transactionEndOnce=true)",
            )
        if ending.commits:
            self._deliver(half)
        self._transactions.remove(half.queue_offset)

    def resume(self, offset_id: str, caller: Caller) -> None:
        """Let the broker ask again about a half message that was asked about in vain.

        Refuses a caller that may not change the topic for which it is.
        """
        try:
            _, _, offset = decode_offset_id(offset_id)
        except ValueError as error:
            raise Refused(Reason.FAILED, f"{offset_id!r} is no offset message id") from error
        self._transactions.resume(offset, partial(_demand, Action.UPDATE, caller=caller))

    def _deliver(self, half: MessageRecord) -> None:
        message = delivery(half)
        if message is None:
            raise Refused(Reason.FAILED, "the half message does not name its topic and queue")
        outcome = self._produce.copy(message)
        if outcome.reason is not None and not outcome.is_stored:
            raise Refused(outcome.reason, outcome.remark or "the message was not stored")

    def _refuse_late(self, ending: Ending, half: MessageRecord) -> None:
        """Refuse a producer that should wait by now until the broker asks.

        Only for messages with an immunity of their own, which counts if it is longer than
        transactionTimeOut.
        """
        if ending.was_asked or Prop.CHECK_IMMUNITY_TIME_IN_SECONDS not in half.properties:
            return
        immunity_ms = custom_immunity_ms(half.properties)
        limit_ms = max(immunity_ms or 0, self._env.config.int("transactionTimeOut"))
        age_ms = self._env.clock.now_ms - half.store_timestamp
        if age_ms > limit_ms:
            raise Refused(
                Reason.ILLEGAL_OPERATION,
                f"the half message is {age_ms} ms old, more than its check immunity of {limit_ms} "
                "ms: wait for the broker to ask",
            )


def _demand(action: Action, half: MessageRecord, caller: Caller) -> None:
    """Refuse a caller without this right to the topic for which a half message is."""
    where = destination(half.properties)
    caller.demand(action, half.topic if where is None else where[0])


def _refuse_another(ending: Ending, half: MessageRecord) -> None:
    """Refuse who does not name this half message (checkPrepareMessage)."""
    group = half.properties.get(Prop.PGROUP)
    if group != ending.producer_group:
        raise Refused(
            Reason.FAILED,
            f"The producer group wrong: {ending.producer_group}, the half message is of {group}",
        )
    if half.queue_offset != ending.queue_offset:
        raise Refused(
            Reason.FAILED,
            f"The transaction state table offset wrong: {ending.queue_offset}, "
            f"the half message has {half.queue_offset}",
        )
