"""Which records are the same message."""

from __future__ import annotations

from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, MessageState, VirtualClock
from embedded_broker.api.views.copies import Journey, follow
from embedded_broker.store.put_values import InnerMessage
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import HALF_TOPIC, TIMER_TOPIC
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from tests.unit.embedded_broker.api.views.manual_consumer import ManualConsumer


def put(broker: EmbeddedBroker, topic: str, properties: dict[str, str]) -> None:
    """Store a message past everything that looks at messages of clients."""
    parts = broker._parts()
    with parts.door:
        assert parts.store.put(InnerMessage(topic, 0, b"x", properties)).ok


def test_what_another_broker_released_is_matched_in_the_order_of_the_due_times(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    late = broker.send("T", b"late", delay=50, properties={"UNIQ_KEY": "SAME"})
    soon = broker.send("T", b"soon", delay=20, properties={"UNIQ_KEY": "SAME"})
    clock.advance(1)
    put(broker, "T", {"UNIQ_KEY": "SAME", "REAL_TOPIC": "T", "TIMER_OUT_MS": "1"})

    assert broker.messages.trace(soon.offset_msg_id).state is MessageState.READY
    assert broker.messages.trace(late.offset_msg_id).state is MessageState.SCHEDULED
    assert broker.messages.trace("SAME").copies == 2


def test_a_sent_message_is_no_release_of_a_timer_with_its_id(broker: EmbeddedBroker) -> None:
    timer = broker.send("T", b"x", delay=50, properties={"UNIQ_KEY": "SAME"})
    broker.send("T", b"x", properties={"UNIQ_KEY": "SAME"})

    assert broker.messages.trace(timer.offset_msg_id).state is MessageState.SCHEDULED
    assert broker.messages.trace("SAME").state is MessageState.READY


def test_a_delivered_timer_whose_source_is_gone_has_no_time_of_acceptance(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    put(broker, "T", {"UNIQ_KEY": "ID", "REAL_TOPIC": "T", "TIMER_SRC_OFFSET": "12345"})

    seen = broker.messages.trace("ID")

    assert seen.state is MessageState.READY
    assert (seen.accepted_at, seen.ready_at) == (None, clock.now())


def test_a_timer_that_was_moved_stays_one_message(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    start = clock.now()
    sent = broker.send("T", b"x", delay=50)
    parts = broker._parts()
    for seconds in (70, 30):
        clock.advance(1)
        with parts.door:
            parts.timers.reschedule(sent.msg_id, clock.now_ms + seconds * 1000)

    seen = broker.messages.trace(sent)
    assert (seen.state, seen.copies) == (MessageState.SCHEDULED, 1)
    assert (seen.accepted_at, seen.due_at) == (start, start + timedelta(seconds=32))
    assert seen.recalled_at is None

    clock.advance(30)
    seen = broker.messages.trace(sent)
    assert (seen.state, seen.copies) == (MessageState.READY, 1)
    assert (seen.accepted_at, seen.ready_at) == (start, start + timedelta(seconds=32))
    assert broker.messages.trace(sent.offset_msg_id).state is MessageState.READY


def test_a_recall_by_handle_is_seen_too(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    sent = broker.send("T", b"x", delay=50)
    clock.advance(1)
    answer = ManualConsumer(broker).ask(
        RequestCode.RECALL_MESSAGE, {"topic": "T", "recallHandle": sent.recall_handle or ""}
    )
    assert answer is not None
    assert answer.code == 0, answer.remark

    seen = broker.messages.trace(sent)

    assert (seen.state, seen.recalled_at) == (MessageState.DELETED, clock.now())


def test_a_recall_of_one_copy_leaves_another_with_its_id_and_slot_alone(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    first, second = (
        broker.send("T", b"x", delay=50, properties={"UNIQ_KEY": "SAME"}) for _ in range(2)
    )
    parts = broker._parts()
    with parts.door:
        queue = parts.store.consume_queue(TIMER_TOPIC, 0)
        assert queue is not None
        entry = queue.entry(1)
        assert entry is not None
        victim = parts.store.record(entry[0])
        assert victim is not None
    slot = victim.properties["TIMER_OUT_MS"]
    mark = {
        "UNIQ_KEY": "SAME",
        "TIMER_DEL_UNIQKEY": "T+SAME",
        "TIMER_DEL_OFFSET": str(victim.commit_log_offset),
        "TIMER_OUT_MS": slot,
        "TIMER_DELIVER_MS": str(int(slot) + 1),
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
    }
    put(broker, TIMER_TOPIC, mark)

    assert broker.messages.trace(first.offset_msg_id).state is MessageState.SCHEDULED
    assert broker.messages.trace(second.offset_msg_id).state is MessageState.DELETED
    clock.advance(50)
    assert broker.messages.trace(first.offset_msg_id).state is MessageState.READY
    assert broker.messages.trace(second.offset_msg_id).state is MessageState.DELETED


def test_the_message_that_was_accepted_last_is_traced_whatever_keeps_it_waiting(
    broker: EmbeddedBroker,
) -> None:
    same = {"UNIQ_KEY": "SAME"}
    level = broker.send("T", b"x", delay_level=5, properties=same)
    timer = broker.send("T", b"x", delay=50, properties=same)
    first, second = (broker.messages.trace(one.offset_msg_id).due_at for one in (level, timer))

    assert first != second
    assert broker.messages.trace("SAME").due_at == second
    broker.send("T", b"x", delay_level=5, properties=same)
    assert broker.messages.trace("SAME").due_at == first


def prepare(broker: EmbeddedBroker, delay: float | None = None) -> MessageRecord:
    """Send the first half of a transaction."""
    sent = broker.send("T", b"x", delay=delay, properties={"TRAN_MSG": "true", "PGROUP": "P"})
    (half,) = broker._parts().queries.with_id(sent.msg_id).records
    assert half.topic == HALF_TOPIC
    return half


def end(broker: EmbeddedBroker, half: MessageRecord, transaction_type: int) -> None:
    """Send the second half."""
    ManualConsumer(broker).ask(
        RequestCode.END_TRANSACTION,
        {
            "producerGroup": "P",
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.commit_log_offset),
            "commitOrRollback": str(transaction_type),
            "fromTransactionCheck": "false",
            "msgId": half.msg_id,
            "transactionId": half.msg_id,
        },
    )


def test_a_prepared_transaction_is_initialised_until_it_is_committed(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    start = clock.now()
    half = prepare(broker)

    seen = broker.messages.trace(half.msg_id)
    assert (seen.state, seen.topic) == (MessageState.INITIALISED, "T")
    assert (seen.accepted_at, seen.ready_at) == (start, None)
    assert broker.messages.by_id(half.msg_id).topic == HALF_TOPIC

    clock.advance(1)
    end(broker, half, TRANSACTION_COMMIT)
    seen = broker.messages.trace(half.msg_id)
    assert (seen.state, seen.copies) == (MessageState.READY, 1)
    assert (seen.accepted_at, seen.ready_at) == (start, clock.now())
    assert broker.messages.by_id(half.msg_id).topic == "T"


def test_a_committed_transaction_with_a_delay_is_scheduled(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    start = clock.now()
    half = prepare(broker, delay=50)
    end(broker, half, TRANSACTION_COMMIT)

    assert broker.messages.trace(half.msg_id).state is MessageState.SCHEDULED
    clock.advance(50)
    seen = broker.messages.trace(half.msg_id)
    assert (seen.state, seen.accepted_at) == (MessageState.READY, start)


def test_a_transaction_that_was_rolled_back_is_deleted(broker: EmbeddedBroker) -> None:
    half = prepare(broker)
    end(broker, half, TRANSACTION_ROLLBACK)

    assert broker.messages.trace(half.msg_id).state is MessageState.DELETED
    assert broker.messages.trace(half.msg_id).topic == "T"


def test_retries_are_kept_apart_from_what_was_sent(broker: EmbeddedBroker) -> None:
    sent = broker.send("T", b"x", queue=0)
    consumer = ManualConsumer(broker)
    consumer.join()
    (record,) = consumer.take()
    consumer.send_back(record)
    consumer.send_back(record, -1)
    parts = broker._parts()
    records = parts.queries.with_id(sent.msg_id).records

    with parts.door:
        copies = follow(parts, records)

    assert [one.topic for one in copies.sent] == ["T"]
    assert [(one.topic, one.is_pending) for one in copies.again] == [
        ("%RETRY%G", True),
        ("%DLQ%G", False),
    ]
    assert copies.half is None


def test_a_journey_without_a_record_cannot_be_shown() -> None:
    with pytest.raises(ValueError, match="to T without any record"):
        _ = Journey("T", 0).newest
