"""What teams do with RocketMQ, done by clients that others wrote: which client does which, and how.

A program is one client of one release. It runs its scenarios one after the other and prints what
it sent and what came; a `Cell` is what became of one of them. Keys that begin with ``no`` are those
that must not come (filtered out, rolled back, recalled).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from attrs import define, field

from embedded_broker.kit.maven import fetched
from tests.interop.java_tools import CACHE, QUICK, compiled, jars

COMMON = (
    "sync",
    "async",
    "oneway",
    "batch",
    "orderly",
    "tags",
    "sql",
    "broadcast",
    "pull",
    "lite_pull",
    "query",
    "request_reply",
    "retry",
    "dead_letters",
    "transaction",
    "levels",
)
OF_5 = ("timers", "recall", "pop")
OF_GRPC = ("invisible_time", "given_up", "all_attempts", "signed", "tls", "days", "restart")
ALL = (*COMMON, *OF_5)
QUEUES = 4
ENDS_WITHIN_S = 500.0

HERE = Path(__file__).parent
ONS = "com.aliyun.openservices:ons-client:1.8.8.8.Final"


@define
class Client:
    """An unmodified client, and the scenarios that it has."""

    name: str
    program: Callable[[], list[str]]
    """Make it ready, and give the command that runs it."""
    scenarios: Sequence[str]
    needs: str = "java"


@define
class Cell:
    """What became of one scenario."""

    sent: list[str] = field(factory=list)
    came: list[tuple[str, int]] = field(factory=list)
    """Keys, and the queue of each."""
    failures: list[str] = field(factory=list)
    is_done: bool = False

    @property
    def duplicates(self) -> int:
        """How many came again."""
        return sum(Counter(key for key, _ in self.came).values()) - len({k for k, _ in self.came})

    def wrong(self, scenario: str) -> str | None:
        """Say what is not as it must be; None when all is."""
        if self.failures or not self.is_done:
            return "; ".join(self.failures) or "it did not end"
        wanted = {key for key in self.sent if not key.startswith("no")}
        if scenario == "broadcast":
            wanted = {f"{key}@{reader}" for key in wanted for reader in (1, 2)}
        keys = {key for key, _ in self.came}
        if not wanted or keys != wanted:
            return f"missing {sorted(wanted - keys)}, too many {sorted(keys - wanted)}"
        if self.duplicates:
            return f"{self.duplicates} came again"
        if scenario == "orderly" and not self._is_in_order():
            return "not in the order of the queues"
        return None

    def _is_in_order(self) -> bool:
        last: dict[int, int] = {}
        for key, queue in self.came:
            number = int(key.removeprefix("k"))
            if number < last.get(queue, -1):
                return False
            last[queue] = number
        return True

    def told(self, scenario: str) -> str:
        """Say how many were sent, came and came again, with ``!`` where that is wrong."""
        counts = f"{len(self.sent)}/{len(self.came)}/{self.duplicates}"
        return counts if self.wrong(scenario) is None else f"{counts} !"


def java(version: str, program: str) -> Callable[[], list[str]]:
    """One of our programs with the jars of a release."""

    def command() -> list[str]:
        path = compiled(program, jars(version, "rocketmq-client"))
        return ["java", "-Xmx256m", *QUICK, "-cp", path, program]

    return command


def ons() -> list[str]:
    """Aliyun's client in Java."""
    path = compiled("OnsScenarios", str(fetched("ons-client", ONS, cache=CACHE) / "*"))
    return ["java", "-Xmx256m", *QUICK, "-cp", path, "OnsScenarios"]


def go() -> list[str]:
    """The client in Go; the version stands in go.mod."""
    out = CACHE / "go-scenarios"
    subprocess.run(["go", "build", "-o", str(out), "."], cwd=HERE / "go", check=True)
    return [str(out)]


def javascript() -> list[str]:
    """Aliyun's client in JavaScript; the version stands in package.json."""
    home = CACHE / "javascript"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "main.js"):
        shutil.copy(HERE / "javascript" / name, home / name)
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--silent"]
    subprocess.run(["npm", "install", *options], cwd=home, check=True)
    return ["node", str(home / "main.js")]


def but(*missing: str) -> list[str]:
    """All scenarios but those that a client does not have."""
    return [scenario for scenario in ALL if scenario not in missing]


NO_PULL = ("pull", "query", "request_reply", "recall", "pop")
CLIENTS = (
    # Of these clients 4.9.8 alone gets the answers of its requests, on a real broker, too.
    Client("Java 4.9.4", java("4.9.4", "Scenarios"), but("request_reply", *OF_5)),
    Client("Java 4.9.8", java("4.9.8", "Scenarios"), but(*OF_5)),
    Client("Java 5.3.3", java("5.3.3", "ScenariosOf5"), but("request_reply")),
    Client("ONS 1.8.8", ons, but(*NO_PULL, "dead_letters", "levels")),
    Client("Go 2.1.2", go, but("lite_pull", "query", *OF_5), needs="go"),
    Client(
        "ali-ons 3.12",
        javascript,
        but(*NO_PULL, "lite_pull", "oneway", "batch", "orderly", "dead_letters", "transaction"),
        needs="npm",
    ),
)


def cells(lines: Iterable[str]) -> dict[str, Cell]:
    """Read what a program printed."""
    found: dict[str, Cell] = {}
    for line in lines:
        words = line.split("\t")
        if len(words) < 2 or words[0] not in {"SENT", "RECEIVED", "FAILED", "DONE"}:
            continue
        cell = found.setdefault(words[1], Cell())
        match words[0], words[2:]:
            case "SENT", [key]:
                cell.sent.append(key)
            case "RECEIVED", [key, queue]:
                cell.came.append((key, int(queue)))
            case "FAILED", [why]:
                cell.failures.append(why)
            case "DONE", _:
                cell.is_done = True
    return found


def run(client: Client, address: str, prefix: str, **variables: str) -> dict[str, Cell]:
    """Let a client do all that it can; the topics ``PREFIX_SCENARIO`` are there.

    ``address`` is a name server's, or where gRPC clients go.
    """
    command = [*client.program(), address, prefix, *client.scenarios]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | variables,
    ) as program:
        try:
            said, _ = program.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            program.kill()
            said, _ = program.communicate()
    lines = said.splitlines()
    found = cells(lines)
    for scenario in client.scenarios:
        found.setdefault(scenario, Cell(failures=["\n".join(lines[-20:])]))
    return found


def table(told: dict[tuple[str, str], str]) -> list[str]:
    """Lay out what is told of every client and scenario."""
    rows = sorted({client for client, _ in told})
    wide = 2 + max(map(len, rows))
    lines = [f"{'sent/received/duplicates':26}" + "".join(f"{row:>{wide}}" for row in rows)]
    for scenario in (*ALL, *OF_GRPC):
        if any((row, scenario) in told for row in rows):
            texts = [told.get((row, scenario), "-") for row in rows]
            lines.append(f"{scenario:26}" + "".join(f"{text:>{wide}}" for text in texts))
    return lines
