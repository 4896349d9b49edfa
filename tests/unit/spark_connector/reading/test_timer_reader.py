"""Pending timers of files and of brokers are read as `rocketmq-py timers --json` lists them."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, LessThan
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType
from typer.testing import CliRunner

from embedded_broker import EmbeddedBroker, EmbeddedCluster, VirtualClock
from embedded_broker.cli.timers import timers
from rocketmq_py import RecallHandle, RocketMQError
from spark_connector.decoding.timer_columns import TIMER_COLUMNS
from spark_connector.errors import OptionError, SchemaError
from spark_connector.options.parsing import HiddenOptions
from spark_connector.reading import control_timers
from spark_connector.reading.control_timers import TimerSpan
from spark_connector.reading.timer_reader import TimerReader, narrowed
from spark_connector.source import RocketMQDataSource
from tests.archives import unpack_store
from tests.unit.spark_connector.reading.timer_reads import read, schema_of

TOKEN = "sixteen characters or more"
TOLD = {
    "due_at": "due_ms",
    "topic": "topic",
    "queue_id": "queue_id",
    "message_id": "msg_id",
    "keys": "keys",
    "hops": "rolls",
    "accepted_at": "accepted_ms",
}
"""Columns, and what the command calls the same."""


def command(directory: Path) -> list[dict[str, Any]]:
    """The rows of `rocketmq-py timers DIRECTORY --json`, under our names, in order."""
    app = typer.Typer()
    app.command()(timers)
    told = CliRunner().invoke(app, [str(directory), "--json", "--limit", "1000000", "--no-check"])
    listed = json.loads(told.stdout)["listed"]
    return [{name: one[theirs] for name, theirs in TOLD.items()} for one in listed]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker with a store, a control port, and timers of each kind."""
    with EmbeddedBroker(
        store=tmp_path / "store",
        clock=VirtualClock(),
        control=True,
        control_token=TOKEN,
        topics=["T", "U"],
        config={"timerRollWindowSlot": 20, "timerMaxDelaySec": 100_000},
    ) as started:
        for number in range(9):
            started.send("T", b"b%d" % number, delay=9 - number, keys=f"k{number} x", tags="red")
        started.send("U", b"level", delay_level=5)
        started.send("U", "\xe4".encode() * 2000, delay=500, properties={"a": "b"})
        yield started


def options_of(broker: EmbeddedBroker) -> dict[str, Any]:
    address = broker.control_url.removeprefix("http://")
    return {"controlAddress": address, "controlToken": TOKEN}


@pytest.mark.parametrize("name", ["r497-levels", "r533-clean", "r533-crash"])
def test_stores_of_real_brokers_give_the_rows_of_the_command(name: str, tmp_path: Path) -> None:
    root = unpack_store(name, tmp_path)
    expected = command(root)
    assert expected
    assert expected == read(*TOLD, storeDirectory=root)
    assert expected == read(*TOLD, storeDirectory=root, arrowBatchRows=1)


def test_a_running_broker_gives_the_rows_of_the_command(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.clock.advance(3)
    store = broker.snapshot(tmp_path / "copy")  # the broker writes its files later
    expected = command(store)
    assert len(expected) == 8
    assert expected == read(*TOLD, **options_of(broker))
    assert expected == read(*TOLD, storeDirectory=store)


def test_both_ways_give_every_column_alike(broker: EmbeddedBroker, tmp_path: Path) -> None:
    broker.clock.advance(30)  # a hop of the long delay
    now = broker.clock.now_ms
    running = read(*TIMER_COLUMNS, **options_of(broker))
    store = broker.snapshot(tmp_path / "copy")
    there = {"storeDirectory": str(store), "brokerName": broker.broker_name}
    assert running == read(*TIMER_COLUMNS, **there, asOf=now)
    level, long = running
    assert (level["topic"], level["kind"], level["recall_handle"]) == ("U", "level", None)
    assert bytes(long["body"]) == "\xe4".encode() * 2000
    assert dict(long["properties"])["a"] == "b"
    assert long["hops"] >= 1
    assert long["age_ms"] == 30_000
    assert (long["due_at"] - now, long["lateness_ms"]) == (470_000, 0)
    handle = RecallHandle.decode(long["recall_handle"])
    assert (handle.topic, handle.broker_name) == ("U", broker.broker_name)
    assert handle.uniq_key == long["message_id"]
    without_name = read("recall_handle", storeDirectory=store)
    assert [one["recall_handle"] for one in without_name] == [None, None]


def test_a_timer_that_should_have_left_is_late(broker: EmbeddedBroker) -> None:
    rows = read("lateness_ms", "due_at", **options_of(broker), asOf=broker.clock.now_ms + 4_000)
    assert [one["lateness_ms"] for one in rows][:5] == [3_000, 2_000, 1_000, 0, 0]


def test_a_listing_is_read_in_pages(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(*TOLD, **options_of(broker))
    asked: list[str] = []
    ask = control_timers.ControlFace._ask

    def noted(face: control_timers.ControlFace, path: str) -> object:
        asked.append(path)
        return ask(face, path)

    monkeypatch.setattr(control_timers.ControlFace, "_ask", noted)
    monkeypatch.setattr(control_timers, "ROWS_MOST", 4)
    assert expected == read(*TOLD, **options_of(broker))
    pages = [path for path in asked if path.startswith("/timers")]
    assert len(pages) == 3
    assert all("limit=4" in path and "bodies=false" in path for path in pages)


def test_a_page_that_is_too_long_is_asked_for_with_fewer_rows(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from embedded_broker.control import app as control_app

    expected = read("body", **options_of(broker))
    monkeypatch.setattr(control_app, "ANSWER_MAX", 12_000)
    assert expected == read("body", **options_of(broker))
    monkeypatch.setattr(control_app, "ANSWER_MAX", 5_000)
    with pytest.raises(RocketMQError, match="ask for less"):
        read("body", **options_of(broker))


def test_filters_and_topic_choose_what_is_asked_for(broker: EmbeddedBroker, tmp_path: Path) -> None:
    start = datetime.fromtimestamp(broker.clock.now_ms / 1000, UTC)
    due = [GreaterThanOrEqual(("due_at",), start + timedelta(seconds=3))]
    due.append(LessThan(("due_at",), start + timedelta(seconds=6)))
    kept = read("due_at", filters=due, pushFilters=True, **options_of(broker))
    assert [one["due_at"] - broker.clock.now_ms for one in kept] == [3_000, 4_000, 5_000]
    for where in (options_of(broker), {"storeDirectory": str(tmp_path / "store")}):
        assert len(read("topic", topic="U", **where)) == 2
        assert read("topic", topic="Nowhere", **where) == []
        one = [EqualTo(("topic",), "U")]
        by_filter = read("topic", filters=one, pushFilters=True, **where)
        assert by_filter == [{"topic": "U"}] * 2


@pytest.mark.parametrize(
    ("filters", "span"),
    [
        ([], TimerSpan("T")),
        ([EqualTo(("topic",), "T")], TimerSpan("T")),
        ([EqualTo(("topic",), "U")], None),
        ([EqualTo(("topic",), None)], None),
        ([In(("topic",), ("T", "U"))], TimerSpan("T")),
        ([EqualTo(("Due_At",), 7)], TimerSpan("T", 7, 8)),
        ([EqualTo(("keys",), "k")], TimerSpan("T")),
    ],
)
def test_a_span_is_what_filters_leave(filters: list[Filter], span: TimerSpan | None) -> None:
    assert narrowed(TimerSpan("T"), filters) == span


def test_several_topics_are_read_whole() -> None:
    assert narrowed(TimerSpan(), [In(("topic",), ("T", "U"))]) == TimerSpan()


def test_all_brokers_of_a_cluster_are_read_each_at_its_time() -> None:
    with EmbeddedCluster(brokers=2, clock=VirtualClock(), control=True, topics=["T"]) as cluster:
        for number, broker in enumerate(cluster.brokers, 1):
            broker.send("T", b"x", delay=10 * number)
        address = cluster.control_url.removeprefix("http://")
        rows = read("broker_name", "due_at", controlAddress=address)
        names = [one.broker_name for one in cluster.brokers]
        assert [one["broker_name"] for one in rows] == names
        (only,) = read("broker_name", controlAddress=address, brokerName=names[1])
        assert only == {"broker_name": names[1]}
        with pytest.raises(OptionError, match=f"are {names[0]}, {names[1]}"):
            read("topic", controlAddress=address, brokerName="other")


def test_a_token_is_asked_for_and_never_told(broker: EmbeddedBroker) -> None:
    wrong = "another secret of some length"
    there = options_of(broker)["controlAddress"]
    tokens: tuple[dict[str, Any], ...] = ({}, {"controlToken": wrong})
    for token in tokens:
        with pytest.raises(RocketMQError, match="by the option controlToken") as refused:
            read("topic", controlAddress=there, **token)
        assert wrong not in str(refused.value)
    reader = TimerReader(
        HiddenOptions({"timers": "pending"} | options_of(broker)), schema_of("topic")
    )
    assert TOKEN not in repr(vars(reader))


def test_a_port_that_does_not_answer_or_is_another_one_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    once_more: dict[str, Any] = {"fetchOffset.numRetries": 1, "fetchOffset.retryIntervalMs": 0}
    with pytest.raises(RocketMQError, match=r"no answer after 2 tries.*check controlAddress"):
        read(
            "topic",
            controlAddress=address,
            **once_more,
        )


def test_a_directory_without_a_store_and_a_worker_without_the_inspector_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RocketMQError, match="no RocketMQ store"):
        read("topic", storeDirectory=tmp_path)
    monkeypatch.setitem(sys.modules, "embedded_broker.inspector.pages", None)
    with pytest.raises(OptionError, match="needs rocketmq-py whole on this worker"):
        read("topic", storeDirectory=tmp_path)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timers": "past"}, "timers = 'past': must be one of pending"),
        ({}, "needs nameServer.*controlAddress.*or storeDirectory"),
        ({"nameServer": "h:1", "controlAddress": "h:1"}, "give one of them"),
        ({"nameServer": "h"}, "nameServer = 'h': must be host:port"),
        ({"nameServer": "h:1", "controlToken": "t"}, "controlToken belongs to controlAddress"),
        ({"nameServer": "h:1", "namespace": "n"}, "namespace is not for reads of pending"),
        ({"nameServer": "h:1", "accessKey": "a"}, "belong together"),
        ({"storeDirectory": "/x", "groupId": "G"}, "groupId belongs to nameServer"),
        ({"controlAddress": "h:1", "rocketmq.unit_mode": "1"}, "unit_mode belongs to nameServer"),
        ({"controlAddress": "h:1", "storeDirectory": "/x"}, "give one of them"),
        ({"controlAddress": "h"}, "must be host:port"),
        ({"storeDirectory": "x"}, "must be absolute"),
        ({"storeDirectory": "/x", "controlToken": "t"}, "controlToken belongs to controlAddress"),
        ({"storeDirectory": "/x", "nameServer": "h:1"}, "give one of them"),
        ({"storeDirectory": "/x", "columns": "dueat"}, "did you mean due_at"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_before_any_connection(
    options: dict[str, str], error: str
) -> None:
    with pytest.raises((OptionError, SchemaError), match=error):
        RocketMQDataSource({"timers": "pending"} | options).schema()


def test_a_stream_and_a_write_of_timers_are_refused() -> None:
    source = RocketMQDataSource({"timers": "pending", "storeDirectory": "/x"})
    with pytest.raises(OptionError, match="timers is not for streaming reads"):
        source.streamReader(schema_of("topic")).initialOffset()
    with pytest.raises(OptionError, match="timers is not for writes"):
        source.writer(schema_of("body"), overwrite=False)


def test_the_usual_columns_hold_no_body_and_types_are_checked() -> None:
    source = RocketMQDataSource({"timers": "pending", "storeDirectory": "/x"})
    ddl = source.schema()
    assert "`due_at` TIMESTAMP" in ddl
    assert "body" not in ddl
    asked = StructType([StructField("due_at", TimestampType()), StructField("body", StringType())])
    assert type(source.reader(asked)) is TimerReader
    with pytest.raises(SchemaError, match="hops cannot be int64: it must be int"):
        source.reader(StructType([StructField("hops", LongType())]))
    with pytest.raises(SchemaError, match="tags is NOT NULL"):
        source.reader(StructType([StructField("tags", StringType(), nullable=False)]))
