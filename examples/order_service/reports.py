"""The daily report: a message for the next morning, whose handler adds that for the morning after.

There is always one report to come. A day is a day of the calendar and not 24 hours, so the report
keeps its time of day when the clocks change. A service that was down makes up for what it missed.
"""

import sqlite3
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from order_service.inbox import Handlers
from order_service.outbox import Outbox
from rocketmq_py import ApplicationClock

TOPIC = "Reports"
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Report:
    """What was ordered on the day before; ``made_at`` is a local time."""

    day: date
    made_at: datetime
    orders: int
    cents: int


@dataclass
class Reports:
    """Makes a report each day at a time of day, as clocks of a zone show it."""

    database: sqlite3.Connection
    outbox: Outbox
    clock: ApplicationClock
    at: time
    zone: ZoneInfo

    @property
    def handlers(self) -> Handlers:
        """What is done with each message, by its tag."""
        return {"report": self.on_report}

    def begin(self) -> None:
        """Add the first report, unless there is one to come."""
        with self.database:
            to_come = self.database.execute("SELECT 1 FROM reports WHERE made_at IS NULL")
            if to_come.fetchone() is None:
                now = self.clock.now()
                today = now.astimezone(self.zone).date()
                self._add(today if now < self._moment(today, self.at) else today + DAY)

    def on_report(self, day_text: str) -> None:
        """Make the report of a day, and add the next one, inside a transaction."""
        day = date.fromisoformat(day_text)
        yesterday = [self._moment(one, time()).timestamp() for one in (day - DAY, day)]
        (orders, cents) = self.database.execute(
            "SELECT count(*), coalesce(sum(cents), 0) FROM orders "
            "WHERE placed_at >= ? AND placed_at < ?",
            yesterday,
        ).fetchone()
        self.database.execute(
            "UPDATE reports SET made_at = ?, orders = ?, cents = ? WHERE day = ?",
            (self.clock.now().timestamp(), orders, cents, day_text),
        )
        self._add(day + DAY)

    def all(self) -> list[Report]:
        """Give the reports that were made, oldest first."""
        rows = self.database.execute(
            "SELECT day, made_at, orders, cents FROM reports WHERE made_at IS NOT NULL ORDER BY day"
        )
        return [
            Report(date.fromisoformat(day), datetime.fromtimestamp(made_at, self.zone), *figures)
            for day, made_at, *figures in rows
        ]

    def _add(self, day: date) -> None:
        self.database.execute("INSERT INTO reports (day) VALUES (?)", (str(day),))
        due = self._moment(day, self.at)
        self.outbox.add(
            f"report-{day}", topic=TOPIC, tag="report", key="reports", body=str(day), due=due
        )

    def _moment(self, day: date, at: time) -> datetime:
        """Say in UTC when local clocks show a time; of a time that comes twice it is the first.

        UTC, because Python compares two times of one zone by what their clocks show.
        """
        return datetime.combine(day, at, self.zone).astimezone(UTC)
