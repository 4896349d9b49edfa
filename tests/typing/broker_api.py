"""What type checkers must infer for a test author who holds the embedded broker."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import assert_type

from embedded_broker import (
    Advanced,
    DiskFault,
    DiskFaults,
    EmbeddedBroker,
    Fault,
    Faults,
    GroupMember,
    GroupOffset,
    GroupsView,
    GroupTrace,
    GrpcClientInfo,
    InnerMessage,
    Limits,
    MessageState,
    MessagesView,
    MessageTrace,
    MisreadClock,
    PendingTimer,
    PutHook,
    PutHooks,
    PutRefusal,
    PutStatus,
    RecallOutcome,
    RecoveryReport,
    Retry,
    Settled,
    StoredMessage,
    TimerKind,
    TimersView,
    TopicsView,
    TopicView,
    VirtualClock,
)
from rocketmq_py import ApplicationClock, SystemClock


def starting() -> None:
    """A context manager that yields the broker itself."""
    clock = VirtualClock(rate=0)
    EmbeddedBroker(engine="sliced", levels="off", config={"timeSliceLength": 60})
    with EmbeddedBroker(clock=clock, topics=["T"]) as broker:
        assert_type(broker, EmbeddedBroker)
        assert_type(broker.namesrv_addr, str)
        assert_type(broker.messages.in_topic("T"), list[StoredMessage])
        assert_type(broker.timers.count(topic="T"), int)
        assert_type(clock.advance(timedelta(days=30)), Advanced)
        assert_type(clock.now_ms, int)
        assert_type(clock.now(), datetime)


def naming_the_views(broker: EmbeddedBroker) -> None:
    """Whatever a broker shows has a type that a test can write down."""
    assert_type(broker.topics, TopicsView)
    assert_type(broker.topics["T"], TopicView)
    assert_type(broker.messages, MessagesView)
    assert_type(broker.timers, TimersView)
    assert_type(broker.groups, GroupsView)
    assert_type(broker.faults, Faults)
    assert_type(broker.faults.disk, DiskFaults)
    assert_type(broker.faults.on("PULL_MESSAGE").respond("SYSTEM_BUSY"), Fault)
    EmbeddedBroker(profile="rocketmq-6")  # type: ignore[arg-type]
    EmbeddedBroker(limits="none")  # type: ignore[arg-type]
    EmbeddedBroker(defaults="mine")  # type: ignore[arg-type]


def looking_at_timers_and_changing_them(broker: EmbeddedBroker) -> None:
    """Pages are lists of values; what becomes of a change is a value or an error."""
    sent = broker.send("T", b"body", delay=5)
    page = broker.timers.pending(topic="T", before=broker.clock.now(), kind=TimerKind.MS, limit=7)
    assert_type(page, list[PendingTimer])
    assert_type(broker.timers.pending(after=page[-1], kind={TimerKind.SEC}), list[PendingTimer])
    assert_type(page[0].due_at, datetime)
    assert_type(page[0].kind, TimerKind)
    assert_type(page[0].body, bytes)
    assert_type(page[0].keys, tuple[str, ...])
    assert_type(broker.timers.next_due(), datetime | None)
    assert_type(list(broker.timers), list[PendingTimer])
    assert_type(broker.timers.misread_clock, MisreadClock | None)
    assert_type(broker.timers.recall(sent), RecallOutcome)
    broker.timers.fire_now(sent)
    broker.timers.reschedule(sent, deliver_at=broker.clock.now())
    assert_type(broker.timers.distribution(), dict[int, int])
    stage = broker.timers.stages["TimerDequeueGetService"]
    assert_type(stage.queue_depth, int)
    assert_type(stage.lag_ms, int)
    assert_type(stage.counters, dict[str, int])
    assert_type(stage.step(), int)


def looking_at_messages_and_groups(broker: EmbeddedBroker) -> None:
    """Everything that is looked up is a value of its own."""
    sent = broker.send("T", b"body")
    assert_type(broker.messages.by_id(sent), StoredMessage)
    assert_type(broker.messages.by_id("7F00"), StoredMessage)
    assert_type(broker.messages.by_key("T", "K1"), list[StoredMessage])
    seen = broker.messages.trace(sent)
    assert_type(seen, MessageTrace)
    assert_type(seen.state, MessageState)
    assert_type(seen.groups["G"], GroupTrace)
    assert_type(seen.groups["G"].acknowledged_at, datetime | None)
    group = broker.groups["G"]
    assert_type(group.members, tuple[GroupMember, ...])
    assert_type(broker.grpc_clients(), tuple[GrpcClientInfo, ...])
    assert_type(group.lag(topic="T"), int)
    assert_type(group.unread(), int)
    assert_type(group.offsets(), list[GroupOffset])
    assert_type(group.reset(topic="T", to="earliest"), list[GroupOffset])
    assert_type(group.reset(topic="T", to=broker.clock.now()), list[GroupOffset])
    assert_type(group.dead_letters(), list[StoredMessage])
    assert_type(group.retries(), list[Retry])
    broker.wait_members("G", 2, timeout=1.5)


class Quota:
    """A put hook of a test."""

    name = "quota"

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutRefusal | None:
        """Refuse what is too long."""
        assert_type(now_ms, int)
        if len(msg.body) > 10:
            return PutRefusal(PutStatus.MESSAGE_ILLEGAL, "too long")
        return None


def limits_and_hooks() -> None:
    """Limits are data, hooks are objects with two members."""
    hook: PutHook = Quota()
    broker = EmbeddedBroker(limits="proxy", config={"maxDelayTimeMills": 0})
    assert_type(broker.limits, Limits)
    assert_type(broker.put_hooks, PutHooks)
    broker.put_hooks.append(hook)
    broker.put_hooks.insert(0, Quota())
    assert_type(broker.put_hooks.names(), list[str])


def living_and_waiting(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    """What a test does to a broker, and what it learns from it."""
    broker.crash()
    assert_type(broker.restart(), RecoveryReport)
    broker.pause()
    broker.resume()
    assert_type(broker.snapshot("copy"), Path)
    broker.reset()
    broker.wait_idle(timeout=1)
    assert_type(clock.settle(1, check=False, groups=["G"]), Settled)
    assert_type(clock.settle().busy, tuple[str, ...])
    assert_type(clock.advance(days=1, age=True), Advanced)
    with clock.autojump():
        assert_type(clock.now_ms, int)


async def telling_what_the_application_does(clock: VirtualClock) -> None:
    """A function that is counted keeps its types; an application takes either clock."""

    @clock.busy("adds")
    def add(one: int, *, other: int) -> int:
        return one + other

    @clock.busy()
    async def work(name: str) -> bytes:
        return name.encode()

    assert_type(add(1, other=2), int)
    assert_type(await work("a"), bytes)
    assert_type(clock.busy().hand_over(add)(1, other=2), int)
    with clock.busy() as busy, clock.idle_when(lambda: True, name="outbox") as condition:
        given: ApplicationClock = clock
        busy.hand_over(given.forget)("outbox")
        condition.forget()
    for given in (clock, SystemClock()):
        with given.busy("outbox"), given.idle_when(lambda: True):
            assert_type(given.busy()(add)(1, other=2), int)
            assert_type(given.now_ms, int)


def letting_things_go_wrong(broker: EmbeddedBroker) -> None:
    """A fault is a value that counts its hits."""
    with broker.faults.on(310, topic="T", nth=2).respond(2).times(3) as fault:
        assert_type(fault, Fault)
        assert_type(fault.hits, int)
    assert_type(broker.faults.disk.tear_next_write(at=17), DiskFault)
    assert_type(broker.faults.disk.fill_after(bytes=100).hits, int)
    broker.faults.disk.lose_unsynced()
    broker.faults.assert_all_used()


async def waiting_in_an_event_loop() -> None:
    """The awaitable forms give what the blocking ones give."""
    async with EmbeddedBroker(tcp=False) as broker:
        assert_type(broker, EmbeddedBroker)
        assert_type(await broker.aio.settle(), Settled)
        assert_type(await broker.aio.advance(5), Advanced)
        assert_type(await broker.aio.run(days=5), Advanced)
        assert_type(await broker.aio.run_until(lambda: True, at_most=5), Advanced)
        await broker.aio.wait_for(lambda b: b.is_running, timeout=1)
