"""A broker with an HTTP face, and who asks it."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.control.http_peer import HttpPeer


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    """A started broker on a frozen clock, with topic T."""
    return start_broker(control=True, topics=["T"])


@pytest.fixture
def control(broker: EmbeddedBroker) -> HttpPeer:
    return HttpPeer(broker.control_url)
