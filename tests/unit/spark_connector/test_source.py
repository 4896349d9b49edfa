"""The data source says what is wrong where Spark shows it, before anything is connected."""

from __future__ import annotations

import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import MessageQueue
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.decoding.decoder import Decoder
from spark_connector.errors import OptionError, SchemaError
from spark_connector.planning.stream_offset import StreamOffset
from spark_connector.reading import range_reader
from spark_connector.reading.stream_reader import StreamReader
from spark_connector.source import RocketMQDataSource

GUARD_S = 30.0
READ = {"nameServer": "h:1", "subscribe": "T"}
QUEUE = MessageQueue("T", "broker-a", 0)
OFFSETS = StructType([StructField("offset", LongType())])


@pytest.mark.case("SP21")
@pytest.mark.parametrize(
    ("extra", "error"),
    [
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger = '0': must be a whole number"),
        ({"sendRetries": "1"}, "sendRetries is not for"),
        ({"subscribe": ""}, "exactly one of subscribe"),
        ({"offsetPollInterval": "1"}, "unknown option offsetPollInterval"),
    ],
)
def test_the_error_of_a_read_is_about_what_the_options_are_for(
    extra: dict[str, str], error: str
) -> None:
    with pytest.raises(OptionError, match=error):
        RocketMQDataSource(READ | extra).schema()


def test_options_of_a_stream_and_of_a_batch_both_give_a_schema() -> None:
    for extra in ({"maxOffsetsPerTrigger": "5"}, {"endingOffsets": "latest"}):
        assert "`offset` BIGINT" in RocketMQDataSource(READ | extra).schema()


@pytest.mark.case("SP21")
@pytest.mark.parametrize(
    ("extra", "column", "error"),
    [
        ({"prefetsh": "4"}, "offset", OptionError),
        ({}, "offzet", SchemaError),
    ],
)
def test_a_stream_that_cannot_be_made_says_so_when_it_is_asked_for_something(
    extra: dict[str, str], column: str, error: type[Exception]
) -> None:
    schema = StructType([StructField(column, LongType())])
    reader = RocketMQDataSource(READ | extra).streamReader(schema)
    for call in (
        reader.initialOffset,
        reader.getDefaultReadLimit,
        reader.reportLatestOffset,
        reader.prepareForTriggerAvailableNow,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: reader.partitions({}, {}),
    ):
        with pytest.raises(error, match="did you mean"):
            call()
    reader.stop()
    good = RocketMQDataSource(READ).streamReader(OFFSETS)
    assert isinstance(good, StreamReader)


def test_a_column_of_another_type_is_refused_by_a_batch_at_once() -> None:
    with pytest.raises(SchemaError, match="offset cannot be string"):
        RocketMQDataSource(READ).reader(StructType([StructField("offset", StringType())]))


@pytest.mark.case("SP11")
@pytest.mark.parametrize(("column", "decodes"), [("body", False), ("tags", True)])
def test_a_read_decodes_properties_only_for_columns_that_need_them(
    monkeypatch: pytest.MonkeyPatch, column: str, decodes: bool
) -> None:
    made: list[Decoder] = []

    def noting(*given: Any, **named: Any) -> Decoder:
        made.append(Decoder(*given, **named))
        return made[-1]

    monkeypatch.setattr(range_reader, "Decoder", noting)
    with EmbeddedBroker() as broker:
        broker.topics.create("T", queues=2)
        for number in range(20):
            broker.send("T", b"m%d" % number, tags="A", properties={"p": "v"}, queue=number % 2)
        given = {"nameServer": broker.namesrv_addr, "subscribe": "T"}
        reader = RocketMQDataSource(given).reader(
            schema=StructType([*OFFSETS, StructField(column, StringType())])
        )
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert sum(batch.num_rows for batch in batches) == 20
    assert {batch.num_columns for batch in batches} == {2}
    assert made
    assert any(one.property_decodes for one in made) == decodes


@pytest.mark.case("SP54")
def test_a_stream_that_is_stopped_tells_its_group_what_it_could_not_tell_before() -> None:
    session = VirtualClock()
    with EmbeddedBroker(session_clock=session) as broker:
        broker.topics.create("T", queues=1)
        given = {"nameServer": broker.namesrv_addr, "subscribe": "T", "groupId": "G"}
        given |= {"startingOffsets": "earliest", "offsetPollIntervalMs": "1"}
        given["rocketmq.mqClientApiTimeout"] = "30000"
        reader = RocketMQDataSource(given).streamReader(OFFSETS)
        assert isinstance(reader, StreamReader)
        held = broker.faults.on(RequestCode.UPDATE_CONSUMER_OFFSET).delay(60)
        place, everything = reader.initialOffset(), ReadAllAvailable()
        group = reader._track()._group
        assert group is not None
        group._patience_s = 0.0

        def planned() -> int:
            end = StreamOffset.from_json(reader.latestOffset(place, everything))
            return end.topics[QUEUE]

        for count in (1, 2):
            broker.send("T", b"x", queue=0)
            broker.wait_for(partial(lambda n, _b: planned() == n, count))
            place = StreamOffset({QUEUE: count}).to_json()
            reader.latestOffset(place, everything)  # what the batch did is told now
            broker.wait_for(lambda _b: held.hits == 1)
        group._patience_s = GUARD_S
        session.advance(60)
        reader.stop()
        stored = broker.groups["G"].offsets(topic="T")
        assert [one.committed for one in stored] == [2]


@pytest.mark.case("SP78")
def test_a_reader_that_has_used_keys_of_a_file_does_not_carry_them(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"accessKey": "who", "secretKey": "hush"}), encoding="utf-8")
    with EmbeddedBroker(topics=["T"]) as broker:
        broker.send("T", b"x")
        options = {"nameServer": broker.namesrv_addr, "subscribe": "T"}
        source = RocketMQDataSource(options | {"credentialsFile": str(keys)})
        reader = source.reader(OFFSETS)
        (partition,) = reader.partitions()
        (batch,) = reader.read(partition)
        assert batch.num_rows == 1
        asked = [
            one for one in broker.journal._ring if one.entry().code == RequestCode.PULL_MESSAGE
        ]
        headers = [one.header for one in asked if isinstance(one.header, bytes)]
    assert headers
    assert all(b'"AccessKey":"who"' in one for one in headers)
    for carried in (source, reader, partition):
        assert b"hush" not in pickle.dumps(carried)
    told = RocketMQDataSource(options | {"accessKey": "who", "secretKey": "hush"})
    assert b"hush" in pickle.dumps(told.reader(OFFSETS)), "a secret can be found there"
