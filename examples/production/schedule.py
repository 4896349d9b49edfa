"""A report at eight in the morning in Berlin: one for each day, whatever the clocks and crashes do.

The schedule is a chain of delayed messages: the one of a day makes the report and arms the next
day. Three things make it exact.

* When a day is due is read from the calendar of its zone, and not counted from the last arrival: it
  never drifts, and a day of 23 or 25 hours has its report at eight, too.
* The report, the mark that it was made, and the next day that is to be armed, are one transaction.
* A day is armed after that, and marked as armed then. One that was not is armed by the next message
  or the next start; one that was armed twice comes twice, and its second message finds the mark.

A service that was down makes up for each missed day, in order. The longest delay of a broker is 3
days unless its ``timerMaxDelaySec`` says more, so this chain is for periods up to that.

The broker is the one that NAMESRV_ADDR names, the database is a file of this folder. Where the
system has no time zones, `pip install tzdata` brings them:

    export NAMESRV_ADDR=127.0.0.1:9876
    python schedule.py run     # until Ctrl-C or SIGTERM
    python schedule.py show
"""

from __future__ import annotations

import logging
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from rocketmq_py import (
    ApplicationClock,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Delivery,
    Message,
    RocketMQError,
    SystemClock,
)
from rocketmq_py.admin import AdminClient

TOPIC, GROUP = "DailyReports", "daily-reports"
AT, ZONE = time(8), ZoneInfo("Europe/Berlin")
DAY = timedelta(days=1)
SCHEMA = """
CREATE TABLE IF NOT EXISTS days (day TEXT PRIMARY KEY, armed DEFAULT 0, made DEFAULT 0);
CREATE TABLE IF NOT EXISTS reports (day TEXT NOT NULL, made_at TEXT NOT NULL);
"""


def due(day: date) -> datetime:
    """Say when a day's report is due. A time that comes twice counts the first time."""
    return datetime.combine(day, AT, ZONE).astimezone(UTC)


class Schedule:
    """The days that are armed and those whose report was made, in one SQLite file."""

    def __init__(self, path: Path, producer: DefaultMQProducer, clock: ApplicationClock) -> None:
        self._path, self._producer, self._clock = path, producer, clock
        with closing(sqlite3.connect(path)) as database:
            database.executescript(SCHEMA)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path)) as database, database:
            yield database

    def begin(self) -> None:
        """Arm the first day that is still to come, or go on where an earlier process ended."""
        now = self._clock.now()
        today = now.astimezone(ZONE).date()
        first = today if due(today) > now else today + DAY
        with self._database() as database:
            database.execute(
                "INSERT INTO days (day) SELECT ? WHERE NOT EXISTS (SELECT * FROM days)",
                (str(first),),
            )
        self._arm()

    def on_day(self, delivery: Delivery) -> None:
        """Make the report of a day, unless it was made, and arm the next day."""
        day = date.fromisoformat(delivery.message.body.decode())
        with self._database() as database:
            made = "UPDATE days SET made = 1 WHERE day = ? AND NOT made"
            if database.execute(made, (str(day),)).rowcount:
                now = self._clock.now().astimezone(ZONE)
                database.execute("INSERT INTO reports VALUES (?, ?)", (str(day), str(now)))
                database.execute("INSERT INTO days (day) VALUES (?)", (str(day + DAY),))
        self._arm()
        delivery.ack()

    def _arm(self) -> None:
        """Send the message of each day that has none. An error lets the caller's message return."""
        with self._database() as database:
            days = database.execute("SELECT day FROM days WHERE NOT armed ORDER BY day").fetchall()
        for (day,) in days:
            moment = due(date.fromisoformat(day))
            message = Message(TOPIC, day.encode(), unique_key=f"report-{day}", deliver_at=moment)
            self._producer.send(message)
            with self._database() as database:
                database.execute("UPDATE days SET armed = 1 WHERE day = ?", (day,))

    def reports(self) -> list[tuple[str, str]]:
        """Give the day of each report, and when it was made."""
        with self._database() as database:
            return database.execute("SELECT day, made_at FROM reports ORDER BY day").fetchall()

    def consumer(self) -> DefaultMQPushConsumer:
        """Make the consumer of the days; a new group begins with the oldest message."""
        consumer = DefaultMQPushConsumer(
            GROUP,
            consume_thread_min=1,  # two messages of one day do not arm the next one side by side
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        consumer.subscribe(TOPIC)
        consumer.register_message_listener(self.on_day)
        return consumer


def main(*words: str) -> None:
    logging.basicConfig(level=logging.INFO)
    with AdminClient() as admin:
        admin.ensure_topic(TOPIC)
    with DefaultMQProducer(GROUP) as producer:
        schedule = Schedule(Path("schedule.db"), producer, SystemClock())
        match words:
            case ["run"]:
                schedule.begin()
                schedule.consumer().run()
            case ["show"]:
                print(*schedule.reports(), sep="\n")
            case _:
                sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RocketMQError as error:  # its text says what to do
        sys.exit(f"schedule: {error}")
