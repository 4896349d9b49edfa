"""Many queues, and rows one by one, this tree against an older one.

`OLD_TREE=DIR python -m tests.perf spark_planning`; without `OLD_TREE` only this one is measured.

Every value comes from a process of its own in which each tree runs its own code, old and new in
turn. Clocks of the wall are noisy on a machine that others use: read the ratios.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from attrs import field, frozen

from tests.perf.machine_memory import touch_memory
from tests.perf.measure import ENVIRONMENT, ROOT, RUNS, Figure, figure, keep

ENDS_WITHIN_S = 1_200.0
ROUNDS_S = 2 * 0.005 + 800 * 0.001
"""Two rounds of requests that take 5 ms each, and 1 ms for each of 800 queues."""

_SPARK = """
import json, tempfile, time
from pathlib import Path
import pyarrow as pa
from rocketmq_py import QueueAccess
from spark_connector.options.write_options import write_options
from spark_connector.writing.sending import Sender
from spark_connector.writing.write_columns import check_columns
from tests.perf.spark_session import PULL_LIMITS, spark_session, telling_server

def fill(server, topic, queues, rows):
    server.ask("topic", topic, str(queues))
    options = write_options(server.options(topic=topic), streaming=False)
    with QueueAccess(namesrv_addr=server.namesrv) as access:
        for first in range(0, rows, 10_000):
            count = min(10_000, rows - first)
            numbers = pa.array([n % queues for n in range(count)], pa.int32())
            body = pa.array([b"%06d" % n + b"x" * 250 for n in range(count)])
            batch = pa.RecordBatch.from_pydict({"body": body, "queue_id": numbers})
            sender = Sender(access, options, check_columns(batch.schema, options))
            sender.send(batch)
            sender.finish()

def taken(session, server, topic, rows):
    frame = session.read.format("rocketmq").options(**server.options(subscribe=topic)).load()
    started = time.perf_counter()
    assert frame.count() == rows
    return time.perf_counter() - started
"""

_LARGE_PULLS = (
    _SPARK
    + """
with (
    tempfile.TemporaryDirectory() as home,
    telling_server(**PULL_LIMITS) as server,
    spark_session(Path(home)) as session,
):
"""
)
"""The begin of a program whose broker gives up to 1,024 messages in one pull."""

_QUEUES = (
    _SPARK
    + """
with (
    tempfile.TemporaryDirectory() as home,
    telling_server() as server,
    spark_session(Path(home)) as session,
):
    fill(server, "One", 1, 1_600)
    fill(server, "Many", 800, 800)
    fill(server, "More", 800, 800)
    for _ in range(3):
        taken(session, server, "One", 1_600)
    one = min(taken(session, server, "One", 1_600) for _ in range(3))
    many = min(taken(session, server, "Many,More", 1_600) for _ in range(LOOPS))
    print(json.dumps({"1,600 queues of one row": many, "one queue of 1,600 rows": one,
                      "1,600 queues / one queue": many / one}))
"""
)

_MILLION = (
    _LARGE_PULLS
    + """\
    fill(server, "Eight", 8, 1_000_000)
    for _ in range(4):  # until the JVM has compiled what it runs
        taken(session, server, "Eight", 1_000_000)
    best = min(taken(session, server, "Eight", 1_000_000) for _ in range(5))
    server.ask("set", "maxTransferCountOnMessageInMemory", "32")
    capped = min(taken(session, server, "Eight", 1_000_000) for _ in range(2))
    print(json.dumps({"8 queues of 125,000 rows": 1_000_000 / best,
                      "the same, 32 messages a pull": 1_000_000 / capped}))
"""
)

_PLANNING = """
import json, time
from embedded_broker import EmbeddedBroker
from rocketmq_py import QueueAccess
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.options.read_options import read_options
from spark_connector.planning.group_offsets import GroupProgress
from spark_connector.planning.start_places import bounds_of, resolve

QUEUES = 800
with EmbeddedBroker() as broker:
    broker.topics.create("T", queues=QUEUES)
    for queue in range(QUEUES):
        broker.send("T", b"x", queue=queue)
    for code in ("SEARCH_OFFSET_BY_TIMESTAMP", "PULL_MESSAGE", "QUERY_CONSUMER_OFFSET",
                 "UPDATE_CONSUMER_OFFSET"):
        broker.faults.on(RequestCode[code]).always().delay(0.005)
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        def planned(**given):
            options = read_options({"nameServer": "h:1", "subscribe": "T"} | given, streaming=False)
            bounds = bounds_of(access, options)
            started = time.perf_counter()
            resolve(access, options, options.start, bounds, is_end=False)
            return time.perf_counter() - started
        found = {"800 queues by time": planned(startingTimestamp="1000000000000")}
        found["800 queues by group"] = planned(startingOffsets="group:latest", groupId="G")
        queues = access.read_queues("T")
        access.pull(queues[0], 0, group="G").result()
        progress = GroupProgress(access, "G")
        progress._patience_s = 60.0
        started = time.perf_counter()
        progress.tell(dict.fromkeys(queues, 1), set(queues))
        found["800 commits"] = time.perf_counter() - started
print(json.dumps(found))
"""

_PACKED = """
import json, os, resource, time
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, LongType, StructType
from spark_connector.reading.stream_reader import StreamReader
from tests.perf.spark_session import telling_server

QUEUES, TOPICS = 10_000, [f"T{number}" for number in range(10)]
with telling_server() as server:
    for topic in TOPICS:
        server.ask("topic", topic, str(QUEUES // 10))
    schema = StructType().add("offset", LongType()).add("body", BinaryType())
    given = server.options(subscribe=",".join(TOPICS), startingOffsets="latest")
    reader = StreamReader(given, schema)
    start = json.loads(json.dumps(reader.initialOffset()))
    end = json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable())))
    reader.partitions(start, end)
    calls, wall, cpu = 0, time.perf_counter(), time.process_time()
    times = []
    while time.perf_counter() - wall < 10:
        before = time.perf_counter()
        end = json.loads(json.dumps(reader.latestOffset(end, ReadAllAvailable())))
        times.append(time.perf_counter() - before)
        calls += 1
        time.sleep(0.01)  # as Spark does
    spent = time.process_time() - cpu
    from rocketmq_py import MessageQueue
    from spark_connector.planning.stream_offset import StreamOffset
    places = {
        MessageQueue("Orders", f"broker-{n % 100:03d}", n // 100): 10**9 + n * 977_777 % 10**8
        for n in range(QUEUES)
    }
    print(json.dumps({
        "10,000 queues: CPU of an idle latestOffset": spent / calls * 1000,
        "10,000 queues: idle latestOffset, 99 of 100": sorted(times)[-len(times) // 100] * 1000,
        "10,000 queues: slowest idle latestOffset": max(times) * 1000,
        "10,000 queues: text of an offset": len(json.dumps(StreamOffset(places).to_json())) / 1000,
        "10,000 queues: memory of the planner":
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))
"""

_DELAYED = """
import json, time
import pyarrow as pa
from rocketmq_py import QueueAccess
from spark_connector.options.write_options import write_options
from spark_connector.writing.sending import Sender
from spark_connector.writing.write_columns import check_columns
from tests.perf.spark_session import cpu_of_tree, telling_server

ROWS, PART = 100_000, 10_000
with telling_server() as server:
    server.ask("topic", "T", "4")
    options = write_options(server.options(topic="T", delayMs="3600000"), streaming=False)
    body = pa.array([b"%06d" % number + b"x" * 250 for number in range(PART)])
    batch = pa.RecordBatch.from_pydict({"body": body})
    with QueueAccess(namesrv_addr=server.namesrv) as access:
        def send():
            sender = Sender(access, options, check_columns(batch.schema, options))
            for _ in range(ROWS // PART):
                sender.send(batch)
            sender.finish()
        send()
        broker, wall, cpu = cpu_of_tree(server.pid), time.perf_counter(), time.process_time()
        send()
        print(json.dumps({
            "delayed rows: CPU of the sender": (time.process_time() - cpu) / ROWS * 1e6,
            "delayed rows: CPU of the broker": (cpu_of_tree(server.pid) - broker) / ROWS * 1e6,
            "delayed rows: rate of one sender": ROWS / (time.perf_counter() - wall),
        }))
"""

_TASKS = (
    _LARGE_PULLS
    + """\
    found = {}
    for rows in (50_000, 500_000):
        topic = f"T{rows}"
        fill(server, topic, 8, rows)
        reader = session.read.format("rocketmq").options(**server.options(subscribe=topic))
        times = {}
        for turn in range(8):  # three until the JVM has compiled what it runs
            for count in (1, 2, 4, 8):
                frame = reader.options(minPartitions=count, maxPartitions=count).load()
                started = time.perf_counter()
                assert frame.count() == rows
                if turn > 2:
                    times.setdefault(count, []).append(time.perf_counter() - started)
        for count, taken in times.items():
            found[f"{rows:,} rows, tasks: {count}"] = rows / sorted(taken)[len(taken) // 2]
    print(json.dumps(found))
"""
)

_TIMERS = """
import json, tempfile, time
from pathlib import Path
from embedded_broker import EmbeddedBroker, VirtualClock
from tests.perf.spark_session import spark_session
from tests.perf.timer_store_cases import TOPIC, core_of, fill

COUNT, HOUR_MS, TOKEN = 1_000_000, 3_600_000, "sixteen characters or more"
with (
    tempfile.TemporaryDirectory() as home,
    EmbeddedBroker(
        clock=VirtualClock(), control=True, control_token=TOKEN, topics=[TOPIC]
    ) as broker,
    spark_session(Path(home)) as session,
):
    parts = core_of(broker)
    fill(parts, COUNT, parts.clock.now_ms + HOUR_MS, 48 * HOUR_MS)
    timers = session.read.format("rocketmq").option("timers", "pending")
    address = broker.control_url.removeprefix("http://")
    by_topic = timers.options(nameServer=broker.namesrv_addr).load()
    by_control = session.read.format("rocketmq").option("timers", "pending")
    by_control = by_control.options(controlAddress=address, controlToken=TOKEN).load()
    found = {}
    for way, frame in (("timer topic", by_topic), ("control port", by_control)):
        started = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        found[f"1,000,000 pending timers by the {way}"] = time.perf_counter() - started
    assert by_topic.count() == COUNT
    print(json.dumps(found))
"""


@frozen
class Take:
    """A program that prints its figures as its last line, and how often the older tree runs it."""

    program: str
    old_runs: int
    units: dict[str, str]
    most: dict[str, float] = field(factory=dict)
    no_slower: frozenset[str] = frozenset()
    """Rates that this tree must reach in the older one's terms."""
    runs: int = RUNS


PARTS = {
    "spark_queues": Take(
        _QUEUES,
        1,
        {
            "1,600 queues of one row": "s",
            "one queue of 1,600 rows": "s",
            "1,600 queues / one queue": "x",
        },
        most={"1,600 queues / one queue": 3.0},
    ),
    "spark_eight_queues": Take(
        _MILLION,
        RUNS,
        {"8 queues of 125,000 rows": "rows/s", "the same, 32 messages a pull": "rows/s"},
        no_slower=frozenset({"8 queues of 125,000 rows"}),
    ),
    "spark_planning": Take(
        _PLANNING,
        RUNS,
        {"800 queues by time": "s", "800 queues by group": "s", "800 commits": "s"},
        most=dict.fromkeys(("800 queues by time", "800 queues by group", "800 commits"), ROUNDS_S),
    ),
    "spark_offsets": Take(
        _PACKED,
        RUNS,
        {
            "10,000 queues: CPU of an idle latestOffset": "ms",
            "10,000 queues: idle latestOffset, 99 of 100": "ms",
            "10,000 queues: slowest idle latestOffset": "ms",
            "10,000 queues: text of an offset": "kB",
            "10,000 queues: memory of the planner": "MiB",
        },
        most={
            "10,000 queues: CPU of an idle latestOffset": 50.0,
            "10,000 queues: idle latestOffset, 99 of 100": 50.0,
            "10,000 queues: slowest idle latestOffset": 50.0,
            "10,000 queues: text of an offset": 100.0,
            "10,000 queues: memory of the planner": 150.0,
        },
    ),
    "spark_tasks": Take(
        _TASKS,
        RUNS,
        {
            f"{rows:,} rows, tasks: {count}": "rows/s"
            for rows in (50_000, 500_000)
            for count in (1, 2, 4, 8)
        },
    ),
    "spark_timers": Take(
        _TIMERS,
        RUNS,
        {f"1,000,000 pending timers by the {way}": "s" for way in ("timer topic", "control port")},
        most={"1,000,000 pending timers by the timer topic": 20.0},
        runs=1,
    ),
    "spark_single_rows": Take(
        _DELAYED,
        RUNS,
        {
            "delayed rows: CPU of the sender": "us/row",
            "delayed rows: CPU of the broker": "us/row",
            "delayed rows: rate of one sender": "rows/s",
        },
    ),
}


def taken(tree: Path, program: str) -> dict[str, float]:
    """Run a program in a tree and read what it prints."""
    loops = "1" if tree != ROOT else "3"
    touch_memory()
    done = subprocess.run(
        [sys.executable, "-c", program.replace("LOOPS", loops)],
        cwd=tree,
        env=ENVIRONMENT | {"PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=ENDS_WITHIN_S,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(part: str) -> None:
    """Take the figures of a part."""
    old = Path(os.environ["OLD_TREE"]).resolve() if "OLD_TREE" in os.environ else None
    take = PARTS[part]
    runs: dict[str, list[float]] = defaultdict(list)
    for number in range(take.runs):
        if old is not None and number < take.old_runs:
            for what, value in taken(old, take.program).items():
                runs[f"{what}, before"].append(value)
        for what, value in taken(ROOT, take.program).items():
            runs[what].append(value)
    figures: list[Figure] = []
    for what, values in runs.items():
        unit = take.units[what.removesuffix(", before")]
        figures.append(figure(what, unit, values, at_most=take.most.get(what, 0.0)))
    for what in take.no_slower:
        pairs = zip(runs[what], runs.get(f"{what}, before", []), strict=False)
        if ratios := [new / old for new, old in pairs]:
            figures.append(figure(f"{what}, now / before", "x", ratios, at_least=1.0))
    keep(part, figures)
