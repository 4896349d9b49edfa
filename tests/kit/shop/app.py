"""The shop: orders that time out, payments that are tried again, an outbox, daily reminders.

Plain code over the SDK. It knows nothing of tests: no clock, no broker, no fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from threading import Lock

from attrs import define, field

from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    Message,
    MessageExt,
    RocketMQError,
)

DONE = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER


@define(eq=False)
class Orders:
    """Orders that are cancelled when they are not paid in time."""

    producer: DefaultMQProducer
    topic: str
    timeout: timedelta = timedelta(minutes=30)
    status: dict[str, str] = field(factory=dict)
    _handles: dict[str, str | None] = field(factory=dict)

    def place(self, number: str) -> None:
        """Accept an order, and begin to wait for its money."""
        self.status[number] = "open"
        message = Message(self.topic, number.encode(), tags="timeout", delay=self.timeout)
        self._handles[number] = self.producer.send(message).recall_handle

    def pay(self, number: str) -> None:
        """Take the money; a cancelled order stays cancelled."""
        if self.status[number] == "open":
            self.status[number] = "paid"

    def pay_and_recall(self, number: str) -> None:
        """Take the money, and the time-out back."""
        self.pay(number)
        self.producer.recall_message(self.topic, self._handles[number])

    def listen(
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        """Cancel what is still open; a time-out that comes twice changes nothing."""
        for message in messages:
            number = message.body.decode()
            if self.status.get(number) == "open":
                self.status[number] = "cancelled"
        return DONE


@define(eq=False)
class Payments:
    """Payments by a bank that is down now and then."""

    failures: int
    tried_at_ms: list[int] = field(factory=list)
    paid: list[str] = field(factory=list)

    def listen(
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        """Pay, or ask for another try."""
        (message,) = messages
        self.tried_at_ms.append(message.store_timestamp)
        if len(self.tried_at_ms) <= self.failures:
            return LATER
        self.paid.append(message.body.decode())
        return DONE


@define(eq=False)
class Outbox:
    """What was written to a database and is still to be sent, in order."""

    producer: DefaultMQProducer
    topic: str
    rows: list[tuple[str, timedelta]] = field(factory=list)

    def add(self, text: str, *, delay: timedelta = timedelta(0)) -> None:
        """Write a row, in the transaction of the business."""
        self.rows.append((text, delay))

    def publish(self) -> int:
        """Send the rows; one that may not have been sent stays, and is sent again next time."""
        sent = 0
        while self.rows:
            text, delay = self.rows[0]
            message = Message(self.topic, text.encode(), keys=text)
            if delay:
                message.set_delay_time_ms(delay // timedelta(milliseconds=1))
            try:
                self.producer.send(message)
            except RocketMQError:
                break
            del self.rows[0]
            sent += 1
        return sent


@define(eq=False)
class Inbox:
    """Handles each text once, however often it comes."""

    handle: Callable[[str], object]
    _seen: set[str] = field(factory=set)
    _lock: Lock = field(factory=Lock)

    def listen(
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        """Handle what is new."""
        for message in messages:
            text = message.body.decode()
            with self._lock:
                is_new = text not in self._seen
                self._seen.add(text)
            if is_new:
                self.handle(text)
        return DONE


@define(eq=False)
class Reminders:
    """Reminds somebody again and again; each reminder arms the next one."""

    producer: DefaultMQProducer
    topic: str
    every: timedelta
    times: int
    rung_at_ms: list[int] = field(factory=list)

    def begin(self, who: str) -> None:
        """Arm the first reminder."""
        self._arm(f"{who} 1")

    def _arm(self, text: str) -> None:
        self.producer.send(Message(self.topic, text.encode(), delay=self.every))

    def listen(
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        """Ring, and arm the next one."""
        for message in messages:
            self.rung_at_ms.append(message.store_timestamp)
            who, _, number = message.body.decode().rpartition(" ")
            if int(number) < self.times:
                self._arm(f"{who} {int(number) + 1}")
        return DONE
