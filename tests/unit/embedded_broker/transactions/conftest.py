"""The started brokers and connections of the handlers' tests, here too."""

from tests.unit.embedded_broker.handlers.conftest import broker, connect, peer, start_broker

__all__ = ["broker", "connect", "peer", "start_broker"]
