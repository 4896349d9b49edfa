"""`python -m tests.hostile.greedy --minutes 10`: greedy clients beside ordinary ones.

Slow readers of long answers, unfinished requests, hundreds of parked readers of one long message
and long messages that are consumed, all at once, against a broker in a process of its own. Another
process sends and pulls small messages and notes how long each took. Prints the median and the 99th
percentile of these, and the most memory the broker took against its budgets. Exit status 1 when the
percentile is 50 ms or more, or the memory is over the budgets.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from threading import Event, Thread
from typing import Final

from attrs import frozen

from rocketmq_py.clock import monotonic
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.hostile.greedy_broker import greedy_broker
from tests.unit.embedded_broker.wire_peer import WirePeer, pull_fields

MIB: Final = 1024 * 1024
LONG: Final = 4_000_000
FRAME: Final = 16 * MIB
P99_MAX_MS: Final = 50.0
BUDGETS: Final = {
    "memoryStoreMaxBytes": 256 * MIB,
    "unreadAnswersMaxBytes": 96 * MIB,
    "unfinishedRequestsMaxBytes": 96 * MIB,
}
ITSELF: Final = 100 * MIB
"""The interpreter, the journal, and what one turn of the broker handles."""
SPARE: Final = 2
"""A process takes up to so many times what is counted: an allocator keeps what was given back."""
ONE_TURN: Final = 32 * MIB
"""Answers that one turn adds before anybody is closed."""
PATIENCE_S: Final = 20.0
PAUSE_S: Final = 1.0


@frozen
class Report:
    """What came of a run."""

    requests: int
    p50_ms: float
    p99_ms: float
    counts: dict[str, int]
    rounds: dict[str, int]
    failures: int

    @property
    def allowed(self) -> int:
        """The most memory that the broker may take: a reserve of the store is in it."""
        budgets = sum(BUDGETS.values()) + BUDGETS["memoryStoreMaxBytes"] // 4
        return int(budgets * SPARE) + ITSELF

    @property
    def is_within_budgets(self) -> bool:
        """Whether no budget was passed, by its own count and by the memory of the process."""
        counts = self.counts
        return (
            counts["most_stored"] <= BUDGETS["memoryStoreMaxBytes"] * 5 // 4
            and counts["most_unread"] <= BUDGETS["unreadAnswersMaxBytes"] + ONE_TURN
            and counts["most_unfinished"] <= BUDGETS["unfinishedRequestsMaxBytes"] + MIB
            and counts["most_rss"] <= self.allowed
        )

    def __str__(self) -> str:
        counts = {name: count // MIB for name, count in self.counts.items()}
        return (
            f"{self.requests} ordinary requests: p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} "
            f"ms, {self.failures} failed\n"
            f"memory at most {counts['most_rss']} MiB, budgets allow {self.allowed // MIB} MiB; "
            f"stored {counts['most_stored']}, unread {counts['most_unread']}, "
            f"unfinished {counts['most_unfinished']} MiB at most\n"
            f"{self.counts['closed']} greedy connections closed; rounds: "
            + ", ".join(f"{name} {count}" for name, count in sorted(self.rounds.items()))
        )


def pulls(count: int, offset: int, queue: int, *, wait: bool = False) -> bytes:
    """Give so many pulls, as one piece of the stream."""
    flag = int(PullSysFlag.SUBSCRIPTION) | (int(PullSysFlag.SUSPEND) if wait else 0)
    fields = pull_fields("T", offset, queueId=str(queue), sysFlag=str(flag))
    return b"".join(
        RemotingCommand(RequestCode.PULL_MESSAGE, opaque, ext_fields=fields).encode()
        for opaque in range(1, count + 1)
    )


def dial(stack: ExitStack, address: str) -> socket.socket:
    """Open a connection whose kernel takes little."""
    host, _, port = address.rpartition(":")
    one = stack.enter_context(socket.socket())
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    one.settimeout(PATIENCE_S)
    one.connect((host, int(port)))
    return one


def slow_readers(address: str, stack: ExitStack) -> None:
    """Ask for long answers and read none of them."""
    with WirePeer(address) as one:
        newest = int(one.ask(RequestCode.GET_MAX_OFFSET, at_queue(0)).ext_fields["offset"]) - 1
    for _ in range(20):
        dial(stack, address).sendall(pulls(8, max(newest, 0), 0))


def unfinished_requests(address: str, stack: ExitStack) -> None:
    """Send requests but for their last byte."""
    data = (FRAME - 4).to_bytes(4, "big") + (100).to_bytes(4, "big") + bytes(FRAME - 9)
    for _ in range(40):
        one = dial(stack, address)
        try:
            one.sendall(data)
        except ConnectionError:  # the greediest is closed: that is what is hoped for
            continue


def parked_readers(address: str, stack: ExitStack) -> None:
    """Let hundreds wait for one long message, and let only some of them read it."""
    with WirePeer(address) as one:
        end = int(one.ask(RequestCode.GET_MAX_OFFSET, at_queue(3)).ext_fields["offset"])
        parked = [dial(stack, address) for _ in range(300)]
        for reader in parked:
            reader.sendall(pulls(1, end, 3, wait=True))
        one.barrier()
        one.send("T", b"x" * LONG, e="3")
        for reader in parked[:20]:
            left = LONG
            while left > 0 and (data := reader.recv(MIB)):
                left -= len(data)
        one.pull("T", end, queueId="3", sysFlag="5", commitOffset=str(end + 1))


def long_messages(address: str, stack: ExitStack) -> None:
    """Send long messages and consume them, and small ones for others to find."""
    with WirePeer(address) as one:
        for _ in range(8):
            offset = int(one.send("T", b"x" * LONG, e="0").ext_fields["queueOffset"])
            fields = {"commitOffset": str(offset + 1), "sysFlag": "5"}
            one.pull("T", offset, **fields)
            dial(stack, address)


def at_queue(queue: int) -> dict[str, str]:
    """Give the header that names a queue."""
    return {"topic": "T", "queueId": str(queue)}


ROLES: Final[tuple[Callable[[str, ExitStack], None], ...]] = (
    slow_readers,
    unfinished_requests,
    parked_readers,
    long_messages,
)


def be_greedy(
    role: Callable[[str, ExitStack], None], address: str, ended: Event, rounds: Counter[str]
) -> None:
    """Play a role again and again, with new connections each time."""
    while not ended.is_set():
        with ExitStack() as stack:
            try:
                role(address, stack)
            except (ConnectionError, TimeoutError):
                rounds[f"{role.__name__} cut off"] += 1
            else:
                rounds[role.__name__] += 1
            ended.wait(PAUSE_S)


def be_polite(address: str, seconds: float) -> Iterator[tuple[float, bool]]:
    """Send and pull small messages; give how long each took and whether it was well."""
    end, ended = monotonic() + seconds, Event()
    with WirePeer(address) as one:
        while monotonic() < end:
            begun = monotonic()
            sent = one.send("T", b"y" * 1000, e="1")
            yield monotonic() - begun, sent.code == 0
            offset = int(sent.ext_fields.get("queueOffset", "0"))
            begun = monotonic()
            got = one.pull(
                "T", offset, queueId="1", sysFlag="5", commitOffset=str(offset), maxMsgNums="1"
            )
            yield monotonic() - begun, got.code == 0
            ended.wait(0.005)


def play(seconds: float) -> Report:
    """Let all of them at one broker for so long."""
    ended, rounds = Event(), Counter[str]()
    with greedy_broker(**BUDGETS) as broker:
        with subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.hostile.greedy",
                "--polite",
                broker.address,
                str(seconds),
            ],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        ) as polite:
            threads = [
                Thread(target=be_greedy, args=(role, broker.address, ended, rounds), daemon=True)
                for role in ROLES
            ]
            for thread in threads:
                thread.start()
            out, _ = polite.communicate(timeout=seconds + 60)
            ended.set()
            for thread in threads:
                thread.join(2 * PATIENCE_S)
        counts = broker.counts()
    took = json.loads(out)
    percents = quantiles(took["seconds"], n=100)
    return Report(
        len(took["seconds"]),
        percents[49] * 1000,
        percents[98] * 1000,
        counts,
        dict(rounds),
        took["failures"],
    )


def main(arguments: list[str]) -> int:
    """Play and tell; or be the polite process."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.greedy", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--polite", nargs=2, metavar=("ADDRESS", "SECONDS"), help="used by itself")
    chosen = parser.parse_args(arguments)
    if chosen.polite:
        address, seconds = chosen.polite
        took = list(be_polite(address, float(seconds)))
        failures = sum(not well for _, well in took)
        print(json.dumps({"seconds": [one for one, _ in took], "failures": failures}))
        return 0
    report = play(60 * chosen.minutes)
    print(report)
    return int(report.p99_ms >= P99_MAX_MS or report.failures > 0 or not report.is_within_budgets)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
