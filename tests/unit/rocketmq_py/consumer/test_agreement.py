"""Members of one group that subscribe to different things, and who is told of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultLitePullConsumer, DefaultMQPushConsumer, MessageQueue
from rocketmq_py.consumer.agreement import Agreement
from rocketmq_py.consumer.subscriptions import SubscriptionTable
from rocketmq_py.protocol.bodies.groups import Connection, ConsumerConnection
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.names import retry_topic
from tests.unit.rocketmq_py.consumer.fake_engine import FakeClock, FakeEngine, ok, refusal
from tests.unit.rocketmq_py.consumer.inbox import Inbox
from tests.waiting import until

ASKED = RequestCode.GET_CONSUMER_CONNECTION_LIST
WARNING = "group G: its members do not subscribe to the same, so each of them misses messages"
NOW_MS = 1_000
PATIENCE = 20.0


@pytest.fixture
def debugging(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "rocketmq_py.consumer")
    return caplog


class Group:
    """Group G as this member and a broker know it."""

    def __init__(self, **own: str) -> None:
        self.engine = FakeEngine()
        self.subscriptions = SubscriptionTable(FakeClock(NOW_MS))
        self.subscriptions.put(retry_topic("G"), "*")
        for topic, expression in own.items():
            self.subscriptions.put(topic, expression)
        self.engine.queues["T"] = (MessageQueue("T", "broker-a", 0),)
        self.agreement = Agreement(self.engine, "G", self.subscriptions)

    def is_told(self, members: int = 2, version: int = NOW_MS, **table: str) -> None:
        """Let a broker tell what it knows, and look."""
        told = {
            topic: SubscriptionData.parse(topic, expression, version)
            for topic, expression in {**table, retry_topic("G"): "*"}.items()
        }
        connections = [Connection(client_id=str(number)) for number in range(members)]
        body = ConsumerConnection(connection_set=connections, subscription_table=told).encode()
        self.engine.answers[ASKED] = lambda _: ok(body=body)
        self.agreement.look()


def test_an_expression_that_another_member_has_replaced_is_told_once(
    debugging: pytest.LogCaptureFixture,
) -> None:
    group = Group(T="paid || sent")
    group.is_told(T="paid")
    group.is_told(T="paid")
    told = "T with 'paid || sent' here, 'paid' elsewhere. Give them the same subscriptions, or"
    assert debugging.text.count(f"{WARNING}: {told}") == 1
    group.is_told(T="sent")
    assert "T with 'paid || sent' here, 'sent' elsewhere" in debugging.text


def test_topics_that_only_some_members_subscribe_are_named(
    debugging: pytest.LogCaptureFixture,
) -> None:
    Group(T="*", V="*").is_told(U="*", V="")
    told = "T is subscribed by this member only; U is subscribed by another only. Give"
    assert f"{WARNING}: {told}" in debugging.text


@pytest.mark.parametrize(
    "given",
    [
        {"T": "sent||paid"},
        {"T": "sent", "members": 1},
        {"T": "sent", "version": NOW_MS - 1},
    ],
    ids=["the same in other words", "this member is alone", "a newer one is on its way"],
)
def test_nothing_is_told_when_the_members_agree(
    debugging: pytest.LogCaptureFixture, given: dict[str, Any]
) -> None:
    Group(T="paid || sent").is_told(**given)
    assert WARNING not in debugging.text


def test_a_broker_that_refuses_or_fails_is_asked_again_next_time(
    debugging: pytest.LogCaptureFixture,
) -> None:
    group = Group(T="paid")
    group.engine.answers[ASKED] = lambda _: refusal(ResponseCode.NO_PERMISSION)
    group.agreement.look()
    group.engine.answers[ASKED] = lambda _: ok(body=b"[]")
    group.agreement.look()
    assert WARNING not in debugging.text
    group.is_told(T="sent")
    assert WARNING in debugging.text


def test_nobody_is_asked_unless_somebody_debugs() -> None:
    group = Group(T="paid")
    group.is_told(T="sent")
    assert group.engine.called(ASKED) == []


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T", "U"], tcp=False) as started:
        yield started


@pytest.mark.parametrize("kind", [DefaultMQPushConsumer, DefaultLitePullConsumer])
@pytest.mark.parametrize(("first", "second"), [(("T", "paid"), ("T", "sent")), ("T", "U")])
def test_one_of_two_members_that_differ_is_told_whatever_kind_they_are(
    broker: EmbeddedBroker,
    debugging: pytest.LogCaptureFixture,
    kind: Any,
    first: tuple[str, ...],
    second: tuple[str, ...],
) -> None:
    tasks = []
    with ExitStack() as ends:
        for subscription in (first, second):
            made = kind("G", namesrv_addr=broker.namesrv_addr)
            made.subscribe(*subscription)
            if kind is DefaultMQPushConsumer:
                made.register_message_listener(Inbox())
            ends.enter_context(made)
            tasks.append(made._member.parts.periodic[-1][-1])

        def is_told() -> bool:
            for look in tasks:  # which of them is told depends on whose heartbeat came last
                look([])
            return WARNING in debugging.text

        until(is_told, PATIENCE)


def test_a_member_that_assigns_its_queues_by_hand_is_not_compared(broker: EmbeddedBroker) -> None:
    consumer = DefaultLitePullConsumer("G", namesrv_addr=broker.namesrv_addr)
    consumer.assign([MessageQueue("T", "broker-a", 0)])
    with consumer:
        assert consumer._member is not None
        assert consumer._member.parts.periodic == ()
