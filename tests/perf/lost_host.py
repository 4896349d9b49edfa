"""What the other brokers lose while the host of one of three does not answer.

One window of asynchronous sends goes to the queues of two brokers, in processes of their own. At
the same time another thread sends to whatever broker is next, one message each millisecond. The
third broker is as well as the others, or its host swallows every connect. The rate is of all that
the two brokers take: of the other thread's messages two thirds when all is well, each one when the
third broker's host is lost.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager

from rocketmq_py import DefaultMQProducer, Message, MessageQueue, SendResult
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.black_hole import BlackHole
from tests.perf.measure import RUNS, figure, keep
from tests.perf.server_process import served
from tests.unit.rocketmq_py.scripted import Peer, ScriptedServer, route_of

WINDOW = 64
SECONDS = 3.0
BODY = b"x" * 256


@contextmanager
def names_of(addresses: list[str]) -> Iterator[str]:
    """A name server that tells of brokers ``a``, ``b`` and ``c``."""
    server = ScriptedServer()

    def route(request: RemotingCommand, _: Peer) -> RemotingCommand:
        found = route_of(zip("abc", addresses, strict=True))
        return request.answer(ResponseCode.SUCCESS, body=found.encode(standard=True))

    server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, route)
    yield server.address
    server.close()


def load(producer: DefaultMQProducer, queues: list[MessageQueue]) -> tuple[float, float]:
    """Messages a second that the two brokers take; 99th percentile of the window's latency in ms.

    Raises what a send raises that fails: a lost host costs time, and no message.
    """
    over = threading.Event()
    anywhere: list[Future[SendResult]] = []

    def elsewhere() -> None:
        while not over.wait(0.001):
            anywhere.append(producer.send_async(Message("Lost", BODY)))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    latencies: list[float] = []
    window = deque[tuple[float, Future[SendResult]]]()
    begun = time.perf_counter()
    number = 0
    while time.perf_counter() - begun < SECONDS:
        if len(window) == WINDOW:
            started, future = window.popleft()
            future.result()
            latencies.append(time.perf_counter() - started)
        queue = queues[number % len(queues)]
        number += 1
        window.append(
            (time.perf_counter(), producer.send_async(Message("Lost", BODY), queue=queue))
        )
    over.set()
    thread.join()
    results = [future.result() for future in anywhere]
    taken = len(latencies) + sum(one.message_queue.broker_name != "c" for one in results)
    return taken / SECONDS, statistics.quantiles(latencies, n=100)[98] * 1000


def run(addresses: list[str]) -> tuple[float, float]:
    """One run with a client of its own, its first second included."""
    with (
        names_of(addresses) as namesrv,
        DefaultMQProducer("Lost", namesrv_addr=namesrv) as producer,
    ):
        queues = [
            queue
            for queue in producer.fetch_publish_message_queues("Lost")
            if queue.broker_name != "c"
        ]
        for queue in queues:
            producer.send(Message("Lost", BODY), queue=queue)
        return load(producer, queues)


def main() -> None:
    well: list[tuple[float, float]] = []
    lost: list[tuple[float, float]] = []
    with ExitStack() as stack:
        brokers = [stack.enter_context(served()).broker for _ in range(3)]
        hole = stack.enter_context(BlackHole())
        run(brokers)
        for _ in range(RUNS):
            well.append(run(brokers))
            lost.append(run([*brokers[:2], hole.address]))
    pairs = list(zip(well, lost, strict=True))
    figures = [
        figure("all well: rate of two brokers", "messages/s", [rate for rate, _ in well]),
        figure("one host lost: rate of the others", "messages/s", [rate for rate, _ in lost]),
        figure("rate, lost / well", "x", [b[0] / a[0] for a, b in pairs], at_least=0.95),
        figure("all well: p99", "ms", [late for _, late in well]),
        figure("one host lost: p99", "ms", [late for _, late in lost]),
        figure("p99 more than when all is well", "ms", [b[1] - a[1] for a, b in pairs], at_most=20),
    ]
    keep("lost_host", figures)
