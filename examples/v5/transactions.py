"""A message that is delivered only if the program's own work succeeds.

The checker is asked about what nobody has ended, also by the next run of the program.

    python examples/v5/transactions.py 127.0.0.1:9876 Payments commit|rollback|crash
"""

from __future__ import annotations

import sys

from compat.v5 import (
    ClientConfiguration,
    Message,
    MessageView,
    Producer,
    TransactionChecker,
    TransactionResolution,
)


class Ledger(TransactionChecker):
    """Knows what was booked; here everything was."""

    def check(self, message: MessageView) -> TransactionResolution:
        """Decide about a transaction that was left open."""
        print(f"asked about {message.body!r}")
        return TransactionResolution.COMMIT


def main(name_server: str, topic: str, outcome: str = "commit") -> int:
    """Send a message, and end its transaction as it is said."""
    with Producer(ClientConfiguration(name_server), (topic,), checker=Ledger()) as producer:
        message = Message()
        message.topic = topic
        message.body = b"paid 42"
        message.keys = "order-42"
        transaction = producer.begin_transaction()
        producer.send(message, transaction)
        if outcome == "commit":
            transaction.commit()
        elif outcome == "rollback":
            transaction.rollback()
        print(f"{outcome} {transaction.message_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
