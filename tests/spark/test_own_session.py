"""What only a session of its own shows: a setting of its application, and what a user sees of it.

The driver is a process that sets no logging up, as a user's program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec
from spark_connector.servers.spark_api import VERSION
from tests.spark.cluster import Driver, DriverError

LINE = r"INFO spark_connector: query \S+, batch \d+: {} rows, (\S+) KiB, \S+ s; (.*)\n"
REFUSED = r"spark\.speculation=true.*[Nn]othing was sent.*spark\.speculation=false"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A session that may start a second copy of a slow task."""
    settings = {"spark.master": "local[2]", "spark.speculation": "true"}
    with Driver(tmp_path_factory.mktemp("driver"), settings) as started:
        started.run("register")
        yield started


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        for topic in ("T", "U"):
            started.topics.create(topic, queues=2)
        yield started


@pytest.mark.parametrize("job", ["write", "send_rows", "copy_stream"])
def test_no_write_begins_in_a_session_with_speculation(
    driver: Driver, broker: EmbeddedBroker, tmp_path: Path, job: str
) -> None:
    broker.send("T", b"one", queue=0)
    arguments: dict[str, dict[str, object]] = {
        "write": {"topic": "U", "count": 10},
        "send_rows": {"topic": "U"},
        "copy_stream": {"source": "T", "target": "U", "checkpoint": str(tmp_path)},
    }
    with pytest.raises(DriverError) as refused:
        driver.run(job, address=broker.namesrv_addr, **arguments[job])
    assert re.search(REFUSED, str(refused.value), flags=re.DOTALL)
    assert broker.messages.in_topic("U") == []


@pytest.mark.slow
def test_a_stream_logs_a_line_for_each_batch_without_being_asked(
    driver: Driver, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    for number in range(90):
        broker.send("T", b"x" * 1_024, queue=min(1, number % 3))
    sizes = driver.run(
        "stream_sizes",
        address=broker.namesrv_addr,
        topic="T",
        checkpoint=str(tmp_path),
        maxOffsetsPerTrigger="60",
    )
    assert sizes == [60, 30]
    first = driver.said(LINE.format("60"))
    assert 60 < float(first[1]) < 90  # bodies of 60 KiB, and what is stored around them
    assert first[2] == "30 behind, most of it topic T, broker broker-a, queue 1: 20"
    second = driver.said(LINE.format("30"))
    assert 30 < float(second[1]) < 45
    assert second[2] == "0 behind"


def test_a_stream_that_goes_on_without_a_broker_names_it_and_reads_it_on_when_it_is_back(
    driver: Driver, tmp_path: Path
) -> None:
    with EmbeddedCluster(brokers=2, topics=[TopicSpec("T", queues=1)]) as cluster:
        one, two = cluster.brokers
        place = {"address": cluster.namesrv_addr, "topic": "T", "checkpoint": str(tmp_path)}
        for broker in (one, two):
            broker.send("T", b"x")
        assert driver.run("stream_sizes", **place) == [2]
        for broker in (one, two):
            broker.send("T", b"y")
        cluster.stop("broker-b")
        hasty = {"missingQueueGraceMs": "300", "failOnDataLoss": "false"}
        assert driver.run("stream_sizes", **place, **hasty) == [1]
        cluster.start("broker-b")
        assert driver.run("stream_sizes", **place) == [1]
    before, after = ("have been missing for 300 ms .*", ".*; going on without them")
    if VERSION < (4, 2):  # nothing says that the run ends, so nobody waits
        before, after = "are away: ", "; the stream goes on without them"
    driver.said(f"WARNING spark_connector: queues {before}topic T, broker broker-b, queue 0{after}")
