"""Rows about as large as a message may be reach a broker, whatever stands beside them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import QueueAccess
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.options.table import BATCH_BYTES_MOST
from spark_connector.options.write_options import write_options
from spark_connector.writing.encoding import BODY_SIZE_MAX, ITEM_OVERHEAD
from spark_connector.writing.sending import Report, Sender
from spark_connector.writing.write_columns import check_columns

ID_SIZE = len("UNIQ_KEY") + 1 + 32 + 1
LARGEST_IN_A_BATCH = BATCH_BYTES_MOST - ITEM_OVERHEAD - ID_SIZE
MIB = 1024 * 1024


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock()) as started:
        started.topics.create("T", queues=1)
        yield started


def send(broker: EmbeddedBroker, columns: dict[str, pa.Array], **given: object) -> Report:
    texts = {"nameServer": "h:1", "topic": "T"} | {name: str(one) for name, one in given.items()}
    options = write_options(texts, streaming=False)
    frame = pa.RecordBatch.from_pydict(columns)
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        sender = Sender(access, options, check_columns(frame.schema, options))
        sender.send(frame)
        return sender.finish()


def requests(broker: EmbeddedBroker) -> tuple[int, int]:
    """How many requests brought a single row, and how many a batch."""
    codes = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    single, batches = (len(broker.journal.requests(code=code)) for code in codes)
    return single, batches


@pytest.mark.case("SP13", "SP27")
@pytest.mark.parametrize("size", [BODY_SIZE_MAX, BODY_SIZE_MAX - 30, LARGEST_IN_A_BATCH + 1])
def test_a_row_that_no_batch_can_hold_goes_alone(broker: EmbeddedBroker, size: int) -> None:
    report = send(broker, {"body": pa.array([b"a", b"x" * size, b"b"])})
    assert (report.stored, report.failure) == (3, None)
    found = sorted(len(message.body) for message in broker.messages.in_topic("T"))
    assert found == [1, 1, size]
    assert requests(broker) == (1, 1)


@pytest.mark.case("SP13", "SP27")
def test_the_largest_row_that_fits_is_a_batch_of_one(broker: EmbeddedBroker) -> None:
    report = send(broker, {"body": pa.array([b"x" * LARGEST_IN_A_BATCH])})
    assert (report.stored, report.failure) == (1, None)
    assert requests(broker) == (0, 1)


@pytest.mark.case("SP13", "SP25")
def test_large_rows_of_one_key_keep_their_place(broker: EmbeddedBroker) -> None:
    large = b"x" * BODY_SIZE_MAX
    columns = {
        "body": pa.array([b"a", b"b", large, b"c", large, b"d"]),
        "sharding_key": pa.array(["k"] * 6),
    }
    assert send(broker, columns).stored == 6
    found = [message.body for message in broker.messages.in_topic("T")]
    assert found == columns["body"].to_pylist()
    assert requests(broker) == (2, 3)


@pytest.mark.case("SP27")
def test_properties_count_for_what_a_batch_can_hold(broker: EmbeddedBroker) -> None:
    body = pa.array([b"x" * (LARGEST_IN_A_BATCH - 100)] * 2)
    report = send(broker, {"body": body, "tags": pa.array(["t", "t" * 1_000])})
    assert (report.stored, report.failure) == (2, None)
    assert requests(broker) == (1, 1)


@pytest.mark.case("SP27")
def test_the_largest_batches_that_may_be_asked_for_are_stored(broker: EmbeddedBroker) -> None:
    body = pa.array([b"x" * MIB] * 8)
    assert send(broker, {"body": body}, batchBytes=BATCH_BYTES_MOST).stored == 8
    assert len(broker.messages.in_topic("T")) == 8
    assert requests(broker) == (0, 3)
