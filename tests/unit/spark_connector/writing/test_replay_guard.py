"""The mark of the last whole batch, kept as an offset by brokers in this process."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec, VirtualClock
from rocketmq_py import (
    MessageQueue,
    MQClientException,
    PermissionDeniedError,
    QueueAccess,
    RemotingException,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.errors import OptionError
from spark_connector.writing.replay_guard import ReplayGuard, mark_of
from spark_connector.writing.writers import StreamWriter
from tests.unit.embedded_broker.wire_peer import WirePeer


@pytest.fixture
def access() -> Iterator[QueueAccess]:
    with (
        EmbeddedBroker(clock=VirtualClock(), topics=["T"]) as broker,
        QueueAccess(namesrv_addr=broker.namesrv_addr) as started,
    ):
        yield started


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2, topics=[TopicSpec("T", queues=2)]) as started:
        yield started


@pytest.fixture
def guard(cluster: EmbeddedCluster) -> Iterator[ReplayGuard]:
    with QueueAccess(namesrv_addr=cluster.namesrv_addr) as access:
        yield ReplayGuard(access, "G", "T")


def mark_at(guard: ReplayGuard, broker: str) -> int | None:
    return guard.access.group_offset("G", MessageQueue("T", broker, 0))


@pytest.mark.case("SP58", "SP59")
def test_a_batch_that_was_marked_is_known_and_the_next_one_is_not(access: QueueAccess) -> None:
    guard = ReplayGuard(access, "G", "T")
    assert mark_of("query", 0) & 0xFFFF_FFFF == 1  # a mark is never 0, which means none
    assert not guard.is_written("query", 0)
    guard.note("query", 0)
    assert guard.is_written("query", 0)
    assert not guard.is_written("query", 1)
    guard.note("query", 5)
    assert guard.is_written("query", 5)
    assert guard.is_written("query", 4)
    assert not guard.is_written("query", 6)


@pytest.mark.case("SP58")
def test_the_mark_of_another_query_is_an_error_unless_it_may_be_taken_over(
    access: QueueAccess,
) -> None:
    ReplayGuard(access, "G", "T").note("one", 3)
    with pytest.raises(OptionError, match=r"another query .* this one is two"):
        ReplayGuard(access, "G", "T").is_written("two", 0)
    taking = ReplayGuard(access, "G", "T", take_over=True)
    assert not taking.is_written("two", 0)
    taking.note("two", 0)
    assert ReplayGuard(access, "G", "T").is_written("two", 0)


# --- several brokers -----------------------------------------------------------------------------


@pytest.mark.case("SP58")
@pytest.mark.parametrize("stopped", ["broker-a", "broker-b"])
def test_a_mark_is_known_while_any_broker_that_keeps_it_is_there(
    cluster: EmbeddedCluster, guard: ReplayGuard, stopped: str
) -> None:
    guard.note("query", 5)
    cluster.stop(stopped)
    assert guard.is_written("query", 5)
    assert not guard.is_written("query", 6)
    guard.note("query", 6)
    cluster.start(stopped)
    assert guard.is_written("query", 6)  # the one that was away says 5
    assert not guard.is_written("query", 7)


@pytest.mark.case("SP58")
def test_a_broker_that_missed_marks_is_not_believed_alone(
    cluster: EmbeddedCluster, guard: ReplayGuard
) -> None:
    guard.note("query", 5)
    cluster.stop("broker-a")
    guard.note("query", 6)
    guard.note("query", 7)
    cluster.start("broker-a")
    cluster.stop("broker-b")
    with pytest.raises(MQClientException, match=r"no mark of batch 6 \(the last one is of batch 5"):
        guard.is_written("query", 7)
    assert not ReplayGuard(guard.access, "G", "T", take_over=True).is_written("query", 7)
    cluster.start("broker-b")
    assert guard.is_written("query", 7)


@pytest.mark.case("SP58")
def test_a_new_broker_that_comes_first_by_name_changes_nothing(
    cluster: EmbeddedCluster, guard: ReplayGuard
) -> None:
    guard.note("query", 5)
    cluster.add("a-new-one")
    assert guard.access.read_queues("T")[0].broker_name == "a-new-one"
    assert guard.is_written("query", 5)
    cluster.stop("broker-a")
    cluster.stop("broker-b")
    with pytest.raises(MQClientException, match=r"no mark of batch 4 \(there is none at all\)"):
        guard.is_written("query", 5)
    cluster.start("broker-b")
    assert guard.is_written("query", 5)


@pytest.mark.case("SP58")
def test_another_query_is_found_on_whatever_broker_its_mark_is(
    cluster: EmbeddedCluster, guard: ReplayGuard
) -> None:
    cluster.stop("broker-a")
    guard.note("other", 0)
    cluster.start("broker-a")
    with pytest.raises(OptionError, match=r"another query .* at broker broker-b"):
        guard.is_written("query", 0)


@pytest.mark.case("SP58")
def test_a_broker_that_cannot_be_asked_fails_the_task_unless_the_others_know_enough(
    cluster: EmbeddedCluster, guard: ReplayGuard
) -> None:
    guard.note("query", 5)
    deaf = cluster["broker-a"].faults.on(RequestCode.QUERY_CONSUMER_OFFSET, group="G")
    deaf.close().always()
    assert guard.is_written("query", 5)
    with pytest.raises(RemotingException):
        guard.is_written("query", 6)
    assert deaf.hits == 2


@pytest.mark.case("SP58")
def test_one_broker_that_keeps_the_mark_is_enough_and_a_warning_names_the_others(
    cluster: EmbeddedCluster, guard: ReplayGuard, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("broker-a", "broker-b"):
        refusing = cluster[name].faults.on(RequestCode.UPDATE_CONSUMER_OFFSET, group="G")
        refusing.respond(ResponseCode.NO_PERMISSION).always()
        if name == "broker-a":
            with caplog.at_level(logging.WARNING, "spark_connector"):
                guard.note("query", 0)
            assert mark_at(guard, "broker-b") == mark_of("query", 0)
    (warned,) = caplog.messages
    assert "mark of batch 0 is not kept by broker-a" in warned
    with pytest.raises(PermissionDeniedError):
        guard.note("query", 1)


@pytest.mark.case("SP58")
def test_a_topic_that_may_only_be_written_by_now_keeps_its_mark(
    cluster: EmbeddedCluster, guard: ReplayGuard
) -> None:
    guard.note("query", 0)
    for broker in cluster.brokers:
        with WirePeer(broker.addr) as peer:
            peer.create_topic("T", perm=2)
    assert guard.access.read_queues("T") == ()
    assert guard.is_written("query", 0)
    guard.note("query", 1)
    assert guard.is_written("query", 1)


@pytest.mark.case("SP58")
def test_a_slave_that_stands_in_for_its_master_is_not_believed(
    guard: ReplayGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard.note("query", 5)
    guard.note("query", 6)
    known = guard.access.address_of

    def slave_is_left(name: str, broker_id: int = 0, *, only_this: bool = False) -> str | None:
        return None if only_this and name == "broker-a" else known(name, broker_id)

    monkeypatch.setattr(guard.access, "address_of", slave_is_left)
    assert guard.is_written("query", 6)
    with pytest.raises(MQClientException, match="broker-a has no master now"):
        guard.is_written("query", 7)


@pytest.mark.case("SP58")
def test_a_guarded_task_asks_the_name_server_once_and_every_broker_once(
    cluster: EmbeddedCluster, guard: ReplayGuard
) -> None:
    guard.note("query", 0)
    journal = cluster["broker-a"].journal  # that of the whole cluster
    journal.clear()
    assert not guard.is_written("query", 1)
    asked = sorted(one.code for one in journal.requests())
    assert asked == [RequestCode.QUERY_CONSUMER_OFFSET] * 2 + [RequestCode.GET_ROUTEINFO_BY_TOPIC]


# --- the writer ----------------------------------------------------------------------------------


@pytest.fixture
def task(task: dict[str, str]) -> dict[str, str]:
    task["sql.streaming.queryId"] = "query"
    return task


@pytest.mark.case("SP58", "SP59")
def test_a_stream_does_not_repeat_a_batch_when_the_first_broker_is_gone(
    cluster: EmbeddedCluster, task: dict[str, str]
) -> None:
    options = {"nameServer": cluster.namesrv_addr, "topic": "T", "replayGuard": "G"}
    schema = StructType([StructField("body", BinaryType())])

    def run(batch: int) -> int:
        task["streaming.sql.batchId"] = str(batch)
        writer = StreamWriter(options, schema, overwrite=False)
        rows = pa.RecordBatch.from_pydict({"body": pa.array([b"%d" % batch] * 4)})
        message = writer.write(iter([rows]))
        writer.commit([message], batch)
        return message.report.stored

    assert [run(batch) for batch in (0, 1)] == [4, 4]
    cluster.stop("broker-a")
    assert run(1) == 0  # Spark died after the commit, and repeats the batch
    assert run(2) == 4
    cluster.start("broker-a")
    assert (run(2), run(3)) == (0, 4)
