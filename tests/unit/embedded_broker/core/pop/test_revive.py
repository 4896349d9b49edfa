"""What comes back and when, and what of that survives."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.core.pop.revive import GRACE_MS
from embedded_broker.core.refusals import Reason, Refused
from rocketmq_py.protocol.names import REVIVE_GROUP
from rocketmq_py.protocol.properties import Prop
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.core.pop.popper import Popper, fill, save

RETRY = "%RETRY%G_T"
REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    broker = start_broker()
    broker.topics.create("T", queues=1)
    return broker


@pytest.fixture
def popper(broker: EmbeddedBroker) -> Popper:
    return Popper(broker)


def on_disk(start_broker: StartBroker, tmp_path: Path, **arguments: object) -> EmbeddedBroker:
    broker = start_broker(store=tmp_path, **arguments)
    if "T" not in broker.topics:
        broker.topics.create("T", queues=1)
    return broker


@pytest.mark.case("W101")
def test_what_is_not_acked_comes_back_under_its_old_name(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 5, TAGS="A", KEYS="k")
    messages = popper.pop(invisible_ms=2_000)
    popped_ms = broker.clock.now_ms
    popper.ack(*messages[:3])
    broker.clock.advance(1.999)
    assert popper.bodies() == []
    broker.clock.advance(0.001)
    back = popper.pop()
    assert [one.body for one in back] == [b"m3", b"m4"]
    record = back[0].record
    assert (record.topic, record.queue_id, record.reconsume_times) == ("T", 0, 1)
    assert back[0].hidden.topic == RETRY
    assert record.properties[Prop.FIRST_POP_TIME] == str(popped_ms)
    assert record.properties[Prop.TAGS] == "A"
    assert record.properties[Prop.UNIQ_KEY] == messages[3].record.properties[Prop.UNIQ_KEY]


def test_what_comes_back_to_a_retry_topic_that_others_made_is_known_as_the_groups(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    """Even where a crash has taken the group's offsets along."""
    fill(broker, 1)
    broker.send(RETRY, b"of somebody else")
    assert len(popper.pop(invisible_ms=1_000)) >= 1
    offsets = broker._parts().tables.offsets
    offsets.forget_group("G")
    broker.clock.advance(1)
    assert offsets.is_stored("G", RETRY)
    assert b"m0" in popper.bodies()


def test_the_clock_foresees_when_a_popped_message_comes_back(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 2)
    one, other = popper.pop(invisible_ms=5_000)
    head = broker.clock.next_deadline()
    assert head is not None
    assert head.due_ms == broker.clock.now_ms + 5_000
    popper.ack(one, other)
    assert broker.clock.next_deadline() is None


def test_what_comes_back_again_and_again_counts_on(broker: EmbeddedBroker, popper: Popper) -> None:
    fill(broker, 1)
    first_ms = broker.clock.now_ms
    for times in range(4):
        (message,) = popper.pop(invisible_ms=1_000)
        assert message.record.reconsume_times == times
        if times:
            assert message.record.properties[Prop.FIRST_POP_TIME] == str(first_ms)
        broker.clock.advance(1)
    assert broker._parts().pop.revive.counters["revived"] == 4


def test_all_acked_means_nothing_comes_back(broker: EmbeddedBroker, popper: Popper) -> None:
    fill(broker, 3)
    popper.ack(*popper.pop(invisible_ms=5_000))
    assert popper.hidden() == []
    broker.clock.advance(10)
    assert (popper.bodies(), RETRY in broker.topics) == ([], False)
    assert broker._parts().pop.revive._points == {}


def test_an_ack_that_comes_twice_or_too_late_changes_nothing(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 2)
    one, other = popper.pop(invisible_ms=1_000)
    popper.ack(one, one)
    broker.clock.advance(1)
    popper.ack(other, one)
    assert popper.bodies() == [b"m1"]


def test_an_ack_that_names_another_pop_acks_nothing(broker: EmbeddedBroker, popper: Popper) -> None:
    fill(broker, 1)
    (message,) = popper.pop(invisible_ms=1_000)
    for wrong in ({"pop_time_ms": 1}, {"start_offset": 7}, {"broker_name": "other"}):
        handle = message.hidden.handle._replace(**wrong)
        popper.ack(message._replace(hidden=message.hidden._replace(handle=handle)))
    assert popper.hidden() == [("T", 0, 0)]


def test_a_handle_with_a_revive_queue_that_is_none_is_refused(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 1)
    (message,) = popper.pop()
    handle = message.hidden.handle._replace(revive_queue=77)
    with pytest.raises(Refused, match="revive queue 77") as refused:
        popper.ack(message._replace(hidden=message.hidden._replace(handle=handle)))
    assert refused.value.reason is Reason.FAILED


def test_an_ack_that_finds_no_room_is_refused_and_can_be_sent_again(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 1)
    (message,) = popper.pop()
    broker.faults.disk.fill_after(bytes=0)
    with pytest.raises(Refused, match="not acked"):
        popper.ack(message)
    broker.faults.disk.clear()
    popper.ack(message)
    assert popper.hidden() == []


@pytest.mark.case("W104")
def test_the_old_handle_means_nothing_after_the_invisible_time_was_changed(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 1)
    (message,) = popper.pop(invisible_ms=2_000)
    until = popper.hide_longer(message, 10_000)
    assert until is not None
    popper.ack(message)
    broker.clock.advance(9.999)
    assert (popper.bodies(), popper.hidden()) == ([], [("T", 0, 0)])
    broker.clock.advance(0.001)
    assert popper.bodies() == [b"m0"]


@pytest.mark.case("W104")
def test_the_new_handle_acks(broker: EmbeddedBroker, popper: Popper) -> None:
    fill(broker, 2)
    message = popper.pop(invisible_ms=2_000)[1]
    until = popper.hide_longer(message, 10_000)
    assert until is not None
    handle = message.hidden.handle._replace(
        start_offset=message.hidden.offset,
        pop_time_ms=until.pop_time_ms,
        invisible_ms=until.invisible_ms,
    )
    popper.ack(message._replace(hidden=message.hidden._replace(handle=handle)))
    broker.clock.advance(20)
    assert popper.bodies() == [b"m0"]


def test_a_shorter_invisible_time_brings_it_back_sooner(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 1)
    (message,) = popper.pop(invisible_ms=60_000)
    popper.hide_longer(message, 500)
    broker.clock.advance(0.5)
    assert popper.bodies() == [b"m0"]


def test_a_batch_ack_leaves_out_what_is_outside_the_queue(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 4)
    messages = popper.pop(invisible_ms=1_000)
    with broker._parts().door:
        popper.acks.ack_batch(messages[0].hidden, [0, 1, 3, 9, 10**9])
    assert popper.hidden() == [("T", 0, 2)]


def test_a_jump_over_days_brings_back_each_in_its_own_time(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 3)
    start_ms = broker.clock.now_ms
    for seconds in (90, 10, 86_400):
        popper.pop(max_count=1, invisible_ms=seconds * 1000)
    broker.clock.advance(30 * 86_400)
    parts = broker._parts()
    records = [parts.store.message(RETRY, 0, offset) for offset in range(3)]
    times = [one.store_timestamp - start_ms for one in records if one is not None]
    assert times == [10_000, 90_000, 86_400_000]


def test_what_was_timed_is_not_timed_again(broker: EmbeddedBroker, popper: Popper) -> None:
    broker.send("T", b"timed", delay=60)
    broker.send("T", b"level", properties={"DELAY": "5"})
    broker.clock.advance(60)
    assert popper.bodies(invisible_ms=1_000) == [b"level", b"timed"]
    broker.clock.advance(1)
    assert popper.bodies() == [b"level", b"timed"]


@pytest.mark.parametrize("gone", ["topic", "group"])
def test_nothing_comes_back_for_whom_is_gone(
    broker: EmbeddedBroker, popper: Popper, gone: str
) -> None:
    fill(broker, 1)
    popper.pop(invisible_ms=1_000)
    parts = broker._parts()
    with parts.door:
        if gone == "topic":
            del parts.tables.topics._topics["T"]
        else:
            del parts.tables.groups._groups["G"]
    broker.clock.advance(1)
    assert (popper.hidden(), RETRY in broker.topics) == ([], False)


def test_a_full_disk_keeps_it_hidden_until_there_is_room(start_broker: StartBroker) -> None:
    session = VirtualClock()
    broker = start_broker(session_clock=session)
    broker.topics.create("T", queues=1)
    popper = Popper(broker)
    fill(broker, 2)
    popper.pop(invisible_ms=2_000)
    broker.clock.advance(1)
    broker.faults.disk.fill_after(bytes=0)
    broker.clock.advance(1)
    assert len(popper.hidden()) == 2
    broker.faults.disk.clear()
    session.advance(1)
    # The second attempt is due on the message clock, whose thread makes it.
    broker.wait_for(lambda _: not popper.hidden())
    assert popper.bodies() == [b"m0", b"m1"]


def test_retry_topics_of_the_second_kind(start_broker: StartBroker) -> None:
    broker = start_broker(
        config={"enableRetryTopicV2": True, "retrieveMessageFromPopRetryTopicV1": False}
    )
    broker.topics.create("T", queues=1)
    popper = Popper(broker)
    fill(broker, 1)
    popper.pop(invisible_ms=1_000)
    broker.clock.advance(1)
    (back,) = popper.pop(invisible_ms=1_000)
    assert back.hidden.topic == "%RETRY%G+T"
    assert back.hidden.handle.flag == "2"
    popper.ack(back)
    broker.clock.advance(1)
    assert popper.bodies() == []


def test_the_timers_of_pops_are_no_timers_of_users(broker: EmbeddedBroker, popper: Popper) -> None:
    fill(broker, 2)
    broker.send("T", b"timed", delay=60)
    one, _ = popper.pop()
    popper.ack(one)
    assert broker.timers.count() == 1
    assert [timer.body for timer in broker.timers.pending()] == [b"timed"]


# --- what survives ---------------------------------------------------------------------------


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_what_is_hidden_comes_back_after_a_restart_and_what_is_acked_does_not(
    start_broker: StartBroker, tmp_path: Path, crash: bool, engine: str
) -> None:
    broker = on_disk(start_broker, tmp_path, engine=engine)
    popper = Popper(broker)
    fill(broker, 4)
    one, other, *_ = popper.pop(invisible_ms=10_000)
    popper.ack(one)
    until = popper.hide_longer(other, 30_000)
    assert until is not None
    save(broker)
    broker.restart(crash=crash)
    broker.clock.advance(10 + GRACE_MS / 1000)
    assert popper.bodies() == [b"m2", b"m3"]
    broker.clock.advance(20)
    assert popper.bodies() == [b"m1"]
    assert broker._parts().pop.revive.counters["revived"] == 3


def test_an_ack_after_the_restart_counts(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = on_disk(start_broker, tmp_path)
    popper = Popper(broker)
    fill(broker, 3)
    messages = popper.pop(invisible_ms=10_000)
    save(broker)
    broker.restart(crash=True)
    popper.ack(messages[0])
    broker.clock.advance(11)
    popper.ack(messages[2])
    broker.clock.advance(60)
    assert popper.bodies() == [b"m1"]


@pytest.mark.parametrize("at_s", [9.5, 10, 11])
def test_a_crash_at_any_time_around_the_end_loses_nothing(
    start_broker: StartBroker, tmp_path: Path, at_s: float
) -> None:
    broker = on_disk(start_broker, tmp_path)
    popper = Popper(broker)
    fill(broker, 2)
    popper.ack(popper.pop(invisible_ms=10_000)[0])
    broker.clock.advance(at_s)
    broker.restart(crash=True)
    broker.clock.advance(30)
    assert set(popper.bodies()) == {b"m1"}


def test_bytes_that_were_never_synced_take_no_popped_message_along(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    """The group's offset is not durable before the check point that it stands for."""
    session = VirtualClock()
    broker = on_disk(start_broker, tmp_path, session_clock=session)
    fill(broker, 2)
    save(broker)
    popper = Popper(broker)
    popper.pop(invisible_ms=10_000)
    parts = broker._parts()
    with parts.door:
        parts.table_files.save()
    broker._node()._flusher.wait_other()
    broker.crash()
    broker.faults.disk.lose_unsynced()
    broker.restart()
    broker.clock.advance(60)
    assert popper.bodies() == [b"m0", b"m1"]


def test_after_a_crash_a_pop_of_the_same_millisecond_may_have_the_name_of_one_before(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    """The check point of before is still on its way, and the offset of the group was not saved."""
    broker = on_disk(start_broker, tmp_path)
    popper = Popper(broker)
    fill(broker, 1)
    popper.pop(invisible_ms=5_000)
    broker.restart(crash=True)
    broker._parts().pop.revive.next_queue()  # that of the pop before
    (again,) = popper.pop(invisible_ms=5_000)
    broker.clock.advance(4.5)
    popper.ack(again)
    broker.clock.advance(60)
    assert popper.bodies() == []


def test_a_clean_stop_reads_nothing_again(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = on_disk(start_broker, tmp_path)
    popper = Popper(broker)
    fill(broker, 2)
    popper.pop(invisible_ms=1_000)
    broker.clock.advance(5)
    broker.restart()
    parts = broker._parts()
    offsets = [parts.tables.offsets.query(REVIVE_GROUP, REVIVE, queue_id) for queue_id in range(8)]
    ends = [parts.store.max_offset(REVIVE, queue_id) for queue_id in range(8)]
    assert sum(ends) == 1
    assert offsets == [end - 1 for end in ends]
    assert parts.pop.revive._points == {}


def test_old_messages_stay_in_memory_while_they_are_hidden(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 2)
    first = broker._parts().store.message("T", 0, 0)
    assert first is not None
    popper.pop()
    parts = broker._parts()
    with parts.door:
        assert list(parts.pop.revive.needed_offsets()) == [first.commit_log_offset]
