"""Streams while brokers come, go, forget, refuse or do not answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec, VirtualClock
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.requests import Request
from rocketmq_py.clock import monotonic
from rocketmq_py.protocol.codes import RequestCode
from tests.spark.cluster import JOB_S, Driver, DriverError
from tests.spark.queries import Seen, fill, logged, names, read_all, running, stream, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    topics = [TopicSpec("T", queues=2)]
    with EmbeddedCluster(brokers=2, clock=VirtualClock(), topics=topics) as started:
        yield started


@pytest.mark.case("SP50")
def test_new_queues_brokers_and_topics_are_read_from_their_beginning(
    spark: SparkSession, tmp_path: Path
) -> None:
    topics = [TopicSpec("T1", queues=4)]
    with EmbeddedCluster(brokers=1, clock=VirtualClock(), topics=topics) as cluster:
        first = cluster["broker-a"]
        fill(first, 0, 8, topic="T1", queues=4)
        seen = Seen()
        # What a start at the end leaves out are messages that were there, and no new queue.
        frame = stream(spark, cluster, subscribePattern="T.", startingOffsets="latest")
        with running(frame, tmp_path, seen) as query:
            until(first, query, lambda: logged(tmp_path, "commits") == [0])
            first.topics.create("T1", queues=8)
            fill(first, 8, 16, topic="T1", queues=8)
            fill(cluster.add(), 16, 24, topic="T1", queues=4)
            first.topics.create("T2", queues=1)
            fill(first, 24, 27, topic="T2", queues=1)
            until(first, query, lambda: len(seen.rows) >= 19)
        assert seen.bodies == names(8, 27)
        assert seen.places == sorted(
            [("T1", "broker-a", queue, 2) for queue in range(4)]
            + [("T1", "broker-a", queue, 0) for queue in range(4, 8)]
            + [("T1", "broker-b", queue, offset) for queue in range(4) for offset in range(2)]
            + [("T2", "broker-a", 0, offset) for offset in range(3)]
        )


@pytest.mark.case("SP51")
def test_a_broker_that_is_down_for_a_while_is_waited_for(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one, two = cluster.brokers
    fill(one, 0, 4)
    fill(two, 4, 8)
    seen = Seen()
    with running(stream(spark, cluster), tmp_path, seen) as query:
        until(one, query, lambda: len(seen.rows) == 8)
        cluster.stop("broker-b")
        fill(one, 8, 12)
        until(one, query, lambda: len(seen.rows) == 12)
        assert not query.awaitTermination(5)
        cluster.start("broker-b")
        fill(two, 12, 16)
        fill(one, 16, 18)
        until(one, query, lambda: len(seen.rows) >= 18)
    assert seen.bodies == names(0, 18)


def asked(broker: EmbeddedBroker) -> int:
    """How often a stream has asked a broker for its ends."""
    looks = broker.journal.requests(code=RequestCode.GET_TOPIC_STATS_INFO)
    return len([entry for entry in looks if entry.endpoint == broker.broker_name])


@pytest.mark.case("SP52")
@pytest.mark.parametrize("fail_on_loss", [pytest.param("true", marks=pytest.mark.slow), "false"])
def test_a_broker_that_stays_away_is_a_loss_after_the_grace(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path, fail_on_loss: str
) -> None:
    one, two = cluster.brokers
    seen = Seen()
    # Five unread messages are too few for a batch: the stream knows of them and waits.
    frame = stream(
        spark,
        cluster,
        failOnDataLoss=fail_on_loss,
        missingQueueGraceMs="3000",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="1h",
    )
    with running(frame, tmp_path, seen) as query:
        until(one, query, lambda: logged(tmp_path, "commits") == [0])
        fill(two, 0, 5)
        looks = asked(two)
        until(one, query, lambda: asked(two) > looks + 2)
        began = monotonic()
        cluster.stop("broker-b")
        if fail_on_loss == "true":
            with pytest.raises(
                PySparkException, match=r"broker-b, queue \d has been missing for 3000 ms"
            ):
                assert query.awaitTermination(60)
            assert monotonic() - began >= 3
        else:
            assert not query.awaitTermination(4)
            fill(one, 5, 15)
            until(one, query, lambda: len(seen.rows) >= 10)
            assert seen.bodies == names(5, 15)


@pytest.mark.slow
@pytest.mark.case("SP53")
def test_messages_that_grew_too_old_before_they_were_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    clock = VirtualClock()
    every_hour = ";".join(f"{hour:02}" for hour in range(24))
    small = {"mappedFileSizeCommitLog": 4096, "deleteWhen": every_hour}
    topics = [TopicSpec("T", queues=1)]
    with EmbeddedBroker(clock=clock, config=small, topics=topics) as broker:
        fill(broker, 0, 5, queues=1)
        read_all(stream(spark, broker), tmp_path)
        fill(broker, 5, 60, queues=1)
        clock.advance(days=4)
        fill(broker, 60, 80, queues=1)
        clock.advance(hours=1, age=True)
        low = int(broker.messages.in_topic("T")[0].body[1:])
        assert 5 < low < 70
        with pytest.raises(PySparkException, match=f"offsets 5 to {low} were wanted, available"):
            read_all(stream(spark, broker), tmp_path)
        seen, _ = read_all(stream(spark, broker, failOnDataLoss="false"), tmp_path)
        assert seen.bodies == names(low, 80)


@pytest.mark.slow
@pytest.mark.case("SP53")
def test_retention_that_overtakes_a_running_batch_is_told_with_ranges_and_counts(
    tmp_path: Path,
) -> None:
    clock, session_clock = VirtualClock(), VirtualClock()
    every_hour = ";".join(f"{hour:02}" for hour in range(24))
    small = {"mappedFileSizeCommitLog": 4096, "deleteWhen": every_hour}
    topics = [TopicSpec("T", queues=1)]
    with (
        EmbeddedBroker(
            clock=clock, session_clock=session_clock, config=small, topics=topics
        ) as broker,
        Driver(tmp_path, {"spark.master": "local[2]"}) as driver,
    ):
        driver.run("register")
        place = {"address": broker.namesrv_addr, "topic": "T", "checkpoint": f"{tmp_path}/c"}
        fill(broker, 0, 5, queues=1)
        assert driver.run("stream_sizes", **place) == [5]
        fill(broker, 5, 60, queues=1)
        clock.advance(days=4)
        fill(broker, 60, 80, queues=1)
        held = broker.faults.on(RequestCode.PULL_MESSAGE).delay(1)
        job = driver.begin("stream_sizes", **place)
        broker.wait_for(lambda _b: held.hits or job.done(), timeout=60)
        clock.advance(hours=1, age=True)  # its pull is under way
        low = int(broker.messages.in_topic("T")[0].body[1:])
        assert 5 < low < 70
        session_clock.advance(1)
        loss = f"offsets 5 to {low} were wanted, available are {low} to 80"
        with pytest.raises(DriverError, match=loss):
            job.result(JOB_S)
        # The same batch again, which now goes on and says how much it left out.
        assert driver.run("stream_sizes", **place, failOnDataLoss="false") == [80 - low]
        driver._process.wait_for(f"queue 0: {loss}; {low - 5} offsets skipped")
        assert driver._process.told().count("offsets skipped") == 1


@pytest.mark.case("SP71")
def test_a_query_that_is_stopped_in_the_middle_of_a_pull_leaves_nothing_open(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=2)
    fill(broker, 0, 4)
    held = broker.faults.on(RequestCode.PULL_MESSAGE).always().drop()
    parts = broker._parts()
    before = set(parts.endpoint.connections)
    frame = stream(spark, broker, pullTimeoutMs="60000")
    for cycle in range(5):
        held.hits = 0
        with running(frame, tmp_path / str(cycle), Seen()) as query:
            until(broker, query, lambda: held.hits >= 2)
            assert len(parts.endpoint.connections) > len(before)
            query.stop()  # five stops that waited for their pulls would take five minutes
    # Spark gives its workers a moment (spark.python.task.killTimeout, two seconds by default).
    broker.wait_for(lambda _b: parts.endpoint.connections <= before, timeout=30)


class Keys:
    """Notes under which access keys a broker was asked, and lets everything pass."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.of_looks: list[str] = []

    def incoming(self, _endpoint: Endpoint, request: Request) -> None:
        key = request.command.ext_fields.get("AccessKey", "")
        if request.command.code == RequestCode.PULL_MESSAGE:
            self.seen.append(key)
        elif request.command.code == RequestCode.GET_TOPIC_STATS_INFO:
            self.of_looks.append(key)

    def outgoing(self, _request: Request, parts: list[bytes]) -> list[bytes]:
        return parts


@pytest.mark.slow
@pytest.mark.case("SP78")
def test_keys_that_change_in_their_file_are_used_by_the_stream_that_runs(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    path = tmp_path / "keys.json"

    def rotate(name: str) -> None:
        new = tmp_path / "new.json"
        new.write_text(json.dumps({"accessKey": name, "secretKey": f"hush {name}"}))
        new.replace(path)

    rotate("one")
    broker.topics.create("T", queues=2)
    fill(broker, 0, 4)
    keys = Keys()
    broker._parts().endpoint.interceptors.append(keys)
    seen = Seen()
    frame = stream(spark, broker, credentialsFile=str(path))
    with running(frame, tmp_path / "checkpoint", seen) as query:
        until(broker, query, lambda: len(seen.rows) == 4)
        assert set(keys.seen) == set(keys.of_looks) == {"one"}
        rotate("two")
        keys.seen.clear()
        fill(broker, 4, 8)
        until(broker, query, lambda: len(seen.rows) == 8)
        until(broker, query, lambda: keys.of_looks[-1] == "two")  # the driver looks into it, too
    assert set(keys.seen) == {"two"}
    assert seen.bodies == names(0, 8)
    kept = b"".join(p.read_bytes() for p in (tmp_path / "checkpoint").rglob("*") if p.is_file())
    assert b"hush" not in kept
