"""Waiting for the state of a broker without sleeping: it is looked at after each entry."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from embedded_broker import EmbeddedBroker
from embedded_broker.ha.service import HAService
from tests.unit.embedded_broker.ha.raw_slave import HANG_GUARD_S


def wait_until(broker: EmbeddedBroker, condition: Callable[[], bool]) -> None:
    """Return when a condition holds after some entry through the door."""
    entered = Event()
    door = broker._parts().door
    door.watch(entered)
    try:
        while not condition():
            assert entered.wait(HANG_GUARD_S)
            entered.clear()
    finally:
        door.unwatch(entered)


def service_of(broker: EmbeddedBroker) -> HAService:
    """What knows the slaves of a broker."""
    service = broker._parts().durability.replication.slaves
    assert isinstance(service, HAService)
    return service
