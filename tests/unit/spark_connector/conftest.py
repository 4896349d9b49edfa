"""Stored records as a broker would hand them out.

The test modules of this folder that need pyarrow (extra `spark`) are skipped without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import QueueAccess
from rocketmq_py.protocol.properties import encode_properties
from tests.records import encode_record

RecordMaker = Callable[..., bytes]


def record(
    offset: int = 0,
    body: bytes = b"body",
    properties: dict[str, str] | bytes | None = None,
    *,
    topic: str = "T",
    queue_id: int = 1,
    flag: int = 0,
    sys_flag: int = 0,
    born_host: bytes = bytes([127, 0, 0, 1, 0, 0, 4, 210]),
    store_timestamp: int = 1_700_000_000_123,
) -> bytes:
    """One stored record."""
    encoded = properties if isinstance(properties, bytes) else encode_properties(properties or {})
    return encode_record(
        topic=topic,
        queue_id=queue_id,
        flag=flag,
        queue_offset=offset,
        commit_log_offset=1000 * offset,
        sys_flag=sys_flag,
        born_timestamp=1_700_000_000_001,
        born_host=born_host,
        store_timestamp=store_timestamp,
        store_host=bytes([10, 0, 0, 7, 0, 0, 42, 159]),
        reconsume_times=2,
        prepared_transaction_offset=0,
        body=body,
        properties=encoded,
    )


@pytest.fixture
def make_record() -> RecordMaker:
    return record


@pytest.fixture
def access(broker: EmbeddedBroker) -> Iterator[QueueAccess]:
    """Queues of the broker that a module's own fixture starts."""
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as started:
        yield started


@pytest.fixture
def task() -> Iterator[dict[str, str]]:
    """Be a task with these local properties, as a worker of Spark is one."""
    from pyspark import TaskContext

    context = TaskContext()  # which is from here on the task of this process
    context._partitionId = 0
    context._localProperties = {}
    yield context._localProperties
    TaskContext._setTaskContext(None)


@pytest.fixture(autouse=True)
def no_connection_is_left() -> Iterator[None]:
    """Close what a test opened through the connector, which keeps connections for the next task."""
    yield
    access = sys.modules.get("spark_connector.servers.access")
    if access is not None:
        access.close_all()
