"""The topics of a broker: made, looked up, listed, counted."""

import pytest

from embedded_broker import EmbeddedBroker, TopicSpec
from embedded_broker.errors import StoreError
from rocketmq_py.errors import ConfigError


def test_topics_are_created_found_and_listed_in_order(broker: EmbeddedBroker) -> None:
    broker.topics.create("Orders", queues=8, message_type="DELAY")

    assert broker.topics.names() == ["T", "Orders"]
    assert list(broker.topics) == ["T", "Orders"]
    assert broker.topics["Orders"].queues == 8
    assert broker.topics["T"].queues == 4
    assert "Orders" in broker.topics
    assert "Order" not in broker.topics
    assert "T, Orders" in repr(broker.topics)


def test_an_unknown_topic_is_a_key_error_that_names_the_nearest(broker: EmbeddedBroker) -> None:
    broker.topics.create("Orders")

    with pytest.raises(KeyError, match="did you mean 'Orders'"):
        broker.topics["Order"]
    with pytest.raises(KeyError, match="no topic 'nothing-like-it'"):
        broker.messages.in_topic("nothing-like-it")


def test_a_topic_no_broker_would_accept_is_refused(broker: EmbeddedBroker) -> None:
    with pytest.raises(ConfigError, match="illegal characters"):
        broker.topics.create("a b")


def test_topics_given_at_construction_may_be_described_whole() -> None:
    spec = TopicSpec("Delayed", queues=2, message_type="DELAY")
    with EmbeddedBroker(tcp=False, topics=[spec]) as broker:
        assert broker.topics["Delayed"].queues == 2
        config = broker._parts().tables.topics.get("Delayed")
        assert config is not None
        assert config.attributes == {"message.type": "DELAY"}


def test_counts_and_offsets_grow_with_what_is_visible(broker: EmbeddedBroker) -> None:
    for _ in range(3):
        broker.send("T", b"x", queue=2)
    broker.send("T", b"later", delay=5)

    topic = broker.topics["T"]

    assert topic.count() == 3
    assert [topic.max_offset(queue) for queue in range(4)] == [0, 0, 3, 0]
    assert topic.max_offset() == 0
    assert repr(topic) == "<topic T: 4 queues, 3 messages>"


def test_a_batch_topic_is_made_once_and_never_becomes_another(broker: EmbeddedBroker) -> None:
    for queues in (1, 2):
        broker.topics.create("B", queues=queues, queue_type="BatchCQ")
    with pytest.raises(StoreError, match=r"queue.type is fixed"):
        broker.topics.create("B", queue_type="SimpleCQ")
    with pytest.raises(ConfigError, match="queue_type"):
        broker.topics.create("C", queue_type="Batch")  # type: ignore[arg-type]


def test_4_9_has_no_batch_topics() -> None:
    with pytest.raises(ConfigError, match="rocketmq-5"):
        EmbeddedBroker(
            profile="rocketmq-4.9", topics=[TopicSpec("B", queue_type="BatchCQ")]
        ).start()
