"""What our own client costs: messages a second over TCP and in process, per call style.

A blocking send is a round trip between two processes, and what that alone takes differs from
machine to machine by more than everything that is ours. So two bare processes are timed beside it.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultMQProducer, Message
from tests.perf.measure import RUNS, figure, five, keep
from tests.perf.server_process import served

MESSAGES = 3000
IN_FLIGHT = 256
WIDE = 1000
"""A window as of a program that sends as fast as it can."""
BODY = b"x" * 256


ECHO = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    peer = server.accept()[0]
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := peer.recv(65536):
        peer.sendall(data)
"""


@contextlib.contextmanager
def echo() -> Iterator[socket.socket]:
    """A connection to another process that sends back what it gets."""
    command = [sys.executable, "-c", ECHO]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline()) if process.stdout else 0
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield peer


def round_trip_us(peer: socket.socket) -> float:
    """Microseconds until an echo of a request's size is back."""
    started = time.perf_counter()
    for _ in range(MESSAGES):
        peer.sendall(BODY)
        peer.recv(65536)
    return (time.perf_counter() - started) / MESSAGES * 1e6


def blocking_us(producer: DefaultMQProducer) -> float:
    """Microseconds of one blocking send."""
    started = time.perf_counter()
    for _ in range(MESSAGES):
        producer.send(Message("Path", BODY))
    return (time.perf_counter() - started) / MESSAGES * 1e6


def async_rate(
    producer: DefaultMQProducer, in_flight: int = IN_FLIGHT, messages: int = MESSAGES
) -> float:
    """Messages a second with a window of futures."""
    started = time.perf_counter()
    window = deque(producer.send_async(Message("Path", BODY)) for _ in range(in_flight))
    for _ in range(messages - in_flight):
        window.popleft().result()
        window.append(producer.send_async(Message("Path", BODY)))
    for future in window:
        future.result()
    return messages / (time.perf_counter() - started)


def main() -> None:
    figures = []
    with (
        served() as server,
        DefaultMQProducer("Path", namesrv_addr=server.namesrv) as producer,
        echo() as peer,
    ):
        blocking_us(producer)
        pairs = [(blocking_us(producer), round_trip_us(peer)) for _ in range(RUNS)]
        figures += [
            figure("blocking send, TCP", "us", [ours for ours, _ in pairs], at_most=166),
            figure("a bare round trip", "us", [bare for _, bare in pairs]),
            figure("blocking send / bare round trip", "x", [ours / bare for ours, bare in pairs]),
            figure("async send, TCP", "messages/s", five(lambda: async_rate(producer))),
            figure(
                f"async send, TCP, {WIDE} in flight",
                "messages/s",
                five(lambda: async_rate(producer, WIDE, 5 * MESSAGES)),
                at_least=20_000,
            ),
        ]
    with (
        EmbeddedBroker(tcp=False) as broker,
        DefaultMQProducer("Path", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        figures.append(
            figure("blocking send, in process", "us", five(lambda: blocking_us(producer)))
        )
    keep("client_path", figures)
