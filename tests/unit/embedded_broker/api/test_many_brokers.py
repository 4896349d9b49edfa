"""Many brokers of one process, one after the other, leave nothing behind.

A broker that kept a thread, a socket, a file or its memory would spoil long runs of tests.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from threading import enumerate as threads

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import DefaultMQProducer, Message
from tests.pages import ROOT

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
WARM_UP = 50
GROWTH_MAX = 20 * MIB
BODY = b"x" * 1024


def one_life(*, tcp: bool) -> None:
    """Start a broker, let a client send a timer, let it come out, stop."""
    clock = VirtualClock()
    with (
        EmbeddedBroker(clock=clock, tcp=tcp, topics=["T"]) as broker,
        DefaultMQProducer(
            "P", namesrv_addr=broker.namesrv_addr, transport="tcp" if tcp else "auto"
        ) as producer,
    ):
        producer.send(Message("T", BODY, delay=MINUTE))
        producer.send(Message("T", BODY, delay=DAY))
        assert clock.advance(MINUTE).fired == 1
        assert broker.timers.count() == 1


def open_files() -> Counter[str]:
    """Count what this process has open, by kind: sockets, pipes, paths."""
    found: Counter[str] = Counter()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found[entry.readlink().as_posix().partition(":[")[0]] += 1
        except FileNotFoundError:  # the descriptor of this listing
            continue
    return found


def memory() -> int:
    """Give the bytes of memory in use, without those that are free and kept for later.

    The C library keeps up to 30 MiB here, now more and now less.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def many_lives(brokers: int, *, tcp: bool) -> None:
    """Look what is left behind. To be run in a process that has done nothing else.

    In one that has run other tests, the state of their allocator moves the figure by 20 MiB.
    """
    for _ in range(WARM_UP):
        one_life(tcp=tcp)
    files, running, before = open_files(), set(threads()), memory()

    for _ in range(brokers):
        one_life(tcp=tcp)

    grown = memory() - before
    print(f"{brokers} brokers: {grown / MIB:.1f} MiB more than after {WARM_UP}")
    assert [one.name for one in threads() if one not in running] == []
    assert open_files() - files == Counter()
    assert grown < GROWTH_MAX


@pytest.mark.timeout(300)
@pytest.mark.parametrize("tcp", [True, False], ids=["tcp", "in process"])
@pytest.mark.parametrize("brokers", [60, pytest.param(1_000, marks=pytest.mark.slow)])
def test_many_brokers_leave_no_thread_socket_file_or_memory(brokers: int, *, tcp: bool) -> None:
    program = f"from {__name__} import many_lives; many_lives({brokers}, tcp={tcp})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr


A_HUNDRED_TESTS = """
from pathlib import Path
from threading import enumerate as threads

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock


def sockets():
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.append(entry.readlink().as_posix())
        except FileNotFoundError:
            continue
    return sum(one.startswith("socket:") for one in found)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left():
    running, open_now = set(threads()), sockets()
    yield
    assert set(threads()) == running
    assert sockets() == open_now


@pytest.mark.parametrize("number", range(100))
def test_one(number):
    with EmbeddedBroker(clock=VirtualClock(), topics=["T"]) as broker:
        assert broker.timers.count() == 0
        broker.send("T", b"%d" % number, delay=60)
        broker.clock.advance(60)
        assert [one.body for one in broker.messages.in_topic("T")] == [b"%d" % number]
"""
HUNDRED_GUARD_S = 100
"""Ten times what a hundred of them may take."""


@pytest.mark.case("K27")
@pytest.mark.timeout(HUNDRED_GUARD_S + 20)
@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_hundred_tests_with_a_broker_each_run_in_any_order(tmp_path: Path, order: int) -> None:
    (tmp_path / "test_hundred.py").write_text(A_HUNDRED_TESTS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"--randomly-seed={order}", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HUNDRED_GUARD_S,
        check=False,
    )
    assert "100 passed" in done.stdout, done.stdout + done.stderr
