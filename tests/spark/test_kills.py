"""Python workers and drivers that are killed in the middle of their work."""

from __future__ import annotations

import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip(
    "pyspark", minversion="4.2", reason="PySpark 4.2 is not installed (extra spark)"
)
if shutil.which("java") is None:
    pytest.skip("no java on this machine", allow_module_level=True)

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.codes import RequestCode
from tests.spark.cluster import Driver
from tests.spark.processes import kill, workers_asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PULL = RequestCode.PULL_MESSAGE
SEND = RequestCode.SEND_BATCH_MESSAGE
WAIT_S = 60


@pytest.mark.case("SP40")
def test_a_write_whose_worker_is_killed_twice_succeeds_with_repeated_ids(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=2)
    frame = spark.range(0, 5_000, 1, 1).selectExpr(
        "CAST(id AS STRING) AS body", "CONCAT('id-', id) AS dedupe_key"
    )
    held = broker.faults.on(SEND, nth=3).drop_response().always()
    killed: set[int] = set()

    def kill_two() -> None:
        for _ in range(2):
            broker.wait_for(
                lambda _b: held.hits and workers_asking(broker, SEND) - killed, timeout=WAIT_S
            )
            (worker,) = workers_asking(broker, SEND) - killed
            kill(worker)
            killed.add(worker)
        held.end()

    writer = frame.write.format("rocketmq").mode("append")
    writer.options(nameServer=broker.namesrv_addr, topic="T", batchBytes="16384")
    with ThreadPoolExecutor(1) as thread:
        killing = thread.submit(kill_two)
        writer.options(sendTimeoutMs="20000").save()
        killing.result(WAIT_S)
    found = Counter(message.properties["DEDUPE_ID"] for message in broker.messages.in_topic("T"))
    assert set(found) == {f"id-{number}" for number in range(5_000)}
    assert set(found.values()) <= {1, 2, 3}
    assert max(found.values()) > 1


@pytest.mark.case("SP40")
def test_a_read_whose_workers_are_killed_gives_every_row_once(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=2)
    for number in range(1_000):
        broker.send("T", b"%d" % number, queue=number % 2)
    held = broker.faults.on(PULL, nth=8).drop().always()

    def kill_all() -> None:
        broker.wait_for(lambda _b: held.hits, timeout=WAIT_S)
        for worker in workers_asking(broker, PULL):
            kill(worker)
        held.end()

    reader = spark.read.format("rocketmq").options(nameServer=broker.namesrv_addr, subscribe="T")
    with ThreadPoolExecutor(1) as thread:
        killing = thread.submit(kill_all)
        # Two tasks; with their number fixed the planner pulls nothing.
        given = {"minPartitions": "2", "maxPartitions": "2", "pullTimeoutMs": "500"}
        rows = reader.options(**given).load().select("body").collect()
        killing.result(WAIT_S)
    assert held.hits
    assert sorted(int(row.body) for row in rows) == list(range(1_000))


@pytest.mark.case("SP59")
def test_a_batch_whose_driver_is_killed_before_sparks_log_is_repeated_or_left_out(
    tmp_path: Path,
) -> None:
    with EmbeddedBroker() as broker:
        for topic in ("T", "Guarded", "Plain"):
            broker.topics.create(topic, queues=2)
        for number in range(100):
            broker.send("T", b"%d" % number, queue=number % 2)
        targets: dict[str, dict[str, str]] = {"Guarded": {"replayGuard": "Guard"}, "Plain": {}}
        settings = {"spark.master": "local[2]"}
        place: dict[str, Any] = {"address": broker.namesrv_addr, "source": "T"}
        first = Driver(tmp_path, settings)
        try:
            first.run("copy_and_halt", targets=targets, folder=str(tmp_path), **place)
            both_are_committed = [tmp_path / target for target in targets]
            broker.wait_for(
                lambda _b: all(one.exists() for one in both_are_committed), timeout=WAIT_S
            )
        finally:
            first.kill()
        assert [len(broker.messages.in_topic(target)) for target in targets] == [100, 100]
        for target in targets:
            assert not (tmp_path / f"checkpoint-{target}" / "commits" / "0").exists()
        with Driver(tmp_path, settings) as second:
            second.run("register")
            for target, sink in targets.items():
                checkpoint = str(tmp_path / f"checkpoint-{target}")
                second.run("copy_stream", target=target, checkpoint=checkpoint, **place, **sink)
        assert len(broker.messages.in_topic("Guarded")) == 100
        copies = Counter(
            (one.properties["DEDUPE_ID"], one.body) for one in broker.messages.in_topic("Plain")
        )
        assert set(copies.values()) == {2}
        assert {int(body) for _, body in copies} == set(range(100))
