"""Old messages go: only by the flow of time or on demand, and never those that timers need."""

from pathlib import Path
from typing import Literal

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.lifecycle.aging import FILES_AT_ONCE
from rocketmq_py import DefaultMQPushConsumer, MessageExt
from rocketmq_py.consumer.listener import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus
from tests.unit.embedded_broker.store.store_tools import delete_before

GUARD_S = 30.0
SMALL = {
    "mappedFileSizeCommitLog": 4096,
    "mappedFileSizeConsumeQueue": 200,
    "mappedFileSizeTimerLog": 256,
    "maxHashSlotNum": 8,
    "maxIndexNum": 32,
    "timerMaxDelaySec": 3_456_000,
}
DAY_S = 86_400


def fill(broker: EmbeddedBroker, name: str, count: int = 40) -> list[bytes]:
    bodies = [f"{name} {number}".encode() for number in range(count)]
    for body in bodies:
        broker.send("T", body, keys=name, queue=0)
    return bodies


def bodies(broker: EmbeddedBroker) -> list[bytes]:
    return [message.body for message in broker.messages.in_topic("T")]


@pytest.mark.case("K31")
def test_jumps_make_nothing_old_and_age_makes_the_first_batch_leave() -> None:
    got: list[bytes] = []

    def listener(
        messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        got.extend(message.body for message in messages)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    for age in (False, True):
        got.clear()
        clock = VirtualClock()
        with EmbeddedBroker(clock=clock, topics=["T"], inproc=False, config=SMALL) as broker:
            consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
            consumer.subscribe("T")
            consumer.register_message_listener(listener)
            with consumer:
                clock.settle(GUARD_S)
                consumer.suspend()
                first = fill(broker, "first")
                clock.advance(days=30)
                second = fill(broker, "second")
                clock.advance(days=30)
                # A jump that ages: everything is older than three days, but the newest file stays.
                clock.advance(days=1, age=age)
                left = bodies(broker)
                assert left == (first + second if not age else left)
                consumer.resume()
                clock.settle(GUARD_S)

        if age:
            assert not set(first) & set(left)
            assert left
            assert left == second[-len(left) :]
        assert sorted(set(got) & set(left)) == sorted(left)


@pytest.mark.case("K31")
@pytest.mark.parametrize("in_directory", [False, True])
def test_queues_index_and_timer_log_follow_the_commit_log(
    tmp_path: Path, in_directory: bool
) -> None:
    clock = VirtualClock()
    store = tmp_path if in_directory else None
    with EmbeddedBroker(store=store, clock=clock, tcp=False, config=SMALL) as broker:
        for number in range(20):
            broker.send("T", b"timer", delay=60 + number)
        clock.advance(120)
        fill(broker, "first")
        clock.advance(days=2)
        young = fill(broker, "young")
        assert broker.messages.by_key("T", "first")
        fs = broker._parts().store.fs
        before = {folder: fs.list(folder) for folder in ("commitlog", "timerlog", "index")}

        clock.advance(days=2, age=True)

        left = bodies(broker)
        assert left[-len(young) :] == young
        assert b"first 0" not in left
        assert b"timer" not in left
        assert broker.messages.by_key("T", "young")
        after = {folder: fs.list(folder) for folder in before}
        for folder, names in before.items():
            kept = [name for name in after[folder] if name <= names[-1]]  # the index may have grown
            assert len(kept) < len(names), folder
            assert kept == names[len(names) - len(kept) :], folder
        queue = broker._parts().store.consume_queue("T", 0)
        assert queue is not None
        assert queue.min_offset > 0
        assert queue.files.min_offset > 0

        broker.crash()
        report = broker.restart()
        assert (report.truncated_bytes, report.entries_added, report.entries_dropped) == (0, 0, 0)
        assert bodies(broker) == left


@pytest.mark.case("P12")
@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_files_that_waiting_timers_need_are_spared_however_old(
    engine: Literal["wheel", "sliced"],
) -> None:
    clock = VirtualClock()
    with EmbeddedBroker(
        clock=clock, tcp=False, engine=engine, config={**SMALL, "fileReservedTime": 1}
    ) as broker:
        broker.send("T", b"timer", delay=DAY_S)
        broker.send("T", b"level", delay_level=18)
        first = fill(broker, "first")
        clock.advance(hours=1.5)
        fill(broker, "second")
        clock.advance(hours=0.25, age=True)
        assert broker.timers.count() == 2
        left = bodies(broker)
        assert left[: len(first)] == first  # the level message is in the same file as the first

        clock.advance(hours=1)
        assert broker.messages.in_topic("T")[-1].body == b"level"
        clock.advance(hours=3, age=True)
        assert broker.timers.count() == 1
        assert (b"first 39" in bodies(broker)) is (engine == "wheel")

        clock.advance(hours=19)
        assert broker.messages.in_topic("T")[-1].body == b"timer"
        assert broker._parts().timers.lost == {}
        clock.advance(hours=2, age=True)
        assert b"first 0" not in bodies(broker)


@pytest.mark.case("P12")
def test_a_three_day_timer_outlives_a_retention_of_three_days_because_it_is_rolled() -> None:
    clock = VirtualClock()
    with EmbeddedBroker(clock=clock, tcp=False, config=SMALL) as broker:
        broker.send("T", b"timer", delay=3 * DAY_S)
        fill(broker, "first")
        for _ in range(71):
            clock.advance(hours=1, age=True)
        assert broker.timers.count() == 1
        fill(broker, "second")

        clock.advance(hours=1.01, age=True)

        assert b"timer" in bodies(broker)
        assert b"first 0" not in bodies(broker)


@pytest.mark.case("P12")
def test_a_timer_whose_file_was_removed_from_outside_is_dropped_and_counted() -> None:
    clock = VirtualClock()
    with EmbeddedBroker(clock=clock, tcp=False, config=SMALL) as broker:
        broker.send("T", b"timer", delay=DAY_S)
        fill(broker, "first")
        parts = broker._parts()
        with parts.door:
            delete_before(parts.store, parts.store.log.max_offset)

        clock.advance(days=2)

        assert b"timer" not in bodies(broker)
        assert parts.timers.lost == {"unreadable": 1}
        assert broker.timers.count() == 0


@pytest.mark.case("S0-6")
def test_seven_days_count_from_the_delivery_and_not_from_the_send() -> None:
    clock = VirtualClock()
    config = {**SMALL, "fileReservedTime": 7 * 24}
    with EmbeddedBroker(clock=clock, tcp=False, config=config) as broker:
        broker.send("T", b"due on day five", delay=5 * DAY_S)
        clock.advance(days=5, age=True)
        assert bodies(broker) == [b"due on day five"]
        fill(broker, "filler")

        clock.advance(days=6.9, age=True)
        assert bodies(broker)[0] == b"due on day five"

        fill(broker, "later")
        clock.advance(days=0.2, age=True)
        assert b"due on day five" not in bodies(broker)


def test_while_time_flows_old_files_go_in_the_hour_that_is_set_a_few_at_once() -> None:
    clock = VirtualClock(rate=1)
    hour = (clock.now().astimezone().hour + 12) % 24
    with EmbeddedBroker(
        clock=clock,
        session_clock=VirtualClock(),
        tcp=False,
        config={**SMALL, "deleteWhen": f"{hour:02d}"},
    ) as broker:
        fill(broker, "old", 300)
        session = broker._arguments.session_clock
        parts = broker._parts()
        files = len(parts.store.log.files.files)
        assert files > FILES_AT_ONCE + 1
        clock.advance(days=4)
        broker.config.update(deleteWhen=f"{clock.now().astimezone().hour:02d}")
        session.advance(11)
        assert len(parts.store.log.files.files) == files  # a jump made nothing old

        clock.jumps.clear()  # as if those days had passed by themselves
        broker.config.update(deleteWhen=f"{hour:02d}")
        session.advance(11)
        assert len(parts.store.log.files.files) == files  # not the hour
        broker.config.update(deleteWhen=f"{clock.now().astimezone().hour:02d}")
        session.advance(11)
        assert len(parts.store.log.files.files) == files - FILES_AT_ONCE
        session.advance(11)
        assert len(parts.store.log.files.files) == max(1, files - 2 * FILES_AT_ONCE)


def test_a_clock_that_stands_still_makes_nothing_old_whatever_the_hour() -> None:
    clock = VirtualClock()
    session = VirtualClock()
    with EmbeddedBroker(
        clock=clock, session_clock=session, tcp=False, config={**SMALL, "fileReservedTime": 1}
    ) as broker:
        first = fill(broker, "first")
        clock.advance(days=30)
        broker.config.update(deleteWhen=f"{clock.now().astimezone().hour:02d}")
        session.advance(60)
        assert bodies(broker) == first


def test_cleaning_a_store_that_has_closed_meanwhile_does_nothing() -> None:
    clock = VirtualClock()
    with EmbeddedBroker(clock=clock, tcp=False, config=SMALL) as broker:
        fill(broker, "first")
        parts, node = broker._parts(), broker._node()
        aging = node._aging
        clock.advance(days=30)
        clock.jumps.clear()
        files = parts.store.fs.list("commitlog")
    fs = parts.store.fs
    aging.clean(FILES_AT_ONCE)
    assert fs.list("commitlog") == files
