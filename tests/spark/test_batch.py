"""Batch reads and writes against a broker over TCP, in a real Spark."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, functions

import spark_connector
from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec, VirtualClock
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.raw import QueueAccess, RawMessages
from spark_connector.errors import SchemaError
from tests.spark.queries import WORKER_LOGS, worker_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read(
    spark: SparkSession,
    broker: EmbeddedBroker | EmbeddedCluster,
    topic: str = "T",
    **options: Any,
) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServer", broker.namesrv_addr)
    schema = options.pop("schema", None)
    if schema:
        reader = reader.schema(schema)
    if topic:
        reader = reader.option("subscribe", topic)
    return reader.options(**options).load()


def write(frame: DataFrame, broker: EmbeddedBroker | EmbeddedCluster, **options: Any) -> None:
    options = {"nameServer": broker.namesrv_addr, "topic": "T"} | options
    frame.write.format("rocketmq").options(**options).mode("append").save()


def fill(broker: EmbeddedBroker, count: int, topic: str = "T", queues: int = 4) -> None:
    if topic not in broker.topics:
        broker.topics.create(topic, queues=queues)
    for number in range(count):
        broker.send(
            topic, b"m%d" % number, queue=number % queues, tags="AB"[number % 2], keys=f"k{number}"
        )


@pytest.mark.case("SP1")
def test_an_empty_topic_gives_no_rows_and_the_right_columns(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T")
    frame = read(spark, broker)
    assert frame.collect() == []
    assert frame.dtypes == [
        ("topic", "string"),
        ("broker_name", "string"),
        ("queue_id", "int"),
        ("offset", "bigint"),
        ("message_id", "string"),
        ("keys", "string"),
        ("tags", "string"),
        ("born_timestamp", "timestamp"),
        ("store_timestamp", "timestamp"),
        ("body", "binary"),
    ]
    # Spark makes a partition of its own where a source has none: it is read and gives nothing.
    assert frame.rdd.getNumPartitions() == 1
    assert not broker.journal.requests(code=RequestCode.PULL_MESSAGE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """10 000 messages in 4 queues of each of two brokers."""
    with EmbeddedCluster(brokers=2, clock=VirtualClock(), topics=["T"]) as started:
        for number in range(10_000):
            queue = number // 2 % 4
            started.brokers[number % 2].send("T", b"m%d" % number, queue=queue, keys=f"k{number}")
        yield started


@pytest.mark.case("SP2")
@pytest.mark.parametrize(("tasks", "given"), [(8, {"minPartitions": "8"}), (1, {})])
def test_every_message_of_every_queue_is_read_once(
    spark: SparkSession, cluster: EmbeddedCluster, tasks: int, given: dict[str, str]
) -> None:
    frame = read(spark, cluster, **given)
    assert frame.rdd.getNumPartitions() == tasks
    columns = ("topic", "broker_name", "queue_id", "offset", "body", "keys")
    rows = frame.select(*columns, functions.spark_partition_id().alias("task")).collect()
    expected = {
        ("T", ("broker-a", "broker-b")[n % 2], n // 2 % 4, n // 8, b"m%d" % n, f"k{n}")
        for n in range(10_000)
    }
    assert {(*row[:4], bytes(row.body), row.keys) for row in rows} == expected
    assert len(rows) == 10_000
    assert {row.task for row in rows} == set(range(tasks))  # none of them is empty


@pytest.mark.case("SP3", "SP4")
def test_ranges_are_given_as_json(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    frame = read(
        spark,
        cluster,
        startingOffsets='{"T":{"broker-a":{"0":3,"1":-2},"broker-b":{"3":1200}}}',
        endingOffsets='{"T":{"broker-a":{"0":5,"1":2,"2":-1,"3":0},'
        '"broker-b":{"0":1,"1":0,"2":0,"3":-1}}}',
    )
    found: dict[tuple[str, int], list[int]] = {}
    for row in frame.select("broker_name", "queue_id", "offset").orderBy("offset").collect():
        found.setdefault((row.broker_name, row.queue_id), []).append(row.offset)
    assert found == {
        ("broker-a", 0): [3, 4],
        ("broker-a", 1): [0, 1],
        ("broker-a", 2): [*range(1_250)],
        ("broker-b", 0): [0],
        ("broker-b", 3): [*range(1_200, 1_250)],
    }
    with pytest.raises(PySparkException, match="it is on broker-a, broker-b"):
        read(spark, cluster, startingOffsets='{"T":{"0":1}}').collect()


def test_a_batch_leaves_no_mark_and_is_read_anew_from_its_beginning(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    fill(broker, 20)
    columns = "queue_id int, offset bigint"
    first = read(spark, broker, schema=columns, groupId="G").collect()
    other = spark.newSession()
    spark_connector.register(other)
    again = read(other, broker, schema=columns, groupId="G").collect()
    assert sorted(first) == sorted(again)
    assert len(set(first)) == 20
    assert {one.committed for one in broker.groups["G"].offsets(topic="T")} == {None}


@pytest.mark.case("SP7", "SP8")
def test_lists_patterns_and_assigned_queues_choose_what_is_read(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    for topic in ("T1", "T2", "Other"):
        fill(broker, 8, topic)

    def places(**options: str) -> list[tuple[str, int, int]]:
        frame = read(spark, broker, "", **options)
        return sorted(map(tuple, frame.select("topic", "queue_id", "offset").collect()))

    both = [
        (topic, queue, offset) for topic in ("T1", "T2") for queue in range(4) for offset in (0, 1)
    ]
    assert places(subscribe="T1,T2") == places(subscribePattern="T.") == both
    assert places(assign='{"T2":{"broker-a":[3]}}') == [("T2", 3, 0), ("T2", 3, 1)]


@pytest.mark.case("SP16")
def test_a_limit_needs_no_more_than_the_first_pull(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=1)
    for _ in range(1_000):
        broker.send("T", b"x" * 8_000)
    broker.journal.clear()
    # From the third on pulls are not answered: what is in flight then is the prefetch.
    with broker.faults.on(RequestCode.PULL_MESSAGE, nth=3).always().delay(600) as held:
        frame = read(spark, broker, prefetch="4", pullTimeoutMs="30000")
        assert len(frame.limit(5).collect()) == 5
        assert len(broker.journal.requests(code=RequestCode.PULL_MESSAGE)) <= 2 + 4
    assert held.hits <= 4


@pytest.mark.case("SP9")
def test_tags_are_filtered(spark: SparkSession, broker: EmbeddedBroker) -> None:
    fill(broker, 300, queues=3)  # both tags in turn in each of the queues
    columns = "queue_id int, offset bigint, body string, tags string"
    frame = read(
        spark, broker, subExpression="A", schema=columns, failOnDataLoss="true", pullBatchSize="16"
    )
    rows = frame.collect()
    wanted = [(n % 3, n // 3, f"m{n}", "A") for n in range(0, 300, 2)]
    assert sorted(map(tuple, rows)) == sorted(wanted)
    for queue in range(3):
        offsets = sorted(row.offset for row in rows if row.queue_id == queue)
        assert {later - one for one, later in pairwise(offsets)} == {2}


@pytest.mark.case("SP11")
def test_a_schema_chooses_two_columns_and_the_form_of_the_body(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=1)
    bodies = ["one", "dreißig", "三十", "🚀"]
    for body in bodies:
        broker.send("T", body.encode(), tags="A", properties={"p": body})
    frame = read(spark, broker, schema="offset bigint, body string")
    assert frame.dtypes == [("offset", "bigint"), ("body", "string")]
    assert sorted(map(tuple, frame.collect())) == list(enumerate(bodies))


@pytest.mark.case("SP15")
def test_few_queues_are_read_by_many_tasks(spark: SparkSession, broker: EmbeddedBroker) -> None:
    fill(broker, 200, queues=2)
    frame = read(spark, broker, minPartitions="16")
    assert frame.rdd.getNumPartitions() == 16
    places = [(row.queue_id, row.offset) for row in frame.collect()]
    assert (len(places), len(set(places))) == (200, 200)


@pytest.mark.case("SP15")
def test_tasks_are_as_many_as_the_cores_of_the_cluster_ask_for(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("Large", queues=3)
    for number in range(1_200):
        broker.send("Large", bytes(60_000), queue=number % 3)
    columns = "queue_id int, offset bigint"
    frame = read(spark, broker, topic="Large", schema=columns)
    assert spark.sparkContext.defaultParallelism == 2
    assert frame.rdd.getNumPartitions() == 2  # one for each core: two had less than 32 MiB each
    assert len(set(frame.collect())) == 1_200
    few = read(spark, broker, topic="Large", schema=columns, maxPartitions="1")
    assert few.rdd.getNumPartitions() == 1
    assert len(set(few.collect())) == 1_200
    many = read(spark, broker, topic="Large", schema=columns, maxRecordsPerPartition="60")
    assert many.rdd.getNumPartitions() == 20
    assert len(set(many.collect())) == 1_200


@pytest.fixture(params=["rocketmq-5.x", "rocketmq-4.9"])
def either_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), profile=request.param) as started:
        yield started


@pytest.mark.case("SP5", "SP6", "SP14")
def test_a_time_range_is_half_open(spark: SparkSession, either_broker: EmbeddedBroker) -> None:
    broker = either_broker
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    fill(broker, 8)
    clock.advance(timedelta(hours=1))
    middle = clock.now_ms
    fill(broker, 8)
    clock.advance(timedelta(hours=1))
    end = clock.now_ms
    fill(broker, 8)
    # Two messages of each hour are in each of the four queues, all in the hour's first ms.
    begin_and_end = {"startingTimestamp": str(middle), "endingTimestamp": str(end)}

    def found(**options: str) -> list[Any]:
        frame = read(spark, broker, **options)
        return frame.select("queue_id", "offset", "store_timestamp").collect()

    def places(first: int, past: int) -> list[tuple[int, int]]:
        return [(queue, offset) for queue in range(4) for offset in range(first, past)]

    between = found(**begin_and_end)
    assert sorted(row[:2] for row in between) == places(2, 4)
    assert {int(row.store_timestamp.timestamp() * 1000) for row in between} == {middle}
    for name, range_ in (("startingTimestamp", (2, 6)), ("endingTimestamp", (0, 4))):
        assert sorted(row[:2] for row in found(**{name: begin_and_end[name]})) == places(*range_)
    future = {"startingTimestamp": str(end + 1)}
    with pytest.raises(PySparkException, match="no message is that new"):
        read(spark, broker, **future).collect()
    assert read(spark, broker, **future, startingOffsetsByTimestampStrategy="latest").count() == 0


@pytest.mark.case("SP19", "SP20")
def test_what_cannot_be_read_says_why(spark: SparkSession, broker: EmbeddedBroker) -> None:
    fill(broker, 40)
    rows = read(spark, broker, startingOffsets='{"T":{"0":9,"1":10,"2":10,"3":10}}').collect()
    assert [(row.queue_id, row.offset) for row in rows] == [(0, 9)]
    broker.reset()
    fill(broker, 4)
    with pytest.raises(
        PySparkException, match=r"startingOffsets 9 of topic T.*queue 0 is past its end, 1: was"
    ):
        read(spark, broker, startingOffsets='{"T":{"0":9}}').collect()
    with pytest.raises(PySparkException, match="no route of topic Nowhere"):
        read(spark, broker, "Nowhere").collect()


NOT_TO_BE_ASKED = {
    "a misspelt name": ({"subExpresion": "A"}, "did you mean subExpression"),
    "two subscriptions": ({"subscribePattern": "T.*"}, "exactly one of subscribe"),
    "latest as the start": (
        {"startingOffsets": '{"T":{"broker-a":{"0":-1}}}'},
        "startingOffsets: a batch that begins at latest",
    ),
}
"""Options that are wrong whatever the servers would say, and what is said about them."""


@pytest.mark.case("SP4", "SP21")
@pytest.mark.parametrize("mistake", NOT_TO_BE_ASKED)
def test_options_that_are_wrong_are_told_before_anything_is_connected(
    spark: SparkSession, mistake: str
) -> None:
    options, match = NOT_TO_BE_ASKED[mistake]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = "127.0.0.1:{1}".format(*listening.getsockname())
        reader = spark.read.format("rocketmq").options(nameServer=address, subscribe="T", **options)
        if mistake != "latest as the start":  # which a stream may say, and this may become one
            with pytest.raises(PySparkException, match=match):
                reader.load()
        with_schema = reader.schema("offset bigint").load()  # Spark has not asked us anything yet
        with pytest.raises(PySparkException, match=match):
            with_schema.collect()
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()


@pytest.mark.case("SP22")
def test_rows_of_a_body_alone_are_all_stored_and_spread_over_the_queues(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=4)
    rows = spark.range(0, 20_000, 1, 2)
    write(rows.selectExpr("concat('m', id) AS body"), broker, batchBytes="16384")
    stored = broker.messages.in_topic("T")
    assert Counter(one.body for one in stored) == Counter(b"m%d" % n for n in range(20_000))
    counts = Counter(one.queue_id for one in stored)
    assert counts.keys() == {0, 1, 2, 3}
    assert min(counts.values()) > 20_000 / 4 / 2


@pytest.mark.case("SP24")
def test_rows_are_written_and_read_back(spark: SparkSession, broker: EmbeddedBroker) -> None:
    broker.topics.create("T", queues=4)
    frame = spark.range(500).select(
        functions.concat(functions.lit("body "), functions.col("id")).alias("body"),
        functions.array(functions.col("id").cast("string"), functions.lit("all")).alias("keys"),
        functions.lit("tag").alias("tags"),
        functions.create_map(functions.lit("user"), functions.col("id").cast("string")).alias(
            "properties"
        ),
        functions.col("id").cast("int").alias("flag"),
    )
    write(frame, broker)
    wanted = (
        "body string, keys string, tags string, flag int, queue_id int, "
        "properties map<string,string>"
    )
    rows = read(spark, broker, schema=wanted).collect()
    assert {(r.body, r.keys, r.tags, r.flag, r.properties["user"]) for r in rows} == {
        (f"body {n}", f"{n} all", "tag", n, str(n)) for n in range(500)
    }
    assert (len(rows), len({row.queue_id for row in rows})) == (500, 4)


@pytest.mark.case("SP26")
def test_rows_are_stored_in_the_queue_that_they_name_or_cannot_be_messages(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    for broker in cluster.brokers:
        broker.topics.create("Fixed", queues=4)
    to = {"topic": "Fixed"}
    columns = "body string, queue_id int, broker_name string"
    named = [
        (f"{name} {queue} {number}", queue, name)
        for number in range(3)
        for name in ("broker-a", "broker-b")
        for queue in range(4)
    ]

    def found() -> list[tuple[str, int, str]]:
        return sorted(
            (one.body.decode(), one.queue_id, broker.broker_name)
            for broker in cluster.brokers
            for one in broker.messages.in_topic("Fixed")
        )

    write(spark.createDataFrame(named, columns), cluster, **to)
    assert found() == sorted(named)
    wrong = spark.createDataFrame([("good", 0, "broker-b"), ("bad", 4, "broker-b")], columns)
    wrong = wrong.coalesce(1)
    with pytest.raises(
        PySparkException, match=r"row 1: .*no writable queue 4 at broker broker-b.*none of this"
    ):
        write(wrong, cluster, **to)
    assert found() == sorted(named)
    write(wrong, cluster, **to, onInvalidRow="skip")
    assert found() == sorted([*named, ("good", 0, "broker-b")])


@pytest.mark.case("SP25")
def test_a_sharding_key_keeps_its_rows_in_one_queue_and_in_order(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=4)
    rows = [(f"{n}", f"key{n % 5}") for n in range(200)]
    write(spark.createDataFrame(rows, "body string, sharding_key string").coalesce(1), broker)
    stored = read(
        spark, broker, schema="body string, sharding_key string, queue_id int, offset bigint"
    )
    by_key: dict[str, list[Any]] = {}
    for row in stored.orderBy("queue_id", "offset").collect():
        by_key.setdefault(row.sharding_key, []).append(row)
    assert len(by_key) == 5
    for key, some in by_key.items():
        assert len({row.queue_id for row in some}) == 1
        assert [int(row.body) for row in some] == list(range(int(key[3:]), 200, 5))


@pytest.mark.case("SP28", "SP29", "SP30", "SP34")
def test_delays_are_columns(spark: SparkSession, broker: EmbeddedBroker) -> None:
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    broker.topics.create("T", queues=2)
    now = datetime.fromtimestamp(clock.now_ms / 1000, UTC)
    rows = [
        ("at once", None, None, None),
        ("in 5 s", 5_000, None, None),
        ("level 3", None, None, 3),
        ("tomorrow", None, now + timedelta(days=1), None),
        ("past", None, now - timedelta(hours=1), None),
    ]
    schema = "body string, delay_ms bigint, deliver_at timestamp, delay_level int"
    write(spark.createDataFrame(rows, schema), broker)

    def seen() -> set[str]:
        return {message.body.decode() for message in broker.messages.in_topic("T")}

    broker.wait_for(lambda _b: seen() == {"at once", "past"}, timeout=5)
    begin_ms, later = clock.now_ms, {"at once", "past"}
    for name, wait_ms, early_ms in (
        ("in 5 s", 5_000, 100),
        ("level 3", 10_000, 100),
        ("tomorrow", 24 * 3_600_000, 1_000),
    ):
        clock.jump_to_ms(begin_ms + wait_ms - early_ms)
        assert seen() == later
        later.add(name)
        clock.jump_to_ms(begin_ms + wait_ms + 1_100)  # slots are of a second
        assert seen() == later


BAD_ROWS = {
    "body is null": ("CAST(NULL AS binary)", "map()"),
    "body is empty": ("CAST('' AS binary)", "map()"),
    "reserves": ("CAST('b' AS binary)", "map('KEYS', 'x')"),
    "body is over": ("CAST(repeat('x', 5242880) AS binary)", "map()"),
}
"""SQL of the body and the properties of a bad row by what is said about it."""


@pytest.mark.case("SP27")
@pytest.mark.parametrize("problem", BAD_ROWS)
def test_one_bad_row_stops_its_arrow_batch_and_is_tried_once(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, problem: str
) -> None:
    broker.topics.create("T")
    broker.topics.create("Bad")
    body, properties = BAD_ROWS[problem]
    frame = spark.range(0, 1_000, 1, 1).select(
        tries_noted(tmp_path / "tries", "id").alias("keys"),
        functions.expr(f"if(id = 900, {body}, CAST('good' AS binary))").alias("body"),
        functions.expr(
            f"if(id = 900, CAST({properties} AS map<string,string>), map('p', 'v'))"
        ).alias("properties"),
    )
    with pytest.raises(PySparkException, match=f"row 900: .*{problem}.*none of this"):
        write(frame, broker)
    assert (tmp_path / "tries").read_text() == "."
    assert broker.messages.in_topic("T") == []
    spark.conf.set(WORKER_LOGS, "true")
    try:
        write(frame, broker, onInvalidRow="skip")
        told = [row.msg for row in worker_logs(spark).collect()]
    finally:
        spark.conf.unset(WORKER_LOGS)
    assert [one for one in told if "1 invalid rows skipped" in one and problem in one] != []
    assert len(broker.messages.in_topic("T")) == 999
    write(frame, broker, onInvalidRow="topic", invalidRowTopic="Bad")
    assert len(broker.messages.in_topic("T")) == 2 * 999
    (bad,) = broker.messages.in_topic("Bad")
    assert problem in bad.properties["INVALID_REASON"]
    assert (bad.properties["KEYS"], bad.properties["ORIGINAL_TOPIC"]) == ("900", "T")


@pytest.mark.case("SP33")
def test_a_delay_that_is_too_long_is_refused_before_anything_is_sent_and_tried_once(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T")
    frame = spark.range(0, 1_000, 1, 1).select(
        tries_noted(tmp_path / "tries", "id").alias("body"),
        functions.expr("if(id = 900, 400000000, 5000)").alias("delay_ms"),
    )
    with pytest.raises(PySparkException, match=r"row 900: .*maxDelayMs"):
        write(frame, broker)
    assert (tmp_path / "tries").read_text() == "."
    for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
        assert broker.journal.requests(code=code) == []
    assert broker.timers.count() == 0


def tries_noted(path: Path, column: str) -> Column:
    """The text of a number column, which notes each time that it makes row 900."""

    def noted(number: int) -> str:
        if number == 900:
            with path.open("a") as seen:
                seen.write(".")
        return str(number)

    return functions.udf(noted)(column)


class WithoutProperties:
    """Takes even what a broker adds by itself from the messages that begin so."""

    name = "without properties"

    def __init__(self, body: bytes) -> None:
        self.body = body

    def before_put(self, message: Any, _now_ms: int) -> None:
        if message.body == self.body:
            message.properties.clear()


@pytest.mark.case("SP13")
def test_compressed_foreign_bare_and_largest_messages_are_read_byte_for_byte(
    spark: SparkSession,
) -> None:
    largest = Random(13).randbytes(4 * 1024 * 1024)
    bodies = [b"x" * 5_000, "dreißig 三".encode(), bytes(range(256))]
    bare = b"bare \xff"
    rows = spark.createDataFrame([(bytearray(body),) for body in bodies], "body binary")
    # A broker of 5.x needs the id that it gives each message; one of 4.9 does not.
    with EmbeddedBroker(profile="rocketmq-4.9", topics=[TopicSpec("T", queues=1)]) as broker:
        write(rows.coalesce(1), broker, compression="zlib", compressOver=1_000)
        broker.send("T", largest)
        broker.put_hooks.append(WithoutProperties(bare))
        with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
            (queue,) = access.read_queues("T")
            access.send(queue, bare, properties="").result(10)
        assert [one.properties for one in broker.messages.in_topic("T")][-1] == {}
        found = read(spark, broker, columns="body,sys_flag,properties").collect()
    shown = {bytes(row.body): row.sys_flag & 1 for row in found}
    assert shown == {body: int(body == bodies[0]) for body in [*bodies, largest, bare]}
    assert len(found) == len(shown)
    assert [bytes(row.body) for row in found if not row.properties] == [bare]


@pytest.mark.case("SP36", "SP37")
def test_only_append_is_a_save_mode_and_no_rows_are_fine(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T")
    frame = spark.createDataFrame([("x",)], "body string")
    writer = frame.write.format("rocketmq").options(nameServer=broker.namesrv_addr, topic="T")
    with pytest.raises(PySparkException, match="RocketMQ cannot do"):
        writer.mode("overwrite").save()
    with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        writer.mode("ignore").save()
    with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        frame.write.format("rocketmq").options(nameServer=broker.namesrv_addr, topic="T").save()
    write(frame.where("1 = 0"), broker)
    assert broker.messages.in_topic("T") == []


@pytest.mark.case("SP37")
def test_a_frame_without_any_partition_is_written_like_one_without_rows(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T")
    frame = spark.createDataFrame(spark.sparkContext.emptyRDD(), "body string, delay_ms bigint")
    assert frame.rdd.getNumPartitions() == 0
    write(frame, broker)
    assert spark_connector.send(frame, nameServer=broker.namesrv_addr, topic="T").collect() == []
    assert broker.messages.in_topic("T") == []


def delayed_rows(spark: SparkSession, *delays: tuple[int | None, ...]) -> DataFrame:
    """Rows y0, y1, ... with tags, keys and a property of their own; delays as in the schema."""
    schema = (
        "body string, tags string, keys array<string>, properties map<string,string>, "
        "delay_ms bigint, deliver_at bigint, delay_level int, start_deliver_time bigint"
    )
    rows = [
        (f"y{number}", f"t{number}", [f"k{number}", "m"], {"mine": str(number)}, *delay)
        for number, delay in enumerate(delays)
    ]
    return spark.createDataFrame(rows, schema)


def as_users_see(broker: EmbeddedBroker, topic: str) -> dict[bytes, Any]:
    """Tags, keys and the properties that RocketMQ does not reserve, by the body."""
    found = {
        one.body: (
            one.tags,
            tuple(one.keys),
            {n: v for n, v in one.properties.items() if n not in RawMessages.RESERVED_PROPERTIES},
        )
        for one in broker.messages.in_topic(topic)
    }
    assert len(found) == broker.topics[topic].count()
    return found


@pytest.mark.case("SP75")
def test_what_is_read_can_be_written_to_another_topic(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("U")
    broker.topics.create("T", queues=1)
    broker.topics.create("V")
    broker.send("T", b"x", tags="t", keys="k l", properties={"mine": "1", "DEDUPE_ID": "old"})
    write(spark.sql("SELECT 'z' AS body, 9 AS flag"), broker)
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    due = clock.now_ms + 5_000
    delays = ((5_000, None, None, None), (None, due, None, None), (None, None, 2, None))
    write(delayed_rows(spark, *delays, (None, None, None, due)), broker)
    assert broker.timers.count(topic="T") == 4
    clock.advance(10)
    with pytest.raises(ValueError, match=r"user properties would be lost: .*includeHeaders=true"):
        spark_connector.for_write(read(spark, broker))
    bare = spark_connector.for_write(read(spark, broker), properties=False)
    assert bare.columns == ["body", "keys", "tags"]
    columns = "body,keys,tags,flag,deliver_at"
    rows = read(spark, broker, includeHeaders="true", columns=columns)
    write(spark_connector.for_write(rows), broker, topic="U")
    expected: dict[bytes, Any] = {
        b"x": ("t", ("k", "l"), {"mine": "1", "DEDUPE_ID": "old"}),
        b"z": (None, (), {}),
    }
    expected |= {b"y%d" % n: (f"t{n}", (f"k{n}", "m"), {"mine": f"{n}"}) for n in range(4)}
    assert as_users_see(broker, "U") == expected  # all are there, though the clock stands
    flags = read(spark, broker, topic="U", columns="body,flag").collect()
    assert {bytes(row.body): row.flag for row in flags} == dict.fromkeys(expected, 0) | {b"z": 9}
    write(bare, broker, topic="V")
    found = as_users_see(broker, "V")
    assert found == {body: (tags, keys, {}) for body, (tags, keys, _) in expected.items()}
    assert broker.timers.count() == 0


@pytest.mark.case("SP75")
def test_what_is_read_under_other_names_can_be_written_too(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=1)
    broker.send("T", b"x", keys="k", properties={"mine": "1"})
    named = read(spark, broker, schema="Value string, key string, headers map<string,string>")
    frame = spark_connector.for_write(named)
    assert frame.columns == ["body", "keys", "properties"]
    assert [tuple(row) for row in frame.collect()] == [("x", "k", {"mine": "1"})]
    listed = "value string, headers array<struct<key:string,value:string>>"
    with pytest.raises(SchemaError, match=r"headers is array<.*read it as a map"):
        spark_connector.for_write(read(spark, broker, schema=listed))
    with pytest.raises(ValueError, match="needs the column body"):
        spark_connector.for_write(named.select("key"))


@pytest.mark.slow
@pytest.mark.case("SP69")
def test_a_temporary_view_keeps_its_options(spark: SparkSession, broker: EmbeddedBroker) -> None:
    fill(broker, 8)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW t USING rocketmq OPTIONS "
        f"(nameServer '{broker.namesrv_addr}', subscribe 'T')"
    )
    assert spark.sql("SELECT count(*) AS n FROM t").collect()[0].n == 8
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW w (body STRING, tags STRING) USING rocketmq OPTIONS "
        f"(nameServer '{broker.namesrv_addr}', topic 'T')"
    )
    spark.sql("INSERT INTO w VALUES ('by SQL', 'C')")
    assert {message.body: message.tags for message in broker.messages.in_topic("T")}[
        b"by SQL"
    ] == "C"


def test_messages_with_an_id_that_came_before_are_dropped(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T")
    for body, key in ((b"a", "1"), (b"b", "2"), (b"again", "1"), (b"c", None), (b"d", None)):
        properties = {} if key is None else {"DEDUPE_ID": key}
        broker.send("T", body, queue=0, properties=properties)
    columns = (
        "topic string, broker_name string, queue_id int, offset bigint, dedupe_id string, "
        "store_timestamp timestamp, body string"
    )
    bodies = {
        row.body for row in spark_connector.dedupe(read(spark, broker, schema=columns)).collect()
    }
    assert len(bodies) == 4
    assert bodies > {"b", "c", "d"}
