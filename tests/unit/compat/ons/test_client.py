from __future__ import annotations

import pytest

from compat.ons import (
    Message,
    ONSClientException,
    ONSFactory,
    Properties,
    PropertyKeyConst,
    SendCallback,
)
from embedded_broker import EmbeddedBroker
from rocketmq_py import Credentials
from tests.unit.rocketmq_py.lookup_domain import lookup_domain


def test_a_client_that_is_not_running_says_so(broker: EmbeddedBroker) -> None:
    properties = {PropertyKeyConst.NAMESRV_ADDR: broker.namesrv_addr}
    producer = ONSFactory.create_producer(properties)
    message = Message("TopicTestMQ", "TagA", b"x")
    assert producer.isClosed()
    with pytest.raises(ONSClientException, match="not started"):
        producer.send(message)
    producer.start()
    producer.start()
    assert producer.isStarted()
    producer.shutdown()
    producer.shutdown()
    with pytest.raises(ONSClientException, match="shut down"):
        producer.send_async(message, SendCallback())
    with pytest.raises(ONSClientException, match="shut down"):
        producer.start()


def test_clients_find_their_name_servers_by_the_address_in_onsaddr(broker: EmbeddedBroker) -> None:
    with lookup_domain(broker.namesrv_addr) as domain:
        path = "/rocketmq/nsaddr4client-internal"
        properties = Properties({PropertyKeyConst.ONSAddr: f"http://{domain.address}{path}"})
        properties.put(PropertyKeyConst.GROUP_ID, "GID_shop")
        with ONSFactory.create_producer(properties) as producer:
            assert producer.send(Message("TopicTestMQ", "TagA", b"x")).getMessageId()
        with ONSFactory.create_consumer(properties) as consumer:
            domain.wait_for(2)
            assert consumer.isStarted()
        assert set(domain.paths) == {path}
        asked = len(domain.paths)
        properties.put(PropertyKeyConst.NAMESRV_ADDR, broker.namesrv_addr)
        with ONSFactory.create_producer(properties) as producer:
            producer.send(Message("TopicTestMQ", "TagA", b"x"))
        assert len(domain.paths) == asked


def test_an_onsaddr_that_names_no_name_server_is_an_error_of_the_send() -> None:
    with lookup_domain("<html>") as domain:
        properties = {PropertyKeyConst.ONSAddr: f"http://{domain.address}/rocketmq/nsaddr"}
        with (
            ONSFactory.create_producer(properties) as producer,
            pytest.raises(ONSClientException, match="tells no name server"),
        ):
            producer.send(Message("TopicTestMQ", "TagA", b"x"))
    with pytest.raises(ONSClientException, match="namesrv_domain = 'not an address'"):
        ONSFactory.create_producer({PropertyKeyConst.ONSAddr: "not an address"})


def test_requests_are_signed_with_the_keys_of_the_moment(broker: EmbeddedBroker) -> None:
    properties = Properties({PropertyKeyConst.NAMESRV_ADDR: broker.namesrv_addr})
    properties.put(PropertyKeyConst.AccessKey, "first")
    properties.put(PropertyKeyConst.SecretKey, "hidden")
    with ONSFactory.createProducer(properties) as producer:
        # What the SDK asks before it signs a request.
        current = producer.core.credentials
        assert callable(current)
        assert current() == Credentials("first", "hidden")
        producer.send(Message("TopicTestMQ", "TagA", b"x"))
        producer.updateCredential({"AccessKey": "second", "SecretKey": "hidden"})
        assert current() == producer.credentials == Credentials("second", "hidden")
        producer.send(Message("TopicTestMQ", "TagA", b"x"))
        with pytest.raises(ONSClientException, match="SecretKey"):
            producer.update_credential({"AccessKey": "third"})
    assert "hidden" not in broker.journal.dump()
    with pytest.raises(TypeError, match="AccessKey"):
        ONSFactory.createProducer({"AccessKey": None})
    with (
        ONSFactory.createProducer({"NAMESRV_ADDR": broker.namesrv_addr}) as keyless,
        pytest.raises(ONSClientException, match="without keys"),
    ):
        keyless.update_credential({"AccessKey": "a", "SecretKey": "b"})
