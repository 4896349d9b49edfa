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


def test_requests_are_signed_with_the_keys_of_the_moment(broker: EmbeddedBroker) -> None:
    properties = Properties({PropertyKeyConst.NAMESRV_ADDR: broker.namesrv_addr})
    properties.put(PropertyKeyConst.AccessKey, "first")
    properties.put(PropertyKeyConst.SecretKey, "hidden")
    with ONSFactory.createProducer(properties) as producer:
        # What the SDK asks before it signs a request.
        current = producer._producer.credentials
        assert callable(current)
        assert current() == Credentials("first", "hidden")
        producer.send(Message("TopicTestMQ", "TagA", b"x"))
        producer.updateCredential({"AccessKey": "second", "SecretKey": "hidden"})
        assert current() == Credentials("second", "hidden")
        producer.send(Message("TopicTestMQ", "TagA", b"x"))
        with pytest.raises(ONSClientException, match="SecretKey"):
            producer.update_credential({"AccessKey": "third"})
    assert "hidden" not in broker.journal.dump()
    with (
        ONSFactory.createProducer({"NAMESRV_ADDR": broker.namesrv_addr}) as keyless,
        pytest.raises(ONSClientException, match="without keys"),
    ):
        keyless.update_credential({"AccessKey": "a", "SecretKey": "b"})
