"""What is stored in a topic, as a consumer would get it."""

from datetime import timedelta

import pytest
from attrs import frozen

from embedded_broker import (
    EmbeddedBroker,
    MessageNotFound,
    RecallOutcome,
    VirtualClock,
    WaitTimeoutError,
)
from rocketmq_py import DefaultMQProducer, Message, SystemClock
from tests.unit.embedded_broker.api.views.manual_consumer import ManualConsumer


def bodies(broker: EmbeddedBroker, topic: str = "T") -> list[bytes]:
    return [message.body for message in broker.messages.in_topic(topic)]


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
    assert message.msg_id == sent.msg_id
    assert message.born_at == message.stored_at == clock.now()
    assert "body=b'body'" in repr(message)
    broker.send("T", bytes(65))
    assert "body=<65 bytes>" in repr(broker.messages.in_topic("T")[1])


def test_a_topic_larger_than_one_hold_of_the_door_is_read_whole(broker: EmbeddedBroker) -> None:
    for number in range(2000):
        broker.send("T", str(number).encode(), queue=0)

    assert len(broker.messages.in_topic("T")) == 2000


def test_pages_together_are_what_the_topic_holds(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    for number in range(7):
        broker.send("T", b"%d" % number, queue=number % 2)
        clock.advance(1)
    pages = [broker.messages.page("T", skip=skip, limit=3) for skip in (0, 3, 6, 9)]
    assert [one.count for one in pages] == [7] * 4
    found = [[one.body for one in page.messages] for page in pages]
    assert found == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6"], []]


@frozen
class Received:
    """Any object that a client library gives."""

    msg_id: str


def test_a_message_is_found_by_unique_id_offset_id_or_anything_that_has_an_id(
    broker: EmbeddedBroker,
) -> None:
    sent = broker.send("T", b"body", queue=2)
    broker.send("T", b"other")

    for one in (sent, sent.msg_id, sent.offset_msg_id, sent.offset_msg_id.lower()):
        assert broker.messages.by_id(one).body == b"body"
    assert broker.messages.by_id(Received(sent.offset_msg_id)).queue_id == 2


def test_a_timer_is_found_where_it_waits_and_then_in_its_topic(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    timer = broker.send("T", b"timer", delay=5)
    level = broker.send("T", b"level", delay_level=2)
    assert broker.messages.by_id(timer).topic == "rmq_sys_wheel_timer"
    assert broker.messages.by_id(level).topic == "SCHEDULE_TOPIC_XXXX"

    clock.advance(5)

    assert broker.messages.by_id(timer).topic == broker.messages.by_id(level).topic == "T"
    assert broker.messages.by_id(timer.offset_msg_id).topic == "rmq_sys_wheel_timer"


def test_the_newest_message_is_returned_when_an_id_was_sent_twice(broker: EmbeddedBroker) -> None:
    broker.topics.create("U")
    same = {"UNIQ_KEY": "SAME"}
    broker.send("U", b"1", properties=same)
    broker.send("T", b"2", properties=same)
    broker.send("T", b"3", delay=60, properties=same)

    assert broker.messages.by_id("SAME").body == b"2"
    assert broker.messages.by_id("SAME", topic="U").body == b"1"


def test_an_id_that_no_message_has_is_an_error(broker: EmbeddedBroker) -> None:
    sent = broker.send("T", b"x")
    elsewhere = sent.offset_msg_id[:8] + "F" * 8 + sent.offset_msg_id[16:]
    for wrong in ("nobody", elsewhere, sent.offset_msg_id[:-1] + "7"):
        with pytest.raises(MessageNotFound, match=wrong):
            broker.messages.by_id(wrong)


def test_a_pending_timer_is_not_found_by_key_under_its_topic(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    sent = broker.send("T", b"later", keys="order-7", delay=5)
    broker.send("T", b"now", keys="order-7 order-8")

    assert [one.body for one in broker.messages.by_key("T", "order-7")] == [b"now"]
    assert broker.messages.by_key("T", sent.msg_id) == []
    clock.advance(5)
    assert [one.body for one in broker.messages.by_key("T", "order-7")] == [b"now", b"later"]
    assert [one.body for one in broker.messages.by_key("T", "order-8")] == [b"now"]
    assert [one.body for one in broker.messages.by_key("T", sent.msg_id)] == [b"later"]
    assert broker.messages.by_key("T", "order") == []


def test_a_key_is_looked_up_in_a_topic_that_exists(broker: EmbeddedBroker) -> None:
    broker.topics.create("Orders")
    broker.send("T", b"x", keys="k")

    assert broker.messages.by_key("Orders", "k") == []
    with pytest.raises(KeyError, match="did you mean 'Orders'"):
        broker.messages.by_key("Order", "k")


def test_what_was_acknowledged_is_still_found(broker: EmbeddedBroker) -> None:
    sent = broker.send("T", b"x", queue=0, keys="k")
    consumer = ManualConsumer(broker)
    consumer.take()
    consumer.commit(1)

    assert broker.messages.by_id(sent).body == b"x"
    assert [one.body for one in broker.messages.by_key("T", "k")] == [b"x"]


def test_what_a_view_gives_is_taken_where_a_message_is_asked_for(broker: EmbeddedBroker) -> None:
    broker.send("T", b"now")
    for body in (b"recalled", b"fired", b"moved"):
        broker.send("T", body, delay=60)
    (stored,) = broker.messages.in_topic("T")
    recalled, fired, moved = broker.timers.pending()

    assert broker.messages.by_id(stored) == stored
    trace = broker.messages.trace(stored)
    assert (trace.msg_id, trace.offset) == (stored.msg_id, stored.offset)
    assert broker.messages.trace(trace) == trace
    assert broker.messages.trace(recalled).due_at == recalled.due_at
    assert broker.timers.recall(recalled) is RecallOutcome.RECALLED
    broker.timers.fire_now(fired)
    broker.timers.reschedule(moved, deliver_at=broker.clock.now())
    bodies = [message.body for message in broker.messages.in_topic("T")]
    assert bodies == [b"now", b"fired", b"moved"]


def test_a_topic_that_does_not_exist_is_never_an_empty_answer(broker: EmbeddedBroker) -> None:
    broker.topics.create("Orders")
    sent = broker.send("Orders", b"x", delay=60)
    for ask in (
        lambda: broker.timers.count(topic="Order"),
        lambda: broker.timers.pending(topic="Order"),
        lambda: broker.timers.recall(sent, topic="Order"),
        lambda: broker.timers.fire_now(sent, topic="Order"),
        lambda: broker.timers.reschedule(
            sent, deliver_at=broker.clock.now() + timedelta(days=1), topic="Order"
        ),
        lambda: broker.messages.in_topic("Order"),
        lambda: broker.messages.by_id(sent, topic="Order"),
        lambda: broker.messages.by_key("Order", "k"),
        lambda: broker.messages.trace(sent, topic="Order"),
        lambda: broker.topics["Order"],
    ):
        with pytest.raises(KeyError, match="no topic 'Order'; did you mean 'Orders'"):
            ask()
    with pytest.raises(WaitTimeoutError, match="did you mean 'Orders'"):
        broker.wait_delivered("Order", timeout=0.01)
    assert broker.timers.count(topic="T") == 0
    assert broker.timers.pending(topic="T") == []


@pytest.mark.parametrize("days", [-3000, 0, 3000])
def test_a_message_is_born_at_the_time_that_the_brokers_clock_showed(days: int) -> None:
    clock = VirtualClock(start=SystemClock().now() + timedelta(days=days))
    with (
        EmbeddedBroker(clock=clock, topics=["T"], tcp=False) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        clock.advance(days=30)
        sent_at = clock.now()
        result = producer.send(Message("T", b"later", delay=timedelta(hours=1)))
        broker.send("T", b"by the broker itself", delay=3600)
        clock.advance(hours=1)
        for message in broker.messages.in_topic("T"):
            assert (message.born_at, message.stored_at) == (sent_at, clock.now())
        assert broker.messages.trace(result).initialised_at == sent_at
