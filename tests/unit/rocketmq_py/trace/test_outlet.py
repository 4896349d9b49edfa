"""How trace messages are sent: what they carry, and that their end waits for no broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import ClientClosedError, ClientConfig, NoRouteError
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.pool import acquire_instance
from rocketmq_py.protocol.handles import UniqIdGenerator
from rocketmq_py.trace.outlet import InstanceOutlet
from tests.waiting import until

SEND = "SEND_MESSAGE_V2"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["Way"]) as started:
        yield started


@pytest.fixture
def instance(broker: EmbeddedBroker) -> Iterator[ClientInstance]:
    made = acquire_instance(ClientConfig(namesrv_addr=broker.namesrv_addr))
    made.start()
    yield made
    made.shutdown()


@pytest.fixture
def outlet(instance: ClientInstance) -> InstanceOutlet:
    return InstanceOutlet(instance, "shop", "PRODUCE", UniqIdGenerator())


def test_a_message_carries_keys_an_id_of_its_own_and_the_group_of_traces(
    broker: EmbeddedBroker, outlet: InstanceOutlet
) -> None:
    outlet.send("Way", ["ID1", "k"], b"records")
    (stored,) = broker.messages.in_topic("Way")
    assert (stored.body, stored.keys) == (b"records", ("ID1", "k"))
    assert stored.properties["WAIT"] == "true"
    assert stored.msg_id
    (request,) = broker.journal.requests(code=SEND, topic="Way")
    assert request.fields["a"].startswith("_INNER_TRACE_PRODUCER-shop-PRODUCE-")


def test_a_topic_that_nobody_has_is_an_error() -> None:
    with EmbeddedBroker(config={"autoCreateTopicEnable": False}) as strict:
        elsewhere = acquire_instance(ClientConfig(namesrv_addr=strict.namesrv_addr))
        elsewhere.start()
        outlet = InstanceOutlet(elsewhere, "shop", "PRODUCE", UniqIdGenerator())
        with pytest.raises(NoRouteError, match=r"no route of topic Way.*create the topic"):
            outlet.send("Way", ["ID1"], b"records")
        elsewhere.shutdown()


def test_a_send_that_waits_for_a_silent_broker_ends_with_its_client(
    broker: EmbeddedBroker, instance: ClientInstance, outlet: InstanceOutlet
) -> None:
    fault = broker.faults.on(SEND, topic="Way").drop().always()
    errors: list[BaseException] = []

    def send() -> None:
        try:
            outlet.send("Way", ["ID1"], b"records")
        except BaseException as error:  # noqa: BLE001 - shown below
            errors.append(error)

    sending = threading.Thread(target=send)
    sending.start()
    until(lambda: fault.hits)
    outlet.stop()
    sending.join(60)
    assert [type(one) for one in errors] == [ClientClosedError]
    assert instance.is_running  # of other clients
    fault.end()
    with pytest.raises(ClientClosedError):
        outlet.send("Way", ["ID2"], b"records")
    assert broker.messages.in_topic("Way") == []
