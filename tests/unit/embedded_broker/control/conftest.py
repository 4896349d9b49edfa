"""A broker with an HTTP face, and who asks it; skipped without the extra `control`."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.control.http_peer import HttpPeer


@pytest.fixture(autouse=True)
def _needs_the_extra() -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")


@pytest.fixture
def broker(_needs_the_extra: None, start_broker: StartBroker) -> EmbeddedBroker:
    """A started broker on a frozen clock, with topic T."""
    return start_broker(control=True, topics=["T"])


@pytest.fixture
def control(broker: EmbeddedBroker) -> HttpPeer:
    return HttpPeer(broker.control_url)
