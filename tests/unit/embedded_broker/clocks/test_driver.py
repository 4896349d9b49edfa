"""The driver's thread fires what is due while time flows, and sleeps otherwise."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from threading import Event, get_ident
from threading import enumerate as threads
from typing import Literal

import pytest

from embedded_broker import EmbeddedBroker, RecallOutcome, TimerKind
from embedded_broker.clocks.clock import VirtualClock, WallClock
from embedded_broker.clocks.driver import ClockDriver
from embedded_broker.clocks.session import Session
from embedded_broker.clocks.timeline import Alarm, Budget, Deadline
from embedded_broker.door import Door
from rocketmq_py.clock import SystemClock

GUARD_S = 10.0


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def driver(door: Door) -> Iterator[ClockDriver]:
    driver = ClockDriver(door)
    yield driver
    driver.close()


def now() -> int:
    return SystemClock().now_ms


def test_a_call_asked_for_while_the_thread_sleeps_is_made_when_due(
    door: Door, driver: ClockDriver
) -> None:
    timers, made = Session(SystemClock()), Event()
    driver.add(WallClock(), [timers], visible=False)
    driver.start()
    due_ms = now() + 20
    fired_at: list[int] = []

    def call() -> None:
        fired_at.append(now())
        made.set()

    with door:
        timers.at(now() + 3_600_000, lambda: None)
    with door:
        timers.at(due_ms, call)

    assert made.wait(GUARD_S)
    assert fired_at[0] >= due_ms


def test_a_frozen_clock_fires_only_what_is_due_already(door: Door, driver: ClockDriver) -> None:
    clock = VirtualClock()
    timers, early, due = Session(SystemClock()), Event(), Event()
    driver.add(clock, [timers], visible=True)
    driver.start()

    with door:
        timers.at(clock.now_ms + 1, early.set)
        timers.at(clock.now_ms, due.set)

    assert due.wait(GUARD_S)
    assert not early.is_set()
    clock.advance(0.001)
    assert early.is_set()


def test_a_flowing_virtual_clock_fires_by_itself_after_a_jump(
    door: Door, driver: ClockDriver
) -> None:
    clock = VirtualClock(rate=1)
    timers, made = Session(SystemClock()), Event()
    driver.add(clock, [timers], visible=True)
    driver.start()
    with door:
        timers.at(clock.now_ms + 3_600_010, made.set)

    clock.advance(3600)

    assert made.wait(GUARD_S)


def test_an_overdue_source_lets_the_other_have_its_turn_in_due_order(
    door: Door, driver: ClockDriver
) -> None:
    first, second, made = Session(SystemClock()), Session(SystemClock()), list[int]()
    done = Event()
    for due_ms in (1, 4, 5):
        first.at(due_ms, lambda due_ms=due_ms: made.append(due_ms))  # type: ignore[misc]
    for due_ms in (2, 3):
        second.at(due_ms, lambda due_ms=due_ms: made.append(due_ms))  # type: ignore[misc]
    second.at(6, done.set)
    driver.add(WallClock(), [first, second], visible=True)

    driver.start()

    assert done.wait(GUARD_S)
    assert made == [1, 2, 3, 4, 5]


def test_a_call_that_fails_is_logged_and_the_next_one_is_still_made(
    door: Door, driver: ClockDriver, caplog: pytest.LogCaptureFixture
) -> None:
    timers, made = Session(SystemClock()), Event()

    def fail() -> None:
        raise ValueError("a bug")

    driver.add(WallClock(), [timers], visible=False)
    timers.at(0, fail)
    timers.at(1, made.set)

    with caplog.at_level(logging.ERROR):
        driver.start()
        assert made.wait(GUARD_S)

    assert "a timer failed; going on" in caplog.text


def test_work_beyond_the_budget_goes_on_in_the_next_entry(door: Door, driver: ClockDriver) -> None:
    class Slow:
        def __init__(self) -> None:
            self.left = 5
            self.done = Event()
            self.alarm = Alarm()

        def next_deadline(self) -> Deadline | None:
            return Deadline(0, "slow") if self.left else None

        def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:
            while not budget.exhausted():
                pass
            self.left -= 1
            if not self.left:
                self.done.set()
            return 1

    slow = Slow()
    entries = list[bool]()
    door.before_release(lambda: entries.append(True))
    driver.add(VirtualClock(), [slow], visible=True)

    driver.start()

    assert slow.done.wait(GUARD_S)
    driver.close()
    assert len(entries) >= 5


def test_closing_joins_the_thread_and_leaves_the_clock(door: Door) -> None:
    clock = VirtualClock()
    driver = ClockDriver(door)
    driver.add(clock, [Session(SystemClock())], visible=True)
    driver.start()

    driver.close()
    driver.close()

    assert not [thread for thread in threads() if thread.name == "embedded-broker-clock"]
    assert clock._tracks == []


class Watched:
    """Session timers that note which threads ask them."""

    def __init__(self) -> None:
        self.timers = Session(SystemClock())
        self.alarm, self.fire = self.timers.alarm, self.timers.fire
        self.asked_by: list[int] = []

    def next_deadline(self) -> Deadline | None:
        self.asked_by.append(get_ident())
        return self.timers.next_deadline()

    @property
    def asked_here(self) -> int:
        """How often this thread asked, as whoever leaves the door does."""
        return self.asked_by.count(get_ident())


def test_a_source_is_asked_only_when_its_alarm_names_a_time_that_has_come(
    door: Door, driver: ClockDriver
) -> None:
    clock, watched, first, made = VirtualClock(), Watched(), Event(), Event()
    timers = watched.timers
    driver.add(clock, [watched], visible=True)
    driver.start()
    with door:
        timers.at(clock.now_ms, first.set)
    assert first.wait(GUARD_S)
    with door:
        before = watched.asked_here
        timers.at(clock.now_ms + 1, lambda: None)
    with door:
        assert watched.asked_here == before
        timers.at(clock.now_ms, made.set)

    assert made.wait(GUARD_S)
    assert watched.asked_here > before


def test_a_source_whose_alarm_names_a_later_time_than_is_waited_for_is_left_alone(
    door: Door, driver: ClockDriver
) -> None:
    watched, first, made = Watched(), Event(), Event()
    timers, now_ms = watched.timers, watched.timers.now_ms
    driver.add(WallClock(), [watched], visible=False)
    driver.start()
    with door:
        timers.at(now_ms + 500_000, lambda: None)
        timers.at(now_ms, first.set)
    assert first.wait(GUARD_S)
    with door:
        before = watched.asked_here
        timers.at(now_ms + 600_000, lambda: None)
    with door:
        assert watched.asked_here == before
        timers.at(now_ms + 1, made.set)

    assert made.wait(GUARD_S)
    assert watched.asked_here > before


# --- ties --------------------------------------------------------------------------------------


def send_for_one_instant(broker: EmbeddedBroker, number: int) -> list[bytes]:
    """Send timers and levels in turns of random length, all due together; gives the bodies."""
    random = Random(number)
    sent: list[bytes] = []
    while len(sent) < number:
        is_level = random.random() < 0.5
        for _ in range(random.choice((1, 1, 2, 40))):
            sent.append(b"%d %s" % (len(sent), b"level" if is_level else b"timer"))
            if is_level:
                broker.send("T", sent[-1], queue=0, delay_level=2)
            else:
                broker.send("T", sent[-1], queue=0, delay=5)
    return sent


def delivered(broker: EmbeddedBroker) -> list[bytes]:
    return [message.body for message in broker.messages.in_topic("T")]


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_timers_and_levels_of_one_instant_leave_in_the_order_in_which_they_came(
    engine: Literal["wheel", "sliced"],
) -> None:
    clock = VirtualClock(datetime(2030, 1, 1, tzinfo=UTC))
    with EmbeddedBroker(tcp=False, clock=clock, topics=["T"], engine=engine) as broker:
        sent = send_for_one_instant(broker, 300)
        assert [one.body for one in broker.timers.pending(limit=1000)] == sent
        timers = [one for one in broker.timers.pending(limit=1000) if one.kind != TimerKind.LEVEL]
        gone = {timer.body for timer in timers[1::3]}
        for timer in timers[1::3]:
            assert broker.timers.recall(timer.msg_id) is RecallOutcome.RECALLED
        clock.advance(days=1)
        assert delivered(broker) == [body for body in sent if body not in gone]


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_what_became_due_together_while_the_broker_was_down_keeps_its_order(
    engine: Literal["wheel", "sliced"], tmp_path: Path
) -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    with EmbeddedBroker(
        store=tmp_path, tcp=False, clock=VirtualClock(start), topics=["T"], engine=engine
    ) as broker:
        sent = send_for_one_instant(broker, 100)
    clock = VirtualClock(start + timedelta(seconds=60))
    with EmbeddedBroker(store=tmp_path, tcp=False, clock=clock, engine=engine) as broker:
        broker.wait_delivered("T", len(sent))
        assert delivered(broker) == sent
