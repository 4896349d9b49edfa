"""Messages that are kept in the database until a broker has them.

A message is added in the transaction that causes it: there are both or none. A task sends what is
there, and deletes a row when a broker has its message. After a crash between these two the message
is sent again, with the same id, and ``inbox.py`` handles it once.
"""

import asyncio
import json
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from rocketmq_py import ApplicationClock, Message, RocketMQError, aio, select_message_queue_by_hash

PAUSE = timedelta(seconds=1)
"""How long the outbox waits when a send has failed."""
log = logging.getLogger(__name__)


class Outbox:
    """Sends the messages in the order in which they were added.

    One that cannot be sent holds up the others, and the log says so.
    """

    def __init__(self, database: sqlite3.Connection, clock: ApplicationClock) -> None:
        self._database = database
        self._clock = clock
        self._has_rows = asyncio.Event()
        self._has_rows.set()  # an earlier process may have left some

    def add(
        self, message_id: str, *, topic: str, tag: str, key: str, body: object, due: datetime | None
    ) -> None:
        """Add a message to the caller's transaction. Those of one key arrive in order.

        A message arrives when it is ``due``, or at once.
        """
        self._database.execute(
            "INSERT INTO outbox (message_id, topic, tag, key, body, due) VALUES (?, ?, ?, ?, ?, ?)",
            (message_id, topic, tag, key, json.dumps(body), due and due.timestamp()),
        )
        self._has_rows.set()  # the task goes on when the caller awaits: after its transaction

    @asynccontextmanager
    async def sent_by(self, producer: aio.Producer) -> AsyncIterator[None]:
        """Send inside this block whatever is there and is added."""
        # Production ignores what the clock is told. The clock of a test waits for the outbox.
        with self._clock.idle_when(lambda: not self._has_rows.is_set(), name="outbox"):
            sending = asyncio.create_task(self._send_forever(producer))
            try:
                yield
            finally:
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending

    async def _send_forever(self, producer: aio.Producer) -> None:
        while await self._has_rows.wait():
            try:
                await self._send_all(producer)
                self._has_rows.clear()  # nothing was awaited since the last look
            except (RocketMQError, sqlite3.Error) as error:  # a broker may have it, or not
                log.warning("the outbox tries again in %s: %s", PAUSE, error)
                await asyncio.sleep(PAUSE.total_seconds())

    async def _send_all(self, producer: aio.Producer) -> None:
        oldest = "SELECT * FROM outbox ORDER BY number LIMIT 1"
        while row := self._database.execute(oldest).fetchone():
            number, message_id, topic, tag, key, body, due = row
            deliver_at = None if due is None else datetime.fromtimestamp(due, UTC)
            message = Message(
                topic, body.encode(), tags=tag, unique_key=message_id, deliver_at=deliver_at
            )
            await producer.send(message, selector=select_message_queue_by_hash, arg=key)
            with self._database:
                self._database.execute("DELETE FROM outbox WHERE number = ?", (number,))
