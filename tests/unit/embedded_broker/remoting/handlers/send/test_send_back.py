"""Request 36 and a client's own retries: levels, retry topics, dead letters."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.properties import decode_properties
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, records

RETRY = "%RETRY%consumers"
DLQ = "%DLQ%consumers"
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


def stored(peer: WirePeer, topic: str = "T") -> MessageRecord:
    (record,) = records(peer.pull(topic))
    return record


def send_back(peer: WirePeer, offset: int, level: int = 0, **fields: str) -> RemotingCommand:
    return peer.ask(
        RequestCode.CONSUMER_SEND_MSG_BACK,
        {
            "offset": str(offset),
            "group": "consumers",
            "delayLevel": str(level),
            "originTopic": "T",
            "unitMode": "false",
        }
        | fields,
    )


def waiting_level(broker: EmbeddedBroker) -> int | None:
    """Give the level of the only message that waits, None when none does."""
    parts = broker._parts()
    with parts.door:
        filled = [n for n in range(18) if parts.store.max_offset(SCHEDULE, n)]
    assert len(filled) <= 1
    return filled[0] + 1 if filled else None


@pytest.mark.case("W85")
def test_a_message_sent_back_comes_to_the_retry_topic_after_ten_seconds(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.send("T", b"hello", {"TAGS": "a", "KEYS": "k"}, h="7")
    original = stored(peer)
    assert send_back(peer, original.commit_log_offset).code == 0
    broker.clock.advance(9.999)
    assert peer.pull(RETRY).ext_fields["maxOffset"] == "0"
    broker.clock.advance(0.001)
    retry = stored(peer, RETRY)
    assert retry.reconsume_times == 1
    assert retry.body == b"hello"
    assert retry.flag == 7
    assert retry.born_timestamp == original.born_timestamp
    assert retry.born_host == original.born_host
    kept = {name: retry.properties[name] for name in ("UNIQ_KEY", "TAGS", "KEYS")}
    assert kept == {"UNIQ_KEY": "ID0001", "TAGS": "a", "KEYS": "k"}
    assert retry.properties["RETRY_TOPIC"] == "T"
    assert retry.properties["ORIGIN_MESSAGE_ID"] == original.offset_msg_id
    assert retry.properties["WAIT"] == "false"
    assert retry.offset_msg_id != original.offset_msg_id


def test_a_second_failure_keeps_the_first_origin(broker: EmbeddedBroker, peer: WirePeer) -> None:
    peer.send("T")
    original = stored(peer)
    send_back(peer, original.commit_log_offset)
    broker.clock.advance(10)
    send_back(peer, stored(peer, RETRY).commit_log_offset)
    broker.clock.advance(30)
    second = records(peer.pull(RETRY))[1]
    assert second.reconsume_times == 2
    assert second.properties["RETRY_TOPIC"] == "T"
    assert second.properties["ORIGIN_MESSAGE_ID"] == original.offset_msg_id


@pytest.mark.case("W86")
@pytest.mark.parametrize(("reconsumed", "level"), [("16", 0), ("0", -1)])
def test_a_message_that_failed_too_often_goes_to_the_dead_letters(
    broker: EmbeddedBroker, peer: WirePeer, reconsumed: str, level: int
) -> None:
    peer.send("T", j=reconsumed)
    assert send_back(peer, stored(peer).commit_log_offset, level).code == 0
    dead = stored(peer, DLQ)
    assert dead.reconsume_times == int(reconsumed) + 1
    assert dead.queue_id == 0
    assert waiting_level(broker) is None
    broker.clock.advance(7200)
    assert peer.pull(RETRY).ext_fields["maxOffset"] == "0"


@pytest.mark.case("W87")
def test_an_offset_without_a_record_is_1_and_stores_nothing(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.send("T")
    offset = stored(peer).commit_log_offset
    parts = broker._parts()
    end = parts.store.log.max_offset
    for wrong in (offset + 1, end, end + 1000, -1):
        answer = send_back(peer, wrong)
        assert answer.code == 1
        assert str(wrong) in (answer.remark or "")
    assert parts.store.log.max_offset == end


@pytest.mark.case("L8")
@pytest.mark.parametrize(
    ("reconsumed", "asked", "level"),
    [(0, 0, 3), (1, 0, 4), (15, 0, 18), (16, 0, None), (0, -1, None), (0, 5, 5)],
)
def test_the_level_of_a_retry_follows_from_the_tries(
    broker: EmbeddedBroker, peer: WirePeer, reconsumed: int, asked: int, level: int | None
) -> None:
    peer.send("T", j=str(reconsumed))
    assert send_back(peer, stored(peer).commit_log_offset, asked).code == 0
    assert waiting_level(broker) == level
    if level is None:
        assert stored(peer, DLQ).reconsume_times == reconsumed + 1


@pytest.mark.case("P33")
def test_a_delivered_timer_that_fails_goes_through_the_levels_and_is_not_timed_again(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.send("T", properties={"TIMER_DELAY_SEC": "5"})
    broker.clock.advance(5)
    delivered = stored(peer)
    assert send_back(peer, delivered.commit_log_offset).code == 0
    assert waiting_level(broker) == 3
    broker.clock.advance(10)
    retry = stored(peer, RETRY)
    assert retry.reconsume_times == 1
    assert "TIMER_OUT_MS" in retry.properties
    assert send_back(peer, retry.commit_log_offset, maxReconsumeTimes="1").code == 0
    assert stored(peer, DLQ).body == b"hello"
    assert broker.timers.count() == 0
    assert peer.pull("rmq_sys_wheel_timer").ext_fields["maxOffset"] == "1"


def test_the_clients_maximum_counts_when_the_client_is_new_enough(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.send("T", j="2")
    offset = str(stored(peer).commit_log_offset)
    fields = {
        "offset": offset,
        "group": "consumers",
        "delayLevel": "0",
        "maxReconsumeTimes": "2",
    }
    peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields, version=79)
    assert waiting_level(broker) == 5
    peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields, version=121)
    assert stored(peer, DLQ).reconsume_times == 3


def test_a_group_without_retry_queues_drops_what_it_sends_back(peer: WirePeer) -> None:
    body = b'{"groupName":"consumers","retryQueueNums":0}'
    peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    peer.send("T")
    assert send_back(peer, stored(peer).commit_log_offset).code == 0
    assert peer.pull(RETRY).code == ResponseCode.TOPIC_NOT_EXIST


def test_an_unknown_group_is_26(start_broker: StartBroker, connect: Connect) -> None:
    peer = connect(start_broker(config={"autoCreateSubscriptionGroup": False}).addr)
    assert send_back(peer, 0).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


# -- copies that the client sends itself ----------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "tried", "topic"),
    [
        ("rocketmq-4.9", "15", RETRY),
        ("rocketmq-4.9", "16", DLQ),
        ("rocketmq-5.x", "16", RETRY),
        ("rocketmq-5.x", "17", DLQ),
    ],
)
def test_a_clients_own_copy_goes_to_the_dead_letters_by_profile(
    start_broker: StartBroker, connect: Connect, profile: str, tried: str, topic: str
) -> None:
    broker = start_broker(profile=profile)
    peer = connect(broker.addr)
    assert peer.send(RETRY, properties={"DELAY": "3"}, j=tried).code == 0
    if topic == RETRY:
        assert waiting_level(broker) == 3
        broker.clock.advance(10)
    assert stored(peer, topic).reconsume_times == int(tried)


def test_a_copy_of_a_group_that_holds_a_lock_goes_to_the_dead_letters_at_once(
    peer: WirePeer,
) -> None:
    lock = (
        b'{"consumerGroup":"consumers","clientId":"c1",'
        b'"mqSet":[{"topic":"T","brokerName":"broker-a","queueId":0}]}'
    )
    assert peer.ask(RequestCode.LOCK_BATCH_MQ, body=lock).code == 0
    peer.send(RETRY, properties={"DELAY": "3"}, j="1")
    dead = stored(peer, DLQ)
    assert decode_properties(dead.properties_bytes)["DELAY"] == "-1"
