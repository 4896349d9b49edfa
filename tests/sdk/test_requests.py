"""A request that waits for its reply: who asks, who answers, and what happens when nobody does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultMQProducer, Message, MessageExt, RequestTimeoutException
from tests.sdk.conftest import Replier

PATIENCE_MS = 30_000
"""A hang guard: nobody waits so long where replies come."""


@pytest.fixture
def producer(rocketmq_broker: EmbeddedBroker, rocketmq_group: str) -> Iterator[DefaultMQProducer]:
    with DefaultMQProducer(
        f"{rocketmq_group}_asks", namesrv_addr=rocketmq_broker.namesrv_addr
    ) as made:
        yield made


@pytest.mark.case("T61")
@pytest.mark.case("W93")
def test_a_request_gets_the_reply_of_a_consumer(
    producer: DefaultMQProducer, replier: Replier, rocketmq_topic: str
) -> None:
    asked: list[MessageExt] = []

    def decide(message: MessageExt) -> bytes:
        asked.append(message)
        return b"yes to " + message.body

    replier(decide)
    question = Message(rocketmq_topic, b"tea?", keys=["k"])
    reply = producer.request(question, timeout=PATIENCE_MS)
    assert reply.body == b"yes to tea?"
    assert reply.topic.endswith("_REPLY_TOPIC")
    (seen,) = asked
    assert seen.properties["REPLY_TO_CLIENT"] == producer.client_id
    assert seen.properties["TTL"] == str(PATIENCE_MS)
    assert reply.properties["CORRELATION_ID"] == seen.properties["CORRELATION_ID"]
    assert reply.properties["ARRIVE_TIME"].isdecimal()
    assert reply.properties["PUSH_REPLY_TIME"].isdecimal()
    # The caller's message can be sent again: it got an id, and nothing else.
    assert question.properties == {"KEYS": "k", "WAIT": "true", "UNIQ_KEY": seen.msg_id}


def test_replies_find_their_requests_whatever_their_order(
    producer: DefaultMQProducer, replier: Replier, rocketmq_topic: str
) -> None:
    replier(lambda message: message.body * 2)
    futures: dict[str, Future[MessageExt]] = {
        text: producer.request_async(Message(rocketmq_topic, text.encode()), timeout=PATIENCE_MS)
        for text in "abcdefgh"
    }
    assert {text: future.result().body.decode() for text, future in futures.items()} == {
        text: text * 2 for text in "abcdefgh"
    }


def test_a_large_reply_is_compressed_on_its_way_and_whole_in_the_end(
    producer: DefaultMQProducer, replier: Replier, rocketmq_topic: str
) -> None:
    replier(lambda _: b"long " * 10_000)
    reply = producer.request(Message(rocketmq_topic, b"?"), timeout=PATIENCE_MS)
    assert reply.body == b"long " * 10_000


@pytest.mark.case("T61")
def test_a_request_that_nobody_answers_ends_with_its_time(
    producer: DefaultMQProducer, rocketmq_topic: str
) -> None:
    producer.send(Message(rocketmq_topic, b"the way is known"))
    with pytest.raises(RequestTimeoutException, match="nobody replied within 300 ms") as caught:
        producer.request(Message(rocketmq_topic, b"?"), timeout=300)
    assert caught.value.response_code == 10006
    assert isinstance(caught.value, TimeoutError)
