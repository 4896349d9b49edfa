"""Transactions: messages kept unseen until their producer says what becomes of them.

`half.py` says what a half message, its copies and its removal mark look like, `service.py` which of
them are open and when their producer is asked. This room answers no request:
`core/produce.py` brings the half messages in,
`ending.py` ends them.
"""

from embedded_broker.core.transactions.service import TransactionalMessageService

__all__ = ["TransactionalMessageService"]
