"""Under access control a read needs a right for the group that it names, and for no other one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from embedded_broker import EmbeddedBroker, PlainAccount, PlainAcl, VirtualClock
from rocketmq_py import RocketMQError
from spark_connector.reading.batch_reader import BatchReader

BODY = StructType([StructField("body", BinaryType())])


def acl_of(group: str) -> PlainAcl:
    """Let an account read T in the name of one group."""
    reader = PlainAccount(
        access_key="reader-of-T",
        secret_key="hush-hush",
        default_topic_perm="DENY",
        default_group_perm="DENY",
        topic_perms={"T": "SUB"},
        group_perms={group: "SUB"},
    )
    return PlainAcl(accounts=[reader])


@pytest.fixture(params=["TOOLS_CONSUMER", "Readers"])
def group(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(group: str) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), topics=["T"], acl=acl_of(group)) as started:
        for number in range(3):
            started.send("T", b"%d" % number, queue=0)
            started.clock.advance(1)
        yield started


def read(broker: EmbeddedBroker, **options: str) -> list[bytes]:
    """Read from the second message on, by its time, which is looked up."""
    given = {"nameServer": broker.namesrv_addr, "subscribe": "T", "accessKey": "reader-of-T"}
    given |= {"secretKey": "hush-hush", "startingTimestamp": str(broker.clock.now_ms - 2_000)}
    reader = BatchReader(given | options, BODY)
    batches = [batch for one in reader.partitions() for batch in reader.read(one)]
    return [body for batch in batches for body in batch.column(0).to_pylist()]


def test_a_read_asks_in_the_name_of_its_group_alone(broker: EmbeddedBroker, group: str) -> None:
    named = {"groupId": "Readers"}
    right, wrong = (named, {}) if group == "Readers" else ({}, named)
    assert read(broker, **right) == [b"1", b"2"]
    with pytest.raises(RocketMQError, match="Readers" if wrong else "TOOLS_CONSUMER"):
        read(broker, **wrong)
