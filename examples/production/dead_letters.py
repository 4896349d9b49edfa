"""Payments that fail are tried again, later and later; what still fails is parked, and drained.

* A payment whose bank does not answer comes again after 10 s, 30 s, 1 min, ...: `ATTEMPTS` times
  in all. Then it is a dead letter of the group, in the topic ``%DLQ%payments``.
* A payment that no bank would ever take is a dead letter at once.
* ``parked`` shows them. When the cause is mended, ``drain`` sends each back to its topic, with its
  id, and remembers how far it came: a drain that is killed goes on there. It may send the last one
  twice, so each payment is booked under the id of its message.

The broker is the one that NAMESRV_ADDR names, the database is a file of this folder. The bank is
closed while there is a file ``bank.closed``:

    export NAMESRV_ADDR=127.0.0.1:9876
    python dead_letters.py work        # until Ctrl-C or SIGTERM
    python dead_letters.py pay 250
    python dead_letters.py parked
    python dead_letters.py drain
"""

from __future__ import annotations

import logging
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from rocketmq_py import (
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Delivery,
    Message,
    MessageExt,
    NoRouteError,
    RocketMQError,
)
from rocketmq_py.admin import AdminClient

TOPIC, GROUP, DRAIN = "Payments", "payments", "payments-drain"
DEAD_LETTERS = f"%DLQ%{GROUP}"
ATTEMPTS = 4
BOOKS, CLOSED = Path("payments.db"), Path("bank.closed")
SCHEMA = "CREATE TABLE IF NOT EXISTS booked (message_id TEXT PRIMARY KEY, cents INTEGER NOT NULL)"
log = logging.getLogger("payments")


def book(message_id: str, cents: int) -> None:
    """Book a payment once, however often it comes; OSError while the bank is closed."""
    if CLOSED.exists():
        raise ConnectionError("the bank is closed")
    with closing(sqlite3.connect(BOOKS)) as database, database:
        database.execute(SCHEMA)
        database.execute("INSERT OR IGNORE INTO booked VALUES (?, ?)", (message_id, cents))


def on_payment(delivery: Delivery) -> None:
    """Settle a payment. An exception lets it come again, after a pause that grows."""
    message = delivery.message
    if message.body.isdigit():
        book(message.msg_id, int(message.body))
        delivery.ack()
    else:
        log.error("payment %s is no amount: %r", message.msg_id, message.body[:50])
        delivery.dead()


def worker() -> DefaultMQPushConsumer:
    """Make the consumer of payments; a new group begins with the oldest one."""
    consumer = DefaultMQPushConsumer(
        GROUP,
        max_reconsume_times=ATTEMPTS - 1,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer.subscribe(TOPIC)
    consumer.register_message_listener(on_payment)
    return consumer


def parked(admin: AdminClient, *, forget: bool = False) -> Iterator[MessageExt]:
    """Give the dead letters that were not drained yet, the oldest of each queue first.

    With ``forget`` each is passed over for good when the next one is asked for.
    """
    try:
        queues = admin.group_progress(DRAIN, DEAD_LETTERS).queues
    except NoRouteError:  # there never was a dead letter
        return
    for queue, place in queues.items():
        for offset in range(max(place.committed, 0), place.end):
            message = admin.message_at(queue, offset)
            if message is not None:  # else it is older than the broker keeps messages
                yield message
            if forget:
                admin.set_offsets(DRAIN, {queue: offset + 1})


def drain(admin: AdminClient, producer: DefaultMQProducer) -> int:
    """Send every dead letter back to where it came from, as a new message with its old id."""
    if DRAIN not in admin.group_names():
        admin.create_group(DRAIN)
    count = 0
    for message in parked(admin, forget=True):
        again = Message(TOPIC, message.body, keys=message.keys, unique_key=message.msg_id)
        producer.send(again)  # an error ends the drain here; the next one goes on
        count += 1
    return count


def main(*words: str) -> None:
    logging.basicConfig(level=logging.INFO)
    with AdminClient() as admin, DefaultMQProducer("shop") as producer:
        admin.ensure_topic(TOPIC)
        match words:
            case ["work"]:
                worker().run()
            case ["pay", amount]:
                producer.send(Message(TOPIC, amount.encode(), keys="payment"))
            case ["parked"]:
                for message in parked(admin):
                    print(message.msg_id, message.body.decode(errors="replace"))
            case ["drain"]:
                print(drain(admin, producer), "sent again")
            case _:
                sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RocketMQError as error:  # its text says what to do
        sys.exit(f"dead_letters: {error}")
