"""Batch reads and writes against a broker over TCP, in a real Spark."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip(
    "pyspark", minversion="4.2", reason="PySpark 4.2 is not installed (extra spark)"
)
if shutil.which("java") is None:
    pytest.skip("no java on this machine", allow_module_level=True)

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, functions

import spark_connector
from embedded_broker import EmbeddedBroker, EmbeddedCluster, VirtualClock
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.errors import SchemaError
from tests.spark.queries import WORKER_LOGS

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


def write(frame: DataFrame, broker: EmbeddedBroker, **options: Any) -> None:
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
    assert [name for name, _ in frame.dtypes] == [
        *("topic", "broker_name", "queue_id", "offset", "message_id", "keys", "tags"),
        *("born_timestamp", "store_timestamp", "body"),
    ]


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
    rows = frame.select("broker_name", "queue_id", "offset", "body", "keys").collect()
    expected = {
        (("broker-a", "broker-b")[n % 2], n // 2 % 4, n // 8, b"m%d" % n, f"k{n}")
        for n in range(10_000)
    }
    assert {(*row[:3], bytes(row.body), row.keys) for row in rows} == expected
    assert len(rows) == 10_000


@pytest.mark.case("SP3", "SP4")
def test_ranges_are_given_as_json(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    rows = read(
        spark,
        cluster,
        startingOffsets='{"T":{"broker-a":{"0":3,"1":-2},"broker-b":{"3":1200}}}',
        endingOffsets='{"T":{"broker-a":{"0":5,"1":2,"2":-1,"3":0},'
        '"broker-b":{"0":1,"1":0,"2":0,"3":-1}}}',
    ).collect()
    found = Counter((row.broker_name, row.queue_id) for row in rows)
    assert found == {
        ("broker-a", 0): 2,
        ("broker-a", 1): 2,
        ("broker-a", 2): 1_250,
        ("broker-b", 0): 1,
        ("broker-b", 3): 50,
    }
    with pytest.raises(PySparkException, match="startingOffsets: a batch that begins at latest"):
        read(spark, cluster, startingOffsets='{"T":{"broker-a":{"0":-1}}}').collect()
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
    fill(broker, 100)
    frame = read(spark, broker, subExpression="A", schema="offset bigint, body string, tags string")
    rows = frame.collect()
    assert {row.tags for row in rows} == {"A"}
    assert {row.body for row in rows} == {f"m{n}" for n in range(0, 100, 2)}


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
    assert frame.rdd.getNumPartitions() == 8  # four for each core, of less than 8 MiB each
    assert len(set(frame.collect())) == 1_200
    few = read(spark, broker, topic="Large", schema=columns, maxPartitions="2")
    assert few.rdd.getNumPartitions() == 2
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
    assert read(spark, broker, startingTimestamp=str(middle)).count() == 16
    between = read(spark, broker, startingTimestamp=str(middle), endingTimestamp=str(end))
    assert between.count() == 8
    assert {
        int(row.at.timestamp() * 1000)
        for row in between.select(functions.col("store_timestamp").alias("at")).collect()
    } == {middle}
    future = {"startingTimestamp": str(end + 1)}
    with pytest.raises(PySparkException, match="no message is that new"):
        read(spark, broker, **future).collect()
    assert read(spark, broker, **future, startingOffsetsByTimestampStrategy="latest").count() == 0


@pytest.mark.case("SP19", "SP20", "SP21")
def test_what_cannot_be_read_says_why(spark: SparkSession, broker: EmbeddedBroker) -> None:
    fill(broker, 4)
    with pytest.raises(PySparkException, match=r"9.*past its end, 1"):
        read(spark, broker, startingOffsets='{"T":{"0":9}}').collect()
    with pytest.raises(PySparkException, match="no route of topic Nowhere"):
        read(spark, broker, "Nowhere").collect()
    with pytest.raises(PySparkException, match="did you mean subExpression"):
        read(spark, broker, subExpresion="A")
    with pytest.raises(PySparkException, match="exactly one of subscribe"):
        read(spark, broker, subscribePattern="T.*")


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


@pytest.mark.case("SP24", "SP26")
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
    fixed = spark.createDataFrame([(b"x", 2)], "body binary, queue_id int")
    write(fixed, broker)
    assert read(spark, broker, schema="body string, queue_id int").where(
        "body = 'x'"
    ).collect() == [("x", 2)]
    with pytest.raises(PySparkException, match="no writable queue 77"):
        write(spark.createDataFrame([(b"x", 77)], "body binary, queue_id int"), broker)


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
        ("in an hour", None, now + timedelta(hours=1), None),
        ("past", None, now - timedelta(hours=1), None),
    ]
    schema = "body string, delay_ms bigint, deliver_at timestamp, delay_level int"
    write(spark.createDataFrame(rows, schema), broker)

    def seen() -> set[str]:
        return {message.body.decode() for message in broker.messages.in_topic("T")}

    broker.wait_for(lambda _b: seen() == {"at once", "past"}, timeout=5)
    clock.advance(4.9)
    assert "in 5 s" not in seen()
    clock.advance(1.2)
    assert seen() == {"at once", "past", "in 5 s"}
    clock.advance(5)
    assert "level 3" in seen()
    clock.advance(3_600)
    assert len(seen()) == 5


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
        told = [row.msg for row in spark.tvf.python_worker_logs().collect()]
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
    assert broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2) == []


def tries_noted(path: Path, column: str) -> Column:
    """The text of a number column, which notes each time that it makes row 900."""

    def noted(number: int) -> str:
        if number == 900:
            with path.open("a") as seen:
                seen.write(".")
        return str(number)

    return functions.udf(noted)(column)


@pytest.mark.case("SP13")
def test_compressed_foreign_and_largest_bodies_are_read_byte_for_byte(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=1)
    largest = Random(13).randbytes(4 * 1024 * 1024)
    bodies = [b"x" * 5_000, "dreißig 三".encode(), bytes(range(256))]
    rows = spark.createDataFrame([(bytearray(body),) for body in bodies], "body binary")
    write(rows.coalesce(1), broker, compression="zlib", compressOver=1_000)
    broker.send("T", largest)
    found = read(spark, broker, columns="body,sys_flag").collect()
    shown = {bytes(row.body): row.sys_flag & 1 for row in found}
    assert shown == {body: int(body == bodies[0]) for body in [*bodies, largest]}
    assert len(found) == 4


@pytest.mark.case("SP36", "SP37")
def test_only_append_is_a_save_mode_and_no_rows_are_fine(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T")
    frame = spark.createDataFrame([("x",)], "body string")
    writer = frame.write.format("rocketmq").options(nameServer=broker.namesrv_addr, topic="T")
    with pytest.raises(PySparkException, match="cannot do"):
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


@pytest.mark.case("SP75")
def test_what_is_read_can_be_written_to_another_topic(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("U")
    broker.topics.create("T", queues=1)
    broker.send("T", b"x", tags="t", keys="k l", properties={"mine": "1", "DEDUPE_ID": "old"})
    write(spark.sql("SELECT 'z' AS body, 9 AS flag"), broker)
    broker.send("T", b"y", delay=5, properties={"mine": "2"})
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(10)
    with pytest.raises(ValueError, match=r"user properties would be lost: .*includeHeaders=true"):
        spark_connector.for_write(read(spark, broker))
    bare = spark_connector.for_write(read(spark, broker), properties=False)
    assert bare.columns == ["body", "keys", "tags"]
    columns = "body,keys,tags,flag,deliver_at"
    rows = read(spark, broker, includeHeaders="true", columns=columns)
    write(spark_connector.for_write(rows), broker, topic="U")
    copies = broker.messages.in_topic("U")  # all are there, the clock stands
    found = {message.body: message for message in copies}
    assert sorted(message.body for message in copies) == [b"x", b"y", b"z"]
    assert (found[b"x"].tags, found[b"x"].properties["mine"]) == ("t", "1")
    assert (found[b"x"].properties["KEYS"], found[b"x"].properties["DEDUPE_ID"]) == ("k l", "old")
    flags = read(spark, broker, topic="U", columns="body,flag").collect()
    assert {bytes(row.body): row.flag for row in flags} == {b"x": 0, b"y": 0, b"z": 9}
    assert found[b"y"].properties["mine"] == "2"
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
