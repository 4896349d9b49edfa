"""A guarded batch write is left out when it was whole, and has the same ids when it was not."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from embedded_broker import EmbeddedBroker, VirtualClock
from spark_connector.errors import OptionError
from spark_connector.source import RocketMQDataSource
from spark_connector.writing.write_task import WriteTask

BODY = StructType([StructField("body", BinaryType())])


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), topics=["T"]) as started:
        yield started


def write(
    broker: EmbeddedBroker,
    batch_id: int,
    *bodies: bytes,
    task: dict[str, str],
    query: str | None = None,
    commit: bool = True,
    **options: str,
) -> None:
    """Write a batch in one task, as `foreachBatch` of a query does, and perhaps die at its end."""
    given = {"nameServer": broker.namesrv_addr, "topic": "T", "replayGuard": "G"} | options
    if query is not None:
        task |= {"sql.streaming.queryId": query, "streaming.sql.batchId": str(batch_id)}
    source = RocketMQDataSource(given | {"batchId": options.get("batchId", str(batch_id))})
    writer = source.writer(BODY, overwrite=False)
    message = writer.write(iter([pa.RecordBatch.from_pydict({"body": pa.array(bodies)})]))
    task.clear()  # the process that commits knows of no query
    if commit:
        writer.commit([message])


def stored(broker: EmbeddedBroker) -> list[bytes]:
    return sorted(one.body for one in broker.messages.in_topic("T"))


@pytest.mark.parametrize("query", ["one", None])
def test_a_batch_that_was_written_whole_is_left_out(
    broker: EmbeddedBroker, task: dict[str, str], query: str | None
) -> None:
    write(broker, 0, b"a", task=task, query=query)
    write(broker, 0, b"a", task=task, query=query)
    write(broker, 1, b"b", task=task, query=query)
    write(broker, 0, b"a", task=task, query=query)  # which does not set the mark back
    write(broker, 1, b"b", task=task, query=query)
    assert stored(broker) == [b"a", b"b"]


def test_a_batch_that_was_written_in_part_has_the_same_ids_again(
    broker: EmbeddedBroker, task: dict[str, str]
) -> None:
    for commit in (False, True):
        write(broker, 0, b"a", b"b", task=task, query="one", commit=commit)
    found = broker.messages.in_topic("T")
    ids = [one.properties["DEDUPE_ID"] for one in found]
    assert (len(found), len(set(ids))) == (4, 2)
    assert all(one.startswith("G-0-0-") for one in ids)


def test_the_batches_of_a_new_checkpoint_are_not_taken_for_those_of_the_old_one(
    broker: EmbeddedBroker, task: dict[str, str]
) -> None:
    write(broker, 0, b"a", task=task, query="one")
    with pytest.raises(OptionError, match="used by another query"):
        write(broker, 0, b"b", task=task, query="two")
    task.clear()
    write(broker, 0, b"b", task=task, query="two", replayGuardTakeOver="true")
    assert stored(broker) == [b"a", b"b"]


def test_a_number_that_is_not_that_of_the_micro_batch_is_refused(
    broker: EmbeddedBroker, task: dict[str, str]
) -> None:
    with pytest.raises(OptionError, match="batchId = 7, but this is batch 3 of query one"):
        write(broker, 3, b"a", task=task, query="one", batchId="7")
    assert stored(broker) == []


def test_ids_may_be_left_out(broker: EmbeddedBroker, task: dict[str, str]) -> None:
    write(broker, 0, b"a", task=task, dedupe="none")
    (one,) = broker.messages.in_topic("T")
    assert "DEDUPE_ID" not in one.properties


def test_a_guard_needs_a_topic_and_a_stream_no_number() -> None:
    guarded = {"nameServer": "h:1", "replayGuard": "G"}
    with pytest.raises(OptionError, match="replayGuard needs the option topic"):
        WriteTask(guarded | {"batchId": "1"}, BODY, overwrite=False, streaming=False)
    numbered = guarded | {"topic": "T", "batchId": "1"}
    with pytest.raises(OptionError, match="batchId is for batch writes"):
        WriteTask(numbered, BODY, overwrite=False, streaming=True)
