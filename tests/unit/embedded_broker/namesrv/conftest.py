"""The broker and the connections of the handler tests serve these tests too."""

from tests.unit.embedded_broker.handlers.conftest import broker, connect, start_broker

__all__ = ["broker", "connect", "start_broker"]
