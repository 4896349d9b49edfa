"""An order and the message about it: both or none, whichever process is killed, and when.

Three processes, and each may be killed with -9 at any moment. ``order`` writes an order and its
message into SQLite, in one transaction. ``relay`` sends what waits there, and forgets it when a
broker has it. ``ship`` packs a parcel for each order and, in the same transaction, keeps the id of
the message. A relay that dies between the send and its note sends the message again, under the
same id, which is made of the number of the order; ``ship`` knows the id then.

The broker is the one that NAMESRV_ADDR names, the databases are files of this folder:

    export NAMESRV_ADDR=127.0.0.1:9876
    python outbox.py relay            # until Ctrl-C or SIGTERM, as many of them as you like
    python outbox.py ship
    python outbox.py order "a chair"
"""

from __future__ import annotations

import logging
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import sleep

from rocketmq_py import (
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Delivery,
    Message,
    RocketMQError,
)
from rocketmq_py.admin import AdminClient

TOPIC, GROUP = "NewOrders", "warehouse"
SHOP, WAREHOUSE = Path("shop.db"), Path("warehouse.db")
PAUSE_S = 0.2
"""How long the relay sleeps between two looks into the database."""
SCHEMAS = {
    SHOP: """
        CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, item TEXT NOT NULL);
        CREATE TABLE IF NOT EXISTS outbox (number INTEGER PRIMARY KEY, body TEXT NOT NULL);
    """,
    WAREHOUSE: """
        CREATE TABLE IF NOT EXISTS parcels (item TEXT NOT NULL);
        CREATE TABLE IF NOT EXISTS handled (message_id TEXT PRIMARY KEY);
    """,
}
log = logging.getLogger("outbox")


@contextmanager
def transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for one transaction: it is committed at the end, or undone by an error."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMAS[path])
        with database:
            yield database


def order(item: str) -> int:
    """Take an order; what is to be told of it is written with it."""
    with transaction(SHOP) as database:
        number = database.execute("INSERT INTO orders (item) VALUES (?)", (item,)).lastrowid
        database.execute("INSERT INTO outbox VALUES (?, ?)", (number, item))
    return number or 0


def send_waiting(producer: DefaultMQProducer) -> None:
    """Send what waits, the oldest first. What fails stays, and those behind it with it."""
    with transaction(SHOP) as database:
        waiting = database.execute("SELECT number, body FROM outbox ORDER BY number").fetchall()
    for number, body in waiting:
        producer.send(Message(TOPIC, body.encode(), unique_key=f"order-{number}"))
        with transaction(SHOP) as database:
            database.execute("DELETE FROM outbox WHERE number = ?", (number,))


def relay(stopping: list[int]) -> None:
    """Send what waits, again and again, until a signal is in the list."""
    with DefaultMQProducer("shop") as producer:
        while not stopping:
            sleep(PAUSE_S)
            try:
                send_waiting(producer)
            except RocketMQError as error:  # a broker may have it or not: it is sent again
                log.warning("the outbox tries again in %s s: %s", PAUSE_S, error)


def ship(delivery: Delivery) -> None:
    """Pack a parcel, unless it was packed when the message came before."""
    message = delivery.message
    with transaction(WAREHOUSE) as database:
        is_new = database.execute(
            "INSERT OR IGNORE INTO handled VALUES (?)", (message.msg_id,)
        ).rowcount
        if is_new:
            database.execute("INSERT INTO parcels VALUES (?)", (message.body.decode(),))
    delivery.ack()


def warehouse() -> DefaultMQPushConsumer:
    """Make the consumer that ships; a new group begins with the oldest message."""
    consumer = DefaultMQPushConsumer(
        GROUP, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    consumer.subscribe(TOPIC)
    consumer.register_message_listener(ship)
    return consumer


def main(*words: str) -> None:
    logging.basicConfig(level=logging.INFO)
    with AdminClient() as admin:
        admin.ensure_topic(TOPIC)
    match words:
        case ["order", item]:
            print("order", order(item))
        case ["relay"]:
            stopping: list[int] = []
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda signum, _: stopping.append(signum))
            relay(stopping)
        case ["ship"]:
            warehouse().run()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RocketMQError as error:  # its text says what to do
        sys.exit(f"outbox: {error}")
