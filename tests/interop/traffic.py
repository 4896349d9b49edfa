"""Sends and consumption while something breaks, and the account of it.

Every message is a number. `Account` knows what became of its send and how often it came; `sending`
keeps two blocking senders and an asynchronous one at work, `consuming` a consumer.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import Final, Unpack

from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    RocketMQError,
    SendFailedError,
    SendResult,
    SendStatus,
)
from tests.waiting import Timeouts

PAUSE_S: Final = 0.01
"""Between two messages of a sender: some thousand meet what breaks."""
BLOCKING: Final = 2
WAIT_S: Final = 90.0
"""A client finds a broker that was away: by a poll of its route and a heartbeat, 30 s each."""


class Account:
    """Every method may be called by any thread."""

    def __init__(self) -> None:
        self.begun = 0
        self.stored: dict[int, SendResult] = {}
        self.failed: dict[int, BaseException] = {}
        self.came: Counter[int] = Counter()
        self._numbers = count(1)
        self._changed = threading.Condition()

    def begin(self) -> int:
        """Give the number of a message that is sent now."""
        with self._changed:
            self.begun = next(self._numbers)
            self._changed.notify_all()
            return self.begun

    def end(self, number: int, result: SendResult | None, error: BaseException | None) -> None:
        """Note what became of a send."""
        with self._changed:
            if result is not None:
                assert result.send_status is SendStatus.SEND_OK
                self.stored[number] = result
            else:
                assert error is not None
                self.failed[number] = error
            self._changed.notify_all()

    def end_of(self, number: int, future: Future[SendResult]) -> None:
        """Note what became of an asynchronous send."""
        error = future.exception()
        self.end(number, None if error else future.result(), error)

    @property
    def ended(self) -> int:
        """How many sends have an outcome."""
        return len(self.stored) + len(self.failed)

    def listen(
        self, messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        """Be the listener of a consumer."""
        with self._changed:
            self.came.update(int(message.body) for message in messages)
            self._changed.notify_all()
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Return when the condition holds; it may look at all that is here."""
        with self._changed:
            assert self._changed.wait_for(condition, WAIT_S), f"{what}: not in {WAIT_S} s: {self}"

    def more_stored(self, more: int, broker_name: str | None = None) -> None:
        """Return when brokers, or the one, have acknowledged so many more."""

        def stored() -> int:
            return sum(
                broker_name in {None, result.message_queue.broker_name}
                for result in self.stored.values()
            )

        wanted = stored() + more
        self.wait(lambda: stored() >= wanted, f"{more} more are acknowledged by {broker_name}")

    def more_begun(self, more: int) -> None:
        """Return when so many more sends have begun."""
        wanted = self.begun + more
        self.wait(lambda: self.begun >= wanted, f"{more} more sends begin")

    def more_came(self, more: int) -> None:
        """Return when so many more messages were consumed."""
        wanted = len(self.came) + more
        self.wait(lambda: len(self.came) >= wanted, f"{more} more come")

    def all_came(self, broker_name: str | None = None) -> None:
        """Return when all that is acknowledged, or is by the one broker, was consumed."""

        def missing() -> bool:
            return any(
                broker_name in {None, result.message_queue.broker_name}
                for number, result in self.stored.items()
                if number not in self.came
            )

        self.wait(lambda: not missing(), f"all that {broker_name or 'a broker'} has come")

    def check_failures(self) -> None:
        """Every failure has its attempts, and what no broker can have was not consumed."""
        for number, error in self.failed.items():
            assert isinstance(error, SendFailedError), repr(error)
            assert error.attempts, repr(error)
            assert error.possibly_stored or number not in self.came, repr(error)

    def __repr__(self) -> str:
        missing = sorted(self.stored.keys() - self.came.keys())
        places = Counter(str(self.stored[number].message_queue) for number in missing)
        return (
            f"begun {self.begun}, acknowledged {len(self.stored)}, came {len(self.came)}, "
            f"missing {len(missing)} of {dict(places)}, "
            f"failed {Counter(type(error).__name__ for error in self.failed.values())}"
        )


@contextlib.contextmanager
def sending(producer: DefaultMQProducer, topic: str, account: Account) -> Iterator[None]:
    """Keep senders at work; on leaving the block every send has its result or its error."""
    over = threading.Event()

    def send() -> None:
        while not over.wait(PAUSE_S):
            number = account.begin()
            try:
                result = producer.send(Message(topic, b"%d" % number))
            except RocketMQError as error:
                account.end(number, None, error)
            else:
                account.end(number, result, None)

    def send_async() -> None:
        while not over.wait(PAUSE_S):
            number = account.begin()
            future = producer.send_async(Message(topic, b"%d" % number))
            future.add_done_callback(partial(account.end_of, number))

    threads = [threading.Thread(target=work) for work in (*[send] * BLOCKING, send_async)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(WAIT_S)
    assert not any(thread.is_alive() for thread in threads)
    account.wait(lambda: account.ended == account.begun, "every send has ended")


def consuming(
    namesrv_addr: str, topic: str, account: Account, **settings: Unpack[Timeouts]
) -> DefaultMQPushConsumer:
    """A consumer that tells the account; the caller starts it."""
    consumer = DefaultMQPushConsumer(
        f"G_{topic}",
        namesrv_addr=namesrv_addr,
        instance_name=f"consumes-{topic}",
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        **settings,
    )
    consumer.subscribe(topic)
    consumer.register_message_listener(account.listen)
    return consumer
