"""Every way to ask RocketMQ for a delayed message, watched as they arrive.

One broker lives in this process and is reached over TCP. One consumer listens. One message is sent
for every way the clients know: delay level, the setters, the legacy user properties, Aliyun's
start-deliver time and Python's own `delay=timedelta(...)`. One more message is recalled before it
is due. The last one is 30 days away, and the broker's clock jumps there.

    .venv/bin/python examples/delayed_messages.py              in memory
    .venv/bin/python examples/delayed_messages.py --store DIR  stops half-way, then a second process
                                                               opens DIR and delivers the rest

The exit status is 1 if a message is early, late, missing or doubled, or arrives after its recall.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from _needs import missing_packages, run_unless
from attrs import asdict, define, field

from compat.ons import Message as OnsMessage
from compat.ons import ONSFactory, Properties, PropertyKeyConst
from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
)
from rocketmq_py.errors import how_to_install

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

TOPIC = "DelayDemo"
CONFIG = {"timerMaxDelaySec": 3_456_000, "recallMessageEnable": True}  # 40 days
LATE_MS = 1 + 250  # one release step and what a busy machine needs
WAIT_SECONDS = 12.0
JUMP = timedelta(days=30)
DAY_MS = 86_400_000

# How it is asked, after how many milliseconds it is due, and the call that asks.
Ask = Callable[[Message, int], object]
WAYS: list[tuple[str, int, Ask]] = [
    ("set_delay_time_sec(2)", 2000, lambda m, _due: m.set_delay_time_sec(2)),
    ("set_delay_time_ms(2500)", 2500, lambda m, _due: m.set_delay_time_ms(2500)),
    ("set_deliver_time_ms(now + 3000)", 3000, lambda m, due: m.set_deliver_time_ms(due)),
    ("property TIMER_DELAY_SEC", 3000, lambda m, _due: legacy(m, "TIMER_DELAY_SEC", 3)),
    ("property TIMER_DELAY_MS", 3500, lambda m, _due: legacy(m, "TIMER_DELAY_MS", 3500)),
    ("property TIMER_DELIVER_MS", 4000, lambda m, due: legacy(m, "TIMER_DELIVER_MS", due)),
    ("property __STARTDELIVERTIME", 4250, lambda m, due: legacy(m, "__STARTDELIVERTIME", due)),
    ("set_delay_time_level(2)", 5000, lambda m, _due: m.set_delay_time_level(2)),
    ("delay=timedelta(seconds=5.5)", 5500, lambda m, _due: m.set_delay(timedelta(seconds=5.5))),
]
ALIYUN, ALIYUN_MS = "Aliyun setStartDeliverTime", 4500
RECALLED, RECALLED_MS = "recalled before it is due", 5000
LAST = "30 days away, then a jump"


def legacy(message: Message, name: str, value: int) -> Message:
    """Ask by a user property, as a client without the setters does."""
    return message.put_user_property(name, str(value))


@define
class Row:
    """One message: when it is due, and when it came."""

    due_ms: int
    recalled: bool = False
    arrivals: list[int] = field(factory=list)

    def error_ms(self, open_since_ms: int) -> int | None:
        """Lateness in ms; what fell due while no broker ran can only be late from its start."""
        if not self.arrivals:
            return None
        arrived = self.arrivals[0]
        return arrived - (
            max(self.due_ms, open_since_ms) if arrived >= self.due_ms else self.due_ms
        )


@define
class Board:
    """What was sent and what has arrived; the listener reports here, the terminal shows it."""

    rows: dict[str, Row] = field(factory=dict)
    # Instants at which this process and its predecessor began to listen; times are shown since
    # the first of them.
    listening_since: list[int] = field(factory=list)
    changed: threading.Condition = field(factory=threading.Condition, eq=False)

    def arrived(self, asked: str, now_ms: int) -> None:
        """Called by the listener."""
        with self.changed:
            self.rows[asked].arrivals.append(now_ms)
            self.changed.notify_all()

    def count(self) -> int:
        """How many messages have arrived."""
        return sum(bool(row.arrivals) for row in self.rows.values())

    def error_ms(self, row: Row) -> int | None:
        """Lateness of a row against the last process that began to listen before it came."""
        since = [at for at in self.listening_since if row.arrivals and at <= row.arrivals[0]]
        return row.error_ms(max(since, default=0))

    def verdict(self, row: Row) -> str:
        """`ok`, `recalled`, `waiting`, or what is wrong."""
        error = self.error_ms(row)
        if row.recalled:
            return "recalled" if error is None else "RECALLED YET DELIVERED"
        if error is None:
            return "waiting"
        if len(row.arrivals) > 1:
            return f"{len(row.arrivals)} TIMES"
        if error < 0:
            return "EARLY"
        return "ok" if error <= LATE_MS else "LATE"

    def failures(self) -> list[str]:
        """Rows that did not end well."""
        verdicts = {asked: self.verdict(row) for asked, row in self.rows.items()}
        return [f"{a}: {v}" for a, v in verdicts.items() if v not in {"ok", "recalled"}]

    def table(self) -> Table:
        """The board as a table, by due time."""
        from rich.table import Table

        table = Table(title="seconds since the consumer started, by the broker's clock")
        table.add_column("how it was asked", no_wrap=True)
        for heading in ("due", "arrived", "error"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for asked, row in sorted(self.rows.items(), key=lambda item: item[1].due_ms):
            verdict = self.verdict(row)
            colour = {"ok": "green", "recalled": "green", "waiting": "dim"}.get(verdict, "bold red")
            error = self.error_ms(row)
            table.add_row(
                asked,
                self.since_start(row.due_ms),
                self.since_start(row.arrivals[0]) if row.arrivals else "",
                "" if error is None else f"{error:+d} ms",
                f"[{colour}]{verdict}[/]",
            )
        return table

    def since_start(self, at_ms: int) -> str:
        """Seconds since the consumer started, whole days apart."""
        days, millis = divmod(at_ms - self.listening_since[0], DAY_MS)
        return f"{days}d+{millis / 1000:.3f}" if days else f"{millis / 1000:.3f}"

    def watch(self, live: Live, wanted: int) -> None:
        """Show the board until that many messages have arrived or the time is up."""

        def enough() -> bool:
            live.update(self.table())
            return self.count() >= wanted

        with self.changed:
            self.changed.wait_for(enough, WAIT_SECONDS)
        live.update(self.table(), refresh=True)


@contextmanager
def listening(broker: EmbeddedBroker, board: Board) -> Iterator[None]:
    """A push consumer that notes each arrival by the broker's clock."""

    def listen(
        messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            board.arrived(message.body.decode(), broker.clock.now_ms)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    consumer = DefaultMQPushConsumer("DelayDemoConsumer", namesrv_addr=broker.namesrv_addr)
    consumer.consume_from_where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    consumer.subscribe(TOPIC, "*")
    consumer.register_message_listener(listen)
    with consumer:
        board.listening_since.append(broker.clock.now_ms)
        yield


@contextmanager
def shown(board: Board, console: Console) -> Iterator[Live]:
    """The board on the terminal; what is printed afterwards begins a line of its own."""
    from rich.live import Live

    with Live(board.table(), console=console) as live:
        yield live
    if not console.is_terminal:
        console.line()  # in a file or a pipe `Live` leaves the last line open


def send_all(broker: EmbeddedBroker, board: Board, producer: DefaultMQProducer) -> None:
    """One message for every way of asking, one of them recalled at once."""
    for asked, after_ms, ask in WAYS:
        due_ms = broker.clock.now_ms + after_ms
        board.rows[asked] = Row(due_ms)
        message = Message(TOPIC, asked.encode(), tags="Demo")
        ask(message, due_ms)
        producer.send(message)
    send_by_aliyun(broker, board)
    board.rows[RECALLED] = Row(broker.clock.now_ms + RECALLED_MS, recalled=True)
    result = producer.send(Message(TOPIC, RECALLED.encode()).set_delay_time_ms(RECALLED_MS))
    producer.recall_message(TOPIC, result.recall_handle or "")


def send_by_aliyun(broker: EmbeddedBroker, board: Board) -> None:
    """The same request in the shape of Aliyun's ONS client."""
    properties = Properties()
    properties.put(PropertyKeyConst.NAMESRV_ADDR, broker.namesrv_addr)
    producer = ONSFactory.createProducer(properties)
    producer.start()
    try:
        due_ms = broker.clock.now_ms + ALIYUN_MS
        board.rows[ALIYUN] = Row(due_ms)
        message = OnsMessage(TOPIC, "Demo", ALIYUN.encode())
        message.setStartDeliverTime(due_ms)
        producer.send(message)
    finally:
        producer.shutdown()


def jump(broker: EmbeddedBroker, board: Board, producer: DefaultMQProducer) -> None:
    """Send a message that is due in thirty days, and move the broker's clock there."""
    board.rows[LAST] = Row(broker.clock.now_ms + JUMP // timedelta(milliseconds=1))
    producer.send(Message(TOPIC, LAST.encode(), delay=JUMP))
    broker.clock.advance(JUMP)


def first_process(console: Console, directory: Path | None) -> Board:
    """Send everything; in memory wait for it all and jump, with a directory stop half-way."""
    board = Board()
    store = None if directory is None else directory / "store"
    clock = VirtualClock(rate=1)
    with (
        EmbeddedBroker(store=store, clock=clock, inproc=False, config=CONFIG) as broker,
        DefaultMQProducer("DelayDemoProducer", namesrv_addr=broker.namesrv_addr) as producer,
        listening(broker, board),
        shown(board, console) as live,
    ):
        console.print(f"broker in this process: {broker.addr}, name server {broker.namesrv_addr}")
        send_all(broker, board, producer)
        everything = len(board.rows) - 1  # but for the recalled one
        if directory is not None:
            board.watch(live, everything // 2)
        else:
            board.watch(live, everything)
            jump(broker, board, producer)
            board.watch(live, everything + 1)
    return board


def second_process(console: Console, directory: Path, board: Board) -> None:
    """Open the store that another process left behind and wait for the rest."""
    with (
        EmbeddedBroker(
            store=directory / "store", clock=VirtualClock(rate=1), inproc=False, config=CONFIG
        ) as broker,
        listening(broker, board),
        shown(board, console) as live,
    ):
        board.watch(live, len(board.rows) - 1)


def save(board: Board, path: Path) -> None:
    """Hand the board to the second process."""
    rows = {asked: asdict(row) for asked, row in board.rows.items()}
    path.write_text(json.dumps({"rows": rows, "since": board.listening_since}), encoding="utf-8")


def load(path: Path) -> Board:
    """The board that the first process left."""
    saved = json.loads(path.read_text(encoding="utf-8"))
    return Board({asked: Row(**row) for asked, row in saved["rows"].items()}, saved["since"])


def main() -> int:
    """Run the demonstration; the exit status says whether every promise was kept."""
    from rich.console import Console

    parser = argparse.ArgumentParser(description="Watch delayed messages arrive on time.")
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep the store in DIR")
    parser.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    console = Console()
    directory: Path | None = arguments.store
    if directory is not None and arguments.resume:
        board = load(directory / "board.json")
        second_process(console, directory, board)
    else:
        board = first_process(console, directory)
        if directory is not None:
            save(board, directory / "board.json")
            console.print(f"stopped half-way; a second process opens {directory}")
            again = [sys.executable, __file__, "--store", str(directory), "--resume"]
            return subprocess.run(again, check=False).returncode
    failures = board.failures()
    console.print("[bold red]" + "; ".join(failures) if failures else "every message on time")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(run_unless(missing_packages("rich"), how_to_install("cli"), main))
