"""When producers are asked about open transactions, and what a restart knows of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.clocks.timeline import Alarm
from embedded_broker.core.transactions import TransactionalMessageService
from embedded_broker.lifecycle.assembly import transactions_of
from embedded_broker.store.put_values import InnerMessage, PutRefusal, PutStatus
from rocketmq_py.protocol.codes import FLAG_ONEWAY, RequestCode
from rocketmq_py.protocol.message_codec import decode_record
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.core.transactions.prepared import (
    COMMIT,
    HALF,
    OP,
    PARKED,
    ROLLBACK,
    asked,
    end,
    open_count,
    send_half,
    stored,
)
from tests.unit.embedded_broker.store.store_tools import delete_before
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer

INTERVAL_S, TIMEOUT_S, ROUNDS = 30, 6, 15


def checks(peer: WirePeer) -> int:
    """How many requests 39 came and were not looked at yet."""
    peer.barrier()
    return len(peer.pushed)


def again(broker: EmbeddedBroker) -> TransactionalMessageService:
    """What a broker that opens this store would know, without the memory of the running one."""
    parts = broker._parts()
    with parts.door:
        service = transactions_of(parts)
        service.load()
    return service


@pytest.mark.case("W90")
def test_a_producer_is_asked_after_the_timeout_and_then_every_interval(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.heartbeat("client", producers=["P"])
    half = send_half(peer, b"body", e="2", properties={"KEYS": "k"})
    accepted_ms = broker.clock.now_ms

    broker.clock.advance(TIMEOUT_S - 0.001)
    assert checks(peer) == 0
    assert broker.clock.next_deadline() is not None
    broker.clock.advance(0.001)
    push = peer.push()

    assert push.code == RequestCode.CHECK_TRANSACTION_STATE
    assert push.flag == FLAG_ONEWAY
    record = decode_record(push.body)
    assert (record.topic, record.queue_id, record.body) == ("T", 2, b"body")
    assert record.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert record.properties["KEYS"] == "k"
    assert "TRAN_SRC_OFFSET" not in record.properties
    seen = asked(push)
    assert seen.log_offset == record.commit_log_offset > half.log_offset
    assert seen.queue_offset == record.queue_offset == half.queue_offset + 1
    assert {name: push.ext_fields[name] for name in ("msgId", "transactionId", "bname")} == {
        "msgId": "ID0001",
        "transactionId": "ID0001",
        "bname": "broker-a",
    }
    assert push.ext_fields["offsetMsgId"] == record.offset_msg_id
    due = broker.clock.next_deadline()
    assert due is not None
    assert due.due_ms == accepted_ms + (TIMEOUT_S + INTERVAL_S) * 1000


@pytest.mark.case("W90")
def test_every_round_has_new_offsets_and_after_the_last_the_message_is_parked(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.heartbeat("client", producers=["P"])
    half = send_half(peer, b"body")
    seen = {half[:2]}
    broker.clock.advance(TIMEOUT_S)
    for number in range(1, ROUNDS + 1):
        copy = asked(peer.push())
        assert copy[:2] not in seen
        seen.add(copy[:2])
        assert decode_record(copy.answer.body).properties["TRANSACTION_CHECK_TIMES"] == str(number)
        assert stored(broker, PARKED) == []
        broker.clock.advance(INTERVAL_S)

    assert checks(peer) == 0
    (record,) = stored(broker, PARKED)
    assert record.body == b"body"
    assert record.properties["TRANSACTION_CHECK_TIMES"] == str(ROUNDS)
    assert open_count(broker) == 0
    assert broker.clock.next_deadline() is None


def test_an_answer_to_a_check_ends_the_transaction(broker: EmbeddedBroker, peer: WirePeer) -> None:
    peer.heartbeat("client", producers=["P"])
    send_half(peer)
    broker.clock.advance(TIMEOUT_S)

    assert end(peer, asked(peer.push()), COMMIT, fromTransactionCheck="true").code == 0

    broker.clock.advance(days=1)
    assert checks(peer) == 0
    assert broker.topics["T"].count() == 1
    (record,) = stored(broker, "T")
    assert "TRAN_SRC_OFFSET" not in record.properties


def test_without_a_producer_the_rounds_go_on_and_are_counted(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    send_half(peer)

    broker.clock.advance(TIMEOUT_S + ROUNDS * INTERVAL_S)

    assert len(stored(broker, PARKED)) == 1
    assert broker._parts().transactions.counters == {"no producer": ROUNDS, "parked": 1}


def test_producers_of_a_group_are_asked_in_turn_and_others_never(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    one, two, other = (connect(broker.addr) for _ in range(3))
    one.heartbeat("one", producers=["P"])
    two.heartbeat("two", producers=["P"])
    other.heartbeat("other", producers=["Q"])
    for number in range(4):
        send_half(one, unique_key=f"ID{number}")

    broker.clock.advance(TIMEOUT_S)

    assert (checks(one), checks(two), checks(other)) == (2, 2, 0)


def test_a_producer_that_left_is_not_asked(broker: EmbeddedBroker, connect: Connect) -> None:
    gone, here = connect(broker.addr), connect(broker.addr)
    gone.heartbeat("gone", producers=["P"])
    here.heartbeat("here", producers=["P"])
    send_half(gone)
    gone.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "gone", "producerGroup": "P"})

    broker.clock.advance(TIMEOUT_S)
    broker.clock.advance(INTERVAL_S)

    assert checks(here) == 2


def test_a_live_producer_is_asked_once_in_a_jump_however_long(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.heartbeat("client", producers=["P"])
    send_half(peer)

    broker.clock.advance(days=30)

    assert checks(peer) == 1
    assert open_count(broker) == 1
    due = broker.clock.next_deadline()
    assert due is not None
    assert due.due_ms == broker.clock.now_ms + INTERVAL_S * 1000
    broker.clock.advance(INTERVAL_S)
    assert checks(peer) == 2


def test_a_short_jump_does_not_put_the_next_check_off(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.heartbeat("client", producers=["P"])
    send_half(peer)

    broker.clock.advance(TIMEOUT_S + 10)
    broker.clock.advance(INTERVAL_S - 10)

    assert checks(peer) == 2


def test_an_immunity_of_its_own_decides_about_the_first_check_only(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.heartbeat("client", producers=["P"])
    send_half(peer, properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "100"})
    broker.clock.advance(99.999)
    assert checks(peer) == 0
    broker.clock.advance(0.001)
    assert checks(peer) == 1
    broker.clock.advance(INTERVAL_S)
    assert checks(peer) == 2


@pytest.mark.parametrize("text", ["-1", "0", "soon", "9" * 30])
def test_an_immunity_that_is_no_positive_number_counts_as_none(
    broker: EmbeddedBroker, peer: WirePeer, text: str
) -> None:
    peer.heartbeat("client", producers=["P"])
    send_half(peer, properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": text})
    broker.clock.advance(TIMEOUT_S)
    assert checks(peer) == 1


def test_half_messages_older_than_the_log_keeps_are_parked_without_a_question(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.heartbeat("client", producers=["P"])
    send_half(peer, properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": str(73 * 3600)})

    broker.clock.advance(hours=72.5, age=True)
    broker.clock.advance(hours=0.5)

    assert checks(peer) == 0
    assert len(stored(broker, PARKED)) == 1


def test_other_settings_move_the_next_check_at_once(broker: EmbeddedBroker, peer: WirePeer) -> None:
    peer.heartbeat("client", producers=["P"])
    send_half(peer)

    broker.config.update(transactionTimeOut=1000, transactionCheckInterval=2000)
    broker.clock.advance(1)
    assert checks(peer) == 1
    broker.clock.advance(2)
    assert checks(peer) == 2
    broker.config.update(transactionCheckMax=2)
    broker.clock.advance(2)
    assert len(stored(broker, PARKED)) == 1


def test_a_4_9_broker_asks_every_minute(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(profile="rocketmq-4.9")
    assert broker.config["transactionCheckInterval"] == 60_000
    peer = connect(broker.addr)
    peer.heartbeat("client", producers=["P"])
    send_half(peer)
    broker.clock.advance(TIMEOUT_S)
    broker.clock.advance(59.999)
    assert checks(peer) == 1
    broker.clock.advance(0.001)
    assert checks(peer) == 2


class Refuse:
    """A put hook that keeps messages out of one topic."""

    name = "refuse"

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutRefusal | None:
        del now_ms
        refused = msg.topic == self.topic
        return PutRefusal(PutStatus.SERVICE_NOT_AVAILABLE) if refused else None


def test_a_check_that_cannot_be_stored_is_tried_again(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.heartbeat("client", producers=["P"])
    send_half(peer)
    broker.put_hooks.append(Refuse(HALF))
    broker.clock.advance(TIMEOUT_S)
    assert (checks(peer), open_count(broker)) == (0, 1)

    broker.put_hooks.remove("refuse")
    broker.clock.advance(INTERVAL_S)
    assert checks(peer) == 1


@pytest.mark.parametrize("outcome", [COMMIT, ROLLBACK])
def test_an_end_whose_mark_finds_no_room_is_kept_in_mind_and_nobody_is_asked(
    broker: EmbeddedBroker, peer: WirePeer, outcome: int
) -> None:
    peer.heartbeat("client", producers=["P"])
    first, _second = send_half(peer), send_half(peer)
    broker.put_hooks.append(Refuse(OP))
    end(peer, first, outcome)
    assert open_count(broker) == 1
    broker.clock.advance(TIMEOUT_S)
    assert checks(peer) == 1  # about the second one
    assert again(broker).count() == 2

    broker.put_hooks.remove("refuse")
    end(peer, asked(peer.push()), ROLLBACK)  # a mark that finds room brings the missing one along

    assert again(broker).count() == open_count(broker) == 0
    assert len(stored(broker, "T")) == (outcome == COMMIT)


def test_missing_marks_are_written_without_another_end(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    half = send_half(peer)
    broker.put_hooks.append(Refuse(OP))
    end(peer, half, COMMIT)
    broker.put_hooks.remove("refuse")
    assert again(broker).count() == 1
    parts = broker._parts()
    broker.wait_for(lambda _: parts.store.max_offset(OP, 0) == 1)
    assert again(broker).count() == 0
    assert len(stored(broker, "T")) == 1


def test_a_parking_whose_mark_finds_no_room_parks_once(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    broker.config.update(transactionCheckMax=0)
    send_half(peer)
    broker.put_hooks.append(Refuse(PARKED))
    broker.clock.advance(TIMEOUT_S)
    assert open_count(broker) == 1

    broker.put_hooks.remove("refuse")
    broker.put_hooks.append(Refuse(OP))
    for _ in range(3):
        broker.clock.advance(INTERVAL_S)
    assert (open_count(broker), len(stored(broker, PARKED))) == (0, 1)


def test_a_restart_knows_what_is_open_and_when_it_is_due(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    halves = [send_half(peer, unique_key=f"ID{number}") for number in range(4)]
    end(peer, halves[0], COMMIT)
    end(peer, halves[2], ROLLBACK)
    running = broker._parts().transactions

    fresh = again(broker)

    assert fresh.count() == running.count() == 2
    assert fresh.next_deadline() == running.next_deadline()
    assert [fresh.is_open(half.queue_offset) for half in halves] == [False, True, False, True]


def test_a_restart_after_a_check_asks_about_the_copy_only(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    half = send_half(peer)
    broker.clock.advance(TIMEOUT_S)
    broker.clock.advance(INTERVAL_S)

    fresh = again(broker)

    assert fresh.count() == 1
    assert not fresh.is_open(half.queue_offset)
    assert fresh.is_open(half.queue_offset + 2)
    assert fresh.next_deadline() == broker._parts().transactions.next_deadline()


def test_a_copy_that_a_real_broker_put_back_is_ended_by_its_first_offset(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    half = send_half(peer)
    other = send_half(peer, unique_key="ID0002")
    end(peer, other, ROLLBACK)
    parts = broker._parts()
    with parts.door:
        for first in (half, other, half):  # put back twice while its immunity lasted
            record = parts.transactions.find(first.log_offset)
            assert record is not None
            properties = record.properties | {
                "CHECK_IMMUNITY_TIME_IN_SECONDS": "60",
                "TRAN_PREPARED_QUEUE_OFFSET": str(first.queue_offset),
            }
            parts.store.put(InnerMessage(HALF, 0, record.body, properties))

    fresh = again(broker)

    assert fresh.count() == 1
    assert fresh.is_open(half.queue_offset)
    with parts.door:
        fresh.remove(half.queue_offset)
    assert fresh.count() == 0
    assert again(broker).count() == 0


def test_a_clean_stop_leaves_offsets_that_skip_what_is_done(start_broker: StartBroker) -> None:
    broker = start_broker(tcp=True)
    with WirePeer(broker.addr) as peer:
        for number in range(300):
            half = send_half(peer, unique_key=f"ID{number}")
            if number != 290:
                end(peer, half, COMMIT)
    broker.restart()

    parts = broker._parts()
    with parts.door.quiet:
        assert parts.tables.offsets.query("CID_RMQ_SYS_TRANS", HALF, 0) == 290
        assert parts.tables.offsets.query("CID_RMQ_SYS_TRANS", OP, 0) == 256
        assert parts.transactions.count() == 1
    with WirePeer(broker.addr) as peer:
        peer.heartbeat("client", producers=["P"])
        broker.clock.advance(TIMEOUT_S)
        end(peer, asked(peer.push()), ROLLBACK, fromTransactionCheck="true")
    broker.restart()
    parts = broker._parts()
    with parts.door.quiet:
        assert parts.tables.offsets.query("CID_RMQ_SYS_TRANS", HALF, 0) == 301
        assert parts.tables.offsets.query("CID_RMQ_SYS_TRANS", OP, 0) == 300


def test_a_crash_loses_no_transaction_and_asks_about_none_twice(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker()
    peer = connect(broker.addr)
    halves = [send_half(peer, b"%d" % number, unique_key=f"ID{number}") for number in range(4)]
    end(peer, halves[0], COMMIT)
    end(peer, halves[1], ROLLBACK)
    broker.clock.advance(TIMEOUT_S)

    broker.crash()
    broker.restart()

    assert open_count(broker) == 2
    peer = connect(broker.addr)
    peer.heartbeat("client", producers=["P"])
    broker.clock.advance(INTERVAL_S)
    for push in (peer.push(), peer.push()):
        assert decode_record(push.body).properties["TRANSACTION_CHECK_TIMES"] == "2"
        end(peer, asked(push), COMMIT, fromTransactionCheck="true")
    assert checks(peer) == 0
    assert sorted(record.body for record in stored(broker, "T")) == [b"0", b"2", b"3"]
    assert open_count(broker) == 0


def test_marks_that_reach_behind_an_open_half_message_are_read_again(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    with WirePeer(broker.addr) as peer:
        for number in range(300):
            half = send_half(peer, unique_key=f"ID{number}")
            if number != 10:
                end(peer, half, COMMIT)
    broker.restart()

    parts = broker._parts()
    with parts.door.quiet:
        assert parts.tables.offsets.query("CID_RMQ_SYS_TRANS", HALF, 0) == 10
        assert parts.tables.offsets.query("CID_RMQ_SYS_TRANS", OP, 0) == -1
        assert parts.transactions.count() == 1


def test_offsets_are_committed_only_for_what_is_durable(start_broker: StartBroker) -> None:
    session = VirtualClock()
    never = {"flushIntervalCommitLog": 10**9, "timerFlushIntervalMs": 10**9}
    broker = start_broker(session_clock=session, config=never)
    parts = broker._parts()

    def committed() -> int:
        session.advance(5)
        with parts.door.quiet:
            return parts.tables.offsets.query("CID_RMQ_SYS_TRANS", HALF, 0)

    with WirePeer(broker.addr) as peer:
        end(peer, send_half(peer), COMMIT)
        assert [committed() for _ in range(4)] == [-1] * 4
        parts.durability.request_flush()
        broker.wait_for(lambda _: parts.store.flushed_offset == parts.store.log.max_offset)
        assert committed() == 1


def test_a_new_half_message_makes_the_clock_driver_look_again(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    rung: list[int] = []

    class Heard(Alarm):
        def ring(self, due_ms: int = 0) -> None:
            rung.append(due_ms)
            super().ring(due_ms)

    broker._parts().transactions.alarm = Heard()
    send_half(peer)
    assert len(rung) == 1


def test_the_heap_does_not_grow_with_transactions_that_end_in_time(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    for number in range(300):
        end(peer, send_half(peer, unique_key=f"ID{number}"), COMMIT)

    assert len(broker._parts().transactions._heap) < 100


def fired_in_order(
    start_broker: StartBroker, connect: Connect, seed: int
) -> list[tuple[int, int, bytes]]:
    """Let timers, levels, retries and a check become due; gives time, queue and body of each."""
    clock = VirtualClock(datetime(2030, 1, 1, tzinfo=UTC))
    broker = start_broker(topics=["T", "A", "B", "C"], clock=clock, seed=seed)
    peer = connect(broker.addr)
    peer.heartbeat("client", producers=["P"])
    began_ms = broker.clock.now_ms
    send_half(peer)
    broker.send("C", b"at 9", delay=9)
    broker.send("B", b"level at 5", delay_level=2)
    broker.send("A", b"at 7", delay=7)
    broker.send("A", b"at 5", delay=5)
    broker.send("C", b"also at 5", delay=5)
    broker.send("%RETRY%G", b"retry at 5", delay_level=2)
    broker.send("B", b"at 5, too", delay=5)
    broker.send("%RETRY%G", b"retry at 1", delay_level=1)
    broker.send("C", b"at 5.5", delay=5.5)
    broker.send("A", b"at 6", delay=6)

    broker.clock.advance(10)

    checked = stored(broker, HALF)[-1]
    topics = ("A", "B", "C", "%RETRY%G")
    records = [checked, *(record for topic in topics for record in stored(broker, topic))]
    records.sort(key=lambda record: record.commit_log_offset)
    assert checks(peer) == 1
    return [
        (one.store_timestamp - began_ms, one.queue_id, b"check" if one is checked else one.body)
        for one in records
    ]


@pytest.mark.case("K4")
def test_timers_levels_retries_and_checks_fire_in_one_order_by_due_time_and_arrival(
    start_broker: StartBroker, connect: Connect
) -> None:
    fired = fired_in_order(start_broker, connect, seed=1)

    assert [(at, body) for at, _, body in fired] == [
        (1000, b"retry at 1"),
        (5000, b"level at 5"),
        (5000, b"at 5"),
        (5000, b"also at 5"),
        (5000, b"retry at 5"),
        (5000, b"at 5, too"),
        (5500, b"at 5.5"),
        (6000, b"check"),
        (6000, b"at 6"),
        (7000, b"at 7"),
        (9000, b"at 9"),
    ]
    assert fired_in_order(start_broker, connect, seed=1) == fired
    others = [fired_in_order(start_broker, connect, seed=seed) for seed in range(2, 5)]
    assert any(other != fired for other in others), "no choice that the seed drives"


def test_a_reset_forgets_open_transactions(broker: EmbeddedBroker, connect: Connect) -> None:
    send_half(connect(broker.addr))

    broker.reset()

    assert open_count(broker) == 0
    assert broker.clock.next_deadline() is None
    peer = connect(broker.addr)
    peer.heartbeat("client", producers=["P"])
    half = send_half(peer)
    broker.clock.advance(TIMEOUT_S)
    assert checks(peer) == 1
    assert half.queue_offset == 0


def test_a_half_message_that_left_the_log_is_given_up(
    start_broker: StartBroker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_broker(config={"mappedFileSizeCommitLog": 4096})
    peer = connect(broker.addr)
    peer.heartbeat("client", producers=["P"])
    send_half(peer)
    for _ in range(40):
        peer.send("U", b"x" * 100)
    parts = broker._parts()
    with parts.door:
        assert delete_before(parts.store, 4096) == 1

    broker.clock.advance(TIMEOUT_S)

    assert checks(peer) == 0
    assert open_count(broker) == 0
    assert parts.transactions.counters == {"unreadable": 1}
    assert "no longer in the log" in caplog.text


def test_a_message_that_was_parked_is_asked_about_again_when_that_is_wished(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    """Request 323."""
    peer.heartbeat("client", producers=["P"])
    send_half(peer, b"body")
    broker.clock.advance(TIMEOUT_S)
    for _ in range(ROUNDS):
        broker.clock.advance(INTERVAL_S)
    checks(peer)
    (record,) = stored(broker, PARKED)
    code = RequestCode.RESUME_CHECK_HALF_MESSAGE
    assert peer.ask(code, {"topic": PARKED, "msgId": record.offset_msg_id}).code == 0
    assert open_count(broker) == 1
    broker.clock.advance(TIMEOUT_S + INTERVAL_S)
    copy = asked(peer.push())
    assert decode_record(copy.answer.body).properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert end(peer, copy, COMMIT, fromTransactionCheck="true").code == 0
    assert [one.body for one in stored(broker, "T")] == [b"body"]


@pytest.mark.parametrize("plain", [False, True])
def test_what_is_no_half_message_cannot_be_asked_about(peer: WirePeer, plain: bool) -> None:
    msg_id = peer.send("T").ext_fields["msgId"] if plain else "no id"
    code = RequestCode.RESUME_CHECK_HALF_MESSAGE
    assert peer.ask(code, {"topic": "T", "msgId": msg_id}).code == 1
