"""The bench of the endpoint takes its figures of calls that go all the way, and asserts nothing."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.rpc import Rpc
from tests.perf import grpc_calls
from tests.unit.embedded_broker.grpc.conftest import Open


@pytest.mark.case("G79")
def test_its_sends_are_stored_and_its_receives_wait(open_client: Open) -> None:
    with EmbeddedBroker(grpc=True) as broker:
        grpc_calls.create_topic(broker.addr)
        clients = [open_client(broker) for _ in range(3)]
        clients[0].be_consumer("Waits0", grpc_calls.TOPIC)
        begun = grpc_calls.wait_for_messages(clients[0], 20)
        broker.wait_for(lambda _: [one.waiting for one in broker.grpc_clients()] == [20])
        for one in begun:
            one.cancel()
        assert grpc_calls.send_ms(clients[0], 5) > 0
        assert grpc_calls.send_rate(clients, 6) > 0
        assert len(broker.journal.requests(code=Rpc.SEND_MESSAGE)) == 11
        assert broker.topics[grpc_calls.TOPIC].count() == 11
