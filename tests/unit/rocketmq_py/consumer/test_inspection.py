"""What a consumer tells of itself when a tool asks through its broker."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQPushConsumer,
    MessageExt,
)
from rocketmq_py.protocol.bodies.consumption import (
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
    ConsumerStatus,
)
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.embedded_broker.wire_peer import WirePeer
from tests.waiting import until

QUEUE = MessageQueueKey("T", "broker-a", 0)


class Listener:
    """Does what the body says, and keeps the messages."""

    def __init__(self) -> None:
        self.got: list[MessageExt] = []

    def __call__(
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        del context
        self.got += messages
        (message,) = messages
        if message.body == b"fail":
            raise ValueError("as wished")
        if message.body == b"nothing":
            return None  # type: ignore[return-value] # what listeners do
        if message.body == b"later":
            return ConsumeConcurrentlyStatus.RECONSUME_LATER
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T", "Other"], config={"defaultTopicQueueNums": 1}) as made:
        yield made


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def consumer(broker: EmbeddedBroker, listener: Listener) -> Iterator[DefaultMQPushConsumer]:
    made = DefaultMQPushConsumer("g", namesrv_addr=broker.namesrv_addr)
    made.subscribe("T", "TagA || TagB")
    made.register_message_listener(listener)
    with made:
        yield made


@pytest.fixture
def peer(broker: EmbeddedBroker, consumer: DefaultMQPushConsumer) -> Iterator[WirePeer]:
    """A tool; the consumer is there."""
    until(lambda: broker.groups["g"].members)
    with WirePeer(broker.addr) as made:
        yield made


def test_how_far_a_consumer_is_changes_with_what_it_has_consumed(
    broker: EmbeddedBroker, peer: WirePeer, consumer: DefaultMQPushConsumer
) -> None:
    def told() -> int:
        fields = {"topic": "T", "group": "g"}
        answer = peer.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields)
        table = ConsumerStatus.decode(answer.body).consumer_table or {}
        return table[consumer.client_id].get(QUEUE, 0)

    assert told() == 0
    for _ in range(3):
        broker.send("T", b"x", tags="TagA", queue=0)
    until(lambda: told() == 3)


def test_a_consumer_tells_how_it_is(
    broker: EmbeddedBroker, peer: WirePeer, consumer: DefaultMQPushConsumer
) -> None:
    fields = {"consumerGroup": "g", "clientId": consumer.client_id}

    def info(stacks: str) -> ConsumerRunningInfo:
        answer = peer.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields | {"jstackEnable": stacks})
        assert answer.code == 0, answer.remark
        return ConsumerRunningInfo.decode(answer.body)

    first = info("false")
    assert first.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert first.properties["PROP_NAMESERVER_ADDR"] == broker.namesrv_addr
    assert first.properties["PROP_CONSUMER_START_TIMESTAMP"].isdecimal()
    assert {one.topic: one.sub_string for one in first.subscription_set} == {
        "T": "TagA || TagB",
        "%RETRY%g": "*",
    }
    assert first.jstack is None
    queue = first.mq_table[QUEUE]
    assert (queue.commit_offset, queue.cached_msg_count, queue.droped) == (0, 0, False)
    broker.send("T", b"x", tags="TagA", queue=0)
    until(lambda: info("false").mq_table[QUEUE].commit_offset == 1)
    assert "MainThread" in (info("true").jstack or "")


@pytest.mark.parametrize(
    ("body", "result"),
    [
        (b"ok", "CR_SUCCESS"),
        (b"later", "CR_LATER"),
        (b"nothing", "CR_RETURN_NULL"),
        (b"fail", "CR_THROW_EXCEPTION"),
    ],
)
def test_a_consumer_consumes_a_message_at_once(
    broker: EmbeddedBroker,
    peer: WirePeer,
    consumer: DefaultMQPushConsumer,
    listener: Listener,
    body: bytes,
    result: str,
) -> None:
    sent = broker.send("Other", body)
    fields = {"consumerGroup": "g", "clientId": consumer.client_id, "msgId": sent.offset_msg_id}
    answer = peer.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
    assert answer.code == 0, answer.remark
    told = ConsumeDirectlyResult.decode(answer.body)
    assert (told.consume_result, told.order, told.auto_commit) == (result, False, True)
    assert told.remark == ("ValueError: as wished" if body == b"fail" else None)
    (message,) = listener.got
    assert (message.topic, message.body, message.broker_name) == ("Other", body, "broker-a")
    assert json.loads(answer.body)["spentTimeMills"] >= 0
