"""Session timers fire once, in order, and cancelled ones do not pile up."""

from embedded_broker.clocks.session import Session
from embedded_broker.clocks.timeline import Budget, Deadline
from rocketmq_py.clock import SystemClock


def fire(timers: Session, now_ms: int) -> int:
    return timers.fire(now_ms, horizon_ms=now_ms, budget=Budget())


def waiting(timers: Session) -> int:
    return sum(entry[2].call is not None for entry in timers._heap)


def test_calls_are_made_in_due_order_and_ties_in_the_order_of_asking() -> None:
    timers, made = Session(SystemClock()), list[str]()
    timers.at(20, lambda: made.append("later"))
    timers.at(10, lambda: made.append("first"))
    timers.at(10, lambda: made.append("second"))

    fire(timers, 15)

    assert made == ["first", "second"]
    assert waiting(timers) == 1


def test_a_cancelled_call_is_never_made_and_no_deadline() -> None:
    timers, made = Session(SystemClock()), list[str]()
    first = timers.at(10, lambda: made.append("cancelled"))
    timers.at(30, lambda: made.append("kept"), "long poll")

    first.cancel()
    first.cancel()

    assert timers.next_deadline() == Deadline(30, "long poll")
    fire(timers, 30)
    assert made == ["kept"]
    assert timers.next_deadline() is None
    assert waiting(timers) == 0


def test_cancelling_after_the_call_was_made_does_nothing() -> None:
    timers = Session(SystemClock())
    timer = timers.at(10, lambda: None)
    fire(timers, 10)

    timer.cancel()

    assert waiting(timers) == 0


def test_a_call_may_ask_for_the_next_one() -> None:
    timers, made = Session(SystemClock()), list[int]()

    def again() -> None:
        made.append(1)
        timers.at(20, lambda: made.append(2))

    timers.at(10, again)
    fire(timers, 10)
    fire(timers, 20)

    assert made == [1, 2]


def test_thousands_of_cancelled_calls_leave_the_heap() -> None:
    timers = Session(SystemClock())
    kept = timers.at(5, lambda: None)
    for _ in range(10_000):
        timers.at(10, lambda: None).cancel()

    assert len(timers._heap) < 200
    assert waiting(timers) == 1
    assert kept.call is not None


def test_firing_stops_when_the_budget_is_used_up() -> None:
    timers, made = Session(SystemClock()), list[int]()
    for number in range(3):
        timers.at(number, lambda number=number: made.append(number))  # type: ignore[misc]

    timers.fire(10, horizon_ms=10, budget=Budget(-1))

    assert made == [0]
