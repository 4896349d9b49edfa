"""Keys find the queue that a user asked for: by RocketMQ's hash, or by the one of Kafka's clients.

The numbers are those of `Utils.murmur2` of kafka-clients 3.9.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from embedded_broker import EmbeddedCluster
from rocketmq_py import MessageQueue
from rocketmq_py.raw import MessageIds, QueueAccess, RawMessages
from spark_connector.errors import SchemaError
from spark_connector.options.table import OPTIONS
from spark_connector.options.write_options import WriteOptions, write_options
from spark_connector.writing.encoding import Encoder
from spark_connector.writing.key_hash import HASH_OF, kafka_hash, murmur2
from spark_connector.writing.queue_choice import Places, QueueChoice
from spark_connector.writing.send_errors import Patience
from spark_connector.writing.write_columns import check_columns

LIKE_KAFKA = {
    "": 275646681,
    "a": -1563381124,
    "21": -973932308,
    "foobar": -790332482,
    "abc": 479470107,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "Ω-key-ß": -1279324923,
}
"""Key to the hash as Java prints it."""


@pytest.fixture
def access() -> Iterator[QueueAccess]:
    with EmbeddedCluster(brokers=2) as cluster:
        for broker in cluster.brokers:
            broker.topics.create("T", queues=4)
        with QueueAccess(namesrv_addr=cluster.namesrv_addr) as started:
            yield started


def options(**given: str) -> WriteOptions:
    return write_options({"nameServer": "h:1", "topic": "T"} | given, streaming=False)


def places(access: QueueAccess, chosen: WriteOptions, columns: dict[str, Any]) -> Places:
    batch = pa.RecordBatch.from_pydict(columns)
    encoder = Encoder(chosen, check_columns(batch.schema, chosen), MessageIds())
    choice = QueueChoice(
        access, Patience(0, 0.0), {}, True, "T", hash_of=HASH_OF[chosen.route_by_key]
    )
    return choice.places_of(encoder.encode(batch, 0))


@pytest.mark.parametrize("key", LIKE_KAFKA)
def test_a_key_has_the_number_that_kafkas_client_gives_it(key: str) -> None:
    assert LIKE_KAFKA[key] % (1 << 32) == murmur2(key.encode())
    assert LIKE_KAFKA[key] & 0x7FFF_FFFF == kafka_hash(key)


def test_every_way_to_route_has_its_hash() -> None:
    assert set(OPTIONS["routebykey"].values.split(", ")) == HASH_OF.keys()


def test_rows_go_where_their_key_says_and_others_anywhere(access: QueueAccess) -> None:
    queues = access.write_queues("T")
    assert len(queues) == 8
    columns = {
        "body": pa.array([b"x"] * 5),
        "key": pa.array(["foobar", None, "21", "foobar", ""]),
    }
    like_kafka = places(access, options(routeByKey="kafka"), columns)
    assert like_kafka.lanes == {0: queues[6], 2: queues[4], 3: queues[6], 4: queues[1]}
    like_rocketmq = places(access, options(routeByKey="RocketMQ"), columns)
    own = {key: queues[RawMessages.hash_of_key(key) % 8] for key in ("foobar", "21", "")}
    assert like_rocketmq.lanes == {0: own["foobar"], 2: own["21"], 3: own["foobar"], 4: own[""]}
    assert places(access, options(), columns).lanes == {}
    sharded = {"body": columns["body"], "sharding_key": columns["key"]}
    assert places(access, options(), sharded).lanes == like_rocketmq.lanes


def test_a_queue_that_a_row_names_wins_over_its_key(access: QueueAccess) -> None:
    columns = {
        "body": pa.array([b"x"] * 3),
        "keys": pa.array([["foobar"], ["foobar"], None], pa.list_(pa.string())),
        "partition": pa.array([3, None, None], pa.int32()),
    }
    found = places(access, options(routeByKey="kafka", usePartition="true"), columns).lanes
    assert found == {
        0: MessageQueue("T", "broker-a", 3),
        1: access.write_queues("T")[6],
    }


def test_routing_needs_a_key_and_only_one_kind_of_it() -> None:
    body, text = pa.field("body", pa.binary()), pa.string()
    chosen = options(routeByKey="kafka")
    with pytest.raises(SchemaError, match=r"routeByKey=kafka needs a column keys \(or key\)"):
        check_columns(pa.schema([body]), chosen)
    both = pa.schema([body, ("key", text), ("sharding_key", text)])
    with pytest.raises(SchemaError, match="sharding_key exclude each other"):
        check_columns(both, chosen)
    assert check_columns(both, options())["key"] == "keys"
