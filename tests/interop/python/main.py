"""What a team does with the official gRPC client in Python.

Arguments: endpoints, prefix of topics and groups, names of scenarios. Output and environment as of
`java/GrpcScenarios.java`. It runs in an environment of its own, where that client is.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from urllib.request import Request, urlopen

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SendReceipt,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType

ALL = FilterExpression()
COUNT = 20
GROUPS = 4
DELAY_S = 2
"""Its timestamps are whole seconds."""
WAIT_S = 40.0
TWICE_S = 0.3
HIDDEN_S = 30
SOON_S = 1
HOURS = 20

Sending = Callable[[], None]
Judge = Callable[[Message], bool]


def advance(hours: int) -> None:
    """Move the clock of our broker."""
    ask("clock/advance", hours=hours)


def ask(what: str, **fields: int) -> None:
    """Let our broker do something."""
    request = Request(  # noqa: S310 - an address on loopback
        f"{os.environ['CONTROL']}/{what}",
        json.dumps(fields).encode(),
        {"Content-Type": "application/json"},
    )
    with urlopen(request) as answer:  # noqa: S310
        answer.read()


def key_of(message: Message) -> str:
    return bytes(message.body).decode()


class Checker(TransactionChecker):
    """Knows by its key what became of a message."""

    def check(self, message: Message) -> TransactionResolution:
        is_right = key_of(message).startswith("yes")
        return TransactionResolution.COMMIT if is_right else TransactionResolution.ROLLBACK


class Listener(MessageListener):
    """Lets a scenario judge each message."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def consume(self, message: Message) -> ConsumeResult:
        return ConsumeResult.SUCCESS if self._judge(message) else ConsumeResult.FAILURE


class Scenarios:
    """One scenario after the other."""

    def __init__(self, endpoints: str, prefix: str) -> None:
        self.configuration = ClientConfiguration(endpoints, Credentials())
        self.has_tls = False
        self.prefix = prefix
        self.name = ""
        self.missing = 0
        self.changed = threading.Condition()
        self.saying = threading.Lock()
        self.producer: Producer = None  # each scenario has its own

    def run(self, names: list[str]) -> None:
        for self.name in names:
            if self.name == "tls":
                self.has_tls = True
                self.configuration = ClientConfiguration(
                    os.environ["TLS_ENDPOINTS"], self.configuration.credentials
                )
            self.producer = Producer(
                self.configuration, (self.topic,), checker=Checker(), tls_enable=self.has_tls
            )
            try:
                self.producer.startup()
                getattr(self, f"do_{self.name}")()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                self.say("FAILED", " ".join(repr(error).split()))
            self.producer.shutdown()
            self.say("DONE", "")

    def say(self, kind: str, *words: str) -> None:
        line = "\t".join((kind, self.name, *words))
        with self.saying:
            print(line, flush=True)

    @property
    def topic(self) -> str:
        return f"{self.prefix}_{self.name}"

    @property
    def group(self) -> str:
        return f"{self.topic}_group"

    def message(self, key: str, tag: str = "A") -> Message:
        message = Message()
        message.topic = self.topic
        message.body = key.encode()
        message.tag = tag
        message.keys = key
        return message

    def send(self, message: Message) -> SendReceipt:
        receipt = self.producer.send(message)
        self.say("SENT", key_of(message))
        return receipt

    def take(self, message: Message) -> bool:
        self.say("RECEIVED", key_of(message), message.message_group or "0")
        with self.changed:
            self.missing -= 1
            self.changed.notify_all()
        return True

    # --- consuming ---------------------------------------------------------------------------

    def consumed(
        self,
        count: int,
        sending: Sending,
        *,
        wanted: FilterExpression = ALL,
        judge: Judge | None = None,
    ) -> None:
        self.missing = count
        with self.pushing(judge or self.take, wanted):
            sending()
            with self.changed:
                if not self.changed.wait_for(lambda: self.missing <= 0, WAIT_S):
                    self.say("FAILED", f"{self.missing} did not come in {WAIT_S:g} s")
            time.sleep(TWICE_S)

    @contextlib.contextmanager
    def pushing(self, judge: Judge, wanted: FilterExpression = ALL) -> Iterator[None]:
        """Let a push consumer show all that comes to `judge`."""
        subscription = {self.topic: wanted}
        consumer = PushConsumer(
            self.configuration,
            self.group,
            Listener(judge),
            subscription,
            tls_enable=self.has_tls,
        )
        consumer.startup()
        try:
            yield
        finally:
            consumer.shutdown()

    def received(
        self,
        count: int,
        sending: Sending,
        judge: Callable[..., bool] = lambda *_: True,
        *,
        topic: str | None = None,
        group: str | None = None,
    ) -> None:
        """Let a simple consumer receive until `judge` has taken so many."""
        consumer = SimpleConsumer(
            self.configuration,
            group or self.group,
            {topic or self.topic: ALL},
            await_duration=5,
            tls_enable=self.has_tls,
        )
        consumer.startup()
        try:
            sending()
            end_s = time.monotonic() + WAIT_S
            while count and time.monotonic() < end_s:
                for message in consumer.receive(10, HIDDEN_S) or ():
                    if judge(consumer, message):
                        self.say("RECEIVED", key_of(message), "0")
                        consumer.ack(message)
                        count -= 1
            if count:
                self.say("FAILED", f"{count} did not come in {WAIT_S:g} s")
        finally:
            consumer.shutdown()

    # --- scenarios ---------------------------------------------------------------------------

    def send_all(self) -> None:
        for number in range(COUNT):
            self.send(self.message(f"k{number}"))

    def do_sync(self) -> None:
        self.consumed(COUNT, self.send_all)

    def do_tls(self) -> None:
        """What comes after it goes on with TLS."""
        self.consumed(COUNT, self.send_all)

    def do_async(self) -> None:
        def sending() -> None:
            messages = [self.message(f"k{number}") for number in range(COUNT)]
            futures = [self.producer.send_async(message) for message in messages]
            for message, future in zip(messages, futures, strict=True):
                future.result(WAIT_S)
                self.say("SENT", key_of(message))

        self.consumed(COUNT, sending)

    def send_in_groups(self) -> None:
        for number in range(COUNT):
            message = self.message(f"k{number}")
            message.message_group = str(number % GROUPS)
            self.send(message)

    def do_orderly(self) -> None:
        self.consumed(COUNT, self.send_in_groups)

    def do_tags(self) -> None:
        def sending() -> None:
            for number in range(COUNT):
                key = f"yes{number}" if number % 2 == 0 else f"no{number}"
                self.send(self.message(key, "ABCB"[number % 4]))

        self.consumed(COUNT // 2, sending, wanted=FilterExpression("A || C"))

    def do_sql(self) -> None:
        def sending() -> None:
            for number in range(COUNT):
                is_wanted = number % 2 == 0
                message = self.message(f"yes{number}" if is_wanted else f"no{number}")
                message.add_property("region", "north" if is_wanted else "east")
                message.add_property("amount", str(number))
                self.send(message)

        expression = "region = 'north' AND amount BETWEEN 0 AND 99"
        self.consumed(COUNT // 2, sending, wanted=FilterExpression(expression, FilterType.SQL))

    def do_retry(self) -> None:
        self.consumed(
            COUNT,
            self.send_all,
            judge=lambda message: message.delivery_attempt > 1 and self.take(message),
        )

    def do_dead_letters(self) -> None:
        """A group in order gives a message up by a request of its own."""
        self.fail_all(self.send_in_groups)

    def do_given_up(self) -> None:
        """The messages of another group are given up by the server."""
        self.fail_all(self.send_all)

    def fail_all(self, sending: Sending) -> None:
        with self.pushing(lambda _message: False):
            self.received(
                COUNT,
                sending,
                topic=f"%DLQ%{self.group}",
                group=f"{self.group}_readers",
            )

    def do_transaction(self) -> None:
        """Every fourth is left open: the broker asks, by way of the proxy."""

        def sending() -> None:
            for number in range(COUNT):
                key = f"yes{number}" if number % 2 == 0 else f"no{number}"
                transaction = self.producer.begin_transaction()
                self.producer.send(self.message(key), transaction)
                self.say("SENT", key)
                if number % 4 == 1:
                    transaction.rollback()
                elif number % 4 == 2:
                    transaction.commit()

        self.consumed(COUNT // 2, sending)

    def do_timers(self) -> None:
        due_s = int(time.time()) + DELAY_S

        def sending() -> None:
            for number in range(COUNT):
                message = self.message(f"k{number}")
                message.delivery_timestamp = due_s
                self.send(message)

        def judge(_consumer: SimpleConsumer, message: Message) -> bool:
            if time.time() < due_s:
                self.say("FAILED", f"{key_of(message)} came early")
            return True

        self.received(COUNT, sending, judge)

    def do_recall(self) -> None:
        def sending() -> None:
            for number in range(COUNT):
                message = self.message(f"yes{number}" if number % 2 == 0 else f"no{number}")
                message.delivery_timestamp = int(time.time()) + 4 * DELAY_S
                receipt = self.send(message)
                if number % 2:
                    self.producer.recall_message(self.topic, receipt.recall_handle)

        self.consumed(COUNT // 2, sending)

    def do_days(self) -> None:
        """Most of a day passes in a moment, and nothing comes; then one more hour does."""

        def sending() -> None:
            due_s = int(time.time()) + HOURS * 3600
            for number in range(COUNT):
                message = self.message(f"k{number}")
                message.delivery_timestamp = due_s
                self.send(message)
            advance(HOURS - 1)
            time.sleep(TWICE_S)
            if self.missing < COUNT:
                self.say("FAILED", f"{COUNT - self.missing} came an hour early")
            advance(1)

        self.consumed(COUNT, sending)

    def do_signed(self) -> None:
        """Another secret is refused; this client says only that it got no route."""
        plain, plainly = self.configuration, self.producer
        endpoints, key = os.environ["SIGNED_ENDPOINTS"], os.environ["ACCESS_KEY"]
        try:
            for secret in (os.environ["SECRET_KEY"], "another"):
                self.configuration = ClientConfiguration(endpoints, Credentials(key, secret))
                self.producer = Producer(self.configuration, (self.topic,))
                self.producer.startup()
                if secret == "another":
                    self.producer.send(self.message("none"))
                    self.say("FAILED", "another secret is taken, too")
                else:
                    self.consumed(COUNT, self.send_all)
                    self.producer.shutdown()
        except Exception as error:
            if f"failed to fetch topic:{self.topic} route" not in str(error):
                raise
        finally:
            self.configuration, self.producer = plain, plainly

    def do_restart(self) -> None:
        """The broker goes and comes back; nobody is told, and all go on."""

        def sending() -> None:
            for number in range(COUNT):
                if number == COUNT // 2:
                    with self.changed:
                        self.changed.wait_for(lambda: self.missing <= COUNT // 2, WAIT_S)
                    time.sleep(TWICE_S)
                    ask("restart")
                self.insist(self.message(f"k{number}"))

        self.consumed(COUNT, sending)

    def insist(self, message: Message) -> None:
        """Send until it is taken: the first attempts may find no broker."""
        end_s = time.monotonic() + WAIT_S
        while True:
            try:
                self.send(message)
            except Exception:
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.02)
            else:
                return

    def do_pop(self) -> None:
        self.received(COUNT, self.send_all)

    def do_invisible_time(self) -> None:
        """What is seen first is hidden for a second only, and comes again: then it is taken."""
        seen: set[str] = set()

        def judge(consumer: SimpleConsumer, message: Message) -> bool:
            if key_of(message) in seen:
                return True
            seen.add(key_of(message))
            consumer.change_invisible_duration(message, SOON_S)
            return False

        self.received(COUNT, self.send_all, judge)


if __name__ == "__main__":
    Scenarios(sys.argv[1], sys.argv[2]).run(sys.argv[3:])
