"""What a test sees of a broker: topics, messages, timers, and sending without a client."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from attrs import frozen

from embedded_broker import EmbeddedBroker, RecallOutcome, TopicSpec, VirtualClock
from rocketmq_py.errors import ConfigError, MQBrokerException


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def broker(clock: VirtualClock) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"], seed=1) as broker:
        yield broker


def bodies(broker: EmbeddedBroker, topic: str = "T") -> list[bytes]:
    return [message.body for message in broker.messages.in_topic(topic)]


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
        config = broker._core().topics.get("Delayed")
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


def test_messages_come_in_the_order_in_which_they_were_stored(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    for number in range(9):
        broker.send("T", str(number).encode())
        clock.advance(1)

    assert bodies(broker) == [str(number).encode() for number in range(9)]


def test_a_stored_message_carries_what_a_consumer_would_get(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    sent = broker.send(
        "T", b"body", tags="TagA", keys="k1 k2", queue=3, properties={"colour": "red"}
    )

    (message,) = broker.messages.in_topic("T")

    assert (message.topic, message.queue_id, message.offset) == ("T", 3, 0)
    assert (message.body, message.tags, message.keys) == (b"body", "TagA", ("k1", "k2"))
    assert message.properties["colour"] == "red"
    assert message.message_id == sent.msg_id
    assert message.born_at == message.stored_at == clock.now()
    assert "<4 bytes>" in repr(message)


def test_a_topic_larger_than_one_hold_of_the_door_is_read_whole(broker: EmbeddedBroker) -> None:
    for number in range(2000):
        broker.send("T", str(number).encode(), queue=0)

    assert len(broker.messages.in_topic("T")) == 2000


def test_every_way_to_ask_for_delay_waits_for_its_time(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    broker.send("T", b"seconds", delay=1.5)
    broker.send("T", b"span", delay=timedelta(minutes=1))
    broker.send("T", b"instant", delay=None, deliver_at=clock.now() + timedelta(seconds=30))
    broker.send("T", b"level", delay_level=3)
    broker.send("T", b"property", properties={"__STARTDELIVERTIME": str(clock.now_ms + 2000)})
    assert broker.timers.count() == broker.timers.count(topic="T") == 5
    assert broker.timers.count(topic="other") == 0
    assert repr(broker.timers) == "<timers: 5 pending>"

    clock.advance(60)

    assert bodies(broker) == [b"seconds", b"property", b"level", b"instant", b"span"]
    assert broker.timers.count() == 0


def test_two_delays_at_once_are_refused(broker: EmbeddedBroker) -> None:
    with pytest.raises(ConfigError, match="one of delay, delay_level and deliver_at"):
        broker.send("T", b"x", delay=1, delay_level=1)


def test_what_the_broker_refuses_is_raised_with_code_and_remark(broker: EmbeddedBroker) -> None:
    with pytest.raises(MQBrokerException) as caught:
        broker.send("T", b"x", delay=timedelta(days=30))

    assert caught.value.code == 13
    assert caught.value.broker_addr == broker.addr


def test_a_recalled_timer_is_never_delivered(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    by_object = broker.send("T", b"1", delay=10)
    by_key = broker.send("T", b"2", delay=10)
    by_offset_id = broker.send("T", b"3", delay=10)
    kept = broker.send("T", b"4", delay=10)

    assert broker.timers.recall(by_object) is RecallOutcome.RECALLED
    assert broker.timers.recall(by_key.msg_id, topic="T") is RecallOutcome.RECALLED
    assert broker.timers.recall(by_offset_id.offset_msg_id) is RecallOutcome.RECALLED
    assert broker.timers.count() == 1
    clock.advance(10)

    assert bodies(broker) == [b"4"]
    assert broker.timers.recall(kept) in {RecallOutcome.ALREADY_DUE, RecallOutcome.UNKNOWN}
    assert broker.timers.recall("7F00000100002A9F4D4B0000000000AB") is RecallOutcome.UNKNOWN
    assert broker.timers.recall("no id at all") is RecallOutcome.UNKNOWN


@frozen
class Received:
    """Anything with ``msg_id``, as a client's result or message."""

    msg_id: str


def test_anything_with_a_message_id_can_be_recalled(broker: EmbeddedBroker) -> None:
    sent = broker.send("T", b"x", delay=10)

    assert broker.timers.recall(Received(sent.msg_id)) is RecallOutcome.RECALLED
