"""A read that begins where a group stands loses messages as loudly as one that names offsets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import MessageQueue, QueueAccess
from spark_connector.errors import RocketMQDataLossError
from spark_connector.reading.batch_reader import BatchReader
from spark_connector.reading.stream_reader import StreamReader

SCHEMA = StructType([StructField("offset", LongType())])
QUEUE = MessageQueue("T", "broker-a", 0)
AT = 3
STARTS = {
    "a group": {"startingOffsets": "group", "groupId": "G", "commitOffsets": "false"},
    "an offset": {"startingOffsets": f'{{"T":{{"0":{AT}}}}}'},
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker whose first messages are too old, and a group that was about to read them."""
    clock = VirtualClock()
    every_hour = ";".join(f"{hour:02}" for hour in range(24))
    small = {"mappedFileSizeCommitLog": 4096, "deleteWhen": every_hour}
    with EmbeddedBroker(clock=clock, config=small) as started:
        started.topics.create("T", queues=1)
        for number in range(80):
            if number == 60:
                clock.advance(days=4)
            started.send("T", b"%d" % number)
        with QueueAccess(namesrv_addr=started.namesrv_addr) as access:
            access.read_queues("T")
            access.pull(QUEUE, 0, group="G").result(30)
            access.store_group_offset("G", QUEUE, AT)
        clock.advance(hours=1, age=True)
        yield started


def batch(broker: EmbeddedBroker, given: dict[str, str]) -> list[int]:
    options = {"nameServer": broker.namesrv_addr, "subscribe": "T"} | given
    options = {name: text for name, text in options.items() if name != "commitOffsets"}
    reader = BatchReader(options, SCHEMA)
    return [
        one
        for part in reader.partitions()
        for found in reader.read(part)
        for one in found.column("offset").to_pylist()
    ]


def stream(broker: EmbeddedBroker, given: dict[str, str]) -> list[int]:
    reader = StreamReader({"nameServer": broker.namesrv_addr, "subscribe": "T"} | given, SCHEMA)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    return [
        one
        for part in reader.partitions(start, end)
        for found in reader.read(part)
        for one in found.column("offset").to_pylist()
    ]


@pytest.mark.case("SP18", "SP53")
@pytest.mark.parametrize("read", [batch, stream])
@pytest.mark.parametrize("start", STARTS)
def test_messages_that_a_start_wants_and_that_are_gone_are_a_loss(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture, read: type, start: str
) -> None:
    low = int(broker.messages.in_topic("T")[0].body)
    assert AT < low < 70
    with pytest.raises(RocketMQDataLossError, match=f"offsets {AT} to {low} were wanted"):
        read(broker, STARTS[start])
    caplog.clear()
    found = read(broker, STARTS[start] | {"failOnDataLoss": "false"})
    assert found == list(range(low, 80))
    told = [one.getMessage() for one in caplog.records if "data loss" in one.getMessage()]
    assert len(told) == 1
    assert told[0].endswith(f"{low - AT} offsets skipped")
