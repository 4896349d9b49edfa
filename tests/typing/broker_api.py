"""What type checkers must infer for a test author who holds the embedded broker."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_type

from embedded_broker import Advanced, EmbeddedBroker, StoredMessage, VirtualClock


def starting() -> None:
    """A context manager that yields the broker itself."""
    clock = VirtualClock(rate=0)
    with EmbeddedBroker(clock=clock, topics=["T"]) as broker:
        assert_type(broker, EmbeddedBroker)
        assert_type(broker.namesrv_addr, str)
        assert_type(broker.messages.in_topic("T"), list[StoredMessage])
        assert_type(broker.timers.count(topic="T"), int)
        assert_type(clock.advance(timedelta(days=30)), Advanced)
        assert_type(clock.now_ms, int)
        assert_type(clock.now(), datetime)
