"""Reads while brokers are away that somebody knows of.

That is the route, the topic's configuration, a checkpoint, or the options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec, VirtualClock
from rocketmq_py.protocol.codes import RequestCode
from tests.spark.queries import (
    Seen,
    fill,
    logged,
    names,
    read_all,
    running,
    stream,
    until,
    with_logs,
)
from tests.unit.embedded_broker.wire_peer import WirePeer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAIT_S = 60
LOOK = RequestCode.GET_TOPIC_STATS_INFO


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def cluster(clock: VirtualClock) -> Iterator[EmbeddedCluster]:
    """A hundred messages in two queues of each of two brokers."""
    topics = [TopicSpec("T", queues=2)]
    with EmbeddedCluster(brokers=2, clock=clock, topics=topics) as started:
        one, two = started.brokers
        fill(one, 0, 100)
        fill(two, 100, 200)
        yield started


def batch(spark: SparkSession, cluster: EmbeddedCluster, **options: str) -> DataFrame:
    reader = spark.read.format("rocketmq").schema("body string")
    return reader.options(nameServer=cluster.namesrv_addr, subscribe="T", **options).load()


def looks(broker: EmbeddedBroker) -> int:
    """How often a broker was asked for its ends."""
    asked = broker.journal.requests(code=LOOK)
    return len([entry for entry in asked if entry.endpoint == broker.broker_name])


def configure(namesrv_addr: str, queues: str) -> None:
    """Fix the queues of topic T as ``mqadmin updateOrderConf`` does, and let routes tell them."""
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": queues}
    with closing(WirePeer(namesrv_addr)) as names:
        assert names.ask(RequestCode.PUT_KV_CONFIG, order).code == 0
        switch = b"orderMessageEnable=true\n"
        assert names.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=switch).code == 0


BY_THE_TOPIC = "the topic's configuration"
KNOWN_BY = {
    "requiredBrokers": ("broker-a,broker-b", r"broker broker-b \(requiredBrokers\)"),
    "requiredQueues": ('{"T":4}', r"topic T: 2 of 4 queues \(requiredQueues\)"),
    BY_THE_TOPIC: ("broker-a:2;broker-b:2", "topic T, broker broker-b, queue 0; .* queue 1;"),
}


@pytest.mark.parametrize("by", KNOWN_BY)
def test_a_batch_is_not_short_when_a_broker_that_it_must_have_is_away(
    spark: SparkSession, cluster: EmbeddedCluster, by: str
) -> None:
    value, named = KNOWN_BY[by]
    one, _ = cluster.brokers
    cluster.stop("broker-b")
    required = {by: value}
    if by == BY_THE_TOPIC:
        configure(cluster.namesrv_addr, value)
        required = {}
    hasty = required | {"missingQueueGraceMs": "300"}
    with pytest.raises(PySparkException, match=f"missing for 300 ms.*{named}.*failOnDataLoss"):
        batch(spark, cluster, **hasty).count()
    rows, told = with_logs(spark, batch(spark, cluster, **hasty, failOnDataLoss="false"))
    assert sorted(row.body for row in rows) == names(0, 100)
    assert [text for text in told if re.search(f"300 ms.*{named}.*going on without them", text)]
    before = looks(one)
    with ThreadPoolExecutor(1) as other:
        counted = other.submit(batch(spark, cluster, **required).count)
        one.wait_for(lambda _b: counted.done() or looks(one) > before + 1, timeout=WAIT_S)
        assert not counted.done()
        cluster.start("broker-b")
        assert counted.result(WAIT_S) == 200


@pytest.mark.slow
def test_a_batch_waits_for_a_broker_of_the_route_that_does_not_answer(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    _, two = cluster.brokers
    quick = {
        "rocketmq.mqClientApiTimeout": "1000",
        "fetchOffset.numRetries": "1",
        "fetchOffset.retryIntervalMs": "1",
    }
    silent = two.faults.on(LOOK).times(3).drop()
    rows = batch(spark, cluster, **quick).collect()
    assert silent.hits == 3
    assert sorted(row.body for row in rows) == names(0, 200)
    with two.faults.on(LOOK).always().drop():
        hasty = batch(spark, cluster, **quick, missingQueueGraceMs="100")
        away = "topic T, broker broker-b, queue 0.*topic T, broker broker-b, queue 1"
        with pytest.raises(PySparkException, match=away):
            hasty.count()
        tolerant = {"missingQueueGraceMs": "100", "failOnDataLoss": "false"}
        some, told = with_logs(spark, batch(spark, cluster, **quick, **tolerant))
    assert sorted(row.body for row in some) == names(0, 100)
    assert [text for text in told if re.search(f"{away}.*going on without them", text)]


@pytest.mark.slow
def test_a_run_to_the_present_end_waits_for_the_queues_of_its_checkpoint(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one, two = cluster.brokers
    frame = stream(spark, cluster)
    first, _ = read_all(frame, tmp_path)
    assert first.bodies == names(0, 200)
    fill(two, 200, 210)
    cluster.stop("broker-b")
    with pytest.raises(PySparkException, match=r"missing for 300 ms.*broker broker-b, queue 0"):
        read_all(stream(spark, cluster, missingQueueGraceMs="300"), tmp_path)
    tolerant = stream(spark, cluster, missingQueueGraceMs="300", failOnDataLoss="false")
    fill(one, 210, 220)
    without, _ = read_all(tolerant, tmp_path)
    assert without.bodies == names(210, 220)
    before = looks(one)
    with ThreadPoolExecutor(1) as other:
        run = other.submit(read_all, frame, tmp_path)
        one.wait_for(lambda _b: run.done() or looks(one) > before + 2, timeout=WAIT_S)
        cluster.start("broker-b")
        seen, _ = run.result(WAIT_S)
    assert seen.bodies == names(200, 210)


@pytest.mark.slow
def test_a_stream_does_not_begin_without_a_broker_that_it_must_have(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one, _ = cluster.brokers
    cluster.stop("broker-b")
    whole = {"requiredBrokers": "broker-a,broker-b"}
    hasty = stream(spark, cluster, **whole, missingQueueGraceMs="300")
    missing = r"300 ms.*broker broker-b \(requiredBrokers\)"
    failed = pytest.raises(PySparkException, match=missing)
    with running(hasty, tmp_path / "hasty", Seen()) as query, failed:
        assert query.awaitTermination(WAIT_S)
    before, seen = looks(one), Seen()
    with running(stream(spark, cluster, **whole), tmp_path / "patient", seen) as query:
        until(one, query, lambda: looks(one) > before + 2)
        assert seen.rows == []
        cluster.start("broker-b")
        until(one, query, lambda: len(seen.rows) >= 200)
    assert seen.bodies == names(0, 200)


@pytest.mark.parametrize(
    "by", ["requiredBrokers", pytest.param("requiredQueues", marks=pytest.mark.slow)]
)
def test_a_stream_that_goes_on_reads_the_others_and_tells_when_a_required_broker_stays_away(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path, by: str
) -> None:
    value, named = KNOWN_BY[by]
    one, _ = cluster.brokers
    cluster.stop("broker-b")
    first, _ = read_all(stream(spark, cluster), tmp_path)
    assert first.bodies == names(0, 100)  # the checkpoint has never met the other broker
    fill(one, 200, 210)
    seen = Seen()
    strict = stream(spark, cluster, missingQueueGraceMs="300", **{by: value})
    with running(strict, tmp_path, seen) as query:
        wanted = f"missing for 300 ms.*{named}.*failOnDataLoss"
        with pytest.raises(PySparkException, match=wanted):
            assert query.awaitTermination(WAIT_S)
    assert seen.bodies == names(200, 210)
    fill(one, 210, 220)
    seen = Seen()
    given = {by: value, "missingQueueGraceMs": "1", "failOnDataLoss": "false"}
    with running(stream(spark, cluster, **given), tmp_path, seen) as query:
        until(one, query, lambda: len(seen.rows) >= 10)
        before = looks(one)
        until(one, query, lambda: looks(one) > before + 4)  # longer than the grace
        cluster.start("broker-b")
        until(one, query, lambda: len(seen.rows) >= 110)
    assert seen.bodies == sorted(names(100, 200) + names(210, 220))


@pytest.mark.slow
def test_a_broker_that_was_away_at_the_first_start_brings_back_no_old_messages(
    spark: SparkSession, cluster: EmbeddedCluster, clock: VirtualClock, tmp_path: Path
) -> None:
    one, two = cluster.brokers
    cluster.stop("broker-b")
    clock.advance(5)
    seen = Seen()
    with running(stream(spark, cluster, startingOffsets="latest"), tmp_path, seen) as query:
        until(one, query, lambda: logged(tmp_path, "commits") == [0])
        clock.advance(5)
        cluster.start("broker-b")
        fill(two, 200, 210)
        one.topics.create("T", queues=3)  # a queue that is really new
        for number in range(210, 215):
            one.send("T", b"m%d" % number, queue=2)
        until(one, query, lambda: len(seen.rows) >= 15)
        until(one, query, lambda: logged(tmp_path) == logged(tmp_path, "commits"))
    assert seen.bodies == names(200, 215)
    fill(two, 215, 220)
    again, _ = read_all(stream(spark, cluster), tmp_path)
    assert again.bodies == names(215, 220)


@pytest.mark.slow
def test_what_a_stream_finds_later_begins_at_its_starting_time(
    spark: SparkSession, cluster: EmbeddedCluster, clock: VirtualClock, tmp_path: Path
) -> None:
    one, two = cluster.brokers
    clock.advance(60)
    begin = clock.now_ms
    fill(one, 200, 205)
    fill(two, 205, 210)
    cluster.stop("broker-b")
    seen = Seen()
    with running(stream(spark, cluster, startingTimestamp=str(begin)), tmp_path, seen) as query:
        until(one, query, lambda: len(seen.rows) >= 5)
        cluster.start("broker-b")
        until(one, query, lambda: len(seen.rows) >= 10)
    assert seen.bodies == names(200, 210)


@pytest.mark.slow
def test_a_topic_that_is_not_subscribed_to_any_more_is_left_alone(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one, _ = cluster.brokers
    one.topics.create("U", queues=1)
    fill(one, 200, 210, topic="U", queues=1)
    both = stream(spark, cluster, subscribe="T,U")
    read_all(both, tmp_path)
    fill(one, 210, 220, topic="U", queues=1)
    fill(one, 220, 230)
    seen = Seen()
    only = stream(spark, cluster, missingQueueGraceMs="1")  # four looks are longer than that
    with running(only, tmp_path, seen) as query:
        until(one, query, lambda: len(seen.rows) >= 10)
        before = looks(one)
        until(one, query, lambda: looks(one) > before + 4)
        until(one, query, lambda: logged(tmp_path) == logged(tmp_path, "commits"))
    assert seen.bodies == names(220, 230)
    ended, _ = read_all(only, tmp_path)
    assert ended.rows == []
    again, _ = read_all(both, tmp_path)
    assert again.bodies == names(210, 220)
