"""A row that cannot be a message lies in another topic with all that identifies it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from embedded_broker import EmbeddedBroker, StoredMessage, VirtualClock
from rocketmq_py import QueueAccess
from spark_connector.options.write_options import write_options
from spark_connector.writing.encoding import BODY_SIZE_MAX
from spark_connector.writing.sending import Report, Sender
from spark_connector.writing.write_columns import check_columns

MIB = 1024 * 1024


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), topics=["T", "Bad"]) as started:
        yield started


def send(
    broker: EmbeddedBroker,
    columns: dict[str, pa.Array],
    dedupe: str | None = None,
    **given: str,
) -> Report:
    texts = {"nameServer": "h:1", "onInvalidRow": "topic", "invalidRowTopic": "Bad"}
    if "topic" not in columns:
        texts["topic"] = "T"
    options = write_options(texts | given, streaming=False)
    batch = pa.RecordBatch.from_pydict(columns)
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        sender = Sender(access, options, check_columns(batch.schema, options), dedupe=dedupe)
        sender.send(batch)
        return sender.finish()


def bad_ones(broker: EmbeddedBroker) -> dict[str, StoredMessage]:
    """The messages of the topic for invalid rows by their key."""
    return {one.properties["KEYS"]: one for one in broker.messages.in_topic("Bad")}


@pytest.mark.case("SP27")
@pytest.mark.parametrize("batch_send", ["true", "false"])
def test_what_the_body_was_is_told_where_it_could_not_be_stored_as_it_was(
    broker: EmbeddedBroker, batch_send: str
) -> None:
    bodies = [b"good", None, b"", b"?", b"x" * (5 * MIB), b"good too"]
    tags = ["t", "t", "t", "a|b", "t", "t"]
    report = send(
        broker,
        {
            "body": pa.array(bodies, pa.binary()),
            "keys": pa.array(["k0", "null", "empty", "mark", "large", "k5"]),
            "tags": pa.array(tags),
        },
        batchSend=batch_send,
    )
    assert (report.stored, report.redirected, report.skipped) == (6, 4, 0)
    assert {one.body for one in broker.messages.in_topic("T")} == {b"good", b"good too"}
    found = bad_ones(broker)
    assert {
        key: (one.body[:1], len(one.body), one.properties.get("ORIGINAL_BODY"))
        for key, one in found.items()
    } == {
        "null": (b"?", 1, "null"),
        "empty": (b"?", 1, "empty"),
        "mark": (b"?", 1, None),
        "large": (b"x", BODY_SIZE_MAX, f"{5 * MIB} bytes"),
    }
    assert {one.properties["ORIGINAL_TOPIC"] for one in found.values()} == {"T"}
    assert found["null"].properties["INVALID_REASON"] == "body is null"


@pytest.mark.case("SP27")
def test_properties_with_a_reserved_name_are_the_reason_and_stay_away(
    broker: EmbeddedBroker,
) -> None:
    properties = pa.array([[("KEYS", "forged"), ("mine", "v")]], pa.map_(pa.string(), pa.string()))
    report = send(
        broker, {"body": pa.array(["b"]), "keys": pa.array(["k"]), "properties": properties}
    )
    assert report.redirected == 1
    (one,) = broker.messages.in_topic("Bad")
    assert (one.body, one.properties["KEYS"]) == (b"b", "k")
    assert "reserves" in one.properties["INVALID_REASON"]
    assert "mine" not in one.properties


def test_every_text_is_cleaned_and_cut_so_that_the_message_can_be_stored(
    broker: EmbeddedBroker,
) -> None:
    report = send(
        broker,
        {
            "body": pa.array(["control", "long", "nowhere"]),
            "topic": pa.array(["T", "bad topic!", None]),
            "keys": pa.array([["a\x01b", "c\x02d\x00"], ["ö" * 60_000], []]),
        },
    )
    assert report.redirected == 3
    control, long, nowhere = (
        {one.body: one.properties for one in broker.messages.in_topic("Bad")}[body]
        for body in (b"control", b"long", b"nowhere")
    )
    assert control["KEYS"] == "a b c d"
    assert control["ORIGINAL_TOPIC"] == "T"
    assert long["KEYS"] == "ö" * 2_000
    assert long["ORIGINAL_TOPIC"] == "bad topic!"
    assert "KEYS" not in nowhere
    assert "ORIGINAL_TOPIC" not in nowhere
    assert nowhere["INVALID_REASON"] == "topic is null"


def test_ids_against_repetition_come_along_given_or_made(broker: EmbeddedBroker) -> None:
    bodies = pa.array([b"good", None], pa.binary())
    send(broker, {"body": bodies, "dedupe_key": pa.array(["d0", "d1\x02"])})
    send(broker, {"body": bodies}, dedupe="q-3-0")
    send(broker, {"body": bodies})
    given, made, none = (one.properties for one in broker.messages.in_topic("Bad"))
    assert given["DEDUPE_ID"] == "d1"
    assert made["DEDUPE_ID"].startswith("q-3-0-1-")
    assert "DEDUPE_ID" not in none
