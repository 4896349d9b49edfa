"""The journal of a whole life of a client: what it asked, in its order, and no secret."""

from __future__ import annotations

from threading import Event
from typing import Literal

import pytest

from embedded_broker import EmbeddedBroker, JournalEntry, VirtualClock
from rocketmq_py import Credentials, DefaultMQPushConsumer
from rocketmq_py.consumer.listener import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import RequestCode

GUARD_S = 30.0
SIGNED_WITH = {"AccessKey", "Signature", "SecurityToken"}
BODY = b"the body of a message"
KEY, SECRET, TOKEN = "rocketmq2", "12345678-secret", "a-session-token"


def first(entries: list[JournalEntry], code: RequestCode) -> int:
    """Where the first request with a code stands."""
    return next(number for number, one in enumerate(entries) if one.code == code)


@pytest.mark.case("K20")
@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_the_life_of_a_push_consumer_is_told_in_its_order_without_bodies_and_secrets(
    transport: Literal["auto", "tcp"],
) -> None:
    got = Event()

    def listen(
        messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        got.set()
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    with EmbeddedBroker(topics=["T"], clock=VirtualClock()) as broker:
        consumer = DefaultMQPushConsumer(
            "G",
            namesrv_addr=broker.namesrv_addr,
            transport=transport,
            credentials=Credentials(KEY, SECRET, TOKEN),
        )
        consumer.subscribe("T")
        consumer.register_message_listener(listen)
        with consumer:
            broker.clock.settle(GUARD_S)
            broker.send("T", BODY)
            assert got.wait(GUARD_S)
            broker.clock.settle(GUARD_S)
        entries = broker.journal.requests()
        told = broker.journal.dump()

    codes = RequestCode
    order = (
        codes.GET_ROUTEINFO_BY_TOPIC,
        codes.HEART_BEAT,
        codes.GET_CONSUMER_LIST_BY_GROUP,
        codes.QUERY_CONSUMER_OFFSET,
        codes.PULL_MESSAGE,
        codes.UPDATE_CONSUMER_OFFSET,
        codes.UNREGISTER_CLIENT,
    )
    places = [first(entries, code) for code in order]
    assert places == sorted(places)
    # A name server has a connection of its own, and its routes are asked for now and then.
    of_broker = [one for one in entries if one.endpoint != "namesrv"]
    assert of_broker[-1].code == codes.UNREGISTER_CLIENT
    of_topic = [one for one in entries if one.topic == "T" and one.group == "G"]
    asked = {one.fields["queueId"] for one in of_topic if one.code == codes.QUERY_CONSUMER_OFFSET}
    pulled = {one.fields["queueId"] for one in of_topic if one.code == codes.PULL_MESSAGE}
    assert asked == pulled == {"0", "1", "2", "3"}
    assert not SIGNED_WITH & {name for one in entries for name in one.fields}
    everything = told + repr(entries)
    for hidden in (BODY.decode(), SECRET, TOKEN):
        assert hidden not in everything
