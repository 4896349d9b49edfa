from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat.java import DefaultMQProducer
from embedded_broker import EmbeddedBroker, VirtualClock


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), tcp=False, topics={"T": 8}) as started:
        yield started


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Iterator[DefaultMQProducer]:
    made = DefaultMQProducer("shop")
    made.setNamesrvAddr(broker.namesrv_addr)
    made.start()
    yield made
    made.shutdown()
