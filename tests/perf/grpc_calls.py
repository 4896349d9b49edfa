"""What the broker's gRPC endpoint costs: a send from end to end, many callers, waiting receives.

The client is gRPC's own for Python, as below RocketMQ's: it shares the cores with the broker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from rocketmq_py.protocol.rpc import Rpc
from tests.perf.measure import RUNS, figure, five, keep
from tests.perf.server_process import Served, served
from tests.unit.embedded_broker.grpc.raw_client import RawClient
from tests.unit.embedded_broker.wire_peer import WirePeer

TOPIC = "Calls"
BODY = b"x" * 300
SENDS = 1_000
CALLERS = 16
WAITING = 1_000
POLL_MS = 20_000
SETTLE_SECONDS = 3.0
SECONDS = 10.0
MIB_IN_MB = 1.048576


def send_some(client: RawClient, count: int) -> None:
    """Send one message after the other."""
    for _ in range(count):
        answer = client.send(client.message(TOPIC, BODY))
        if answer.status.code != 20000:
            raise RuntimeError(str(answer.status))


def send_ms(client: RawClient, count: int = SENDS) -> float:
    """Milliseconds of a send, from message to answer."""
    started = time.perf_counter()
    send_some(client, count)
    return (time.perf_counter() - started) / count * 1000


def send_rate(clients: Sequence[RawClient], count: int = SENDS) -> float:
    """Sends a second of callers that send at once."""
    with ThreadPoolExecutor(len(clients)) as pool:
        started = time.perf_counter()
        for done in [pool.submit(send_some, one, count // len(clients)) for one in clients]:
            done.result()
        return count // len(clients) * len(clients) / (time.perf_counter() - started)


def wait_for_messages(client: RawClient, count: int = WAITING) -> list[Any]:
    """Begin receives that find nothing; each is of a group of its own."""
    return [
        client.parked(
            Rpc.RECEIVE_MESSAGE,
            client.receive_request(TOPIC, f"Waits{number % 10}", poll_ms=POLL_MS),
            POLL_MS / 1000 + 3,
        )
        for number in range(count)
    ]


def send_cpu_us(server: Served, client: RawClient, count: int = SENDS) -> float:
    """Microseconds of processor time that the broker spends on a send, whoever else is busy."""
    used = server.cpu_seconds()
    send_some(client, count)
    return (server.cpu_seconds() - used) / count * 1e6


def idle(server: Served) -> tuple[float, float, float]:
    """MB of a started broker, and MB and percent of a core that waiting receives cost it."""
    with ExitStack() as life:
        client = RawClient(server.endpoints)
        life.callback(client.close)
        client.route(TOPIC)
        time.sleep(SETTLE_SECONDS)
        before_mb = server.resident_mb()
        begun = wait_for_messages(client)
        for one in begun:
            life.callback(one.cancel)
        time.sleep(SETTLE_SECONDS)
        used, since = server.cpu_seconds(), time.perf_counter()
        time.sleep(SECONDS)
        percent = (server.cpu_seconds() - used) / (time.perf_counter() - since) * 100
        more_mb = server.resident_mb() - before_mb
        return before_mb * MIB_IN_MB, more_mb * MIB_IN_MB, percent


def idle_run() -> tuple[float, float, float]:
    """Take the figures of a broker of its own."""
    with served("--grpc-port", "0") as server:
        create_topic(server.broker)
        return idle(server)


def create_topic(broker: str) -> None:
    """Create the topic that all use."""
    with WirePeer(broker) as peer:
        peer.create_topic(TOPIC, queues=4)


def main() -> None:
    runs = [idle_run() for _ in range(RUNS)]
    with served("--grpc-port", "0") as server, ExitStack() as life:
        create_topic(server.broker)
        clients = [RawClient(server.endpoints) for _ in range(CALLERS)]
        for one in clients:
            life.callback(one.close)
        figures = [
            figure("a send", "ms", five(lambda: send_ms(clients[0])), at_most=1.5),
            figure(
                f"sends of {CALLERS} callers",
                "sends/s",
                five(lambda: send_rate(clients)),
                at_least=1_500,
            ),
            figure(
                "CPU of the broker, a send", "us", five(lambda: send_cpu_us(server, clients[0]))
            ),
        ]
    figures += [
        figure("a started broker", "MB", [one for one, _, _ in runs], at_most=120),
        figure(f"{WAITING:,} receives", "MB", [more for _, more, _ in runs], at_most=40),
        figure(
            f"CPU of the broker, {WAITING:,} receives wait",
            "% of a core",
            [percent for _, _, percent in runs],
            at_most=1,
        ),
    ]
    keep("grpc_calls", figures, body_bytes=len(BODY), load_average=os.getloadavg()[1])
