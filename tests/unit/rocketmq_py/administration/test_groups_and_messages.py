"""What becomes of a message in a group, times of messages, and what a broker does not keep."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageModel,
    MessageQueue,
    MQBrokerException,
    MQClientException,
    UnsupportedOperationError,
)
from rocketmq_py.admin import AdminClient, MessageTrack, TrackState
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.rocketmq_py.consumer.inbox import Inbox
from tests.waiting import until

QUEUE = MessageQueue("T", "broker-a", 0)


@pytest.fixture(params=["rocketmq-4.9", "rocketmq-5.x"])
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(profile=request.param, clock=VirtualClock(), topics=["T"]) as started:
        yield started


@pytest.fixture
def admin(broker: EmbeddedBroker) -> Iterator[AdminClient]:
    with AdminClient(namesrv_addr=broker.namesrv_addr) as started:
        yield started


def consumer(broker: EmbeddedBroker, expression: str = "*", **settings: Any) -> Any:
    made = DefaultMQPushConsumer(
        "G", namesrv_addr=broker.namesrv_addr, persist_consumer_offset_interval=100, **settings
    )
    made.subscribe("T", expression)
    made.register_message_listener(Inbox())
    return made


def test_messages_are_found_between_two_times(broker: EmbeddedBroker, admin: AdminClient) -> None:
    times: list[datetime] = []
    for number in range(70):
        times.append(broker.clock.now())
        broker.send("T", b"%d" % number, queue=0)
        broker.clock.advance(timedelta(seconds=10))
    begun = len(broker.journal.requests(code=RequestCode.PULL_MESSAGE))
    found = admin.messages_by_time("T", times[2], times[5])
    pulls = len(broker.journal.requests(code=RequestCode.PULL_MESSAGE)) - begun
    assert pulls == len(admin.bounds("T"))  # what lies behind the end is left alone
    assert [one.body for one in found] == [b"2", b"3", b"4"]
    between = timedelta(seconds=1)
    found = admin.messages_by_time("T", times[2] + between, times[5] + between)
    assert [one.body for one in found] == [b"3", b"4", b"5"]
    everything = admin.messages_by_time("T", times[0], broker.clock.now(), max_messages=100)
    assert [one.body for one in everything] == [b"%d" % number for number in range(70)]
    first = admin.messages_by_time("T", times[1], broker.clock.now())
    assert [one.body for one in first] == [b"%d" % number for number in range(1, 65)]


def test_a_message_that_a_group_passes_over_is_told_apart(
    broker: EmbeddedBroker, admin: AdminClient
) -> None:
    with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
        sent = [producer.send(Message("T", b"x", tags=tag), queue=QUEUE) for tag in "ACB"]
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    with consumer(broker, "A || B", consume_from_where=first):
        taken, passed, _ = (admin.message("T", one.offset_msg_id) for one in sent)
        until(lambda: admin.group_progress("G", "T").lag == 0)
        assert admin.track(taken) == (MessageTrack("G", TrackState.CONSUMED),)
        assert admin.track(passed) == (MessageTrack("G", TrackState.FILTERED),)


def test_nobody_knows_what_became_of_a_broadcast_message(
    broker: EmbeddedBroker, admin: AdminClient, tmp_path: Any
) -> None:
    with consumer(broker, message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path):
        broker.send("T", b"x", queue=0)
        message = admin.message_at(QUEUE, 0)
        assert message is not None
        assert admin.track(message) == (MessageTrack("G", TrackState.BROADCASTING),)


def test_a_suspended_group_has_not_consumed_it_yet(
    broker: EmbeddedBroker, admin: AdminClient
) -> None:
    with consumer(broker) as suspended:
        suspended.suspend()
        broker.send("T", b"x", queue=0)
        message = admin.message_at(QUEUE, 0)
        assert message is not None
        assert admin.track(message) == (MessageTrack("G", TrackState.NOT_YET),)
        message.broker_name = "broker-z"
        with pytest.raises(MQClientException, match=r"broker-z.*broker-a"):
            admin.consume_now("G", suspended.client_id, message)
    with pytest.raises(MQBrokerException):
        admin.member_state("G", "nobody")


def test_offsets_that_a_waiting_reset_keeps_from_being_stored_are_an_error() -> None:
    with (
        EmbeddedBroker(topics=["T"]) as broker,
        AdminClient(namesrv_addr=broker.namesrv_addr) as admin,
    ):
        broker.send("T", b"x", queue=0)
        admin.create_group("G")
        admin.reset_offsets("G", "T", "last")
        with pytest.raises(MQClientException, match="A reset waits for its next pull"):
            admin.set_offsets("G", {QUEUE: 0})
        assert admin.group_progress("G", "T").lag == 0


def test_settings_that_a_broker_takes_and_forgets_are_an_error(
    broker: EmbeddedBroker, admin: AdminClient
) -> None:
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    broker.faults.on(code).respond(ResponseCode.SUCCESS).always()
    with pytest.raises(UnsupportedOperationError, match=r"broker-a does not keep .* group G"):
        admin.create_group("G")
