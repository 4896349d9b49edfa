"""How a transaction ends: what 37 does, and what it refuses."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.store.put_values import InnerMessage, PutRefusal, PutStatus
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.message_codec import encode_batch
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.core.transactions.prepared import (
    COMMIT,
    HALF,
    OP,
    ROLLBACK,
    UNKNOWN,
    end,
    end_fields,
    open_count,
    send_half,
    stored,
)
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, send_fields


@pytest.mark.case("W89")
def test_a_half_message_is_unseen_and_the_answer_names_the_queue_asked_for(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    half = send_half(peer, e="3")

    assert half.answer.ext_fields["queueId"] == "3"
    assert half.answer.ext_fields["transactionId"] == "ID0001"
    assert "recallHandle" not in half.answer.ext_fields
    assert broker.topics["T"].count() == 0
    (record,) = stored(broker, HALF)
    assert (record.queue_id, record.queue_offset) == (0, half.queue_offset)
    assert record.commit_log_offset == half.log_offset
    assert (record.properties["REAL_TOPIC"], record.properties["REAL_QID"]) == ("T", "3")
    assert record.sys_flag & 0xC == 0


@pytest.mark.case("W89")
def test_a_commit_makes_the_message_visible_once_as_a_real_broker_writes_it(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    send_half(peer, b"first")
    half = send_half(peer, b"body", properties={"TAGS": "a", "KEYS": "k"}, e="2", h="7")

    assert end(peer, half, COMMIT).code == ResponseCode.SUCCESS

    (record,) = stored(broker, "T")
    assert (record.queue_id, record.body, record.flag) == (2, b"body", 7)
    assert record.sys_flag & 0xC == COMMIT
    assert record.prepared_transaction_offset == half.log_offset
    assert record.properties == {
        "UNIQ_KEY": "ID0001",
        "WAIT": "true",
        "TRAN_MSG": "true",
        "PGROUP": "P",
        "TAGS": "a",
        "KEYS": "k",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
        "__transactionId__": "ID0001",
        "REAL_TOPIC": "T",
        "REAL_QID": "2",
    }
    assert [message.body for message in broker.messages.in_topic("T")] == [b"body"]


@pytest.mark.parametrize(("profile", "body"), [("rocketmq-5.x", b"0,"), ("rocketmq-4.9", b"0")])
def test_the_end_is_marked_in_the_form_of_the_version(
    start_broker: StartBroker, connect: Connect, profile: str, body: bytes
) -> None:
    broker = start_broker(profile=profile)
    peer = connect(broker.addr)

    end(peer, send_half(peer), COMMIT)

    (mark,) = stored(broker, OP)
    assert (mark.body, mark.properties["TAGS"]) == (body, "d")
    assert open_count(broker) == 0


@pytest.mark.case("W91")
def test_a_rollback_is_never_visible(broker: EmbeddedBroker, peer: WirePeer) -> None:
    assert end(peer, send_half(peer), ROLLBACK).code == ResponseCode.SUCCESS

    broker.clock.advance(days=2)

    assert broker.topics["T"].count() == 0
    assert open_count(broker) == 0
    assert peer.pushed == []


@pytest.mark.case("W91")
@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"producerGroup": "another"}, "The producer group wrong"),
        ({"tranStateTableOffset": "5"}, "The transaction state table offset wrong"),
        ({"commitLogOffset": "1"}, "Find prepared transaction message failed"),
        ({"commitLogOffset": "99999"}, "Find prepared transaction message failed"),
    ],
)
def test_who_does_not_name_the_half_message_ends_nothing(
    broker: EmbeddedBroker, peer: WirePeer, changed: dict[str, str], reason: str
) -> None:
    half = send_half(peer)

    answer = end(peer, half, COMMIT, **changed)

    assert (answer.code, (answer.remark or "").startswith(reason)) == (1, True), answer.remark
    assert broker.topics["T"].count() == 0
    assert open_count(broker) == 1


def test_an_ordinary_message_cannot_be_committed(broker: EmbeddedBroker, peer: WirePeer) -> None:
    half = send_half(peer)
    end(peer, half, COMMIT)
    (record,) = stored(broker, "T")

    answer = end(peer, half, COMMIT, commitLogOffset=str(record.commit_log_offset))

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert broker.topics["T"].count() == 1


@pytest.mark.case("W92")
@pytest.mark.parametrize("outcome", [UNKNOWN, 4, 77])
def test_what_is_not_decided_gets_no_answer_at_all(
    broker: EmbeddedBroker, peer: WirePeer, outcome: int
) -> None:
    half = send_half(peer)

    opaque = peer.post(RequestCode.END_TRANSACTION, end_fields(half, outcome))

    assert not peer.has_answer(opaque)
    assert open_count(broker) == 1


def test_a_repeated_commit_delivers_again_as_a_real_broker_does(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    half = send_half(peer)
    end(peer, half, COMMIT)

    assert end(peer, half, COMMIT).code == ResponseCode.SUCCESS

    assert broker.topics["T"].count() == 2


def test_a_repeated_end_can_be_refused(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(config={"transactionEndOnce": True})
    peer = connect(broker.addr)
    half = send_half(peer)
    assert end(peer, half, COMMIT).code == ResponseCode.SUCCESS

    for outcome in (COMMIT, ROLLBACK):
        answer = end(peer, half, outcome)
        assert (answer.code, "transactionEndOnce" in (answer.remark or "")) == (1, True)

    assert broker.topics["T"].count() == 1


def test_who_speaks_up_unasked_after_its_immunity_is_refused_with_604(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    half = send_half(peer, properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "20"})
    broker.clock.advance(21)

    for outcome in (COMMIT, ROLLBACK):
        answer = end(peer, half, outcome)
        assert answer.code == ResponseCode.ILLEGAL_OPERATION
        assert "20000 ms" in (answer.remark or "")
    assert broker.topics["T"].count() == 0
    assert end(peer, half, COMMIT, fromTransactionCheck="true").code == ResponseCode.SUCCESS
    assert broker.topics["T"].count() == 1


def test_without_an_immunity_of_its_own_a_late_end_counts(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    half = send_half(peer)
    broker.clock.advance(3600)

    assert end(peer, half, COMMIT).code == ResponseCode.SUCCESS


@pytest.mark.case("A21")
def test_a_delay_counts_from_the_commit(broker: EmbeddedBroker, peer: WirePeer) -> None:
    half = send_half(peer, b"later", properties={"TIMER_DELAY_SEC": "5"})
    dropped = send_half(peer, b"never", properties={"TIMER_DELAY_SEC": "5"})
    assert [record.topic for record in stored(broker, HALF)] == [HALF, HALF]
    assert broker.timers.count() == 0

    broker.clock.advance(3)
    end(peer, half, COMMIT)
    end(peer, dropped, ROLLBACK)
    committed_ms = broker.clock.now_ms

    assert broker.timers.count(topic="T") == 1
    broker.clock.advance(4.999)
    assert broker.topics["T"].count() == 0
    broker.clock.advance(0.001)
    (record,) = stored(broker, "T")
    assert (record.body, record.store_timestamp) == (b"later", committed_ms + 5000)
    broker.clock.advance(days=2)
    assert broker.topics["T"].count() == 1


@pytest.mark.case("A22")
def test_an_absolute_time_that_is_past_at_the_commit_means_at_once(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    due_ms = str(broker.clock.now_ms + 2000)
    half = send_half(peer, properties={"TIMER_DELIVER_MS": due_ms})
    broker.clock.advance(3)
    assert broker.topics["T"].count() == 0

    end(peer, half, COMMIT)

    assert broker.topics["T"].count() == 1
    assert broker.timers.count() == 0


def test_a_delay_level_counts_from_the_commit_too(broker: EmbeddedBroker, peer: WirePeer) -> None:
    half = send_half(peer, properties={"DELAY": "2"})
    broker.clock.advance(4)
    end(peer, half, COMMIT)

    broker.clock.advance(4.999)
    assert broker.topics["T"].count() == 0
    broker.clock.advance(0.001)
    assert broker.topics["T"].count() == 1


def test_a_delay_that_is_refused_at_the_commit_leaves_the_half_message(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    half = send_half(peer, properties={"TIMER_DELAY_SEC": "259201"})

    answer = end(peer, half, COMMIT)

    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "259200000" in (answer.remark or "")
    assert open_count(broker) == 1


def test_a_commit_that_the_store_refuses_leaves_the_half_message(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    class Full:
        name = "full"

        def before_put(self, msg: InnerMessage, now_ms: int) -> PutRefusal | None:
            del now_ms
            return PutRefusal(PutStatus.SERVICE_NOT_AVAILABLE) if msg.topic == "T" else None

    half = send_half(peer)
    broker.put_hooks.append(Full())

    assert end(peer, half, COMMIT).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert open_count(broker) == 1


def test_a_half_message_that_names_no_destination_cannot_be_committed(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    parts = broker._parts()
    with parts.door:
        put = parts.store.put(InnerMessage(HALF, 0, b"x", {"PGROUP": "P", "REAL_TOPIC": "T"}))
    half = send_half(peer)._replace(queue_offset=put.queue_offset, log_offset=put.commit_log_offset)

    answer = end(peer, half, COMMIT)

    assert (answer.code, "its topic and queue" in (answer.remark or "")) == (1, True)


def test_transactions_can_be_switched_off(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(config={"rejectTransactionMessage": True})
    fields = send_fields("T", {"TRAN_MSG": "true", "PGROUP": "P"}, f="4")

    answer = connect(broker.addr).ask(RequestCode.SEND_MESSAGE_V2, fields, b"x")

    assert answer.code == ResponseCode.NO_PERMISSION
    assert "rejectTransactionMessage" in (answer.remark or "")


def test_half_messages_that_only_say_so_in_a_bit_or_in_a_batch_are_refused(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    answer = peer.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T", f="4"), b"x")
    assert (answer.code, "TRAN_MSG" in (answer.remark or "")) == (13, True)

    batch = encode_batch([(0, b"x", b"")])
    fields = send_fields("T", {"TRAN_MSG": "true"}, m="true")
    answer = peer.ask(RequestCode.SEND_BATCH_MESSAGE, fields, batch)
    assert (answer.code, "batch" in (answer.remark or "")) == (13, True)
    assert broker.topics["T"].count() == 0


def test_a_retry_that_still_says_it_was_a_transaction_is_an_ordinary_message(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    fields = send_fields("%RETRY%G", {"TRAN_MSG": "true", "DELAY": "1"}, j="1", c="%RETRY%G")

    assert peer.ask(RequestCode.SEND_MESSAGE_V2, fields, b"x").code == ResponseCode.SUCCESS

    broker.clock.advance(1)
    assert broker.topics["%RETRY%G"].count() == 1
    assert stored(broker, HALF) == []
