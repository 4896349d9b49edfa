"""What the Spark connector does below Spark, against a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from rocketmq_py import DefaultMQProducer, Message, MessageQueue, QueueAccess
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import RocketMQError
from spark_connector.errors import InvalidRowError
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.options.write_options import write_options
from spark_connector.planning.backlog import Limit
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.planning.stream_offset import StreamOffset
from spark_connector.planning.time_places import first_at
from spark_connector.planning.tracker import Tracker
from spark_connector.reading.range_reader import read_range
from spark_connector.writing.replay_guard import ReplayGuard
from spark_connector.writing.sending import Report, Sender
from spark_connector.writing.write_columns import check_columns
from tests.interop.real_broker import RealCluster
from tests.waiting import HANG_S

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("body", pa.string()),
        ("keys", pa.string()),
        ("tags", pa.string()),
        ("message_id", pa.string()),
        ("store_timestamp", pa.int64()),
        ("properties", pa.map_(pa.string(), pa.string())),
    ]
)


@pytest.fixture
def access(real: RealCluster) -> Iterator[QueueAccess]:
    with QueueAccess(namesrv_addr=real.namesrv_addr) as started:
        yield started


def make_topic(real: RealCluster, topic: str) -> None:
    with DefaultMQProducer("SparkTopics", namesrv_addr=real.namesrv_addr) as producer:
        producer.create_topic("TBW102", topic, 4)
        deadline = monotonic() + HANG_S
        while True:
            try:
                producer.send(Message(topic, b"first", tags="first"))
            except RocketMQError:  # the real broker is still on its way
                if monotonic() > deadline:
                    raise
            else:
                return


def write(access: QueueAccess, topic: str, columns: dict[str, pa.Array]) -> Report:
    options = write_options({"nameServer": "h:1", "topic": topic}, streaming=False)
    batch = pa.RecordBatch.from_pydict(columns)
    sender = Sender(access, options, check_columns(batch.schema, options))
    sender.send(batch)
    return sender.finish()


def options(topic: str, streaming: bool = False, /, **given: str) -> ReadOptions:
    texts = {"nameServer": "h:1", "subscribe": topic, "pullDeadlineMs": "5000"}
    return read_options(texts | given, streaming=streaming)


def read(access: QueueAccess, topic: str, **given: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for queue, one in access.bounds(topic).items():
        wanted = QueueRange(topic, queue.broker_name, queue.queue_id, 0, one.max_offset)
        for batch in read_range(access, options(topic, **given), wanted, SCHEMA):
            found += batch.to_pylist()
    return found


def read_all(access: QueueAccess, topic: str, count: int) -> list[dict[str, object]]:
    """Read until so many rows are there: queues follow the commit log by some milliseconds."""
    deadline = monotonic() + HANG_S
    while len(rows := read(access, topic)) < count:
        assert monotonic() < deadline, len(rows)
    return rows


@pytest.mark.case("SP2", "SP9", "SP10", "SP24", "SP25")
def test_rows_are_stored_and_read_back_with_filters(real: RealCluster, access: QueueAccess) -> None:
    make_topic(real, "SparkRows")
    count = 2_000
    columns = {
        "body": pa.array([f"body {n}" for n in range(count)]),
        "keys": pa.array([f"k{n}" for n in range(count)]),
        "tags": pa.array(["AB"[n % 2] for n in range(count)]),
        "sharding_key": pa.array([f"s{n % 3}" if n % 5 == 0 else None for n in range(count)]),
        "properties": pa.array(
            [[("n", str(n)), ("ü", "é")] for n in range(count)], pa.map_("string", "string")
        ),
    }
    assert write(access, "SparkRows", columns).stored == count
    rows = read_all(access, "SparkRows", count + 1)
    assert {(row["body"], row["keys"]) for row in rows} == {
        ("first", None),
        *((f"body {n}", f"k{n}") for n in range(count)),
    }
    some = next(row for row in rows if row["body"] == "body 7")
    properties = dict(some["properties"])  # type: ignore[call-overload]
    assert (properties["n"], properties["ü"], properties["TAGS"]) == ("7", "é", "B")
    assert len({row["message_id"] for row in rows}) == count + 1
    assert len(read(access, "SparkRows", subExpression="A")) == count // 2
    assert len(read(access, "SparkRows", sqlExpression="n = '7'")) == 1


@pytest.mark.case("SP5")
def test_offsets_of_times_and_groups(real: RealCluster, access: QueueAccess) -> None:
    make_topic(real, "SparkTimes")
    write(access, "SparkTimes", {"body": pa.array(["x"] * 40), "queue_id": pa.array([2] * 40)})
    queue = MessageQueue("SparkTimes", "broker-a", 2)
    read_all(access, "SparkTimes", 41)
    one = access.bounds("SparkTimes")[queue]
    first, last = access.message_at(queue, 0), access.message_at(queue, one.max_offset - 1)
    assert first is not None
    assert last is not None
    chosen = options("SparkTimes")
    found = [
        first_at(access, chosen, {queue: one}, {queue: moment})[queue]
        for moment in (0, first.store_timestamp, last.store_timestamp + 1)
    ]
    assert found == [0, 0, one.max_offset]
    assert access.group_offset("SparkNobody", queue) is None
    guard = ReplayGuard(access, "SparkGuard", "SparkTimes")
    guard.note("query", 3)
    assert guard.is_written("query", 3)
    assert not guard.is_written("query", 4)


@pytest.mark.case("SP28", "SP29", "SP33")
def test_delays_arrive_and_what_the_broker_refuses_comes_back(
    real: RealCluster, access: QueueAccess
) -> None:
    make_topic(real, "SparkDelays")
    report = write(
        access,
        "SparkDelays",
        {
            "body": pa.array(["now", "later", "level"]),
            "delay_ms": pa.array([None, 2_000, None]),
            "delay_level": pa.array([None, None, 1]),
        },
    )
    assert report.stored == 3
    assert {row["body"] for row in read_all(access, "SparkDelays", 2)} == {"first", "now"}
    rows = read_all(access, "SparkDelays", 4)
    assert {row["body"] for row in rows} == {"first", "now", "later", "level"}
    far = write_options(
        {"nameServer": "h:1", "topic": "SparkDelays", "maxDelayMs": "0"}, streaming=False
    )
    batch = pa.RecordBatch.from_pydict({"body": pa.array(["x"]), "delay_ms": pa.array([10**11])})
    sender = Sender(access, far, check_columns(batch.schema, far))
    sender.send(batch)
    failure = sender.finish().failure
    assert isinstance(failure, InvalidRowError)
    assert "code 13" in str(failure)
    assert "maxDelayMs" in str(failure)


@pytest.mark.case("SP41", "SP45")
def test_a_stream_s_offsets(real: RealCluster, access: QueueAccess) -> None:
    make_topic(real, "SparkStream")
    chosen = options("SparkStream", True, offsetPollIntervalMs="1", groupId="SparkG")
    tracker = Tracker(access, chosen)
    begin = tracker.initial()
    write(access, "SparkStream", {"body": pa.array(["x"] * 100)})
    taken = 0
    place = begin
    deadline = monotonic() + HANG_S
    while taken < 100:
        assert monotonic() < deadline
        end = tracker.latest(place, Limit(offsets_most=30))
        if end is None:
            continue
        size = sum(len(one) for one in place.ranges(end))
        assert size <= 30
        taken += size
        place = StreamOffset.from_json(end.to_json())
    assert tracker.latest(place, Limit()) is None
    access.pull(MessageQueue("SparkStream", "broker-a", 0), 0, group="SparkG").result(30)
    tracker.push_group(place)
    assert access.group_offset("SparkG", MessageQueue("SparkStream", "broker-a", 0)) is not None
