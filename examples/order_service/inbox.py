"""Handles each message once, however often it comes."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rocketmq_py import aio

Handlers = Mapping[str, Callable[[Any], None]]
"""Tag to what is done with the body, which is JSON."""


@dataclass
class Inbox:
    """Calls the handlers, and remembers which messages they have handled."""

    database: sqlite3.Connection
    handlers: Handlers

    async def handle(self, delivery: aio.Delivery) -> None:
        """Handle a message, unless it was handled before.

        What the handler changes and the id of the message are written together. An exception undoes
        both, and the message comes again in its place, before any later one of its customer.
        """
        message = delivery.message
        with self.database:
            is_new = self.database.execute(
                "INSERT OR IGNORE INTO handled VALUES (?)", (message.msg_id,)
            ).rowcount
            if is_new:
                self.handlers[message.tags or ""](json.loads(message.body))
