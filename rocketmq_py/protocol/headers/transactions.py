"""What the two requests of a transaction say in their headers: 37 and 39.

What the offsets mean to the broker is told in `embedded_broker.core.transactions`.
"""

from __future__ import annotations

from rocketmq_py.protocol.headers import Flag, Header, Int32, Int64, Text, optional, required


class EndTransactionRequestHeader(Header):
    """37: a producer ends its transaction, by itself or because a broker asked.

    `tran_state_table_offset` is the half message's queue offset, `commit_or_rollback` one of the
    ``TRANSACTION_`` numbers of `sysflag`: 8 commit, 12 rollback, 0 still unknown.
    """

    producer_group: Text = required("producerGroup")
    tran_state_table_offset: Int64 = required("tranStateTableOffset")
    commit_log_offset: Int64 = required("commitLogOffset")
    commit_or_rollback: Int32 = required("commitOrRollback")
    from_transaction_check: Flag = optional("fromTransactionCheck", default=False)
    msg_id: Text = required("msgId")
    transaction_id: Text | None = optional("transactionId")
    topic: Text | None = optional("topic")
    broker_name: Text | None = optional("bname")


class CheckTransactionStateRequestHeader(Header):
    """39, broker to producer: say what became of the transaction; its half message is the body."""

    tran_state_table_offset: Int64 = required("tranStateTableOffset")
    commit_log_offset: Int64 = required("commitLogOffset")
    msg_id: Text | None = optional("msgId")
    transaction_id: Text | None = optional("transactionId")
    offset_msg_id: Text | None = optional("offsetMsgId")
    topic: Text | None = optional("topic")
    broker_name: Text | None = optional("bname")
