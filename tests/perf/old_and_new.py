"""This tree against an older one: `OLD_TREE=DIR python -m tests.perf old_and_new`.

`TAKES=put,pull` takes only some and prints them. `AT_MOST=1.03 KEEP_AS=NAME` set another bar, and
a name under which all figures, or some, are kept.

Every value comes from a process of its own, and each tree measures itself with its own code; the
older checkout needs its own copy of `tests/perf`. All figures are CPU time, taken in both trees at
once, on one core that they share slice by slice: whatever slows the core down slows both. Rates by
the wall are no measure here: pairs of one and the same tree differ by a third. The ratio is that of
each pair.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from attrs import frozen

from tests.perf.measure import ENVIRONMENT, ROOT, RUNS, Figure, cpus, figure, keep

WORSE_AT_MOST = float(os.environ.get("AT_MOST", "1.05"))
ENDS_WITHIN_S = 900.0


@frozen
class Take:
    """One figure of a tree: a program that prints it as its last line."""

    name: str
    unit: str
    program: str
    grows: bool = False
    """Whether more is better, as with rates."""


def _case(name: str, key: str, *arguments: int) -> str:
    return (
        "from tests.perf.timer_store_cases import CASES; "
        f"print(CASES[{name!r}](*{arguments!r})[{key!r}])"
    )


_PATH = """
import time
from rocketmq_py import DefaultMQProducer as P
from tests.perf import client_path as c
"""
_OVER_TCP = f"""{_PATH}
with c.served() as server, P("Path", namesrv_addr=server.namesrv) as producer:
    c.%(call)s(producer)
    started = time.process_time() + server.cpu_seconds()
    for _ in range(%(times)d):
        c.%(call)s(producer)
    took = time.process_time() + server.cpu_seconds() - started
    print(took / %(times)d / c.MESSAGES * 1e6)
"""
_IN_PROCESS = f"""{_PATH}
with c.EmbeddedBroker(tcp=False) as broker, P("Path", namesrv_addr=broker.namesrv_addr) as producer:
    c.blocking_us(producer)
    started = time.process_time()
    for _ in range(5):
        c.blocking_us(producer)
    print((time.process_time() - started) / 5 / c.MESSAGES * 1e6)
"""
_CONSUME = """
import itertools, threading, time
from rocketmq_py import ConsumeConcurrentlyStatus, ConsumeFromWhere, DefaultMQProducer
from rocketmq_py import DefaultMQPushConsumer, Message
from tests.perf import client_path as c
COUNT = 60_000
handled, ended = itertools.count(1), threading.Event()
def listen(messages, context):
    if next(handled) == COUNT:
        ended.set()
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
with c.served() as server:
    with DefaultMQProducer("Path", namesrv_addr=server.namesrv) as producer:
        for _ in range(COUNT // 500):
            producer.send_batch([Message("T", c.BODY) for _ in range(500)])
    consumer = DefaultMQPushConsumer("PathGroup", namesrv_addr=server.namesrv,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe("T")
    consumer.register_message_listener(listen)
    started = time.process_time() + server.cpu_seconds()
    with consumer:
        assert ended.wait(60)
        took = time.process_time() + server.cpu_seconds() - started
    print(took / COUNT * 1e6)
"""
_JAVA = """
from tests.perf import java_load as j
with j.served() as server:
    print(j.load(server.namesrv, server.pid, %r, %d).broker_us)
"""

TAKES = (
    Take("put to slot", "timers/s of a core", _case("put", "rate", 100_000), grows=True),
    Take("frame to slot", "timers/s of a core", _case("frames", "rate", 50_000, 32, 1), grows=True),
    Take(
        "frame to slot, one at a time",
        "timers/s of a core",
        _case("frames", "rate", 50_000, 1, 1),
        grows=True,
    ),
    Take("plain send", "us/message", _case("frames", "us", 50_000, 32, 0)),
    Take("plain send, one at a time", "us/message", _case("frames", "us", 50_000, 1, 0)),
    Take("pull", "us/message", _case("pulls", "us", 50_000)),
    Take("release of 100k of one instant", "s CPU", _case("burst", "cpu", 100_000)),
    Take("jump of 40 days over 100k timers", "s CPU", _case("jump", "cpu", 100_000, 0, 2, 40)),
    Take("a hop that is made", "us", _case("hops", "us", 10_000)),
    Take(
        "blocking send, TCP: client and broker",
        "us/message",
        _OVER_TCP % {"call": "blocking_us", "times": 5},
    ),
    Take(
        "async send, TCP: client and broker",
        "us/message",
        _OVER_TCP % {"call": "async_rate", "times": 10},
    ),
    Take("consume with an empty listener, TCP: client and broker", "us/message", _CONSUME),
    Take("blocking send, in process", "us/message", _IN_PROCESS),
    Take("Java client, sync: broker", "us/message", _JAVA % ("sync", 10_000)),
    Take("Java client, async: broker", "us/message", _JAVA % ("async", 30_000)),
    Take("Java client, batches: broker", "us/message", _JAVA % ("batch", 160_000)),
)


def started(take: Take, tree: Path) -> subprocess.Popen[str]:
    """Begin to take one figure in one tree."""
    return subprocess.Popen(
        [sys.executable, "-c", take.program],
        cwd=tree,
        env=ENVIRONMENT | {"PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        text=True,
    )


def taken(run: subprocess.Popen[str]) -> float:
    """Wait for a figure."""
    with run:
        try:
            printed, _ = run.communicate(timeout=ENDS_WITHIN_S)
        finally:
            run.kill()  # it has ended, unless the time is over
    if run.returncode:
        raise subprocess.CalledProcessError(run.returncode, run.args)
    return float(printed.splitlines()[-1])


def pair_of(take: Take, old_tree: Path) -> tuple[float, float]:
    """Take a figure in the old tree and in this one."""
    core = {max(cpus())}
    runs = [started(take, old_tree), started(take, ROOT)]
    for run in runs:
        os.sched_setaffinity(run.pid, core)
    old, new = (taken(run) for run in runs)
    return old, new


def compared(take: Take, old_tree: Path) -> list[Figure]:
    """Take a figure in both trees; a ratio above 1 says that the new tree is worse."""
    pairs = [pair_of(take, old_tree) for _ in range(RUNS)]
    ratios = [(old / new) if take.grows else (new / old) for old, new in pairs]
    print(f"{take.name}: {statistics.median(ratios):.3f}", flush=True)
    return [
        figure(f"{take.name}: cost against before", "x", ratios, at_most=WORSE_AT_MOST),
        figure(f"{take.name}: before", take.unit, [old for old, _ in pairs]),
        figure(f"{take.name}: now", take.unit, [new for _, new in pairs]),
    ]


def main() -> None:
    given = os.environ.get("OLD_TREE")
    if given is None:
        print("left out: OLD_TREE names no older checkout to compare with")
        return
    wanted = os.environ.get("TAKES", "")
    old_tree = Path(given).resolve()
    commit = ["git", "-C", str(old_tree), "rev-parse", "HEAD"]
    before = subprocess.run(commit, check=True, capture_output=True, text=True).stdout.strip()
    takes = [take for take in TAKES if any(name in take.name for name in wanted.split(","))]
    figures = [one for take in takes for one in compared(take, old_tree)]
    name = os.environ.get("KEEP_AS", "" if wanted else "old_and_new")
    if not name:
        for one in figures:
            print(one.name, json.dumps(one.runs), statistics.median(one.runs))
    else:
        keep(name, figures, before=before)
