"""Every row of a batch is told where it went, or why it did not."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import QueueAccess
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.options.write_options import write_options
from spark_connector.writing.row_answers import Answers
from spark_connector.writing.sending import Sender
from spark_connector.writing.write_columns import check_columns


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock()) as started:
        for topic in ("T", "U", "Bad"):
            started.topics.create(topic, queues=2)
        yield started


def told(
    access: QueueAccess, *batches: dict[str, list[object]], **given: object
) -> list[list[dict[str, object]]]:
    texts = {"nameServer": "h:1"} | {name: str(one) for name, one in given.items()}
    options = write_options(texts, streaming=False)
    frames = [pa.RecordBatch.from_pydict(one) for one in batches]
    answers = Answers()
    meanings = check_columns(frames[0].schema, options)
    sender = Sender(access, options, meanings, answers=answers)
    found = []
    for frame in frames:
        if sender.send(frame):
            sender.settle()
        found.append(answers.take(frame.num_rows, sender.report.failure).to_pylist())
    return found


def test_rows_of_batches_are_told_their_own_places(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    bodies = [b"%03d" % number for number in range(50)]
    topics = ["T" if number % 3 else "U" for number in range(50)]
    given: dict[str, list[object]] = {"body": [*bodies], "topic": [*topics]}
    first, second = told(access, given, given)
    assert len(first) == len(second) == 50
    for rows in (first, second):
        for topic, row in zip(topics, rows, strict=True):
            assert (row["topic"], row["status"], row["problem"]) == (topic, "SEND_OK", None)
            assert (row["broker_name"], row["recall_handle"]) == ("broker-a", None)
    stored = {
        (topic, one.queue_id, one.offset): (one.body, one.msg_id)
        for topic in ("T", "U")
        for one in broker.messages.in_topic(topic)
    }
    assert len(stored) == 100
    for body, row in zip(bodies * 2, first + second, strict=True):
        assert stored[row["topic"], row["queue_id"], row["offset"]] == (body, row["message_id"])  # type: ignore[index]


def test_a_delayed_row_has_a_handle_and_no_offset_yet(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    ((now, later),) = told(access, {"body": [b"a", b"b"], "delay_ms": [None, 5_000]}, topic="T")
    assert (now["offset"], now["recall_handle"]) == (0, None)
    assert (later["offset"], later["status"], later["topic"]) == (None, "SEND_OK", "T")
    assert later["recall_handle"]
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(6)
    assert {one.msg_id for one in broker.messages.in_topic("T")} == {
        now["message_id"],
        later["message_id"],
    }


def test_rows_that_are_no_messages_are_told_why(access: QueueAccess) -> None:
    bodies: list[object] = [b"a", None, b"c"]
    ((one, two, three),) = told(access, {"body": bodies}, topic="T", onInvalidRow="skip")
    assert (one["status"], three["status"]) == ("SEND_OK", "SEND_OK")
    assert (two["status"], two["problem"]) == ("SKIPPED", "body is null")
    assert (two["message_id"], two["queue_id"], two["offset"]) == (None, None, None)
    ((_, two, _),) = told(
        access, {"body": bodies}, topic="T", onInvalidRow="topic", invalidRowTopic="Bad"
    )
    assert (two["status"], two["topic"], two["offset"]) == ("REDIRECTED", "Bad", 0)
    assert (two["problem"], two["message_id"]) == ("body is null", None)


def test_after_the_row_that_ends_the_send_nothing_counts_as_sent(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    good: dict[str, list[object]] = {"body": [b"a", b"b"]}
    bad: dict[str, list[object]] = {"body": [b"c", b""]}
    before, ended, after = told(access, good, bad, good, topic="T")
    assert [row["status"] for row in before] == ["SEND_OK", "SEND_OK"]
    assert [row["status"] for row in ended] == ["NOT_SENT", "INVALID"]
    assert [row["status"] for row in after] == ["NOT_SENT", "NOT_SENT"]
    for row in ended + after:
        assert "row 3: body is empty" in str(row["problem"])
        assert row["message_id"] is row["topic"] is None
    assert len(broker.messages.in_topic("T")) == 2


def test_a_topic_that_refuses_leaves_its_rows_unsent(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    refused = broker.faults.on(RequestCode.SEND_BATCH_MESSAGE).always()
    refused.respond(ResponseCode.MESSAGE_ILLEGAL, remark="no")
    (rows,) = told(access, {"body": [b"a", b"b"]}, topic="T")
    assert {row["status"] for row in rows} == {"NOT_SENT"}
    assert all("no" in str(row["problem"]) for row in rows)
