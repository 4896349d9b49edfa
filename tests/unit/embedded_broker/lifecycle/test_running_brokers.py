"""Brokers that run together start and end in order, or not at all."""

from pathlib import Path
from threading import enumerate as threads

import pytest

from embedded_broker import EmbeddedCluster
from embedded_broker.errors import StoreLockedError
from embedded_broker.lifecycle.running_brokers import port_of


def test_when_one_broker_cannot_start_none_is_left_running(tmp_path: Path) -> None:
    before = set(threads())
    with EmbeddedCluster(brokers=1, store=tmp_path / "broker-b", tcp=False) as holder:
        cluster = EmbeddedCluster(brokers=3, store=tmp_path)

        with pytest.raises(StoreLockedError, match="broker-a at inproc"):
            cluster.start()

        assert not any(broker.is_running for broker in cluster.brokers)
        assert holder.brokers[0].is_running
    with cluster:
        assert all(broker.is_running for broker in cluster.brokers)
    assert set(threads()) <= before


@pytest.mark.parametrize(("address", "port"), [("127.0.0.1:9876", 9876), ("[::1]:5", 5), ("", 0)])
def test_the_port_of_an_address(address: str, port: int) -> None:
    assert port_of(address) == port
