"""Who sends and consumes during a soak: the clients of one program, as users have them.

Two threads send and wait, one sends without waiting, some messages with a delay; two members of
one group consume, and now and then one of them wants to see a message again. They tell the ledger.
Must not know faults.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import ExitStack
from datetime import timedelta
from functools import partial

from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    RocketMQError,
    SendResult,
)
from rocketmq_py.client.queue_access import QueueAccess
from rocketmq_py.protocol.names import retry_topic
from tests.soak.ledger import Ledger

TOPIC, GROUP = "Soak", "soakers"
PAUSE_S = 0.02
BODY = b"x" * 200
DELAYS_S = (0.0, 0.0, 0.0, 1.0, 2.5)
AGAIN = 50
"""One message in so many is wanted a second time."""
CONSUMERS, BLOCKING, THREADS = 2, 2, 2
INSTANCES = CONSUMERS + 1


class Clients:
    """All clients of a run; `stop_sending` first, then `close`."""

    def __init__(self, namesrv_addr: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self._namesrv_addr = namesrv_addr
        self._over = threading.Event()
        self._life = ExitStack()
        self._producer = self._life.enter_context(
            DefaultMQProducer("senders", namesrv_addr=namesrv_addr)
        )
        for number in range(CONSUMERS):
            consumer = DefaultMQPushConsumer(
                GROUP,
                namesrv_addr=namesrv_addr,
                instance_name=f"member-{number}",
                consume_thread_min=THREADS,
                consume_thread_max=THREADS,
            )
            consumer.subscribe(TOPIC)
            consumer.register_message_listener(self._listen)
            self._life.enter_context(consumer)
        works = [self._send] * BLOCKING + [self._send_async]
        self._threads = [threading.Thread(target=work, name="sender") for work in works]
        for thread in self._threads:
            thread.start()

    def stop_sending(self) -> None:
        """Return when no send is under way; idempotent."""
        self._over.set()
        for thread in self._threads:
            thread.join(30)

    def close(self) -> None:
        """End all."""
        self.stop_sending()
        self._life.close()

    def lag(self) -> dict[str, int]:
        """What the brokers say that the group has not consumed, by queue."""
        found: dict[str, int] = {}
        with QueueAccess(namesrv_addr=self._namesrv_addr, instance_name="looks") as access:
            for topic in (TOPIC, retry_topic(GROUP)):
                for queue, bounds in access.bounds(topic).items():
                    behind = bounds.max_offset - (access.group_offset(GROUP, queue) or 0)
                    if behind:
                        found[f"{topic} {queue.broker_name} {queue.queue_id}"] = behind
        return found

    def _send(self) -> None:
        ledger, turn = self._ledger, 0
        while not self._over.wait(PAUSE_S):
            turn += 1
            delay_s = DELAYS_S[turn % len(DELAYS_S)]
            number = ledger.sending(delay_s)
            try:
                result = self._producer.send(_message(number, delay_s))
            except RocketMQError as error:
                ledger.failed(number, error)
            else:
                ledger.stored(number, result)

    def _send_async(self) -> None:
        turn = 0
        futures: set[Future[SendResult]] = set()
        while not self._over.wait(PAUSE_S / BLOCKING):
            turn += 1
            delay_s = DELAYS_S[turn % len(DELAYS_S)]
            number = self._ledger.sending(delay_s)
            future = self._producer.send_async(_message(number, delay_s))
            futures.add(future)
            future.add_done_callback(partial(self._ended, number))
            future.add_done_callback(futures.discard)
        for future in [*futures]:
            future.exception(30)

    def _ended(self, number: int, future: Future[SendResult]) -> None:
        error = future.exception()
        if error is None:
            self._ledger.stored(number, future.result())
        else:
            self._ledger.failed(number, error)

    def _listen(
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        context.delay_level_when_next_consume = 1
        for message in messages:
            number = int(message.body.partition(b" ")[0])
            if number % AGAIN == 0 and message.reconsume_times == 0:
                return ConsumeConcurrentlyStatus.RECONSUME_LATER
            self._ledger.came(number)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def _message(number: int, delay_s: float) -> Message:
    delay = timedelta(seconds=delay_s) if delay_s else None
    return Message(TOPIC, b"%d " % number + BODY, delay=delay)
