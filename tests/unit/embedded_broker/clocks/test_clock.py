"""Clocks: what they read, how they are moved, in which order things fire."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from threading import Event, Thread

import pytest

from embedded_broker.clocks.clock import BrokerClock, VirtualClock, WallClock
from embedded_broker.clocks.driver import ClockDriver
from embedded_broker.clocks.instants import EARLIEST_MS, epoch_ms, instant
from embedded_broker.clocks.timeline import Alarm, Budget, Deadline
from embedded_broker.door import Door
from embedded_broker.errors import ClockError
from rocketmq_py.clock import LATEST_MS, Clock, SystemClock
from rocketmq_py.errors import ConfigError

START = datetime(2030, 1, 1, tzinfo=UTC)
START_MS = epoch_ms(START)


class Script:
    """A source that fires at scripted times and notes the clock's time of each."""

    def __init__(self, clock: Clock, name: str, dues: list[int], log: list[str]) -> None:
        self.clock = clock
        self.name = name
        self.dues = sorted(dues)
        self.log = log
        self.horizons: list[int] = []
        self.on_fire: Callable[[], None] | None = None
        self.alarm = Alarm()

    def next_deadline(self) -> Deadline | None:
        return Deadline(self.dues[0], self.name) if self.dues else None

    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:
        fired = 0
        while self.dues and self.dues[0] <= now_ms:
            due = self.dues.pop(0)
            self.log.append(f"{self.name}@{due - START_MS}/{self.clock.now_ms - START_MS}")
            self.horizons.append(horizon_ms - START_MS)
            fired += 1
            if self.on_fire is not None:
                self.on_fire()
        return fired


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def driver() -> Iterator[ClockDriver]:
    driver = ClockDriver(Door())
    yield driver
    driver.close()


def test_a_frozen_clock_stands_still_until_it_is_moved(clock: VirtualClock) -> None:
    assert clock.now() == START

    assert clock.advance(2.5).until == START + timedelta(seconds=2.5)

    assert clock.now_ms == START_MS + 2500
    assert not clock.flows


def test_spans_are_seconds_timedeltas_and_named_parts(clock: VirtualClock) -> None:
    clock.advance(1)
    clock.advance(timedelta(minutes=1))
    clock.advance(days=1, hours=1, minutes=1, seconds=0.001)

    assert clock.now() - START == timedelta(days=1, hours=1, minutes=2, seconds=1.001)


def test_small_steps_add_up_exactly(clock: VirtualClock) -> None:
    for _ in range(10):
        clock.advance(0.1)

    assert clock.now_ms == START_MS + 1000


def test_without_a_start_it_begins_at_wall_time() -> None:
    before = SystemClock().now_ms

    assert before <= VirtualClock().now_ms <= SystemClock().now_ms


def test_a_flowing_clock_moves_by_itself_and_can_jump() -> None:
    clock = VirtualClock(START, rate=1)
    first = clock.now_ms
    waiting = Event()
    while clock.now_ms == first:
        waiting.wait(0.001)

    clock.advance(3600)

    assert clock.now_ms >= START_MS + 3_600_000
    assert clock.flows


@pytest.mark.case("K7")
def test_jumping_to_the_past_is_refused_with_the_next_step(clock: VirtualClock) -> None:
    with pytest.raises(ClockError, match=r"broker\.clock\.now\(\), or use set_back"):
        clock.jump_to(START - timedelta(seconds=1))
    with pytest.raises(ClockError, match="never goes back"):
        clock.jump_to_ms(START_MS - 1)
    with pytest.raises(ClockError, match="never goes back"):
        clock.advance(-1)

    assert clock.now() == START


@pytest.mark.parametrize(
    ("move", "said"),
    [
        (lambda clock: clock.jump_to_ms(START_MS + 0.5), "whole number of milliseconds"),
        (lambda clock: clock.jump_to_ms("1"), "whole number of milliseconds"),
        (lambda clock: clock.jump_to_ms(float("nan")), "whole number of milliseconds"),
        (lambda clock: clock.jump_to_ms(START_MS * 1_000_000), "since 1970.*at most .*9999"),
        (lambda clock: clock.jump_to_ms(-(2**63)), "before the clock's"),
        (lambda clock: clock.jump_to(START_MS), "aware datetime"),
        (lambda clock: clock.set_back(1500.5), "whole number of milliseconds"),
        (lambda clock: clock.set_back(2**62), "before 1970: at most .* a span"),
        (lambda clock: clock.advance(10**12), "after the year 9999.*in seconds"),
        (lambda clock: clock.advance(1e300), "finite seconds or a timedelta"),
        (lambda clock: clock.advance(float("inf")), "finite seconds or a timedelta"),
        (lambda clock: clock.advance(days=float("nan")), "finite seconds or a timedelta"),
        (lambda clock: clock.advance("5"), "finite seconds or a timedelta"),
        (lambda clock: clock.advance(timedelta.max, days=1), "finite seconds or a timedelta"),
        (lambda clock: clock.advance(), r"advance\(\): say how far .*advance\(seconds=10\)"),
        (lambda clock: clock.advance(age=True), r"advance\(\): say how far"),
        (lambda clock: clock.run(), r"run\(\): say how far .*run\(seconds=10\).*settle\(\)"),
    ],
)
@pytest.mark.parametrize("rate", [0, 1])
def test_what_is_no_time_is_refused_and_moves_nothing(
    rate: int, move: Callable[[VirtualClock], object], said: str
) -> None:
    clock = VirtualClock(START, rate=rate)
    with pytest.raises(ClockError, match=said):
        move(clock)
    assert isinstance(clock.now_ms, int)
    assert START <= clock.now() < START + timedelta(hours=1)
    assert clock.advance(5).until >= START + timedelta(seconds=5)
    assert clock.now() < START + timedelta(hours=1)


def test_no_time_at_all_can_be_asked_for(clock: VirtualClock) -> None:
    for moved in (clock.advance(0), clock.advance(seconds=0), clock.advance(timedelta(0))):
        assert moved.until == START


def test_time_reaches_from_1970_to_the_last_day_of_the_year_9999(clock: VirtualClock) -> None:
    last = datetime(9999, 12, 31, tzinfo=UTC)
    clock.jump_to(last - timedelta(microseconds=999))
    assert clock.now() == last
    with pytest.raises(ClockError, match="At most 0 s are left"):
        clock.advance(0.001)
    with pytest.raises(ClockError, match="the year 9999"):
        clock.jump_to(last + timedelta(milliseconds=1))
    clock.set_back(clock.now_ms)
    assert clock.now() == datetime(1970, 1, 1, tzinfo=UTC)
    with pytest.raises(ClockError, match="at most 0 ms are possible"):
        clock.set_back(1)


def test_whole_milliseconds_may_come_as_a_float(clock: VirtualClock) -> None:
    clock.jump_to_ms(START_MS + 1000.0)  # type: ignore[arg-type]
    clock.set_back(500.0)  # type: ignore[arg-type]
    assert clock.now_ms == START_MS + 500
    assert isinstance(clock.now_ms, int)


@pytest.mark.case("K7")
@pytest.mark.parametrize(
    "move",
    [
        lambda clock: clock.advance(1),
        lambda clock: clock.jump_to(START),
        lambda clock: clock.jump_to_ms(START_MS),
        lambda clock: clock.set_back(5),
    ],
)
def test_wall_time_cannot_be_moved_and_says_how_to_have_a_clock_that_can(
    move: Callable[[BrokerClock], object],
) -> None:
    with pytest.raises(ClockError, match=r"EmbeddedBroker\(clock=VirtualClock\(\)\)"):
        move(WallClock())


def test_wall_time_can_be_read_through_any_clock(clock: VirtualClock) -> None:
    wall = WallClock(clock)

    assert wall.now_ms == START_MS
    assert wall.now() == START
    assert wall.flows
    assert wall.next_deadline() is None


def test_jumping_to_an_instant_takes_datetimes_and_milliseconds(clock: VirtualClock) -> None:
    clock.jump_to(START + timedelta(days=30))
    clock.jump_to_ms(START_MS + timedelta(days=31) // timedelta(milliseconds=1))

    assert clock.now() == START + timedelta(days=31)


def test_a_naive_datetime_names_no_instant(clock: VirtualClock) -> None:
    with pytest.raises(ClockError, match="without a time zone"):
        clock.jump_to(datetime(2031, 1, 1))  # noqa: DTZ001 - the mistake under test
    with pytest.raises(ClockError, match="no time zone"):
        VirtualClock(datetime(2031, 1, 1))  # noqa: DTZ001


def test_set_back_moves_time_back_and_fires_nothing(clock: VirtualClock) -> None:
    clock.set_back(1500)

    assert clock.now_ms == START_MS - 1500
    with pytest.raises(ClockError, match="positive"):
        clock.set_back(-1)


@pytest.mark.parametrize(("setting", "value"), [("rate", 2), ("watchdog", 0)])
def test_impossible_settings_are_refused(setting: str, value: int) -> None:
    with pytest.raises(ConfigError, match=setting):
        VirtualClock(**{setting: value})  # type: ignore[arg-type]


def test_a_start_that_is_no_datetime_is_named() -> None:
    with pytest.raises(ConfigError, match=r"start = '2030' .* aware datetime, such as datetime"):
        VirtualClock("2030")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="watchdog = '5' "):
        VirtualClock(watchdog="5")  # type: ignore[arg-type]


def test_no_clock_starts_before_stored_times_begin() -> None:
    assert VirtualClock(datetime(1970, 1, 1, tzinfo=UTC)).now_ms == 0
    with pytest.raises(ConfigError, match=r"start .*a time from 1970 on"):
        VirtualClock(datetime(1969, 12, 31, tzinfo=UTC))


def test_completion_shows_what_a_test_calls_and_nothing_of_the_inside(clock: VirtualClock) -> None:
    shown = {name for name in dir(clock) if not name.startswith("_")}
    assert shown >= {"advance", "autojump", "jump_to", "next_deadline", "now", "now_ms", "settle"}
    assert shown.isdisjoint({"attach", "move_in", "raise_to", "residents"})


def test_everything_due_fires_in_one_global_order_at_its_own_time(
    clock: VirtualClock, driver: ClockDriver
) -> None:
    log: list[str] = []
    driver.add(
        clock,
        [
            Script(clock, "timer", [START_MS + 3000, START_MS + 1000], log),
            Script(clock, "level", [START_MS + 2000, START_MS + 3000, START_MS + 9000], log),
        ],
        visible=True,
    )
    driver.start()

    done = clock.advance(5)

    assert log == ["timer@1000/1000", "level@2000/2000", "timer@3000/3000", "level@3000/3000"]
    assert done.fired == 4
    assert clock.now_ms == START_MS + 5000


def test_brokers_that_share_a_clock_fire_in_one_global_order(clock: VirtualClock) -> None:
    log: list[str] = []
    drivers = [ClockDriver(Door()), ClockDriver(Door())]
    drivers[0].add(clock, [Script(clock, "a", [START_MS + 1, START_MS + 3], log)], visible=True)
    drivers[1].add(clock, [Script(clock, "b", [START_MS + 2, START_MS + 4], log)], visible=True)
    for driver in drivers:
        driver.start()

    clock.advance(1)

    for driver in drivers:
        driver.close()
    assert log == ["a@1/1", "b@2/2", "a@3/3", "b@4/4"]


def test_the_horizon_is_the_end_of_the_jump_unless_rolls_are_wanted(
    clock: VirtualClock, driver: ClockDriver
) -> None:
    script = Script(clock, "timer", [START_MS + 1000, START_MS + 12_000], [])
    driver.add(clock, [script], visible=True)
    driver.start()

    clock.advance(10)
    clock.advance(10, roll_elision=False)

    assert script.horizons == [10_000, 12_000]


def test_the_next_deadline_is_what_a_user_can_see(clock: VirtualClock, driver: ClockDriver) -> None:
    driver.add(clock, [Script(clock, "long poll", [START_MS + 5], [])], visible=False)
    driver.add(clock, [Script(clock, "timer", [START_MS + 7], [])], visible=True)
    driver.start()

    head = clock.next_deadline()

    assert head is not None
    assert (head.due_ms, head.what) == (START_MS + 7, "timer")
    assert head.at == START + timedelta(milliseconds=7)
    assert "timer" in repr(head)


def test_housekeeping_runs_once_at_the_end_of_a_jump(
    clock: VirtualClock, driver: ClockDriver
) -> None:
    log: list[str] = []
    driver.add(clock, [Script(clock, "timer", [START_MS + 1, START_MS + 2], log)], visible=True)
    driver.after_jump.append(lambda: log.append(f"housekeeping/{clock.now_ms - START_MS}"))
    driver.barriers.append(lambda: log.append(f"handed over {driver.door.held}"))
    driver.start()

    clock.advance(1)

    assert log == ["timer@1/1", "timer@2/2", "housekeeping/1000", "handed over False"]


def test_what_fires_during_a_jump_must_not_move_the_clock(
    clock: VirtualClock, driver: ClockDriver
) -> None:
    script = Script(clock, "timer", [START_MS + 1], [])
    refused: list[str] = []

    def move() -> None:
        with pytest.raises(ClockError) as caught:
            clock.advance(1)
        refused.append(str(caught.value))

    script.on_fire = move
    driver.add(clock, [script], visible=True)
    driver.start()

    clock.advance(1)

    assert len(refused) == 1
    assert "already being moved by this thread" in refused[0]
    assert clock.now_ms == START_MS + 1000


def test_two_threads_may_move_one_clock_and_both_moves_count(clock: VirtualClock) -> None:
    threads = [Thread(target=clock.advance, args=(1,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert clock.now_ms == START_MS + 8000


def test_a_source_that_does_not_move_on_is_named_instead_of_looping(
    clock: VirtualClock, driver: ClockDriver
) -> None:
    class Stuck(Script):
        def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:
            return 0

    driver.add(clock, [Stuck(clock, "stuck timer", [START_MS + 5], [])], visible=True)
    driver.start()

    with pytest.raises(ClockError, match="stuck timer is due"):
        clock.advance(1)


def test_a_store_moves_the_clock_up_only_when_no_start_was_given() -> None:
    later_ms = SystemClock().now_ms + 1_000_000
    free, fixed = VirtualClock(), VirtualClock(START)

    free.raise_to(later_ms)
    fixed.raise_to(START_MS + 1)

    assert free.now_ms == later_ms
    assert fixed.now_ms == START_MS
    free.raise_to(5)
    assert free.now_ms == later_ms


def test_the_repr_says_how_it_moves_and_where_it_is(clock: VirtualClock) -> None:
    assert repr(clock) == "<VirtualClock frozen at 2030-01-01T00:00:00+00:00>"
    assert repr(WallClock()) == "WallClock(SystemClock())"


@pytest.mark.parametrize("now_ms", [-1, 0, 1, 999, 1_893_456_000_123, EARLIEST_MS, LATEST_MS])
def test_milliseconds_and_datetimes_convert_exactly(now_ms: int) -> None:
    assert epoch_ms(instant(now_ms)) == now_ms


@pytest.mark.parametrize("beyond", [1, 10**15, 2**63])
@pytest.mark.parametrize("zone", [-14, 14])
def test_a_time_that_no_calendar_has_is_shown_as_the_first_or_last_one(
    beyond: int, zone: int
) -> None:
    first, last = instant(EARLIEST_MS - beyond), instant(LATEST_MS + beyond)
    assert (epoch_ms(first), epoch_ms(last)) == (EARLIEST_MS, LATEST_MS)
    local = timezone(timedelta(hours=zone))
    assert (first.astimezone(local).year, last.astimezone(local).year) == (1, 9999)
