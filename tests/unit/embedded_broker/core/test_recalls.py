"""Recalls by values: which check comes first, and what is stored."""

from __future__ import annotations

import pytest

from embedded_broker.core.recalls import Recalls
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.send_values import Incoming, Terms
from embedded_broker.lifecycle.parts import BrokerParts
from rocketmq_py.protocol.properties import encode_properties
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.peers import Peer

NARROW = {"recallMessageEnable": True, "allowRecallWhenBrokerNotWriteable": False}


def recalls_of(parts: BrokerParts) -> Recalls:
    return Recalls(env=parts, topics=parts.tables.topics)


def timer_of(parts: BrokerParts) -> str:
    """Store a timer of an hour; give its handle."""
    text = encode_properties({"UNIQ_KEY": "AB", "TIMER_DELAY_MS": "3600000"}).decode()
    with parts.door:
        (outcome,) = parts.send.produce([Incoming("T", b"x", text, 0, Terms(0))], Peer())
    assert outcome.recall_handle is not None
    return outcome.recall_handle.decode()


def test_a_mark_removes_the_timer_of_the_handle(start_broker: StartBroker) -> None:
    broker = start_broker(topics=["T"])
    parts = broker._parts()
    handle = timer_of(parts)
    with parts.door:
        recalled = recalls_of(parts).recall("T", handle, "g", Peer())
    assert (recalled.unique_key, recalled.synced_at) == ("AB", parts.store.log.max_offset)
    broker.clock.advance(3700)
    assert parts.store.max_offset("T", 0) == 0


@pytest.mark.parametrize(
    ("options", "topic", "handle", "reason", "piece"),
    [
        (
            {"recallMessageEnable": False, "brokerRole": "SLAVE"},
            "N",
            "?",
            Reason.NO_PERMISSION,
            "recallMessageEnable=false",
        ),
        (
            {"brokerRole": "SLAVE", "brokerPermission": 4},
            "N",
            "?",
            Reason.SLAVE_NOT_AVAILABLE,
            "brokerRole=SLAVE",
        ),
        (
            {"brokerPermission": 4},
            "N",
            "?",
            Reason.SERVICE_NOT_AVAILABLE,
            "brokerPermission=4 has no write bit",
        ),
        ({}, "N", "?", Reason.TOPIC_NOT_EXIST, "the topic[N] not exist"),
        ({}, "T", "?", Reason.ILLEGAL_OPERATION, "recall failed, "),
    ],
)
def test_the_first_check_that_fails_refuses(
    start_broker: StartBroker,
    options: dict[str, bool | int | str],
    topic: str,
    handle: str,
    reason: Reason,
    piece: str,
) -> None:
    parts = start_broker(topics=["T"], config=NARROW)._parts()
    parts.config._values.update(options)
    before = parts.store.log.max_offset
    with parts.door, pytest.raises(Refused) as refused:
        recalls_of(parts).recall(topic, handle, None, Peer())
    assert refused.value.reason is reason
    assert piece in refused.value.remark
    assert parts.store.log.max_offset == before


def test_a_broker_that_may_not_be_written_can_be_allowed_to_recall(
    start_broker: StartBroker,
) -> None:
    parts = start_broker(topics=["T"], config={"allowRecallWhenBrokerNotWriteable": True})._parts()
    handle = timer_of(parts)
    parts.config.update(brokerPermission=4)
    with parts.door:
        assert recalls_of(parts).recall("T", handle, None, Peer()).unique_key == "AB"
