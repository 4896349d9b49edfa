"""Orders that nobody pays within half an hour are cancelled, by a message that arrives then.

Each order sends one message to its own future, and nothing ever polls a table of orders. A payment
recalls that message. Where it is too late for that, or the broker has recalls switched off, the
message arrives, finds the order paid, and changes nothing.

The message is sent before the order is stored. A crash in between leaves a message about an order
that does not exist, which is passed over; the other way round it would leave an order that nobody
ever cancels.

The broker is the one that NAMESRV_ADDR names, and the orders are in a file of this folder:

    export NAMESRV_ADDR=127.0.0.1:9876
    python order_timeouts.py watch         # cancels orders, until Ctrl-C or SIGTERM
    python order_timeouts.py place A-17
    python order_timeouts.py pay A-17
    python order_timeouts.py show
"""

from __future__ import annotations

import logging
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

from rocketmq_py import (
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Delivery,
    Message,
    RocketMQError,
)
from rocketmq_py.admin import AdminClient

TOPIC, GROUP = "OrderTimeouts", "order-timeouts"
PAY_WITHIN = timedelta(minutes=30)
SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
    number TEXT PRIMARY KEY,
    state TEXT NOT NULL,  -- open, paid or cancelled
    recall_handle TEXT  -- takes the message of the time-out back
)
"""
log = logging.getLogger("orders")


class Orders:
    """All orders. Each call is one transaction, and may be made by any thread or process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._database() as database:
            database.execute(SCHEMA)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path)) as database, database:
            yield database

    def place(self, number: str, producer: DefaultMQProducer) -> bool:
        """Take an order; False when its number is taken.

        What `send` raises is told to the customer: there is no order then.
        """
        if number in self.states():
            return False
        sent = producer.send(Message(TOPIC, number.encode(), keys=number, delay=PAY_WITHIN))
        with self._database() as database:
            row = (number, sent.recall_handle)
            placed = database.execute("INSERT OR IGNORE INTO orders VALUES (?, 'open', ?)", row)
            return placed.rowcount == 1  # else another process was faster

    def pay(self, number: str, producer: DefaultMQProducer) -> bool:
        """Pay an order; False when it is not open, and so cannot be paid."""
        with self._database() as database:
            row = database.execute(
                "UPDATE orders SET state = 'paid' WHERE number = ? AND state = 'open' "
                "RETURNING recall_handle",
                (number,),
            ).fetchone()
        if row is None:
            return False
        try:
            producer.recall_message(TOPIC, row[0] or "")
        except RocketMQError as error:  # it saves a message, no more: the payment counts
            log.info("the time-out of order %s will arrive and change nothing: %s", number, error)
        return True

    def on_timeout(self, delivery: Delivery) -> None:
        """Cancel an order if it is still open; a message that comes twice does no harm."""
        with self._database() as database:
            database.execute(
                "UPDATE orders SET state = 'cancelled' WHERE number = ? AND state = 'open'",
                (delivery.message.body.decode(),),
            )
        delivery.ack()

    def states(self) -> dict[str, str]:
        """Give the state of every order."""
        with self._database() as database:
            return dict(database.execute("SELECT number, state FROM orders").fetchall())


def watching(orders: Orders) -> DefaultMQPushConsumer:
    """Make the consumer that cancels orders; a new group begins with the oldest message."""
    consumer = DefaultMQPushConsumer(
        GROUP, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    consumer.subscribe(TOPIC)
    consumer.register_message_listener(orders.on_timeout)
    return consumer


def main(*words: str) -> None:
    logging.basicConfig(level=logging.INFO)
    orders = Orders(Path("orders.db"))
    with AdminClient() as admin:
        admin.ensure_topic(TOPIC)
    match words:
        case ["watch"]:
            watching(orders).run()
        case ["show"]:
            print(*(f"{number} {state}" for number, state in orders.states().items()), sep="\n")
        case ["place", number]:
            with DefaultMQProducer(GROUP) as producer:
                if not orders.place(number, producer):
                    sys.exit(f"order_timeouts: there is an order {number} already")
        case ["pay", number]:
            with DefaultMQProducer(GROUP) as producer:
                print("paid" if orders.pay(number, producer) else "cannot be paid")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RocketMQError as error:  # its text says what to do
        sys.exit(f"order_timeouts: {error}")
