"""A broker with gRPC for all tests of a module, and clients of single calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock

if TYPE_CHECKING:  # where grpc is missing this file is read all the same
    from tests.unit.embedded_broker.grpc.raw_client import RawClient

Open = Callable[..., "RawClient"]
_names = count(1)


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedBroker]:
    """One broker on a frozen clock; each test has topics and groups of its own."""
    with EmbeddedBroker(grpc=True, clock=VirtualClock(), tcp=False) as broker:
        yield broker


@pytest.fixture
def broker(shared: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    """The shared broker; faults and journal of this test only."""
    shared.journal.clear()
    yield shared
    shared.faults.clear()


@pytest.fixture
def open_client() -> Iterator[Open]:
    """Makes clients, which end with the test."""
    from tests.unit.embedded_broker.grpc.raw_client import RawClient

    opened: list[RawClient] = []

    def make(broker: EmbeddedBroker, client_id: str | None = None, **headers: str) -> RawClient:
        opened.append(RawClient(broker.endpoints, client_id, **headers))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def client(broker: EmbeddedBroker, open_client: Open) -> RawClient:
    """One client of the shared broker."""
    return open_client(broker)


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    """A topic of four queues that takes messages of every type."""
    name = f"T{next(_names)}"
    broker.topics.create(name)
    return name


@pytest.fixture
def queue(broker: EmbeddedBroker) -> str:
    """Such a topic of one queue."""
    name = f"Q{next(_names)}"
    broker.topics.create(name, queues=1)
    return name


@pytest.fixture
def group() -> str:
    """A group that nobody else is in."""
    return f"G{next(_names)}"
