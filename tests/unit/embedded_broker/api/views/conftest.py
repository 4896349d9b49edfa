"""One broker on a frozen clock, without sockets."""

from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def broker(clock: VirtualClock) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"], seed=1) as broker:
        yield broker
