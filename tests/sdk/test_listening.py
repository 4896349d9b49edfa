"""What a push consumer hands to its listener, and what becomes of what the listener refuses."""

from __future__ import annotations

import pytest

from embedded_broker.pytest_plugin import Consumers, Recorders
from rocketmq_py import (
    DefaultMQProducer,
    Message,
    MessageExt,
    MQClientException,
    NoRouteError,
    RocketMQError,
)
from tests.sdk.conftest import GUARD_S, Forward
from tests.sdk.listeners import SOON_MS, SoonAgain, queues_of
from tests.unit.rocketmq_py.consumer.inbox import DONE, LATER, Inbox
from tests.waiting import until

FAR_AWAY_MS = 4_102_444_800_000
"""The year 2100: later than the time of any broker."""
RETRY_S = 10
"""The wait before the second attempt."""


@pytest.mark.case("T69")
def test_only_messages_with_one_of_the_two_tags_arrive(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, rocketmq_recorder: Recorders
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic, tags="TagA || BB")
    queue = rocketmq_producer.fetch_publish_message_queues(rocketmq_topic)[0]
    for tag in ("TagA", "TagB", "Aa", "BB", None):  # Aa has the hash of BB
        message = Message(rocketmq_topic, str(tag).encode(), tags=tag)
        rocketmq_producer.send(message, queue=queue)
    rocketmq_producer.send(Message(rocketmq_topic, b"last", tags="TagA"), queue=queue)
    for text in ("TagA", "BB", "last"):
        arrived.expect(text)
    assert sorted(arrived.texts) == ["BB", "TagA", "last"]


def test_what_a_listener_refuses_comes_again_after_ten_seconds_as_the_second_attempt(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    forward: Forward,
) -> None:
    inbox = Inbox(lambda message: DONE if message.reconsume_times else LATER)
    rocketmq_consumer(None, rocketmq_topic, inbox, poll_name_server_interval=SOON_MS)
    sent = rocketmq_producer.send(Message(rocketmq_topic, b"again", tags="a", keys=["k"]))
    forward(lambda: len(inbox) >= 2)
    first, second = inbox.messages
    assert [first.reconsume_times, second.reconsume_times] == [0, 1]
    assert second.store_timestamp - first.store_timestamp >= RETRY_S * 1000
    assert {first.msg_id, second.msg_id} == {sent.msg_id}
    assert (second.topic, second.tags, second.keys) == (rocketmq_topic, "a", ["k"])


@pytest.mark.case("T73")
@pytest.mark.parametrize("nonsense", [None, "yes", LookupError("theirs")], ids=str)
def test_a_listener_that_answers_nonsense_gets_the_message_again(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    forward: Forward,
    nonsense: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answer(message: MessageExt) -> object:
        if message.reconsume_times:
            return DONE
        if isinstance(nonsense, Exception):
            raise nonsense
        return nonsense

    inbox = SoonAgain(answer)
    rocketmq_consumer(None, rocketmq_topic, inbox, poll_name_server_interval=SOON_MS)
    rocketmq_producer.send(Message(rocketmq_topic, b"again"))
    forward(lambda: len(inbox) >= 2)
    assert inbox.bodies == [b"again", b"again"]
    assert len([one for one in caplog.records if one.name.endswith(".consumer.listening")]) == 1


def dead_letters(producer: DefaultMQProducer, group: str) -> list[bytes]:
    """The dead letters of a group that have the key K; none while there is no such topic."""
    try:
        found = producer.query_message(f"%DLQ%{group}", "K", 10, 0, FAR_AWAY_MS)
    except RocketMQError:
        return []
    return [message.body for message in found.message_list]


@pytest.mark.case("T73")
def test_a_message_can_be_sent_straight_to_the_dead_letters(
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
) -> None:
    inbox = Inbox()
    consumer = rocketmq_consumer(None, rocketmq_topic, inbox)
    rocketmq_producer.send(Message(rocketmq_topic, b"hopeless", keys=["K"]))
    until(lambda: len(inbox) == 1, GUARD_S)
    consumer.send_message_back(inbox.messages[0], -1)
    until(lambda: dead_letters(rocketmq_producer, rocketmq_group), GUARD_S)
    assert dead_letters(rocketmq_producer, rocketmq_group) == [b"hopeless"]


def test_a_topic_may_be_subscribed_and_unsubscribed_while_running(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, rocketmq_consumer: Consumers
) -> None:
    inbox, late = Inbox(), f"{rocketmq_topic}-late"
    rocketmq_producer.create_topic("TBW102", late, 2)
    running = rocketmq_consumer(None, rocketmq_topic, inbox, poll_name_server_interval=SOON_MS)
    running.subscribe(late)
    until(lambda: len(queues_of(running, late)) == 2, GUARD_S)
    rocketmq_producer.send(Message(late, b"late"))
    until(lambda: inbox.bodies == [b"late"], GUARD_S)
    assert len(running.fetch_subscribe_message_queues(late)) == 2
    running.unsubscribe(late)
    until(lambda: not queues_of(running, late), GUARD_S)
    assert len(queues_of(running, rocketmq_topic)) == 4
    with pytest.raises(NoRouteError):
        running.fetch_subscribe_message_queues("nowhere")


@pytest.mark.case("T3")
def test_a_second_start_is_refused_and_the_consumer_still_works(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, rocketmq_consumer: Consumers
) -> None:
    inbox = Inbox()
    running = rocketmq_consumer(None, rocketmq_topic, inbox)
    with pytest.raises(MQClientException, match="start"):
        running.start()
    rocketmq_producer.send(Message(rocketmq_topic, b"still works"))
    until(lambda: inbox.bodies == [b"still works"], GUARD_S)
