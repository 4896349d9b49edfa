"""The storm: members of an orderly group come and go, the broker dies, listeners fail at random.

Of each sharding key nothing may be lost, and nothing may overtake. A message may come again,
because delivery is at least once, but then all behind it come again, too: whoever handled number 7
of a key after number 6 may see 6 and 7 once more, never 8 before 7. `Order` keeps that account.

The queues are pulled, or popped: then each is whose the broker gives its messages to, until all of
them are acked or hidden no more.

A broker that dies forgets its locks, and what it gave of popped queues in its last five seconds.
Whoever takes a queue from it then may begin before the former holder has seen the connection end:
no client can know sooner, and RocketMQ's protocol has nothing against it. So breaks within
`NOTICE_S` of a crash are counted apart, and the gate has no crashes.

The short form is part of the gate, the long one of ``make long``. By hand, with another seed:
``python -m tests.sdk.test_storm_in_order --minutes 10 --seed N``.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConsumeFromWhere,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    DefaultMQAdminExt,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    MessageListenerOrderly,
    RocketMQError,
    SendFailedError,
    select_message_queue_by_hash,
)
from tests.waiting import until

TOPIC, GROUP = "storm", "storm-group"
KEYS = 12
MEMBERS = 4
FAILS_ONE_IN = 10
NOTICE_S = 3.0
BEHIND_MAX = 50
"""Unhandled messages of a key, above which its sender waits."""
WORKS_UP_TO_S = 0.03
"""So that queues change hands while listeners run, and members have messages cached."""
INVISIBLE_MS = 15_000
END_S = 60.0
"""A lock of a member that was cut off in the middle lives for a minute."""


class Order:
    """What listeners have handled, by key, and every break of the order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: dict[int, str] = {}
        self.last = dict.fromkeys(range(KEYS), -1)
        self.highest = dict.fromkeys(range(KEYS), -1)
        self.breaks: list[str] = []
        self.breaks_of_crashes: list[str] = []
        self.crashed_at = float("-inf")
        self.calls = 0

    @contextmanager
    def handling(self, key: int, number: int, who: str) -> Iterator[None]:
        """Note that a message is in a listener; in no other one at the same time."""
        with self._lock:
            self.calls += 1
            if key in self._inside:
                self._note(f"{who} has key {key} {number} during {self._inside[key]}")
            self._inside[key] = f"{who} {number}"
            if number > self.last[key] + 1:
                self._note(f"{who} has key {key} {number} after {self.last[key]}")
        try:
            yield
        finally:
            with self._lock:
                self._inside.pop(key, None)

    def _note(self, problem: str) -> None:
        is_of_crash = time.monotonic() - self.crashed_at < NOTICE_S
        (self.breaks_of_crashes if is_of_crash else self.breaks).append(problem)

    def handled(self, key: int, number: int) -> None:
        """Note that a listener has said success."""
        with self._lock:
            self.last[key] = number
            self.highest[key] = max(self.highest[key], number)


class Storm:
    """Sends, consumes and disturbs for some seconds."""

    def __init__(self, broker: EmbeddedBroker, seed: int, *, pops: bool) -> None:
        self._broker = broker
        self._pops = pops
        self._random = random.Random(seed)
        self._order = Order()
        self._sent = dict.fromkeys(range(KEYS), 0)
        self._over = threading.Event()
        self._work = threading.Event()  # never set: a listener takes its time
        self._failed: list[BaseException] = []
        self._serial = 0
        self.restarts = self.changes = 0

    @property
    def order(self) -> Order:
        return self._order

    @property
    def sent(self) -> dict[int, int]:
        """How many of each key were stored."""
        return self._sent

    def run(self, seconds: float, *, crashes: bool) -> None:
        """Storm, then wait for what is still missing."""
        threads = [
            threading.Thread(target=self._guard, args=(work,))
            for work in (self._send, self._come_and_go)
        ]
        for thread in threads:
            thread.start()
        begun = time.monotonic()
        while time.monotonic() - begun < seconds and not self._failed:
            self._over.wait(min(5.0, seconds / 6))
            if crashes:
                self._broker.restart(crash=True)
                self._order.crashed_at = time.monotonic()
                self.restarts += 1
        self._over.set()
        for thread in threads:
            thread.join(END_S * 3)
            assert not thread.is_alive()
        if self._failed:
            raise self._failed[0]

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told by `run`
            self._failed.append(error)
            self._over.set()

    def _send(self) -> None:
        with DefaultMQProducer("storm-sender", namesrv_addr=self._broker.namesrv_addr) as producer:
            while not self._over.is_set():
                for key in range(KEYS):
                    if self._sent[key] - self._order.highest[key] > BEHIND_MAX:
                        continue
                    body = b"%d %d" % (key, self._sent[key])
                    while not self._stored(producer, body, f"key-{key}"):
                        self._over.wait(0.02)
                    self._sent[key] += 1
                self._over.wait(0.02)

    def _stored(self, producer: DefaultMQProducer, body: bytes, key: str) -> bool:
        """Send once; whether it is stored for sure. If not, it may come twice."""
        try:
            producer.send(Message(TOPIC, body), selector=select_message_queue_by_hash, arg=key)
        except SendFailedError:
            return False
        return True

    def _come_and_go(self) -> None:
        members = [self._member() for _ in range(MEMBERS)]
        while not self._over.wait(0.25):
            victim = self._random.randrange(MEMBERS)
            members[victim].shutdown(5)
            members[victim] = self._member()
            self.changes += 1
        try:
            until(
                lambda: all(self._order.highest[k] + 1 >= self._sent[k] for k in self._sent),
                END_S * 2,
            )
        finally:
            for member in members:
                member.shutdown(1)

    def _member(self) -> DefaultMQPushConsumer:
        self._serial += 1
        who = f"member {self._serial}"
        luck = random.Random(self._random.random())

        def listen(
            messages: list[MessageExt], _context: ConsumeOrderlyContext
        ) -> ConsumeOrderlyStatus:
            (message,) = messages
            key, number = map(int, message.body.split())
            with self._order.handling(key, number, who):
                self._work.wait(luck.random() * WORKS_UP_TO_S)
                fate = luck.randrange(FAILS_ONE_IN * 2)
                if fate == 0:
                    raise LookupError("at random")
                if fate == 1:
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                self._order.handled(key, number)
            return ConsumeOrderlyStatus.SUCCESS

        consumer = DefaultMQPushConsumer(
            GROUP,
            namesrv_addr=self._broker.namesrv_addr,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            pull_time_delay_millis_when_exception=10,
            suspend_current_queue_time_millis=10,
            client_rebalance=not self._pops,
            pop_invisible_time=INVISIBLE_MS,
        )
        consumer.subscribe(TOPIC)
        consumer.register_message_listener(MessageListenerOrderly(listen))
        try:
            consumer.start()
        except RocketMQError:
            consumer.shutdown(1)
            raise
        return consumer


def storm(folder: Path, seconds: float, seed: int, *, crashes: bool, pops: bool) -> Storm:
    """Run a storm on a broker of its own and say what broke."""
    with EmbeddedBroker(store=folder, topics={TOPIC: 6}) as broker:
        if pops:
            with DefaultMQAdminExt() as admin:
                admin.set_message_request_mode(broker.addr, TOPIC, GROUP, "POP")
        made = Storm(broker, seed, pops=pops)
        made.run(seconds, crashes=crashes)
    assert made.order.breaks == [], made.order.breaks[:5]
    assert (made.restarts >= 1) is crashes
    assert made.changes >= 1
    return made


@pytest.mark.parametrize(
    ("seconds", "crashes", "pops"),
    [
        (4.0, False, False),
        (4.0, False, True),
        pytest.param(600.0, True, False, marks=[pytest.mark.slow, pytest.mark.timeout(1200)]),
        pytest.param(600.0, True, True, marks=[pytest.mark.slow, pytest.mark.timeout(1200)]),
    ],
)
def test_in_a_storm_no_key_is_out_of_order_and_nothing_is_lost(
    tmp_path: Path, seconds: float, crashes: bool, pops: bool
) -> None:
    made = storm(tmp_path, seconds, seed=7, crashes=crashes, pops=pops)
    assert min(made.sent.values()) > 0


def main() -> int:
    """Run one by hand."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pops", action="store_true")
    parser.add_argument("--no-crashes", action="store_true")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        made = storm(
            Path(folder),
            given.minutes * 60,
            given.seed,
            crashes=not given.no_crashes,
            pops=given.pops,
        )
    total = sum(made.sent.values())
    print(
        f"{total} messages, {made.order.calls} calls, {made.changes} members came and went, "
        f"{made.restarts} crashes of the broker: each of {KEYS} keys in order, nothing lost; "
        f"{len(made.order.breaks_of_crashes)} breaks just behind a crash"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
