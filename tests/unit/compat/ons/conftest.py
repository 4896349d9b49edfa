from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat.ons import ONSFactory, Producer, PropertyKeyConst
from embedded_broker import EmbeddedBroker, TopicSpec, VirtualClock
from tests.unit.compat.ons.ons_bench import ONE_QUEUE


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        clock=VirtualClock(),
        tcp=False,
        config={"timerMaxDelaySec": 60 * 86400},
        topics=["TopicTestMQ", "TopicTestMQ-Other", TopicSpec(ONE_QUEUE, queues=1)],
    ) as started:
        yield started


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Iterator[Producer]:
    made = ONSFactory.create_producer({PropertyKeyConst.NAMESRV_ADDR: broker.namesrv_addr})
    with made:
        yield made
