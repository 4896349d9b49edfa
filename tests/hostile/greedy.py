"""`python -m tests.hostile.greedy --minutes 10`: greedy clients beside an ordinary one.

Slow readers of long answers, unfinished requests, hundreds of parked readers of one long message
and long messages that are consumed, all at once, against a broker in a process of its own. Each of
these is a process that gives way to others, for the broker is judged and not the machine. Another
process sends and pulls small messages and notes how long each took. In between it asks a plain
server that only echoes: what that takes is the machine's share. The greedy ones come and go, and
the same is noted while they are gone.

Prints all of it, the most memory the broker took, what that may be, and a verdict. Exit status 1
when a bar is missed: 99 of 100 requests within 50 ms beside the greedy ones, none failed, memory
within the budgets.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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
RESERVE: Final = BUDGETS["memoryStoreMaxBytes"] // 4
"""What a store in memory may take above its budget, for the broker's own records."""
HANDLED: Final = 2 * FRAME
"""What is being handled when a limit is looked at: one request and its answer."""
JOURNAL: Final = 32 * MIB
"""10,000 exchanges, and the connections they name."""
ALLOCATOR: Final = 64 * MIB
"""What glibc keeps of memory that was given back: twice the largest block that it does not map by
itself, and such blocks have up to 32 MiB (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD in mallopt(3))."""
PATIENCE_S: Final = 20.0
PAUSE_S: Final = 1.0
CYCLE_S: Final = 60.0
GREEDY_PART: Final = 0.7
"""So much of a cycle is with greedy clients."""
NICENESS: Final = 10
BROKER, ECHO = "broker", "echo"
Noted = tuple[float, str, float, bool]
"""When a request began, who was asked, how many seconds it took, whether it was well."""


@frozen
class Delays:
    """How long requests took, in milliseconds."""

    count: int
    p50: float
    p99: float
    most: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Delays:
        """Sum up; all 0 when there are too few."""
        if len(seconds) < 2:
            return cls(len(seconds), 0.0, 0.0, 0.0)
        percents = quantiles(seconds, n=100)
        return cls(len(seconds), percents[49] * 1000, percents[98] * 1000, max(seconds) * 1000)

    def __str__(self) -> str:
        return (
            f"p50 {self.p50:5.1f} ms, p99 {self.p99:5.1f} ms, at most {self.most:6.1f} ms "
            f"({self.count})"
        )


def kept(counts: dict[str, int], rss_before: int) -> int:
    """Give how much memory a broker has that it neither had before nor counts."""
    counted = counts["stored"] + counts["unread"] + counts["unfinished"]
    return counts["rss"] - rss_before - counted


@frozen
class Report:
    """What came of a run: ``with_greedy`` and ``without`` by who was asked."""

    with_greedy: dict[str, Delays]
    without: dict[str, Delays]
    rss_before: int
    counts: dict[str, int]
    rounds: dict[str, int]
    failures: int

    @property
    def allowed(self) -> int:
        """The most memory that the broker may take: all that has a bound, and what it had."""
        bounds = sum(BUDGETS.values()) + RESERVE + HANDLED + JOURNAL
        return self.rss_before + bounds + ALLOCATOR

    @property
    def kept(self) -> int:
        """Memory that stays at the end, though nothing is counted that would need it."""
        return kept(self.counts, self.rss_before)

    def missed(self) -> list[str]:
        """Say which bars were missed."""
        counts, delays = self.counts, self.with_greedy[BROKER]
        bars = [
            (f"p99 {delays.p99:.1f} ms", delays.p99, P99_MAX_MS),
            (f"{self.failures} requests failed", self.failures, 1),
        ]
        bars += [
            (f"{name} {counts[name] // MIB} MiB", counts[name], most + 1)
            for name, most in (
                ("most_stored", BUDGETS["memoryStoreMaxBytes"] + RESERVE),
                ("most_unread", BUDGETS["unreadAnswersMaxBytes"] + HANDLED),
                ("most_unfinished", BUDGETS["unfinishedRequestsMaxBytes"] + MIB),
                ("most_rss", self.allowed),
            )
        ]
        bars.append((f"{self.kept // MIB} MiB stay", self.kept, ALLOCATOR + JOURNAL))
        return [what for what, found, bar in bars if found >= bar]

    def __str__(self) -> str:
        counts = {name: count // MIB for name, count in self.counts.items()}
        missed = self.missed()
        return (
            f"beside greedy clients: broker {self.with_greedy[BROKER]}\n"
            f"                       echo   {self.with_greedy[ECHO]}\n"
            f"without them:          broker {self.without[BROKER]}\n"
            f"                       echo   {self.without[ECHO]}\n"
            f"memory at most {counts['most_rss']} MiB of {self.allowed // MIB} MiB; "
            f"{self.rss_before // MIB} before, {counts['rss']} at the end, of which "
            f"{self.kept // MIB} stay without need; "
            f"stored {counts['most_stored']}, unread {counts['most_unread']}, "
            f"unfinished {counts['most_unfinished']} MiB at most\n"
            f"{self.counts['closed']} greedy connections closed; rounds: "
            + ", ".join(f"{name} {count}" for name, count in sorted(self.rounds.items()))
            + "\nverdict: "
            + (f"missed: {', '.join(missed)}" if missed else "all bars are held")
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


def be_greedy(role: Callable[[str, ExitStack], None], address: str, seconds: float) -> Counter[str]:
    """Play a role again and again, with new connections each time; count the rounds."""
    os.nice(NICENESS)
    end, ended, rounds = monotonic() + seconds, Event(), Counter[str]()
    while monotonic() < end:
        with ExitStack() as stack:
            try:
                role(address, stack)
            except (ConnectionError, TimeoutError):
                rounds[f"{role.__name__} cut off"] += 1
            else:
                rounds[role.__name__] += 1
            ended.wait(PAUSE_S)
    return rounds


def be_polite(address: str, echo: str, seconds: float) -> Iterator[Noted]:
    """Send and pull small messages, and ask for an echo; give what each took."""
    end, ended = monotonic() + seconds, Event()
    host, _, port = echo.rpartition(":")
    with WirePeer(address) as one, socket.create_connection((host, int(port))) as control:
        while monotonic() < end:
            begun = monotonic()
            sent = one.send("T", b"y" * 1000, e="1")
            yield begun, BROKER, monotonic() - begun, sent.code == 0
            offset = int(sent.ext_fields.get("queueOffset", "0"))
            begun = monotonic()
            got = one.pull(
                "T", offset, queueId="1", sysFlag="5", commitOffset=str(offset), maxMsgNums="1"
            )
            yield begun, BROKER, monotonic() - begun, got.code == 0
            begun = monotonic()
            control.sendall(b"y" * 1000)
            left = 1000
            while left and (data := control.recv(left)):
                left -= len(data)
            yield begun, ECHO, monotonic() - begun, not left
            ended.wait(0.005)


@contextmanager
def echo_server() -> Iterator[str]:
    """Echo what one client says, on a thread; give the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                while data := peer.recv(65536):
                    peer.sendall(data)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield "{}:{}".format(*listener.getsockname())
        thread.join(PATIENCE_S)


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start this program as one of the clients."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.greedy", *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def play_roles(address: str, seconds: float, rounds: Counter[str]) -> None:
    """Let the greedy clients at a broker for so long; returns when the last has ended."""
    playing = [start("--role", role.__name__, address, seconds) for role in ROLES]
    for process in playing:
        with process:
            out, _ = process.communicate(timeout=seconds + 4 * PATIENCE_S)
            rounds.update(json.loads(out))


def play(seconds: float) -> Report:
    """Let all of them at one broker for so long."""
    rounds, spans, ended = Counter[str](), list[tuple[float, float]](), Event()
    with echo_server() as echo, greedy_broker(**BUDGETS) as broker:
        before = broker.counts()["rss"]
        with start("--polite", broker.address, echo, seconds) as polite:
            end = monotonic() + seconds
            while (left := end - monotonic()) > 0:
                begun, cycle = monotonic(), min(left, CYCLE_S)
                play_roles(broker.address, GREEDY_PART * cycle, rounds)
                spans.append((begun, monotonic()))
                ended.wait(max(0, min(begun + cycle, end) - monotonic()))
            out, _ = polite.communicate(timeout=60)
        end = monotonic() + PATIENCE_S
        while kept(counts := broker.counts(), before) > ALLOCATOR and monotonic() < end:
            ended.wait(0.2)  # memory is given back a second later
    noted: list[Noted] = json.loads(out)

    def delays(who: str, *, greedy: bool) -> Delays:
        return Delays.of(
            [
                took
                for at, asked, took, _ in noted
                if asked == who and greedy == any(begun <= at < end for begun, end in spans)
            ]
        )

    return Report(
        {who: delays(who, greedy=True) for who in (BROKER, ECHO)},
        {who: delays(who, greedy=False) for who in (BROKER, ECHO)},
        before,
        counts,
        dict(rounds),
        sum(not well for *_, well in noted),
    )


def main(arguments: list[str]) -> int:
    """Play and tell; or be one of the clients."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.greedy", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    own = "used by itself"
    parser.add_argument("--polite", nargs=3, metavar=("ADDRESS", "ECHO", "SECONDS"), help=own)
    parser.add_argument("--role", nargs=3, metavar=("NAME", "ADDRESS", "SECONDS"), help=own)
    chosen = parser.parse_args(arguments)
    if chosen.polite:
        address, echo, seconds = chosen.polite
        print(json.dumps(list(be_polite(address, echo, float(seconds)))))
        return 0
    if chosen.role:
        name, address, seconds = chosen.role
        role = next(one for one in ROLES if one.__name__ == name)
        print(json.dumps(be_greedy(role, address, float(seconds))))
        return 0
    report = play(60 * chosen.minutes)
    print(report)
    return int(bool(report.missed()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
