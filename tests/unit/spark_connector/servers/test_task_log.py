"""A long task says how far it is, a short one nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import count

import pyarrow as pa
import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import QueueAccess
from spark_connector.options.read_options import read_options
from spark_connector.options.write_options import write_options
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.reading.range_reader import read_range
from spark_connector.servers.task_log import Progress
from spark_connector.writing.sending import Sender
from spark_connector.writing.write_columns import check_columns


class Watch:
    """A clock in seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, logger="spark_connector"):
        yield caplog  # as in a worker of Spark, whose level nobody can set


def test_one_line_each_interval_tells_rows_speed_and_what_is_left(
    lines: pytest.LogCaptureFixture,
) -> None:
    watch = Watch()
    told = Progress("reading T", "offsets left", 10_000, watch)
    for rows in (1_000, 500, 300):
        watch.now += 5
        told.add(rows, 7_000)
    watch.now += 20
    told.add(4_000, 3_000)
    assert lines.messages == [
        "reading T: 1500 rows in 10 s, 150 rows/s now, 7000 offsets left",
        "reading T: 5800 rows in 35 s, 172 rows/s now, 3000 offsets left",
    ]


def test_a_short_task_and_one_that_was_told_to_be_silent_say_nothing(
    lines: pytest.LogCaptureFixture,
) -> None:
    watch = Watch()
    short, silent = Progress("a", "x", 10_000, watch), Progress("b", "x", 0, watch)
    watch.now += 9.9
    short.add(10**6, 0)
    watch.now += 10**6
    silent.add(1, 0)
    assert lines.messages == []


def test_reads_and_writes_report_their_progress(
    lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(step=30)
    monkeypatch.setattr(Progress.__init__, "__defaults__", (lambda: float(next(seconds)),))
    given = {"nameServer": "h:1", "topic": "T"}
    batch = pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(100)]})
    with (
        EmbeddedBroker(clock=VirtualClock()) as broker,
        QueueAccess(namesrv_addr=broker.namesrv_addr) as access,
    ):
        broker.topics.create("T", queues=1)
        options = write_options(given, streaming=False)
        sender = Sender(access, options, check_columns(batch.schema, options))
        sender.send(batch)
        sender.finish()
        wanted = QueueRange("T", "broker-a", 0, 0, 100)
        schema = pa.schema([("offset", pa.int64())])
        for _ in read_range(access, read_options(given, streaming=False), wanted, schema):
            pass
    assert lines.messages[0] == ("writing: 100 rows in 30 s, 3 rows/s now, 0 rows not answered yet")
    assert lines.messages[1].startswith(
        "reading topic T, broker broker-a, queue 0, offsets 0 to 100: 32 rows in 30 s"
    )
    assert lines.messages[1].endswith("68 offsets left")
