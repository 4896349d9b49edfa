"""This SDK as a peer of the bench ``peers``, which says what a peer does and prints."""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from queue import SimpleQueue

from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    SendCallback,
)

WINDOW = 1000
BATCH = 32
WAIT_S = 120.0
BODY = b"x" * 256
DONE = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
Listener = Callable[[Sequence[MessageExt], object], ConsumeConcurrentlyStatus]


class Peer:
    """A producer, and what is measured with it."""

    def __init__(self, address: str, prefix: str) -> None:
        self._address = address
        self._prefix = prefix
        self._groups = count()
        self._echoes: SimpleQueue[float] = SimpleQueue()
        self._producer = DefaultMQProducer(f"{prefix}_producer", namesrv_addr=address)

    def run(self, counts: list[int]) -> None:
        """Do all parts, each twice, and print the second result."""
        with self._producer:
            self._producer.send(self._echo())
            print("SENT", flush=True)
            with self._consumer(f"{self._prefix}_echo", self._note):
                self._echoes.get(timeout=WAIT_S)
                print("IDLE", flush=True)
                sys.stdin.readline()
                parts = (self._blocking, self._window, self._batch, self._consume, self._latency)
                for part, number in zip(parts, counts, strict=True):
                    part(number)
                    print(f"{part.__name__.strip('_')}\t{part(number)}", flush=True)

    def _note(self, messages: Sequence[MessageExt], _: object) -> ConsumeConcurrentlyStatus:
        for _one in messages:
            self._echoes.put(time.perf_counter())
        return DONE

    def _echo(self) -> Message:
        return Message(f"{self._prefix}_echo", BODY)

    def _message(self) -> Message:
        return Message(f"{self._prefix}_load", BODY)

    def _blocking(self, number: int) -> float:
        since = time.perf_counter()
        for _ in range(number):
            self._producer.send(self._message())
        return number / (time.perf_counter() - since)

    def _window(self, number: int) -> float:
        room = threading.Semaphore(WINDOW)
        errors: list[BaseException] = []

        def failed(error: BaseException) -> None:
            errors.append(error)
            room.release()

        told = SendCallback(lambda _: room.release(), failed)
        since = time.perf_counter()
        for _ in range(number):
            room.acquire()
            self._producer.send_async(self._message(), told)
        for _ in range(WINDOW):
            room.acquire()
        if errors:
            raise errors[0]
        return number / (time.perf_counter() - since)

    def _batch(self, number: int) -> float:
        since = time.perf_counter()
        for _ in range(0, number, BATCH):
            self._producer.send_batch([self._message() for _ in range(BATCH)])
        return number / (time.perf_counter() - since)

    def _consume(self, number: int) -> float:
        done, numbers, times = threading.Event(), count(1), []

        def listen(messages: Sequence[MessageExt], _: object) -> ConsumeConcurrentlyStatus:
            for _one in messages:
                came = next(numbers)
                if came in {1, number}:
                    times.append(time.perf_counter())
                if came == number:
                    done.set()
            return DONE

        with self._consumer(f"{self._prefix}_load", listen):
            if not done.wait(WAIT_S):
                raise TimeoutError("not all messages came")
        return number / (times[1] - times[0])

    def _latency(self, number: int) -> float:
        taken = []
        for _ in range(number):
            since = time.perf_counter()
            self._producer.send(self._echo())
            taken.append(self._echoes.get(timeout=WAIT_S) - since)
        return statistics.median(taken) * 1e6

    def _consumer(self, topic: str, listener: Listener) -> DefaultMQPushConsumer:
        consumer = DefaultMQPushConsumer(
            f"{self._prefix}_reader_{next(self._groups)}",
            namesrv_addr=self._address,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        consumer.subscribe(topic)
        consumer.register_message_listener(listener)
        return consumer


if __name__ == "__main__":
    Peer(sys.argv[1], sys.argv[2]).run([int(one) for one in sys.argv[3:]])
