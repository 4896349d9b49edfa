"""What becomes of a message that a consumer could not handle, decided by values."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.retries import Retries, SentBack
from embedded_broker.core.send_values import Incoming, Terms
from embedded_broker.lifecycle.parts import BrokerParts
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.properties import encode_properties
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.peers import OWNER, Peer


def parts_of(broker: EmbeddedBroker, **settings: int) -> BrokerParts:
    """A broker with topic T and group g."""
    parts = broker._parts()
    with parts.door:
        parts.tables.topics.ensure("T", 1)
        parts.tables.groups.put(SubscriptionGroupConfig(group_name="g", **settings))  # type: ignore[arg-type]
    return parts


def retries_of(parts: BrokerParts) -> Retries:
    return parts.send.produce._retries


def failed(parts: BrokerParts, tried: int = 0) -> int:
    """Store a message of T that was tried so often; give its offset."""
    text = encode_properties({"UNIQ_KEY": "AB"}).decode()
    with parts.door:
        message = Incoming("T", b"x", text, 7, Terms(0, reconsume_times=tried))
        (outcome,) = parts.send.produce([message], Peer())
    return outcome.commit_log_offset


@pytest.mark.parametrize(
    ("asked", "tried", "topic", "level"),
    [
        (0, 0, "%RETRY%g", "3"),
        (0, 5, "%RETRY%g", "8"),
        (2, 5, "%RETRY%g", "2"),
        (0, 16, "%DLQ%g", "0"),
        (-1, 0, "%DLQ%g", "0"),
    ],
)
def test_a_copy_waits_at_a_level_or_goes_to_the_dead_letters(
    broker: EmbeddedBroker, asked: int, tried: int, topic: str, level: str
) -> None:
    parts = parts_of(broker)
    offset = failed(parts, tried)
    with parts.door:
        copy = retries_of(parts).copy(SentBack(offset, "g", asked), OWNER)
        record = parts.store.record(offset)
    assert copy is not None
    assert record is not None
    assert (copy.topic, copy.properties["DELAY"], copy.reconsume_times) == (topic, level, tried + 1)
    assert (copy.body, copy.born_timestamp, copy.properties["UNIQ_KEY"]) == (b"x", 7, "AB")
    assert copy.properties["RETRY_TOPIC"] == "T"
    assert copy.properties["ORIGIN_MESSAGE_ID"] == record.offset_msg_id


def test_the_clients_own_maximum_counts_instead_of_the_groups(broker: EmbeddedBroker) -> None:
    parts = parts_of(broker)
    offset = failed(parts, 2)
    with parts.door:
        copy = retries_of(parts).copy(SentBack(offset, "g", 0, max_reconsume_times=2), OWNER)
    assert copy is not None
    assert copy.topic == "%DLQ%g"


def test_a_group_without_retry_queues_wants_no_copy(broker: EmbeddedBroker) -> None:
    parts = parts_of(broker, retry_queue_nums=0)
    offset = failed(parts)
    with parts.door:
        assert retries_of(parts).copy(SentBack(offset, "g", 0), OWNER) is None


def test_nothing_is_copied_without_group_or_message(start_broker: StartBroker) -> None:
    parts = parts_of(start_broker(config={"autoCreateSubscriptionGroup": False}))
    for asked, reason in (
        (SentBack(failed(parts), "h", 0), Reason.GROUP_NOT_EXIST),
        (SentBack(9_999, "g", 0), Reason.FAILED),
    ):
        with parts.door, pytest.raises(Refused) as refused:
            retries_of(parts).copy(asked, OWNER)
        assert refused.value.reason is reason


@pytest.mark.parametrize(
    ("profile", "tried", "locked", "gives_up"),
    [
        ("rocketmq-5.x", 16, False, False),
        ("rocketmq-5.x", 17, False, True),
        ("rocketmq-5.x", 0, True, True),
        ("rocketmq-4.9", 15, True, False),
        ("rocketmq-4.9", 16, False, True),
    ],
)
def test_when_a_clients_own_retry_belongs_to_the_dead_letters(
    start_broker: StartBroker, profile: str, tried: int, locked: bool, gives_up: bool
) -> None:
    parts = parts_of(start_broker(profile=profile))
    message = Incoming("%RETRY%g", b"x", "", 0, Terms(0, reconsume_times=tried))
    properties: dict[str, str] = {}
    with parts.door:
        if locked:
            queue = MessageQueueKey("T", parts.broker_name, 0)
            parts.tables.locks.lock("g", [queue], "c", now_ms=parts.session.now_ms)
        routed = retries_of(parts).of_client_send(message, properties)
    assert routed == (("%DLQ%g", 0) if gives_up else None)
    assert properties == ({"DELAY": "-1"} if gives_up else {})
