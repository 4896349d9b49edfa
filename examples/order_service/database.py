"""The tables of the service, in one SQLite file, and the one connection to it.

Calls of SQLite are made on the event loop's thread, because they are short; only a commit waits for
the disk. Nothing is awaited inside a transaction (``with database:``), so there is one at a time,
and no task sees half of it. A database in the network needs a driver for asyncio.
"""

import sqlite3
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
    number INTEGER PRIMARY KEY,
    customer TEXT NOT NULL,
    cents INTEGER NOT NULL,
    state TEXT NOT NULL,  -- open, paid or cancelled
    placed_at REAL NOT NULL  -- seconds since 1970, as all times here
);
CREATE TABLE IF NOT EXISTS bookings (
    number INTEGER PRIMARY KEY,
    order_number INTEGER NOT NULL REFERENCES orders,
    entry TEXT NOT NULL,
    cents INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS reports (
    day TEXT PRIMARY KEY,
    made_at REAL,  -- NULL: it is still to come
    orders INTEGER,
    cents INTEGER
);
CREATE TABLE IF NOT EXISTS outbox (
    number INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    topic TEXT NOT NULL,
    tag TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,
    due REAL  -- NULL: at once
);
CREATE TABLE IF NOT EXISTS handled (
    message_id TEXT PRIMARY KEY
);
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open the database, and make the tables that are not there."""
    database = sqlite3.connect(path)
    database.executescript(SCHEMA)
    return database
