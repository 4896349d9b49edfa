"""Orders and the books: what may happen to an order, and what is booked of it."""

import sqlite3
from dataclasses import dataclass
from datetime import datetime, timedelta

from order_service.inbox import Handlers
from order_service.outbox import Outbox
from rocketmq_py import ApplicationClock

TOPIC = "Orders"
PAY_WITHIN = timedelta(minutes=30)


@dataclass(frozen=True)
class Order:
    """An order; its state is open, paid or cancelled."""

    number: int
    customer: str
    cents: int
    state: str


@dataclass(frozen=True)
class Booking:
    """A line in the books of a customer."""

    order: int
    entry: str
    cents: int


@dataclass
class Orders:
    """All orders. Each change adds a message to the outbox, in the same transaction."""

    database: sqlite3.Connection
    outbox: Outbox
    clock: ApplicationClock

    @property
    def handlers(self) -> Handlers:
        """What is done with each message, by its tag."""
        return {"placed": self.on_placed, "paid": self.on_paid, "unpaid": self.on_unpaid}

    # --- what customers do -----------------------------------------------------------------

    def place(self, customer: str, cents: int) -> Order:
        """Take an order, and look at it again when it should be paid."""
        now = self.clock.now()
        with self.database:
            (number,) = self.database.execute(
                "INSERT INTO orders (customer, cents, state, placed_at) VALUES (?, ?, 'open', ?) "
                "RETURNING number",
                (customer, cents, now.timestamp()),
            ).fetchone()
            self._tell(number, customer, "placed")
            self._tell(number, customer, "unpaid", due=now + PAY_WITHIN)
        return self.get(number)

    def pay(self, number: int) -> Order:
        """Pay an order, if it is still open. The message "unpaid" changes nothing then."""
        with self.database:
            order = self.get(number)
            if self._close(number, "paid"):
                self._tell(number, order.customer, "paid")
        return self.get(number)

    def get(self, number: int) -> Order:
        """Give an order; KeyError when there is none."""
        row = self.database.execute(
            "SELECT number, customer, cents, state FROM orders WHERE number = ?", (number,)
        ).fetchone()
        if row is None:
            raise KeyError(number)
        return Order(*row)

    def bookings(self, customer: str) -> list[Booking]:
        """Give what was booked for a customer, oldest first."""
        rows = self.database.execute(
            "SELECT order_number, entry, bookings.cents FROM bookings JOIN orders "
            "ON order_number = orders.number WHERE customer = ? ORDER BY bookings.number",
            (customer,),
        )
        return [Booking(*row) for row in rows]

    # --- what messages do: inside a transaction ----------------------------------------------

    def on_placed(self, number: int) -> None:
        """Book what the customer owes."""
        self._book(number, "invoice", 1)

    def on_paid(self, number: int) -> None:
        """Book that it was paid."""
        self._book(number, "payment", -1)

    def on_unpaid(self, number: int) -> None:
        """Cancel an order whose time is over, unless it was paid."""
        if self._close(number, "cancelled"):
            self._book(number, "cancellation", -1)

    def _tell(self, number: int, customer: str, tag: str, due: datetime | None = None) -> None:
        message_id = f"order-{number}-{tag}"
        self.outbox.add(message_id, topic=TOPIC, tag=tag, key=customer, body=number, due=due)

    def _close(self, number: int, state: str) -> bool:
        changed = self.database.execute(
            "UPDATE orders SET state = ? WHERE number = ? AND state = 'open'", (state, number)
        )
        return changed.rowcount == 1

    def _book(self, number: int, entry: str, sign: int) -> None:
        self.database.execute(
            "INSERT INTO bookings (order_number, entry, cents) VALUES (?, ?, ?)",
            (number, entry, sign * self.get(number).cents),
        )
