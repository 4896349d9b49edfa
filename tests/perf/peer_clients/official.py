"""RocketMQ's gRPC client in Python as a peer of the bench ``peers``, which says what a peer does.

It runs in an environment of its own, where that client is, and has no batches.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
)

WINDOW = 1000
WAIT_S = 120.0
BODY = b"x" * 256


class Listener(MessageListener):
    """Calls a function for each message."""

    def __init__(self, note: Callable[[], None]) -> None:
        self._note = note

    def consume(self, message: Message) -> ConsumeResult:
        del message
        self._note()
        return ConsumeResult.SUCCESS


class Peer:
    """A producer, and what is measured with it."""

    def __init__(self, endpoints: str, prefix: str) -> None:
        self._configuration = ClientConfiguration(endpoints, Credentials())
        self._echo, self._load = f"{prefix}_echo", f"{prefix}_load"
        self._prefix = prefix
        self._groups = count()
        self._echoes: SimpleQueue[float] = SimpleQueue()
        self._producer = Producer(self._configuration, (self._echo, self._load), tls_enable=False)

    def run(self, blocking: int, window: int, consume: int, latency: int) -> None:
        """Do all parts, each twice, and print the second result."""
        self._producer.startup()
        self._producer.send(_message(self._echo))
        print("SENT", flush=True)
        consumer = self._consumer(self._echo, lambda: self._echoes.put(time.perf_counter()))
        self._echoes.get(timeout=WAIT_S)
        print("IDLE", flush=True)
        sys.stdin.readline()
        for part, number in (
            (self._blocking, blocking),
            (self._window, window),
            (self._consume, consume),
            (self._latency, latency),
        ):
            part(number)
            print(f"{part.__name__.strip('_')}\t{part(number)}", flush=True)
        consumer.shutdown()
        self._producer.shutdown()

    def _blocking(self, number: int) -> float:
        since = time.perf_counter()
        for _ in range(number):
            self._producer.send(_message(self._load))
        return number / (time.perf_counter() - since)

    def _window(self, number: int) -> float:
        room = threading.Semaphore(WINDOW)
        since = time.perf_counter()
        futures = []
        for _ in range(number):
            room.acquire()
            future = self._producer.send_async(_message(self._load))
            future.add_done_callback(lambda _: room.release())
            futures.append(future)
        for future in futures:
            future.result(WAIT_S)
        return number / (time.perf_counter() - since)

    def _consume(self, number: int) -> float:
        done, numbers = threading.Event(), count(1)
        times: list[float] = []

        def note() -> None:
            came = next(numbers)
            if came in {1, number}:
                times.append(time.perf_counter())
            if came == number:
                done.set()

        consumer = self._consumer(self._load, note)
        if not done.wait(WAIT_S):
            raise TimeoutError("not all messages came")
        consumer.shutdown()
        return number / (times[1] - times[0])

    def _latency(self, number: int) -> float:
        taken = []
        for _ in range(number):
            since = time.perf_counter()
            self._producer.send(_message(self._echo))
            taken.append(self._echoes.get(timeout=WAIT_S) - since)
        return statistics.median(taken) * 1e6

    def _consumer(self, topic: str, note: Callable[[], None]) -> PushConsumer:
        consumer = PushConsumer(
            self._configuration,
            f"{self._prefix}_reader_{next(self._groups)}",
            Listener(note),
            {topic: FilterExpression()},
            tls_enable=False,
        )
        consumer.startup()
        return consumer


def _message(topic: str) -> Message:
    message = Message()
    message.topic = topic
    message.body = BODY
    return message


if __name__ == "__main__":
    sends, sent_async, _batches, consumed, latencies = map(int, sys.argv[3:])
    Peer(sys.argv[1], sys.argv[2]).run(sends, sent_async, consumed, latencies)
