from __future__ import annotations

from typing import Any

import pytest

from compat.ons import Message, ONSClientException, ONSFactory, Properties, PropertyKeyConst
from embedded_broker import EmbeddedBroker


@pytest.mark.case("T85")
def test_a_producer_needs_no_group_and_a_consumer_needs_one(broker: EmbeddedBroker) -> None:
    properties = Properties({PropertyKeyConst.NAMESRV_ADDR: broker.namesrv_addr})
    with ONSFactory.createProducer(properties) as producer:
        assert producer.send(Message("TopicTestMQ", "TagA", b"x")).getTopic() == "TopicTestMQ"
    with pytest.raises(ONSClientException, match="GROUP_ID"):
        ONSFactory.createConsumer(properties)


@pytest.mark.parametrize("given", [None, [], 5, "GID_x"])
def test_what_is_no_mapping_is_refused_with_what_is_needed(given: Any) -> None:
    for make in (ONSFactory.createProducer, ONSFactory.createConsumer):
        with pytest.raises(TypeError, match=r"NAMESRV_ADDR or ONSAddr, and GROUP_ID.*not ") as told:
            make(given)
        assert str(told.value).endswith("None" if given is None else repr(given))
    producer = ONSFactory.create_producer({"AccessKey": "a", "SecretKey": "b"})
    with pytest.raises(TypeError, match="AccessKey and SecretKey, not"):
        producer.update_credential(given)


PAIRS = {
    "create_producer": "createProducer",
    "create_order_producer": "createOrderProducer",
    "create_transaction_producer": "createTransactionProducer",
    "create_consumer": "createConsumer",
    "create_batch_consumer": "createBatchConsumer",
    "create_ordered_consumer": "createOrderedConsumer",
    "create_pull_consumer": "createPullConsumer",
}


@pytest.mark.parametrize("name", PAIRS)
def test_every_client_is_made_under_either_spelling(name: str) -> None:
    arguments = [{"GROUP_ID": "GID_x"}, lambda _: None][: 2 if "transaction" in name else 1]
    made = [getattr(ONSFactory, one)(*arguments) for one in (name, PAIRS[name])]
    assert type(made[0]) is type(made[1])
    assert [one.isStarted() for one in made] == [False, False]
