"""A started broker on a frozen clock, and connections to it, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from tests.unit.embedded_broker.handlers.wire_peer import Connect, WirePeer

StartBroker = Callable[..., EmbeddedBroker]


@pytest.fixture
def start_broker() -> Iterator[StartBroker]:
    """Start brokers that are closed after the test; the message clock is frozen by default."""
    with ExitStack() as stack:

        def start(**arguments: Any) -> EmbeddedBroker:
            arguments.setdefault("clock", VirtualClock())
            return stack.enter_context(EmbeddedBroker(**{"seed": 1, **arguments}))

        yield start


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    """A started 5.x broker on a frozen clock."""
    return start_broker()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Open connections that are closed after the test."""
    with ExitStack() as stack:
        yield lambda address: stack.enter_context(WirePeer(address))


@pytest.fixture
def peer(broker: EmbeddedBroker, connect: Connect) -> WirePeer:
    """A connection to the broker of this test."""
    return connect(broker.addr)
