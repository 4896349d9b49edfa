"""The programs of examples/production as processes: their commands, and kill -9 at every line.

A process is killed before one line of the act that matters, the next process before the line after
it, and so on, until one has got through. All of them work on the same files and the same broker, as
the lives of one service do. In the end everything has happened once.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from datetime import date, timedelta
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from sqlite3 import OperationalError, connect
from threading import Event, Thread

import pytest
from production import outbox

from embedded_broker import EmbeddedBroker, VirtualClock
from tests.pages import ROOT
from tests.waiting import until

FOLDER = ROOT / "examples" / "production"
PROGRAMS = sorted(FOLDER.glob("*.py"))
TOPICS = re.compile(r"^TOPIC(?:, \w+)* = \"(\w+)\"", re.MULTILINE)
GROUPS = re.compile(r"^TOPIC, GROUP(?:, \w+)* = \"\w+\", \"([\w-]+)\"", re.MULTILINE)
LASTING = {"watch", "relay", "ship", "run", "work", "serve"}
"""Commands that last until a signal."""
SHOWN = {
    "dead_letters": "0 sent again\n",
    "order_timeouts": "A-17 paid\n",
    "outbox": "order 1\n",
    "request_reply": "tea: 420 cents\n",
    "schedule": "",
}
"""What the last command says that lasts for a moment."""
GUARD_S = 60.0
LINES_MAX = 150
DAY = timedelta(days=1)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """A broker for other processes, whose clock begins now: they arm for days that are to come."""
    topics = [name for path in PROGRAMS for name in TOPICS.findall(path.read_text("utf-8"))]
    assert len(topics) == len(PROGRAMS)
    with EmbeddedBroker(clock=VirtualClock(), inproc=False, topics=topics) as started:
        yield started


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path, broker: EmbeddedBroker) -> Iterator[Start]:
    """Starts Python in the folder of the test; what still runs at its end is killed."""
    with ExitStack() as running:

        def begin(*words: str | Path) -> subprocess.Popen[str]:
            process = running.enter_context(
                subprocess.Popen(
                    [sys.executable, *words],
                    cwd=tmp_path,
                    env=os.environ | {"NAMESRV_ADDR": broker.namesrv_addr, "PYTHONPATH": str(ROOT)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
            running.callback(process.kill)
            return process

        yield begin


def end(process: subprocess.Popen[str]) -> str:
    """Ask a program to end; gives what it has said."""
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=GUARD_S)
    assert process.returncode == 0, said
    return said


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    """Give what a database holds; nothing as long as it is not there."""
    try:
        with closing(connect(path)) as database:
            return database.execute(query).fetchall()
    except OperationalError:
        return []


# --- the commands --------------------------------------------------------------------------


def commands_of(path: Path) -> list[list[str]]:
    """Give the commands of a program's docstring."""
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    found = re.findall(rf"^    python {path.name} (.+)$", told, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in found]


@pytest.mark.parametrize(
    "path", [one for one in PROGRAMS if one.stem != "prefork"], ids=lambda path: path.stem
)
def test_the_commands_that_a_program_shows_run(
    path: Path, start: Start, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    commands = commands_of(path)
    assert len(commands) > 1
    services = [start(path, *words) for words in commands if words[0] in LASTING]
    broker.wait_members(*GROUPS.findall(path.read_text("utf-8")), timeout=GUARD_S)
    for words in commands:
        if words[0] not in LASTING:
            said, _ = (one := start(path, *words)).communicate(timeout=GUARD_S)
            assert one.returncode == 0, said
    assert said.endswith(SHOWN[path.stem])
    until(lambda: rows(tmp_path / "shop.db", "SELECT * FROM outbox") == [], GUARD_S)
    for service in services:
        assert "Traceback" not in end(service)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_that_is_not_told_what_to_do_says_how_to_run_it(path: Path, start: Start) -> None:
    said, _ = (process := start(path)).communicate(timeout=GUARD_S)
    assert process.returncode == 1
    assert f"python {path.name} " in said


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_that_no_broker_answers_says_so_in_one_line(
    path: Path, start: Start, broker: EmbeddedBroker
) -> None:
    broker.close()
    said, _ = (process := start(path, *commands_of(path)[-1])).communicate(timeout=GUARD_S)
    assert process.returncode == 1
    (line,) = said.splitlines()
    assert line.startswith(f"{path.stem}: no name server answers ({broker.namesrv_addr})")


def test_an_order_that_is_placed_twice_is_refused_in_one_line(start: Start) -> None:
    for status, told in ((0, []), (1, ["order_timeouts: there is an order A-17 already"])):
        said, _ = (process := start(FOLDER / "order_timeouts.py", "place", "A-17")).communicate(
            timeout=GUARD_S
        )
        assert [line for line in said.splitlines() if not line.startswith("INFO:")] == told
        assert process.returncode == status


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_can_be_copied_alone_and_read_at_one_sitting(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else names_of(node))
    }
    assert imported <= {"rocketmq_py"} | sys.stdlib_module_names
    assert len(text.splitlines()) < LINES_MAX


def names_of(node: ast.Import) -> list[str]:
    return [alias.name for alias in node.names]


# --- killed at every line ------------------------------------------------------------------


def live(
    start: Start, program: str, function: str, *words: str, prepare: Callable[[], object]
) -> int:
    """Let a program live again and again, killed a line later each time; gives how many lives."""
    lives = 0
    killer = Path(__file__).with_name("killed_program.py")
    process = start(killer, FOLDER / program, function, *words)
    assert process.stdin is not None
    assert process.stdout is not None
    told = []
    for line in process.stdout:
        told.append(line)
        if line.startswith("before life"):
            lives += 1
            prepare()
            process.stdin.write("\n")
            process.stdin.flush()
    assert process.wait(GUARD_S) == 0, "".join(told)
    assert lives > 3
    return lives


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test stands where the programs do."""
    monkeypatch.chdir(tmp_path)


PARCELS = "SELECT item FROM parcels"


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_here")
def test_an_outbox_whose_processes_die_anywhere_loses_no_order_and_ships_none_twice(
    start: Start,
) -> None:
    numbers = count(1)

    def order() -> None:
        outbox.order(f"item {next(numbers)}")

    live(start, "outbox.py", "order", "order", "a bed", prepare=lambda: None)
    live(start, "outbox.py", "send_waiting", "relay", prepare=order)
    relay = start(FOLDER / "outbox.py", "relay")
    live(start, "outbox.py", "ship", "ship", prepare=order)
    ship = start(FOLDER / "outbox.py", "ship")
    ordered = rows(outbox.SHOP, "SELECT item FROM orders")
    assert set(ordered) == {("a bed",), *((f"item {one}",) for one in range(1, next(numbers)))}
    until(lambda: len(rows(outbox.WAREHOUSE, PARCELS)) >= len(ordered), GUARD_S)
    until(lambda: rows(outbox.SHOP, "SELECT * FROM outbox") == [], GUARD_S)
    end(relay)
    end(ship)
    assert sorted(rows(outbox.WAREHOUSE, PARCELS)) == sorted(ordered)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_here")
def test_a_schedule_whose_process_dies_anywhere_makes_one_report_a_day(
    start: Start, broker: EmbeddedBroker
) -> None:
    live(start, "schedule.py", "Schedule.begin", "run", prepare=lambda: None)
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    lives = live(
        start, "schedule.py", "Schedule.on_day", "run", prepare=lambda: clock.advance(days=1)
    )
    service = start(FOLDER / "schedule.py", "run")
    first = rows(Path("schedule.db"), "SELECT min(day) FROM days")[0][0]
    days = [str(date.fromisoformat(str(first)) + number * DAY) for number in range(lives)]

    def made() -> list[str]:
        reports = rows(Path("schedule.db"), "SELECT day FROM reports ORDER BY day")
        return [str(day) for (day,) in reports]

    until(lambda: len(made()) >= lives, GUARD_S)
    assert made() == days
    clock.advance(days=1)
    until(lambda: len(made()) > lives, GUARD_S)
    assert len(made()) == lives + 1
    end(service)


# --- workers that fork ---------------------------------------------------------------------


def children(pid: int) -> set[int]:
    """Give the processes that a process has forked and not yet waited for."""
    return {int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux: it looks into /proc")
def test_every_order_that_forked_workers_have_accepted_is_stored_whatever_ends_them(
    start: Start, broker: EmbeddedBroker
) -> None:
    parent = start(FOLDER / "prefork.py", "0", "3")
    assert parent.stdout is not None
    port = next(
        int(found[1]) for line in parent.stdout if (found := re.search(r"port (\d+)", line))
    )
    accepted: list[str] = []
    stopped = Event()

    def send_orders() -> None:
        while not stopped.is_set():
            shop = HTTPConnection("127.0.0.1", port, timeout=GUARD_S)
            with closing(shop), suppress(OSError, HTTPException):  # refused, or cut off
                shop.request("POST", "/", "a chair")
                answer = shop.getresponse()
                if answer.status == HTTPStatus.ACCEPTED:
                    accepted.append(answer.read().decode())

    def more() -> None:
        count = len(accepted)
        until(lambda: len(accepted) > count + 20, GUARD_S)

    customers = [Thread(target=send_orders) for _ in range(4)]
    for customer in customers:
        customer.start()
    more()
    workers = children(parent.pid)
    victim = min(workers)
    os.kill(victim, signal.SIGKILL)
    until(lambda: len(children(parent.pid) - {victim}) == len(workers) == 3, GUARD_S)
    more()
    said = end(parent)
    stopped.set()
    for customer in customers:
        customer.join(GUARD_S)
    assert "Traceback" not in said
    stored = {one.msg_id for one in broker.messages.in_topic("WebOrders")}
    assert set(accepted) <= stored
    assert len(stored) <= len(accepted) + 1  # what the victim had stored and not answered
