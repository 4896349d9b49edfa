"""What a topic costs when there are many: 20,000 creations by request 17, and sends meanwhile.

The broker is a process of its own with a store in a directory. One connection creates topics one
after the other; a third process (`python -m tests.perf.topics ADDRESS`) sends to one topic all the
time until its input ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from threading import Event, Thread

from tests.perf.measure import ENVIRONMENT, ROOT, RUNS, figure, keep
from tests.perf.server_process import served
from tests.unit.embedded_broker.wire_peer import WirePeer

TOPICS = 20_000
BLOCK = 5_000
BETWEEN_SENDS_S = 0.002


def percentile(values: list[float], percent: float) -> float:
    """The value that so many percent do not exceed."""
    return sorted(values)[min(int(len(values) * percent / 100), len(values) - 1)]


def sends(address: str) -> None:
    """Send until the input ends, and print how long each took in ms."""
    done, took_ms = Event(), list[float]()

    def wait() -> None:
        sys.stdin.read()
        done.set()

    Thread(target=wait).start()
    with WirePeer(address) as peer:
        while not done.wait(BETWEEN_SENDS_S):
            since = time.perf_counter()
            assert peer.send("Beside").code == 0
            took_ms.append((time.perf_counter() - since) * 1000)
    print(json.dumps(took_ms))


def take() -> dict[str, float]:
    """Create the topics once."""
    with tempfile.TemporaryDirectory() as folder, served("--store", folder) as server:
        with WirePeer(server.namesrv) as namesrv:
            route = namesrv.ask(105, {"topic": "TBW102"}, version=479)
            address = route.body.decode().partition('"brokerAddrs":{"0":"')[2].partition('"')[0]
        beside = subprocess.Popen(
            [sys.executable, "-m", "tests.perf.topics", address],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        created_ms: list[float] = []
        blocks: list[float] = []
        with WirePeer(address) as peer:
            for start in range(0, TOPICS, BLOCK):
                began = time.perf_counter()
                for number in range(start, start + BLOCK):
                    since = time.perf_counter()
                    peer.create_topic(f"Topic{number:06d}", queues=4)
                    created_ms.append((time.perf_counter() - since) * 1000)
                blocks.append(time.perf_counter() - began)
        sent_ms: list[float] = json.loads(beside.communicate()[0])
    return {
        "first": blocks[0],
        "last": blocks[-1],
        "create": percentile(created_ms, 99),
        "send": percentile(sent_ms, 99),
        "longest send": max(sent_ms),
    }


def main() -> None:
    """Take the figures and keep them."""
    takes = [take() for _ in range(RUNS)]

    def of(name: str) -> list[float]:
        return [one[name] for one in takes]

    ratios = [one["last"] / one["first"] for one in takes]
    keep(
        "topics",
        [
            figure(f"the first {BLOCK} topics", "s", of("first")),
            figure(f"the last {BLOCK} of {TOPICS} topics", "s", of("last")),
            figure("the last by the first", "times", ratios, at_most=1.5),
            figure("p99 of a creation", "ms", of("create"), at_most=5),
            figure("p99 of a send meanwhile", "ms", of("send")),
            figure("the longest send meanwhile", "ms", of("longest send")),
        ],
    )


if __name__ == "__main__":
    sends(sys.argv[1])
