"""The life of one message, in general and for each group."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

from embedded_broker import (
    EmbeddedBroker,
    MessageNotFound,
    MessageState,
    RecallOutcome,
    VirtualClock,
)
from embedded_broker.api.views.trace import GroupTrace
from embedded_broker.tables.offsets.deliveries import DELIVERIES_KEPT
from tests.unit.embedded_broker.api.views.manual_consumer import ManualConsumer
from tests.unit.embedded_broker.core.pop.popper import Popper
from tests.unit.embedded_broker.store.store_tools import removed

SECOND = timedelta(seconds=1)


@pytest.fixture
def consumer(broker: EmbeddedBroker) -> ManualConsumer:
    return ManualConsumer(broker)


@pytest.mark.case("K11")
def test_a_timer_is_scheduled_ready_in_flight_and_acknowledged_each_at_its_time(
    broker: EmbeddedBroker, clock: VirtualClock, consumer: ManualConsumer
) -> None:
    start = clock.now()
    sent = broker.send("T", b"x", queue=0, delay=5)

    seen = broker.messages.trace(sent)
    assert seen.state is MessageState.SCHEDULED
    assert (seen.msg_id, seen.topic, seen.copies) == (sent.msg_id, "T", 1)
    assert (seen.initialised_at, seen.accepted_at) == (start, start)
    assert (seen.due_at, seen.ready_at, seen.offset) == (start + 5 * SECOND, None, None)
    assert seen.groups == {}

    clock.advance(5)
    seen = broker.messages.trace(sent)
    assert seen.state is MessageState.READY
    assert (seen.queue_id, seen.offset) == (0, 0)
    assert seen.ready_at == seen.due_at == start + 5 * SECOND
    assert seen.accepted_at == start

    consumer.join()
    clock.advance(1)
    assert broker.messages.trace(sent).groups["G"].state is MessageState.READY
    consumer.take()
    seen = broker.messages.trace(sent)
    assert seen.state is seen.groups["G"].state is MessageState.IN_FLIGHT
    assert seen.groups["G"].in_flight_at == start + 6 * SECOND
    assert seen.groups["G"].acknowledged_at is None
    assert seen.groups["G"].attempts == 1

    clock.advance(2)
    consumer.commit(1)
    seen = broker.messages.trace(sent)
    assert seen.state is seen.groups["G"].state is MessageState.ACKNOWLEDGED
    assert seen.groups["G"].in_flight_at == start + 6 * SECOND
    assert seen.groups["G"].acknowledged_at == start + 8 * SECOND
    assert seen.recalled_at is None


@pytest.mark.case("K11")
def test_a_plain_message_is_ready_at_once_and_has_no_due_time(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    sent = broker.send("T", b"x")

    seen = broker.messages.trace(sent)

    assert seen.state is MessageState.READY
    assert seen.initialised_at == seen.accepted_at == seen.ready_at == clock.now()
    assert seen.due_at is None


def test_a_message_at_a_level_is_scheduled_until_its_level_delivers_it(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    start = clock.now()
    first = broker.send("T", b"x", delay_level=2)
    clock.advance(1)
    second = broker.send("T", b"y", delay_level=2)

    assert broker.messages.trace(first).state is MessageState.SCHEDULED
    assert broker.messages.trace(first).due_at == start + 5 * SECOND
    clock.advance(4)

    assert broker.messages.trace(first).state is MessageState.READY
    assert broker.messages.trace(first).ready_at == start + 5 * SECOND
    assert broker.messages.trace(first).accepted_at == start
    assert broker.messages.trace(second).state is MessageState.SCHEDULED


def test_every_group_has_a_state_of_its_own_and_the_least_far_one_is_the_messages(
    broker: EmbeddedBroker,
) -> None:
    sent = broker.send("T", b"x", queue=0)
    fast, slow = ManualConsumer(broker, "fast"), ManualConsumer(broker, "slow")
    for one in (fast, slow):
        one.join()
    fast.take()
    fast.commit(1)

    seen = broker.messages.trace(sent)
    assert seen.groups["fast"].state is MessageState.ACKNOWLEDGED
    assert seen.groups["slow"].state is seen.state is MessageState.READY

    slow.take()
    assert broker.messages.trace(sent).state is MessageState.IN_FLIGHT
    slow.commit(1)
    assert broker.messages.trace(sent).state is MessageState.ACKNOWLEDGED


def test_an_acknowledged_message_can_be_read_again_until_it_is_deleted(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    sent = broker.send("T", b"x", queue=0)
    consumer.join()
    consumer.take()
    consumer.commit(1)

    assert [record.body for record in consumer.take(0)] == [b"x"]
    assert broker.messages.trace(sent).state is MessageState.ACKNOWLEDGED
    assert broker.messages.by_id(sent).body == b"x"


@pytest.mark.case("K11")
def test_the_state_stays_exact_when_the_times_are_forgotten(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    consumer.join()
    first = broker.send("T", b"x", queue=0)
    consumer.take(0)
    consumer.commit(1)
    log = broker._parts().tables.deliveries
    with broker._parts().door:
        for number in range(DELIVERIES_KEPT):
            log.handed_out("G", "T", 3, number, number + 1, 1)
            log.committed("G", "T", 3, number, number + 1)

    forgotten = broker.messages.trace(first).groups["G"]

    assert forgotten.state is MessageState.ACKNOWLEDGED
    assert (forgotten.in_flight_at, forgotten.acknowledged_at) == (None, None)


def test_after_a_restart_states_come_from_the_saved_offsets(tmp_path: Path) -> None:
    with EmbeddedBroker(
        clock=VirtualClock(), store=tmp_path / "store", tcp=False, topics=["T"], seed=1
    ) as broker:
        done, open_one = (broker.send("T", body, queue=0) for body in (b"1", b"2"))
        consumer = ManualConsumer(broker)
        consumer.join()
        assert len(consumer.take()) == 2
        consumer.commit(1)
        assert broker.messages.trace(open_one).state is MessageState.IN_FLIGHT
        broker.restart()

        assert broker.messages.trace(done).groups["G"].state is MessageState.ACKNOWLEDGED
        assert broker.messages.trace(done).groups["G"].acknowledged_at is None
        assert broker.messages.trace(open_one).groups["G"].state is MessageState.READY


def test_a_recalled_timer_is_deleted_and_tells_when(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    sent = broker.send("T", b"x", delay=60)
    other = broker.send("T", b"y", delay=60)
    clock.advance(10)
    assert broker.timers.recall(sent) is RecallOutcome.RECALLED

    seen = broker.messages.trace(sent)

    assert seen.state is MessageState.DELETED
    assert seen.recalled_at == clock.now()
    assert broker.messages.trace(other).state is MessageState.SCHEDULED
    clock.advance(60)
    assert broker.messages.trace(sent).state is MessageState.DELETED
    assert broker.messages.trace(other).state is MessageState.READY


def test_a_delay_of_many_hops_is_one_message_with_its_first_and_last_time(
    clock: VirtualClock,
) -> None:
    config = {"timerRollWindowSlot": 100}
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"], seed=1, config=config) as broker:
        start = clock.now()
        sent = broker.send("T", b"x", delay=350.5)
        clock.advance(300, roll_elision=False)

        seen = broker.messages.trace(sent)
        assert seen.state is MessageState.SCHEDULED
        assert (seen.accepted_at, seen.due_at) == (start, start + 350.5 * SECOND)
        assert seen.copies == 1

        clock.advance(51, roll_elision=False)
        seen = broker.messages.trace(sent)
        assert seen.state is MessageState.READY
        assert (seen.accepted_at, seen.ready_at) == (start, start + 350.5 * SECOND)
        assert seen.copies == 1


def test_the_offset_id_of_the_first_hop_still_names_its_message(clock: VirtualClock) -> None:
    config = {"timerRollWindowSlot": 100}
    same = {"UNIQ_KEY": "SAME"}
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"], seed=1, config=config) as broker:
        long = broker.send("T", b"x", delay=350, properties=same)
        short = broker.send("T", b"x", delay=10, properties=same)
        clock.advance(300, roll_elision=False)

        assert broker.messages.trace(long.offset_msg_id).state is MessageState.SCHEDULED
        assert broker.messages.trace(short.offset_msg_id).state is MessageState.READY


def test_a_failed_message_is_scheduled_for_its_group_until_its_retry(
    broker: EmbeddedBroker, clock: VirtualClock, consumer: ManualConsumer
) -> None:
    start = clock.now()
    sent = broker.send("T", b"x", queue=0, delay=1)
    other = ManualConsumer(broker, "H")
    clock.advance(1)
    for one in (consumer, other):
        one.join()
    (record,) = consumer.take()
    other.take()
    other.commit(1)
    consumer.send_back(record)
    consumer.commit(1)

    mine = broker.messages.trace(sent).groups["G"]
    assert mine.state is MessageState.SCHEDULED
    assert mine.retry_due_at == start + 11 * SECOND
    assert (mine.attempts, mine.acknowledged_at) == (1, None)
    assert broker.messages.trace(sent).groups["H"].state is MessageState.ACKNOWLEDGED
    assert broker.messages.trace(sent).state is MessageState.SCHEDULED

    clock.advance(10)
    assert broker.messages.trace(sent).groups["G"].state is MessageState.READY
    assert len(consumer.take(topic="%RETRY%G")) == 1
    mine = broker.messages.trace(sent).groups["G"]
    assert (mine.state, mine.attempts) == (MessageState.IN_FLIGHT, 2)
    assert mine.in_flight_at == clock.now()
    consumer.commit(1, topic="%RETRY%G")
    assert broker.messages.trace(sent).state is MessageState.ACKNOWLEDGED
    assert broker.messages.trace(sent).copies == 1


def test_a_message_that_went_to_the_dead_letters_is_over_for_its_group(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    sent = broker.send("T", b"x", queue=0)
    consumer.join()
    (record,) = consumer.take()
    consumer.send_back(record, level=-1)

    mine = broker.messages.trace(sent).groups["G"]

    assert mine.dead_letter
    assert mine.state is MessageState.ACKNOWLEDGED
    assert mine.attempts == 1


def test_retries_belong_to_the_copy_that_failed_when_an_id_was_sent_twice(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    for number in range(2):
        broker.send("T", b"x", queue=0, properties={"UNIQ_KEY": "SAME"})
        assert broker.messages.trace("SAME").copies == number + 1
    consumer.join()
    first, second = consumer.take()
    consumer.send_back(first)
    consumer.commit(2)

    assert broker.messages.trace("SAME").groups["G"].state is MessageState.ACKNOWLEDGED
    assert broker.messages.trace(second.offset_msg_id).state is MessageState.ACKNOWLEDGED
    assert broker.messages.trace(first.offset_msg_id).state is MessageState.SCHEDULED


def test_a_retry_that_names_only_the_unique_id_belongs_to_the_copy_before_it(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    same = {"UNIQ_KEY": "SAME"}
    first = broker.send("T", b"x", queue=0, properties=same)
    consumer.join()
    again = same | {"ORIGIN_MESSAGE_ID": "SAME", "RETRY_TOPIC": "T"}
    broker.send("%RETRY%G", b"x", queue=0, delay_level=3, properties=again)
    second = broker.send("T", b"x", queue=0, properties=same)
    consumer.take()
    consumer.commit(2)

    assert broker.messages.trace(first.offset_msg_id).state is MessageState.SCHEDULED
    assert broker.messages.trace(second.offset_msg_id).state is MessageState.ACKNOWLEDGED


def test_what_is_delivered_again_is_in_flight_and_not_acknowledged(
    broker: EmbeddedBroker, clock: VirtualClock, consumer: ManualConsumer
) -> None:
    sent = broker.send("T", b"x", queue=0)
    consumer.join()
    consumer.take()
    consumer.commit(1)
    clock.advance(5)
    broker.groups["G"].reset(topic="T", to="earliest")
    assert broker.messages.trace(sent).groups["G"].state is MessageState.READY
    assert broker.messages.trace(sent).groups["G"].in_flight_at is None

    consumer.pull(1)
    consumer.take(0)

    mine = broker.messages.trace(sent).groups["G"]
    assert mine.state is MessageState.IN_FLIGHT
    assert (mine.in_flight_at, mine.acknowledged_at) == (clock.now(), None)


def test_a_group_that_wants_other_tags_is_passed_over(broker: EmbeddedBroker) -> None:
    sent = broker.send("T", b"x", queue=0, tags="a")
    group = ManualConsumer(broker, tags="b")
    group.join()
    assert group.take() == []
    group.commit(1)

    seen = broker.messages.trace(sent)

    assert seen.groups["G"].passed_over
    assert (seen.groups["G"].attempts, seen.groups["G"].acknowledged_at) == (0, None)
    assert seen.state is MessageState.READY

    other = ManualConsumer(broker, "H", tags="a || b")
    other.join()
    assert len(other.take()) == 1
    assert broker.messages.trace(sent).state is MessageState.IN_FLIGHT


def test_a_group_that_began_behind_a_message_is_passed_over(broker: EmbeddedBroker) -> None:
    sent = broker.send("T", b"x", queue=0)
    group = ManualConsumer(broker)
    group.join()
    group.pull(1)

    assert broker.messages.trace(sent).groups["G"].passed_over
    assert broker.messages.trace(sent).groups["G"].state is MessageState.READY


def test_an_offset_id_traces_the_message_before_and_after_its_delivery(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    sent = broker.send("T", b"x", delay=5)

    assert broker.messages.trace(sent.offset_msg_id).state is MessageState.SCHEDULED
    clock.advance(5)
    assert broker.messages.trace(sent.offset_msg_id).state is MessageState.READY
    assert broker.messages.trace(sent.offset_msg_id).msg_id == sent.msg_id


def test_a_topic_tells_messages_apart_that_share_an_id(broker: EmbeddedBroker) -> None:
    broker.topics.create("U")
    broker.send("U", b"x", properties={"UNIQ_KEY": "SAME"})
    broker.send("T", b"x", delay=9, properties={"UNIQ_KEY": "SAME"})

    assert broker.messages.trace("SAME", topic="U").state is MessageState.READY
    assert broker.messages.trace("SAME", topic="T").state is MessageState.SCHEDULED
    broker.topics.create("V")
    with pytest.raises(MessageNotFound, match="for topic 'V'"):
        broker.messages.trace("SAME", topic="V")


def test_an_unknown_id_is_an_error_that_says_what_it_can_mean(broker: EmbeddedBroker) -> None:
    with pytest.raises(MessageNotFound, match=r"no message 'nobody'.*never accepted"):
        broker.messages.trace("nobody")
    with pytest.raises(LookupError, match="ask for them one by one"):
        broker.messages.trace("A,B")


def test_a_message_whose_record_is_gone_is_deleted_while_the_index_knows_it(
    clock: VirtualClock,
) -> None:
    config = {"mappedFileSizeCommitLog": 65_536}
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"], seed=1, config=config) as broker:
        sent = broker.send("T", b"x", queue=0)
        assert broker.messages.trace(sent).state is MessageState.READY
        for _ in range(3):
            broker.send("T", bytes(40_000), queue=0)
        parts = broker._parts()
        with parts.door:
            removed(parts.store.log.files.let_go_before(parts.store.log.max_offset - 1))

        seen = broker.messages.trace(sent)

        assert seen.state is MessageState.DELETED
        assert (seen.topic, seen.ready_at, seen.copies) == ("T", None, 0)
        with pytest.raises(MessageNotFound):
            broker.messages.by_id(sent)


def test_a_trace_reads_as_what_happened(broker: EmbeddedBroker, consumer: ManualConsumer) -> None:
    sent = broker.send("T", b"x", queue=0)
    consumer.take()

    text = repr(broker.messages.trace(sent))

    assert "state=IN_FLIGHT" in text
    assert "due_at=-" in text
    assert "acknowledged_at=-" in text
    assert f"ready_at={broker.clock.now().isoformat(timespec='milliseconds')}" in text


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
@pytest.mark.parametrize("levels", ["on", "off"])
def test_every_engine_keeps_traces_and_retries(
    clock: VirtualClock, engine: Literal["wheel", "sliced"], levels: Literal["on", "off"]
) -> None:
    with EmbeddedBroker(
        clock=clock, tcp=False, topics=["T"], seed=1, engine=engine, levels=levels
    ) as broker:
        timer, taken_back = (broker.send("T", b"x", queue=0, delay=5) for _ in range(2))
        broker.timers.recall(taken_back)
        assert broker.messages.trace(timer).state is MessageState.SCHEDULED
        (pending,) = broker.timers.pending()
        assert broker.messages.trace(timer).due_at == pending.due_at
        assert 5 * SECOND <= pending.due_at - clock.now() < 6 * SECOND
        assert broker.messages.trace(taken_back).state is MessageState.DELETED
        clock.advance(10)
        assert broker.messages.trace(timer).state is MessageState.READY
        assert broker.messages.trace(timer).copies == 1
        assert broker.messages.by_id(timer).topic == "T"

        consumer = ManualConsumer(broker)
        consumer.join()
        (record,) = consumer.take()
        consumer.send_back(record)
        consumer.commit(1)
        (retry,) = broker.groups["G"].retries()
        assert retry.waiting
        assert 10 * SECOND <= retry.due_at - clock.now() < 11 * SECOND
        assert broker.messages.trace(timer).state is MessageState.SCHEDULED
        assert broker.messages.trace(timer).groups["G"].retry_due_at == retry.due_at
        clock.advance(15)
        assert [one.waiting for one in broker.groups["G"].retries()] == [False]
        assert broker.messages.trace(timer).groups["G"].state is MessageState.READY


def test_a_popped_message_is_in_flight_until_it_is_acked_and_ready_when_it_came_back(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    start = clock.now()
    sent = broker.send("T", b"x", queue=0)
    popper = Popper(broker)

    def seen() -> GroupTrace:
        return broker.messages.trace(sent).groups["G"]

    (message,) = popper.pop(invisible_ms=10_000)
    assert (seen().state, seen().in_flight_at) == (MessageState.IN_FLIGHT, start)
    assert seen().acknowledged_at is None
    clock.advance(10)
    assert (seen().state, seen().attempts) == (MessageState.READY, 1)
    (message,) = popper.pop()
    assert (seen().state, seen().attempts) == (MessageState.IN_FLIGHT, 2)
    popper.ack(message)
    assert (seen().state, seen().attempts) == (MessageState.ACKNOWLEDGED, 2)
