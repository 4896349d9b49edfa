"""What waits for its time: counted, listed, taken back, and given another time."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest
from attrs import frozen

from embedded_broker import (
    EmbeddedBroker,
    MessageNotFound,
    PendingTimer,
    RecallOutcome,
    SentMessage,
    StoreError,
    TimerKind,
    TimerNotPending,
    TopicSpec,
    VirtualClock,
)
from rocketmq_py import DefaultMQProducer, Message, MQBrokerException
from rocketmq_py.errors import ConfigError
from tests.unit.embedded_broker.api.views.manual_consumer import ManualConsumer

DAYS_40 = {"timerMaxDelaySec": 3_456_000}


def bodies(broker: EmbeddedBroker, topic: str = "T") -> list[bytes]:
    return [message.body for message in broker.messages.in_topic(topic)]


def test_a_recalled_timer_is_never_delivered(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    by_object = broker.send("T", b"1", delay=10)
    by_key = broker.send("T", b"2", delay=10)
    by_offset_id = broker.send("T", b"3", delay=10)
    kept = broker.send("T", b"4", delay=10)

    assert broker.timers.recall(by_object) is RecallOutcome.RECALLED
    assert broker.timers.recall(by_key.msg_id, topic="T") is RecallOutcome.RECALLED
    assert broker.timers.recall(by_offset_id.offset_msg_id) is RecallOutcome.RECALLED
    assert broker.timers.count() == 1
    clock.advance(10)

    assert bodies(broker) == [b"4"]
    assert broker.timers.recall(kept) in {RecallOutcome.ALREADY_DUE, RecallOutcome.UNKNOWN}
    assert broker.timers.recall("7F00000100002A9F4D4B0000000000AB") is RecallOutcome.UNKNOWN
    assert broker.timers.recall("no id at all") is RecallOutcome.UNKNOWN


@frozen
class Received:
    """Anything with ``msg_id``, as a client's result or message."""

    msg_id: str


def test_anything_with_a_message_id_can_be_recalled(broker: EmbeddedBroker) -> None:
    sent = broker.send("T", b"x", delay=10)

    assert broker.timers.recall(Received(sent.msg_id)) is RecallOutcome.RECALLED


# --- listing -----------------------------------------------------------------------------------


def all_pages(broker: EmbeddedBroker, limit: int) -> list[list[PendingTimer]]:
    pages = [broker.timers.pending(limit=limit)]
    while len(pages[-1]) == limit:
        pages.append(broker.timers.pending(limit=limit, after=pages[-1][-1]))
    return pages


def test_all_pending_timers_are_walked_through_while_time_goes_on(broker: EmbeddedBroker) -> None:
    assert list(broker.timers) == []
    for number in range(250):
        broker.send("T", b"%d" % number, delay=1 + number)
    walk = iter(broker.timers)
    first = next(walk)
    broker.clock.advance(seconds=5)
    assert [timer.body for timer in [first, *walk]] == [b"%d" % number for number in range(250)]
    assert next(timer.body for timer in broker.timers) == b"5"


@pytest.mark.case("K8")
def test_pending_timers_are_paged_in_due_order_and_listing_changes_nothing(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    for number in range(250):
        level = 3 + number % 4 if number % 5 == 0 else None
        delay = None if level else 1 + number * 37 % 4000
        broker.send("T", b"%d" % number, delay=delay, delay_level=level)
    count, deadline = broker.timers.count(), clock.next_deadline()

    pages = all_pages(broker, 100)

    assert [len(page) for page in pages] == [100, 100, 50]
    found = [timer for page in pages for timer in page]
    assert [timer.due_at for timer in found] == sorted(timer.due_at for timer in found)
    assert len({timer.msg_id for timer in found}) == 250 == count
    assert {timer.body for timer in found} == {b"%d" % number for number in range(250)}
    assert [timer for page in all_pages(broker, 7) for timer in page] == found
    assert (broker.timers.count(), clock.next_deadline()) == (count, deadline)
    assert broker.timers.count(topic="T") == 250
    clock.advance(hours=2)
    assert {message.msg_id for message in broker.messages.in_topic("T")} == {
        timer.msg_id for timer in found
    }


def test_a_pending_timer_shows_what_was_sent(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    sent = broker.send(
        "T", b"body", tags="TagA", keys="k1 k2", queue=2, delay=60, properties={"colour": "red"}
    )
    clock.advance(1)

    (timer,) = broker.timers.pending()

    assert (timer.msg_id, timer.topic, timer.queue_id) == (sent.msg_id, "T", 2)
    assert timer.due_at == clock.now() + timedelta(seconds=59)
    assert timer.accepted_at == clock.now() - timedelta(seconds=1)
    assert (timer.rolls, timer.keys, timer.size) == (0, ("k1", "k2"), 4)
    assert timer.kind is TimerKind.MS
    assert (timer.body, timer.tags, timer.properties["colour"]) == (b"body", "TagA", "red")
    assert "body" not in repr(timer)
    assert timer == broker.timers.pending()[0]


def test_a_timer_that_is_gone_from_the_store_has_no_body(broker: EmbeddedBroker) -> None:
    broker.send("T", b"x", delay=60)
    (timer,) = broker.timers.pending()
    broker.reset()

    with pytest.raises(MessageNotFound, match="has deleted timer"):
        _ = timer.body


def test_topic_time_and_kind_narrow_the_listing(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    broker.topics.create("U")
    broker.send("T", b"1", delay=10)
    broker.send("U", b"2", delay=20)
    broker.send("T", b"3", delay_level=5)
    minute = clock.now() + timedelta(seconds=60)

    def seen(timers: list[PendingTimer]) -> list[bytes]:
        return [timer.body for timer in timers]

    pending = broker.timers.pending
    assert seen(pending(topic="T")) == [b"1", b"3"]
    broker.topics.create("V")
    assert seen(pending(topic="V")) == []
    assert seen(pending(before=minute)) == [b"1", b"2"]
    assert seen(pending(before=minute + timedelta(milliseconds=1))) == [b"1", b"2", b"3"]
    assert seen(pending(kind=TimerKind.LEVEL)) == [b"3"]
    assert seen(pending(kind=[TimerKind.MS, TimerKind.LEVEL], limit=2)) == [b"1", b"2"]
    with pytest.raises(ConfigError, match="at least 1"):
        pending(limit=0)


@pytest.mark.case("K30")
def test_sends_without_a_client_are_delayed_as_those_of_a_client(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    soon = clock.now() + timedelta(seconds=77.5)
    soon_ms = clock.now_ms + 88_500
    ways: list[tuple[Callable[[], SentMessage], Message, TimerKind]] = [
        (
            lambda: broker.send("T", b"x", delay=12.345),
            Message("T", b"x", delay=timedelta(seconds=12.345)),
            TimerKind.MS,
        ),
        (
            lambda: broker.send("T", b"x", properties={"TIMER_DELAY_SEC": "9"}),
            Message("T", b"x"),
            TimerKind.SEC,
        ),
        (lambda: broker.send("T", b"x", delay_level=4), Message("T", b"x"), TimerKind.LEVEL),
        (
            lambda: broker.send("T", b"x", deliver_at=soon),
            Message("T", b"x", deliver_at=soon),
            TimerKind.DELIVER_AT,
        ),
        (
            lambda: broker.send("T", b"x", properties={"__STARTDELIVERTIME": str(soon_ms)}),
            Message("T", b"x"),
            TimerKind.START_DELIVER,
        ),
    ]
    ways[1][1].set_delay_time_sec(9)
    ways[2][1].set_delay_time_level(4)
    ways[4][1].set_start_deliver_time(soon_ms)
    with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
        for send, message, kind in ways:
            ours, theirs = send().msg_id, producer.send(message).msg_id
            timers = {timer.msg_id: timer for timer in broker.timers.pending(kind=kind)}
            assert set(timers) == {ours, theirs}, kind
            assert timers[ours].due_at == timers[theirs].due_at
            assert timers[ours].kind is timers[theirs].kind is kind


def test_a_message_that_waits_for_its_next_try_is_listed_as_a_retry(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    broker.send("T", b"failing", queue=0)
    consumer = ManualConsumer(broker)
    consumer.join()
    (record,) = consumer.take()
    consumer.send_back(record)

    (timer,) = broker.timers.pending()

    assert (timer.kind, timer.topic) == (TimerKind.RETRY, "%RETRY%G")
    assert timer.due_at == clock.now() + timedelta(seconds=10)
    assert timer.body == b"failing"


# --- the next one ------------------------------------------------------------------------------


def test_the_next_deadline_is_the_exact_time_of_the_first_timer_that_leaves(
    clock: VirtualClock,
) -> None:
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"], config=DAYS_40) as broker:
        assert broker.timers.next_due() is None
        assert clock.next_deadline() is None
        recalled = broker.send("T", b"x", delay=100)
        due_at = clock.now() + timedelta(days=20, milliseconds=321)
        broker.send("T", b"x", deliver_at=due_at)
        broker.timers.recall(recalled)

        head = clock.next_deadline()
        assert head is not None
        assert (head.at, head.what) == (due_at, "timer")
        assert broker.timers.next_due() == due_at
        clock.advance(timedelta(days=20))
        assert broker.timers.next_due() == due_at
        assert clock.next_deadline() == head
        broker.send("T", b"x", delay_level=1)
        broker.send("T", b"x", delay=0.2)
        assert broker.timers.next_due() == clock.now() + timedelta(seconds=0.2)
        clock.jump_to(head.at)
        assert broker.topics["T"].count() == 2
        head = clock.next_deadline()
        assert head is not None
        assert head.what == "delay level"


def test_the_next_deadline_is_never_before_releasing_begins(clock: VirtualClock) -> None:
    config = {"disappearTimeAfterStart": 5000}
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"], config=config) as broker:
        broker.send("T", b"x", delay=1)
        begins_at = clock.now() + timedelta(seconds=5)

        head = clock.next_deadline()
        assert head is not None
        assert head.at == begins_at
        broker.timers.stages["TimerDequeuePutMessageService"].pause()
        clock.advance(6)
        assert clock.next_deadline() is None


# --- changing ----------------------------------------------------------------------------------


@pytest.mark.case("K9")
def test_recall_says_what_became_of_the_timer(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    sent, kept = broker.send("T", b"1", delay=10), broker.send("T", b"2", delay=10)

    assert broker.timers.recall(sent) is RecallOutcome.RECALLED
    assert broker.timers.recall(sent) is RecallOutcome.UNKNOWN
    assert broker.timers.recall("no such id") is RecallOutcome.UNKNOWN
    clock.advance(10)
    assert broker.timers.recall(kept) is RecallOutcome.ALREADY_DUE
    clock.advance(hours=1)

    assert bodies(broker) == [b"2"]


@pytest.mark.case("K9")
def test_recall_works_until_the_release_itself(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    sent = broker.send("T", b"1", delay=10)
    clock.advance(9.999)

    assert broker.timers.recall(sent) is RecallOutcome.RECALLED
    clock.advance(10)

    assert bodies(broker) == []


@pytest.mark.case("K10")
def test_fire_now_delivers_at_once(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    sent = [broker.send("T", b"%d" % number, delay=10 + number) for number in range(3)]

    broker.timers.fire_now(sent[1])

    (message,) = broker.messages.in_topic("T")
    assert (message.body, message.stored_at) == (b"1", clock.now())
    assert broker.timers.count() == 2
    clock.advance(20)
    assert bodies(broker) == [b"1", b"0", b"2"]


@pytest.mark.case("K10")
@pytest.mark.parametrize("in_directory", [True, False])
def test_a_timer_leaves_once_at_the_last_time_asked_after_a_crash_too(
    clock: VirtualClock, tmp_path: Path, in_directory: bool
) -> None:
    begin = clock.now()
    store = tmp_path / "store" if in_directory else None
    with EmbeddedBroker(store=store, clock=clock, tcp=False, topics=["T"]) as broker:
        sent = broker.send("T", b"x", delay=100)
        for seconds in (200, 50.25, 50.75, 100.5):
            broker.timers.reschedule(sent, deliver_at=begin + timedelta(seconds=seconds))
            broker.crash()
            broker.restart()
        assert broker.timers.next_due() == begin + timedelta(seconds=100.5)
        assert broker.timers.count() == 1
        clock.advance(300)

        (message,) = broker.messages.in_topic("T")
        assert message.stored_at == begin + timedelta(seconds=100.5)


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_a_power_loss_undoes_no_change_that_was_answered_after_a_sync(
    engine: Literal["wheel", "sliced"], clock: VirtualClock
) -> None:
    config = {"flushDiskType": "SYNC_FLUSH"}
    with EmbeddedBroker(
        clock=clock, tcp=False, topics=["T"], config=config, engine=engine
    ) as broker:
        recalled, moved, fired = (
            broker.send("T", body, delay=10) for body in (b"recalled", b"moved", b"fired")
        )
        changes: list[Callable[[], object]] = [
            lambda: broker.timers.recall(recalled),
            lambda: broker.timers.reschedule(moved, deliver_at=clock.now() + timedelta(hours=1)),
            lambda: broker.timers.fire_now(fired),
        ]
        for change in changes:
            change()
            broker.faults.disk.lose_unsynced()
            broker.crash()
            broker.restart()

        clock.advance(10)
        assert bodies(broker) == [b"fired"]
        clock.advance(hours=1)
        assert bodies(broker) == [b"fired", b"moved"]


def test_a_change_that_cannot_be_synced_in_time_says_so(clock: VirtualClock) -> None:
    config: dict[str, str | int] = {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": 100}
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"], config=config) as broker:
        sent = broker.send("T", b"x", delay=10)
        broker.faults.disk.fail_next_flush(times=1000)
        with pytest.raises(StoreError, match=r"not synced within syncFlushTimeout=100 ms"):
            broker.timers.recall(sent)
        broker.faults.disk.clear()
        clock.advance(10)
        assert bodies(broker) == []


def test_without_synchronous_flush_a_change_waits_for_no_sync(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    sent = broker.send("T", b"x", delay=10)
    broker.faults.disk.fail_next_flush(times=1000)
    assert broker.timers.recall(sent) is RecallOutcome.RECALLED
    broker.faults.disk.clear()
    clock.advance(10)
    assert bodies(broker) == []


def test_only_what_waits_can_be_changed(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    delivered, level = broker.send("T", b"1", delay=1), broker.send("T", b"2", delay_level=5)
    clock.advance(1)
    later = clock.now() + timedelta(seconds=5)

    with pytest.raises(TimerNotPending, match="was due already"):
        broker.timers.fire_now(delivered)
    with pytest.raises(TimerNotPending, match=r"delay level 5.*routeDelayLevelToWheel"):
        broker.timers.reschedule(level, deliver_at=later)
    with pytest.raises(TimerNotPending, match="no timer waits under the id 'nobody'"):
        broker.timers.fire_now("nobody")
    with pytest.raises(ConfigError, match="timerMaxDelaySec"):
        broker.timers.reschedule(level, deliver_at=later + timedelta(days=3))
    broker.topics.create("U")
    with pytest.raises(TimerNotPending):
        broker.timers.reschedule(level, deliver_at=later, topic="U")


@pytest.mark.parametrize(
    ("limits", "longest", "setting"),
    [
        ("broker", timedelta(days=40), "timerMaxDelaySec"),
        ("proxy", timedelta(hours=24), "maxDelayTimeMills"),
        ("aliyun", timedelta(days=40) - timedelta(milliseconds=1), "shorter than"),
    ],
)
def test_a_timer_is_moved_no_further_than_a_send_may_ask_for(
    limits: Literal["broker", "proxy", "aliyun"],
    longest: timedelta,
    setting: str,
    clock: VirtualClock,
) -> None:
    topics = [TopicSpec("D", message_type="DELAY")]
    with EmbeddedBroker(
        clock=clock, tcp=False, limits=limits, config=DAYS_40, topics=topics
    ) as broker:
        sent = broker.send("D", b"x", delay=10)
        too_far = longest + timedelta(milliseconds=1)
        with pytest.raises(MQBrokerException):
            broker.send("D", b"y", delay=too_far)
        with pytest.raises(ConfigError, match=rf"deliver_at .*{setting}"):
            broker.timers.reschedule(sent, deliver_at=clock.now() + too_far)
        assert broker.timers.next_due() == clock.now() + timedelta(seconds=10)

        broker.timers.reschedule(sent, deliver_at=clock.now() + longest)
        assert broker.timers.next_due() == clock.now() + longest


def ask(call: Callable[..., object], **values: object) -> Callable[[], object]:
    """Call with values of types that the signature does not have."""
    return lambda: call(**values)


def test_values_of_other_types_are_named_with_what_is_expected(broker: EmbeddedBroker) -> None:
    timers = broker.timers
    sent = broker.send("T", b"x", delay=10)
    for call, said in (
        (ask(timers.pending, kind="level"), r"TimerKind\.LEVEL, .* not str 'level'"),
        (ask(timers.pending, kind=["level"]), r"TimerKind\.LEVEL, .* not str 'level'"),
        (ask(timers.pending, kind=5), r"TimerKind\.LEVEL, .* not int 5"),
        (ask(timers.pending, before=5), "before is an aware datetime.* not int 5"),
        (ask(timers.pending, before=timedelta(1)), "before is an aware datetime"),
        (ask(timers.pending, after=5), "after is the last timer.* not int 5"),
        (ask(timers.pending, limit=1.5), r"limit is a number.* not float 1\.5"),
        (ask(timers.reschedule, message=sent, deliver_at=5), "deliver_at is an aware datetime"),
        (ask(timers.recall, message=5), "id of a message as str, or what has msg_id, not int 5"),
        (
            ask(timers.fire_now, message=None),
            "id of a message as str, or what has msg_id, not NoneType",
        ),
        (ask(timers.recall, message=b"x"), "id of a message as str, or what has msg_id, not bytes"),
    ):
        with pytest.raises(TypeError, match=said):
            call()
    assert timers.pending(kind=[]) == []
    assert len(timers.pending(kind=(kind for kind in TimerKind))) == 1


def test_levels_that_use_the_wheel_can_be_changed(clock: VirtualClock) -> None:
    config = {"routeDelayLevelToWheel": True}
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"], config=config) as broker:
        sent = broker.send("T", b"x", delay_level=5)
        assert broker.timers.pending()[0].kind is TimerKind.MS

        broker.timers.fire_now(sent)

        assert bodies(broker) == [b"x"]


# --- stages ------------------------------------------------------------------------------------


def test_a_stage_is_held_looked_at_and_stepped(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    stages = broker.timers.stages
    stage = stages["TimerEnqueueGetService"]
    put = stages["TimerDequeuePutMessageService"]
    stage.pause()
    broker.send("T", b"1", delay=1)
    broker.send("T", b"2", delay=100)
    clock.advance(1)

    assert len(stages) == 7
    assert (stage.paused, stage.queue_depth, stage.lag_ms) == (True, 2, 1000)
    assert "paused, depth 2, lag 1000 ms" in repr(stage)
    assert bodies(broker) == []
    assert stage.step() == 1
    assert (stage.paused, stage.queue_depth) == (True, 0)
    assert put.counters["released"] == 1
    broker.send("T", b"3", delay=2)
    stage.resume()
    clock.advance(2)
    assert (stage.paused, bodies(broker)) == (False, [b"1", b"3"])


def test_what_waited_for_a_stage_is_done_when_it_works_again(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    stage = broker.timers.stages["TimerDequeuePutMessageService"]
    stage.pause()
    broker.send("T", b"1", delay=1)
    clock.advance(5)
    assert bodies(broker) == []

    stage.resume()

    assert bodies(broker) == [b"1"]


@pytest.mark.parametrize(
    ("engine", "name"), [("wheel", "TimerFlushService"), ("sliced", "SliceFlushService")]
)
def test_a_held_flush_leaves_the_files_until_it_is_stepped_or_works_again(
    engine: Literal["wheel", "sliced"], name: str, clock: VirtualClock, tmp_path: Path
) -> None:
    session = VirtualClock()
    with EmbeddedBroker(
        clock=clock, session_clock=session, tcp=False, topics=["T"], engine=engine
    ) as broker:
        stage, store = broker.timers.stages[name], broker._parts().store

        def is_held() -> bool:
            return stage.paused

        def let_the_flush_time_come() -> None:
            for _ in range(2):  # the flusher may be on its way already
                broker.send("T", b"x", delay=5)
                session.advance(2)
                broker.wait_for(lambda _: store.flushed_offset == store.log.max_offset)

        def begun() -> int:
            return stage.counters["begun"]

        let_the_flush_time_come()
        assert begun() > 0
        stage.pause()
        before = begun()
        let_the_flush_time_come()
        assert begun() == before
        assert stage.step() == 0
        assert (begun(), is_held()) == (before + 1, True)
        broker.snapshot(tmp_path / "held")
        assert begun() == before + 2

        broker.send("T", b"x", delay=5)
        broker.faults.disk.fail_next_flush(path="commitlog")
        with pytest.raises(StoreError):
            stage.step()
        assert is_held()
        before = begun()
        stage.resume()
        assert begun() == before + 1
        assert not is_held()
    with EmbeddedBroker(store=tmp_path / "held", tcp=False, clock=clock, engine=engine) as broker:
        assert broker.timers.count() == 4


@pytest.mark.case("P35")
def test_timers_are_counted_by_how_soon_they_are_due(broker: EmbeddedBroker) -> None:
    broker.send("T", b"1", delay=3)
    broker.send("T", b"2", delay=120)

    found = broker.timers.distribution()

    assert {bound: number for bound, number in found.items() if number} == {5: 1, 300: 1}
    assert sorted(found) == [5, 60, 300, 900, 3600, 14_400, 28_800, 86_400]


def test_a_naive_time_names_no_instant(broker: EmbeddedBroker) -> None:
    sent = broker.send("T", b"1", delay=3)

    with pytest.raises(Exception, match="time zone"):
        broker.timers.reschedule(sent, deliver_at=datetime(2030, 1, 1))  # noqa: DTZ001
